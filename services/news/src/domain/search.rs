//! Texts and queries of the full-text search.

use values::{Text, fold};

use super::Post;

/// Returns the words of a text as the search compares them.
///
/// Hyphens become spaces. PostgreSQL reads some hyphens as a part of a word or a number, so a word
/// on either side of one would not be found.
pub fn search_words(text: &str) -> String {
    fold(text).replace('-', " ")
}

/// Returns the words of the summary and the tags of a post, as the search compares them.
pub fn label_text(post: &Post) -> String {
    let summary = post.summary.iter().map(Text::as_str);
    let labels: Vec<_> = summary.chain(post.tags.iter().map(Text::as_str)).collect();
    search_words(&labels.join("\n"))
}

/// Returns a query for `websearch_to_tsquery` that matches [`search_words`].
///
/// A word with hyphens becomes a phrase. Quotes and a hyphen before a word keep their meaning.
pub fn search_query(query: &str) -> String {
    let mut terms: Vec<String> = Vec::new();
    let mut excludes = false;
    for (number, part) in fold(query).split('"').enumerate() {
        let is_phrase = number % 2 == 1;
        let words = if is_phrase { vec![part] } else { part.split(' ').collect() };
        for word in words.into_iter().filter(|word| !word.is_empty()) {
            let phrase: Vec<_> = word.split(['-', ' ']).filter(|word| !word.is_empty()).collect();
            let phrase = phrase.join(" ");
            if phrase.is_empty() {
                continue;
            }
            let sign = if excludes || !is_phrase && word.starts_with('-') { "-" } else { "" };
            excludes = false;
            let quote = if is_phrase || phrase.contains(' ') { "\"" } else { "" };
            terms.push(format!("{sign}{quote}{phrase}{quote}"));
        }
        // A hyphen excludes the phrase that follows it without a space.
        excludes = !is_phrase && (part == "-" || part.ends_with(" -"));
    }
    terms.join(" ")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use values::Text;

    use super::{label_text, search_query, search_words};
    use crate::domain::post::tests::post;
    use crate::domain::{Post, PostStatus};

    /// RULE-NWS-035: queries keep their operators, and hyphens within words make phrases.
    #[test]
    fn query_has_phrases_for_words_with_hyphens() {
        for (query, expected) in [
            ("Дом", "дом"),
            ("бизнес‑класс", "\"бизнес класс\""),
            ("-бизнес-класс", "-\"бизнес класс\""),
            ("\"синий дом\" -сад", "\"синий дом\" -сад"),
            ("дом -\"синее море\"", "дом -\"синее море\""),
            ("дом – сад", "дом сад"),
            ("- \"a b\"", "\"a b\""),
            ("море or холм", "море or холм"),
            ("2021–2022", "\"2021 2022\""),
            ("\"бизнес-класс", "\"бизнес класс\""),
            (" - -- ", ""),
            ("", ""),
        ] {
            assert_eq!(search_query(query), expected, "{query}");
        }
        assert_eq!(search_words("Бизнес‑класс: 1990–2000"), "бизнес класс: 1990 2000");
    }

    proptest! {
        /// RULE-NWS-035: a word of a text is also a query for it.
        #[test]
        fn single_words_are_the_same_in_texts_and_queries(word in "[a-zA-Zа-яА-ЯёЁ0-9\u{ad}\u{200b}]{1,20}") {
            prop_assert_eq!(search_query(&word), search_words(&word));
        }
    }

    /// The labels of a post are its summary and its tags.
    #[test]
    fn labels_are_the_summary_and_the_tags() {
        let tags = ["Park", "Metro"].map(|tag| Text::parse(tag).unwrap()).to_vec();
        let labelled =
            Post { summary: Text::parse("Бизнес-класс").ok(), tags, ..post(PostStatus::Draft) };
        assert_eq!(label_text(&labelled), "бизнес класс park metro");
    }
}
