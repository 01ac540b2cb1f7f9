//! The texts that the search and the lookup of tenants match.

use serde_json::json;
use testkit::text;

use crate::search_rules::{INVALID, call, create, create_named, lookup, names, search, tenant, word};
use crate::{each, list, operator, tax_number};

/// RULE-IDN-027: three or more characters match anywhere in a name, a legal name or a tax number.
#[tokio::test]
async fn three_characters_match_anywhere() {
    let (name, legal_name, number) = (word(), word(), tax_number());
    let created = create(json!({
        "Name": format!("a {name} b"), "LegalName": format!("c {legal_name} d"), "Type": "Partner", "TaxNumber": number,
    }))
    .await;
    for query in [&name, &name[3..], &legal_name, &legal_name[..30], &number, &number[1..]] {
        for route in ["search", "lookup"] {
            let found = call(route, &[("Query", query), ("Types", "Partner")]).await.expect(200);
            assert!(each(&found["Items"], "Id").contains(&&created["Id"]), "{route} {query}");
        }
    }
    let three = &name[7..10];
    let from = text(&created["CreatedAt"]);
    let found =
        search(&[("Query", three), ("CreatedFrom", from), ("Sort", "CreatedAt"), ("PageSize", "100")]).await;
    assert!(each(&found["Items"], "Id").contains(&&created["Id"]), "{three} of {name}");
    for unmatched in
        [format!("{name}x"), format!("{name} c"), format!("{name} b\u{a0}c"), format!("d{number}")]
    {
        assert_eq!(search(&[("Query", &unmatched)]).await["TotalCount"], 0, "{unmatched}");
    }
}

/// RULE-IDN-027: one or two characters match the beginning of a name or a tax number only.
#[tokio::test]
async fn short_query_matches_a_beginning_only() {
    let texts = ["ꙁꙃ", "Ꙁꙃ рис", "рис ꙁꙃ", "ꙃꙁꙃ", "ꙁ"].map(str::to_owned);
    let created = create_named(&texts).await;
    create(json!({"Name": "x", "LegalName": "ꙁꙃ", "Type": "Agency"})).await;
    for (query, expected) in [
        ("ꙁꙃ", vec!["ꙁꙃ", "Ꙁꙃ рис"]),
        ("Ꙁ", vec!["ꙁ", "ꙁꙃ", "Ꙁꙃ рис"]),
        (" ꙁ ", vec!["ꙁ", "ꙁꙃ", "Ꙁꙃ рис"]),
        ("ꙃ", vec!["ꙃꙁꙃ"]),
        ("ꙃꙃ", vec![]),
    ] {
        let found = search(&[("Query", query), ("Sort", "Name")]).await;
        assert_eq!(names(&found), expected, "{query}");
        assert_eq!(found["TotalCount"], expected.len());
        assert_eq!(names(&lookup(&[("Query", query)]).await), expected, "{query}");
    }
    let three = search(&[("Query", "ꙁꙃ "), ("Sort", "Name")]).await;
    assert_eq!(names(&three), ["ꙁꙃ", "Ꙁꙃ рис"], "white space at the ends is no third character");

    let number = tax_number();
    let path = tenant(&created[0]).path("");
    operator().put(&path, json!({"Name": texts[0], "TaxNumber": number})).await.expect(200);
    let from = text(&created[0]["CreatedAt"]);
    for query in [&number[..1], &number[..2]] {
        let found =
            search(&[("Query", query), ("CreatedFrom", from), ("Sort", "CreatedAt"), ("PageSize", "100")])
                .await;
        assert!(each(&found["Items"], "Id").contains(&&created[0]["Id"]), "{query} of {number}");
    }
}

