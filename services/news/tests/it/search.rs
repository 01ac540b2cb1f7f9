//! The texts that the search reads, and its order by relevance.

use serde_json::json;

use crate::search_queries::find;
use crate::{
    POSTS, author, each, encoded, list, path, publish, publish_as, service, text, text_block, unique_word,
};

/// RULE-NWS-073: a published post is found by words of its title, summary, tags and text, together
/// and alone.
#[tokio::test]
async fn title_summary_tags_and_text_are_searched() {
    let author = author();
    let [title, summary, tag, body] = [(); 4].map(|()| unique_word());
    let metadata = json!({"Title": title, "Summary": summary, "Tags": ["бизнес-класс", tag]});
    let post = publish_as(&author, metadata, &format!("{body} дом")).await;
    let all = format!("{title} {summary} {tag} {body}");
    for query in [&title, &summary, &tag, &body, &all, &format!("{tag} \"бизнес класс\" дома")]
    {
        assert_eq!(find(query).await, [post.as_str()], "{query}");
    }
    author.news.put(&path(&post), json!({"Title": title, "Summary": null, "Tags": null})).await.expect(200);
    for (query, expected) in [(&title, vec![&post]), (&summary, vec![]), (&tag, vec![]), (&body, vec![&post])]
    {
        assert_eq!(find(query).await.iter().collect::<Vec<_>>(), expected, "{query}");
    }
}

/// RULE-NWS-073: the sort by relevance first returns posts with the word in the title. Posts with
/// the word in the summary or a tag follow, and then posts with the word in the text. Equal ranks
/// are sorted by time. Without this sort the newest post is first.
#[tokio::test]
async fn relevance_prefers_the_title() {
    let (author, mark) = (author(), unique_word());
    let in_title = publish(&author, &mark, "x").await;
    let in_tag = publish_as(&author, json!({"Title": "x", "Tags": [mark]}), "x").await;
    let first = publish(&author, "x", &mark).await;
    let second = publish(&author, "x", &mark).await;
    let listed = async |rest: &str| {
        let page = service().guest().get(&format!("{POSTS}?Query={mark}{rest}")).await.expect(200);
        assert_eq!(page["TotalCount"], 4);
        each(&page["Items"], "Id").into_iter().map(|id| text(id).to_owned()).collect::<Vec<_>>()
    };
    let best = [&in_title, &in_tag, &second, &first].map(String::clone);
    assert_eq!(listed("&Sort=-Relevance").await, best);
    assert_eq!(listed("&Sort=Relevance").await, [&second, &first, &in_tag, &in_title].map(String::clone));
    assert_eq!(listed("").await, [&second, &first, &in_tag, &in_title].map(String::clone));
    let pages =
        [listed("&Sort=-Relevance&PageSize=3").await, listed("&Sort=-Relevance&PageSize=3&Page=2").await];
    assert_eq!(pages.concat(), best);
    let latest = service().guest().get(&format!("{POSTS}?Sort=-Relevance&PageSize=1")).await;
    latest.expect(200);
}

/// RULE-NWS-073: `Relevance` ranks the first 2,000 characters of a text, so that long texts cost no
/// more. The rest of the text is found, too.
#[tokio::test]
async fn relevance_ranks_the_beginning_of_a_text() {
    let (author, mark) = (author(), unique_word());
    let at_beginning = publish(&author, "x", &mark).await;
    let filler = "сад ".repeat(500);
    let behind = publish(&author, "x", &format!("{filler}{}", format!("{mark} ").repeat(100))).await;
    for (by, rest) in [(&service().guest(), ""), (&author.news, "&Mine=true&Editable=true")] {
        let page = by.get(&format!("{POSTS}?Query={mark}&Sort=-Relevance{rest}")).await.expect(200);
        assert_eq!(each(&page["Items"], "Id"), [&json!(at_beginning), &json!(behind)], "{rest}");
    }
}

/// RULE-NWS-073: editors find their posts in every status by title, summary and tags, and published
/// ones by their text, too. `Mine` without `Editable` ignores the query.
#[tokio::test]
async fn editors_search_their_posts() {
    let (author, mark) = (author(), unique_word());
    let draft = text(&author.news.post(POSTS, json!({"Title": mark})).await.expect(201)["Id"]).to_owned();
    let tagged = json!({"Title": "x", "Summary": "Сад", "Tags": [mark]});
    let tagged = text(&author.news.post(POSTS, tagged).await.expect(201)["Id"]).to_owned();
    let published = publish(&author, "x", &mark).await;
    author.create_post_of([text_block(&mark)]).await;
    let listed = async |query: &str, rest: &str| {
        let path = format!("{POSTS}?Mine=true&Query={}{rest}", encoded(query));
        let page = author.news.get(&path).await.expect(200);
        assert_eq!(page["TotalCount"], list(&page["Items"]).len());
        each(&page["Items"], "Id").into_iter().map(|id| text(id).to_owned()).collect::<Vec<_>>()
    };
    let relevant = "&Editable=true&Sort=-Relevance";
    assert_eq!(listed(&mark, relevant).await, [&draft, &tagged, &published].map(String::clone));
    assert_eq!(listed(&format!("{mark} сады"), relevant).await, [tagged]);
    assert_eq!(listed(&format!("-{mark}"), relevant).await, [""; 0]);
    assert_eq!(listed(&mark, "").await.len(), 4);
}
