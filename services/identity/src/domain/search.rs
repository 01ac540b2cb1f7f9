//! Search texts, compared regardless of letter case and of the encoding of characters.

use values::{Line, Private, fold};

/// Text of a search or a lookup.
pub type SearchText = Private<Line<0, 100>>;

/// A search text in the forms that queries compare.
pub struct FoldedQuery {
    text: String,
    lower: String,
    is_short: bool,
}

impl FoldedQuery {
    /// Minimum length of a text that matches anywhere. A shorter text matches a beginning only.
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

    /// Returns true if the text matches beginnings only.
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