/// RULE-IDN-027: a query matches in any letter case of any script.
#[tokio::test]
async fn letter_case_is_ignored_in_any_script() {
    for forms in [
        &["Ромашка", "РОМАШКА", "ромашка", "рОМАШКА"][..],
        &["Straße", "STRASSE", "straße", "STRAẞE", "straẞe", "strasse"],
        &["ΟΔΟΣ", "οδος", "οδοσ", "Οδος"],
        &["ΣΊΣΥΦΟΣ", "σίσυφος"],
        &["İstanbul", "İSTANBUL", "i̇stanbul"],
        &["Ñandú", "ÑANDÚ", "ñandú"],
        &["ՀԱՅԱՍՏԱՆ", "հայաստան"],
        &["ᲗᲑᲘᲚᲘᲡᲘ", "თბილისი"],
        &["ᏣᎳᎩ", "ꮳꮃꭹ"],
        &["𐐀𐐁𐐂", "𐐨𐐩𐐪"],
        &["ǄǇǊ", "ǅǈǋ", "ǆǉǌ"],
        &["ЇЖАК ҐАВА", "їжак ґава"],
    ] {
        for stored in forms {
            let word = word();
            let name = format!("{word} {stored}");
            create_named(std::slice::from_ref(&name)).await;
            for form in forms {
                let query = format!("{} {form}", word.to_uppercase());
                for route in ["search", "lookup"] {
                    let found = call(route, &[("Query", &query)]).await.expect(200);
                    assert_eq!(names(&found), [name.as_str()], "{route}: {form} for {stored}");
                }
            }
        }
    }
}

/// RULE-IDN-027: `%`, `_` and `\` match literally.
#[tokio::test]
async fn wildcards_match_literally() {
    let word = word();
    let of = |tail: &str| format!("{word}{tail}");
    let all = ["%b", "_b", "\\b", "xb", "\\%b", "*b", "'b", "\"b"].map(of);
    create_named(&all).await;
    for tail in ["%", "_", "\\", "%b", "_b", "\\b", "\\%", "*", "'", "\""] {
        let query = of(tail);
        let mut expected: Vec<_> =
            all.iter().filter(|name| name.contains(&query)).map(String::as_str).collect();
        expected.sort_unstable();
        for route in ["search", "lookup"] {
            let found = call(route, &[("Query", &query)]).await.expect(200);
            let mut found = names(&found);
            found.sort_unstable();
            assert_eq!(found, expected, "{route} {tail}");
        }
    }
    // Short queries match beginnings only.
    let short = ["%", "_", "\\", "%%", "__", "\\\\", "_%"];
    let beginnings = short.map(|short| format!("{short}{word}"));
    create_named(&beginnings).await;
    for short in short {
        for (route, size) in [("search", "PageSize"), ("lookup", "Limit")] {
            let found = call(route, &[("Query", short), (size, "50")]).await.expect(200);
            let found = names(&found);
            let expected = beginnings.iter().filter(|name| name.starts_with(short));
            assert!(
                expected.clone().all(|name| found.contains(&name.as_str())),
                "{route} {short}: {found:?}"
            );
            assert!(found.iter().all(|name| name.starts_with(short)), "{route} {short}: {found:?}");
        }
    }
}

/// RULE-IDN-027: names and queries match whatever encodings of letters, dashes and spaces they use.
/// Invisible characters have no effect.
#[tokio::test]
async fn names_are_found_however_they_are_encoded() {
    for forms in [
        &["Жилой район", "Жилои\u{306} раи\u{306}он", "жилой\u{a0}район", "Жи\u{ad}лой  рай\u{200b}он"][..],
        &["Ёлкино", "Елкино", "Е\u{308}лкино"],
        &["Бизнес-класс", "бизнес\u{2011}класс", "Бизнес–класс"],
        &["Ros\u{e9}", "Rose\u{301}"],
    ] {
        for stored in forms {
            let word = word();
            let name = format!("{stored} {word}");
            create_named(std::slice::from_ref(&name)).await;
            let stored = search(&[("Query", &word)]).await["Items"][0]["Name"].take();
            assert_eq!(stored, name, "a name is stored as written");
            for form in forms {
                let query = format!("{form} {word}");
                for route in ["search", "lookup"] {
                    let found = call(route, &[("Query", &query)]).await.expect(200);
                    assert_eq!(names(&found), [name.as_str()], "{route}: {form} for {stored}");
                }
            }
        }
    }
}

