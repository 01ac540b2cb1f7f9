//! Queries of the search, and the texts that they find.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{
    POSTS, author, encoded, formatted, gallery, list, path, publish, service, text, text_block, unique_word,
};

pub async fn find(query: &str) -> Vec<String> {
    let page = service().guest().get(&format!("{POSTS}?Query={}", encoded(query))).await.expect(200);
    list(&page["Items"]).iter().map(|post| text(&post["Id"]).to_owned()).collect()
}

/// RULE-NWS-035: the search finds the forms of Russian and English words.
#[tokio::test]
async fn words_are_found_in_all_their_forms() {
    let (author, mark) = (author(), unique_word());
    let post = publish(
        &author,
        "Новая квартира",
        &format!("{mark} Дома продаются рядом. Beautiful houses for selling"),
    )
    .await;
    for query in
        ["квартиры", "КВАРТИРУ", "новые", "дом", "дому", "продается", "house", "Houses", "sell", "sells"]
    {
        assert_eq!(find(&format!("{mark} {query}")).await, [post.as_str()], "{query}");
    }
    for query in ["гараж", "castle", "кварта"] {
        assert_eq!(find(&format!("{mark} {query}")).await, Vec::<String>::new(), "{query}");
    }
}

/// RULE-NWS-035: a query can have phrases, `or` and excluded words.
#[tokio::test]
async fn query_can_have_phrases_and_exclusions() {
    let (author, mark) = (author(), unique_word());
    let sea = publish(&author, "Sea", &format!("{mark} дом у синего моря")).await;
    let hill = publish(&author, "Hill", &format!("{mark} синий дом на холме")).await;
    for (query, found) in [
        ("\"синего моря\"", vec![&sea]),
        ("\"моря синего\"", vec![]),
        ("\"синий дом\"", vec![&hill]),
        ("-холм", vec![&sea]),
        ("-sea", vec![&hill]),
        ("море or холм", vec![&hill, &sea]),
        ("", vec![&hill, &sea]),
        ("-дом", vec![]),
    ] {
        let ids = find(&format!("{mark} {query}")).await;
        assert_eq!(ids.iter().collect::<Vec<_>>(), found, "{query}");
    }
}

/// RULE-NWS-035: the encoding of characters, dashes, spaces and invisible characters have no effect
/// in titles, texts and queries.
#[tokio::test]
async fn words_are_found_however_they_are_encoded() {
    let (author, mark) = (author(), unique_word());
    let title = "Жилои\u{306} квартал Е\u{308}лки".to_owned();
    let words = format!("{mark} бизнес\u{2011}класс, Ново\u{ad}стройка, сдача 2025–2026, ООО\u{a0}Ромашка");
    let post = publish(&author, &title, &words).await;
    for query in [
        "жилой",
        "ЖИЛОИ\u{306}",
        "ёлки",
        "елки",
        "бизнес-класс",
        "бизнес–класс",
        "\"бизнес класс\"",
        "класс",
        "новостройка",
        "ново\u{200b}стройка",
        "2026",
        "2025-2026",
        "\"ооо ромашка\"",
        "ооо\u{2009}ромашка",
        "- ромашка",
        "ромашка -\"класс бизнес\" -эконом-класс",
    ] {
        assert_eq!(find(&format!("{mark} {query}")).await, [post.as_str()], "{query}");
    }
    for query in ["жилои", "-бизнес-класс", "\"класс бизнес\"", "-\"новостройка сдача\""]
    {
        assert_eq!(find(&format!("{mark} {query}")).await, Vec::<String>::new(), "{query}");
    }
    let html = "<section>Паркинг</section><section>Кладовые</section><label>Лифт</label><label>Холл</label>";
    author.set_blocks(&post, [text_block(&mark), formatted("Html", html)]).await.expect(200);
    for query in ["паркинг", "кладовые", "лифт", "холл"] {
        assert_eq!(find(&format!("{mark} {query}")).await, [post.as_str()], "{query}");
    }
}

