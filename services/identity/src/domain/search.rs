//! Search texts, compared regardless of letter case and of the encoding of characters.

use values::{Line, Private, fold};

/// Text of a search or a lookup.
pub type SearchText = Private<Line<0, 100>>;

/// A search text in the forms that SQL statements compare.
pub struct FoldedQuery {
    text: String,
    lower: String,
    is_short: bool,
}

impl FoldedQuery {
    /// Minimum length of a text that matches anywhere in a text of a tenant, which is the length of
    /// a trigram. A shorter text matches beginnings only. Searches of employees have no minimum.
    const MIN_SUBSTRING_LENGTH: usize = 3;

    /// Returns `None` for an absent or blank text, which does not filter.
    pub fn new(query: Option<&SearchText>) -> Option<Self> {
        let query = query?.expose().as_str();
        let text = fold(query);
        let is_short = |text: &str| text.chars().count() < Self::MIN_SUBSTRING_LENGTH;
        (!text.is_empty()).then(|| Self {
            // Folding changes the length of a text, so both forms must have enough characters.
            is_short: is_short(query) || is_short(&text),
            lower: query.to_lowercase(),
            text,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns true if a tax number can begin with the text.
    pub fn is_number(&self) -> bool {
        self.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Returns true if the text matches only beginnings of a tenant's texts.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// Returns the `like` pattern of texts that contain this one.
    pub fn substring_pattern(&self) -> String {
        values::like_containing(&self.text)
    }

    /// Returns the `like` pattern of lower-case texts that begin with this one.
    pub fn lower_prefix_pattern(&self) -> String {
        values::like_prefix(&self.lower)
    }

    /// Returns the `like` pattern of folded texts that begin with this one.
    pub fn prefix_pattern(&self) -> String {
        values::like_prefix(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use values::{Line, Private};

    use super::FoldedQuery;

    fn query(text: &str) -> Option<FoldedQuery> {
        FoldedQuery::new(Some(&Private::new(Line::parse(text).unwrap())))
    }

    /// A blank text does not filter. A text below three characters, as written or folded, matches
    /// beginnings only.
    #[test]
    fn short_text_matches_beginnings_only() {
        assert!(FoldedQuery::new(None).is_none() && query(" ").is_none());
        for (text, is_short) in [
            ("ё", true),
            ("ёж", true),
            ("ёжи", false),
            ("ежики", false),
            ("ﬁ", true),
            // One character as written, three folded.
            ("ﬃ", true),
            // Three characters as written, two folded.
            ("ё\u{ad}ж", true),
        ] {
            assert_eq!(query(text).unwrap().is_short(), is_short, "{text}");
        }
    }

    /// The patterns have the folded text or the lower-case one, with escaped wildcards.
    #[test]
    fn patterns_have_the_escaped_text() {
        let query = query("Ёлка_1").unwrap();
        assert_eq!(query.text(), "елка_1");
        assert_eq!(query.substring_pattern(), r"%елка\_1%");
        assert_eq!(query.prefix_pattern(), r"елка\_1%");
        assert_eq!(query.lower_prefix_pattern(), r"ёлка\_1%");
    }

    /// Only digits can begin a tax number.
    #[test]
    fn text_of_digits_is_a_number() {
        assert!(query("7707").unwrap().is_number() && !query("770a").unwrap().is_number());
    }
}