/// RULE-IDN-027, RULE-IDN-031: a query matches the beginning of a name even if their encodings
/// differ.
#[tokio::test]
async fn name_begins_with_a_query_in_another_encoding() {
    let created = ["Ѣ\u{ad}ѣ", "ѢѢ\u{a0}дом", "е\u{308}ѣ", "x ѢѢ дом", "ѣѣ\u{200b} дом 2"].map(str::to_owned);
    create_named(&created).await;
    for (query, expected) in [
        ("ѣѣ", vec!["ѢѢ\u{a0}дом", "Ѣ\u{ad}ѣ", "ѣѣ\u{200b} дом 2"]),
        ("ѣ", vec!["ѢѢ\u{a0}дом", "Ѣ\u{ad}ѣ", "ѣѣ\u{200b} дом 2"]),
        ("ёѣ", vec!["е\u{308}ѣ"]),
        ("еѣ", vec!["е\u{308}ѣ"]),
        ("ѣ\u{200b}ѣ дом", vec!["ѢѢ\u{a0}дом", "ѣѣ\u{200b} дом 2", "x ѢѢ дом"]),
    ] {
        let mut expected = expected;
        // The names that begin with the query come first.
        let beginning_with_query = if query.chars().count() > 2 { 2 } else { expected.len() };
        expected[..beginning_with_query].sort_by_key(|name| name.to_lowercase());
        assert_eq!(names(&lookup(&[("Query", query)]).await), expected, "{query:?}");
        let found = search(&[("Query", query), ("Sort", "Name")]).await;
        expected.sort_by_key(|name| name.to_lowercase());
        assert_eq!(names(&found), expected, "{query:?}");
        assert_eq!(found["TotalCount"], expected.len());
    }
}

/// RULE-IDN-027: a query has at most 100 characters after trimming. A blank query does not filter.
#[tokio::test]
async fn query_has_100_characters_at_most() {
    let name = "🏠".repeat(68) + &word();
    create_named(&[name.clone() + "!"]).await;
    for fits in [name.clone(), format!("  {name}\u{a0}\u{2003} ")] {
        assert_eq!(search(&[("Query", &fits)]).await["TotalCount"], 1);
        assert_eq!(list(&lookup(&[("Query", &fits)]).await["Items"]).len(), 1);
    }
    for route in ["search", "lookup"] {
        let refused = call(route, &[("Query", &(name.clone() + "!"))]).await;
        refused.expect_refusal(INVALID, "/Query", "too_long");
    }
    for blank in ["", " ", "\u{a0}\u{2003}", "\u{200b}", "\u{ad} \u{feff}", &" ".repeat(200)] {
        let found =
            call("search", &[("Query", blank), ("Sort", "CreatedAt"), ("PageSize", "1")]).await.expect(200);
        let all = search(&[("Sort", "CreatedAt"), ("PageSize", "1")]).await;
        assert_eq!(found["Items"], all["Items"], "{blank:?}");
        assert_eq!(list(&lookup(&[("Query", blank), ("Limit", "1")]).await["Items"]).len(), 1);
    }
}

/// RULE-IDN-027: a control character in a query returns 400.
#[tokio::test]
async fn control_character_in_a_query_is_refused() {
    for query in ["a\0b", "\0", "abc\u{7f}d", "a\nb", "a\tb", "a\u{85}b", "\u{1b}[0m"] {
        for route in ["search", "lookup"] {
            let refused = call(route, &[("Query", query)]).await;
            refused.expect_refusal(INVALID, "/Query", "forbidden_character");
        }
    }
    for harmless in ["\u{feff}\u{200b}\u{fffe}", "\u{10ffff}", "ꙃ\u{2028}\u{2029}ꙃ", "\u{202e}ꙃꙃꙃꙃ"]
    {
        assert_eq!(search(&[("Query", harmless)]).await["TotalCount"], 0, "{harmless:?}");
    }
}

/// RULE-IDN-027: a search matches the current texts only.
#[tokio::test]
async fn search_matches_the_present_texts() {
    let (old, new) = (word(), word());
    let created =
        create(json!({"Name": old, "Type": "Agency", "LegalName": old, "TaxNumber": tax_number()})).await;
    operator().put(&tenant(&created).path(""), json!({"Name": new})).await.expect(200);
    for (query, expected) in [(&old[..], 0), (&new, 1), (text(&created["TaxNumber"]), 0)] {
        assert_eq!(search(&[("Query", query)]).await["TotalCount"], expected, "{query}");
    }
}