/// RULE-NWS-035: every text of at most 256 characters is a valid query.
#[tokio::test]
async fn any_query_up_to_256_characters_is_valid() {
    for query in [
        "'",
        "\"",
        "\"a",
        "!",
        "&|!()",
        "a & | b",
        ":*",
        "<->",
        "\\",
        "%",
        "; drop table post",
        "-",
        "or",
        "and",
        "и",
        "the",
        " ",
        "🏠",
    ] {
        find(query).await;
    }
    let guest = service().guest();
    let long = |count: usize| format!("{POSTS}?Query={}", "x".repeat(count));
    guest.get(&long(256)).await.expect(200);
    guest.get(&long(257)).await.expect_refusal("VALIDATION_FAILED", "/Query", "too_long");
    guest.get(&format!("{POSTS}?Query=%00")).await.expect_refusal(
        "VALIDATION_FAILED",
        "/Query",
        "forbidden_character",
    );
    guest.get(&format!("{POSTS}?Mine=perhaps")).await.expect_problem(400, "VALIDATION_FAILED");
}

/// RULE-NWS-035: a query of only exclusions or stop words finds nothing.
#[tokio::test]
async fn query_without_words_finds_nothing() {
    let (author, mark) = (author(), unique_word());
    let post = publish(&author, "Spring", &format!("{mark} и")).await;
    let (none, other): (Vec<String>, _) = (Vec::new(), unique_word());
    for query in
        [format!("-{other}"), format!("-{other} -{mark}x"), format!("{mark} or -{other}"), "и".to_owned()]
    {
        assert_eq!(find(&query).await, none, "{query}");
    }
    assert_eq!(find(&format!("{mark} -{other}")).await, [post]);
}

/// INV-NWS-008: each change of a published post changes the search projection, and a draft has
/// none.
#[tokio::test]
async fn search_projection_contains_every_change() {
    let (author, old, new) = (author(), unique_word(), unique_word());
    let none = Vec::<String>::new();
    let post = author.news.post(POSTS, json!({"Title": old})).await.expect(201);
    let post = text(&post["Id"]).to_owned();
    author.set_blocks(&post, [formatted("Html", &format!("<p>{old}</p>"))]).await.expect(200);
    assert_eq!(find(&old).await, none, "a draft");

    author.change_status(&post, "publish").await.expect(200);
    assert_eq!(find(&old).await, [post.as_str()]);
    author.set_blocks(&post, [formatted("Markdown", &format!("**{new}**"))]).await.expect(200);
    assert_eq!(
        (find(&new).await, find(&old).await),
        (vec![post.clone()], vec![post.clone()]),
        "the title still has it"
    );
    author.news.put(&path(&post), json!({"Title": "x"})).await.expect(200);
    assert_eq!((find(&new).await, find(&old).await), (vec![post.clone()], none.clone()));
    author.set_blocks(&post, [gallery(1)]).await.expect(200);
    assert_eq!(find(&new).await, none);

    author.news.put(&path(&post), json!({"Title": new})).await.expect(200);
    author.change_status(&post, "unpublish").await.expect(200);
    assert_eq!(find(&new).await, none, "unpublished");
    author.set_blocks(&post, [text_block(&old)]).await.expect(200);
    author.news.put(&path(&post), json!({"Title": old})).await.expect(200);
    assert_eq!(find(&old).await, none, "changed while unpublished");
    author.change_status(&post, "publish").await.expect(200);
    assert_eq!((find(&old).await, find(&new).await), (vec![post.clone()], none.clone()));
    author.news.delete(&path(&post)).await.expect(204);
    assert_eq!(find(&old).await, none, "deleted");
}

/// RULE-NWS-036: a post with more words than a `tsvector` holds is found by its title and first
/// words.
#[tokio::test]
async fn post_of_too_many_words_is_found_by_its_first_words() {
    let (author, title, first) = (author(), unique_word(), unique_word());
    let post = author.news.post(POSTS, json!({"Title": title})).await.expect(201);
    let post = text(&post["Id"]).to_owned();
    let mut words = 0;
    let blocks: Vec<Value> = (0..200)
        .map(|at| {
            let mut block = if at == 0 { format!("{first} ") } else { String::new() };
            while block.chars().count() < 19_980 {
                words += 1;
                write!(block, "слово{words}ы ").unwrap();
            }
            text_block(&block)
        })
        .collect();
    author.set_blocks(&post, blocks).await.expect(200);
    author.change_status(&post, "publish").await.expect(200);

    for query in [title.as_str(), first.as_str(), "слово1ы", "слово7ы"] {
        assert!(find(query).await.contains(&post), "{query}");
    }
    let renamed = unique_word();
    author.news.put(&path(&post), json!({"Title": renamed})).await.expect(200);
    assert_eq!((find(&renamed).await, find(&title).await), (vec![post.clone()], Vec::new()));
    author.set_blocks(&post, [text_block("short")]).await.expect(200);
    assert_eq!(find(&first).await, Vec::<String>::new());
}
