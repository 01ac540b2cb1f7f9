//! Search texts, compared regardless of letter case in any script.

use values::{Line, Private, fold_case};

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
        (!query.is_empty()).then(|| Self {
            text: fold_case(query),
            lower: query.to_lowercase(),
            is_short: query.chars().count() < Self::MIN_SUBSTRING_LENGTH,
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

    /// Returns the `like` patterns of texts that begin with this one.
    ///
    /// The first is for the lower-case form, the second for the folded form where it differs.
    pub fn prefix_patterns(&self) -> (String, Option<String>) {
        let folded = (self.text != self.lower).then(|| values::like_prefix(&self.text));
        (values::like_prefix(&self.lower), folded)
    }
}
