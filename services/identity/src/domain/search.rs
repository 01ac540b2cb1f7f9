//! Words as they are found, whatever their letter case, in any script.

use values::{Line, Private, fold_case};

/// What somebody looks for.
pub type SearchText = Private<Line<0, 100>>;

/// What is looked for, as it is compared.
pub struct Fold {
    text: String,
    lower: String,
    is_short: bool,
}

impl Fold {
    /// So many characters are found anywhere; fewer where a name begins.
    const ANYWHERE: usize = 3;

    /// `None`: nothing is looked for.
    pub fn of(query: Option<&SearchText>) -> Option<Self> {
        let query = query?.expose().as_str();
        (!query.is_empty()).then(|| Self {
            text: fold_case(query),
            lower: query.to_lowercase(),
            is_short: query.chars().count() < Self::ANYWHERE,
        })
    }

    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a number may begin with it.
    pub fn is_number(&self) -> bool {
        self.text.bytes().all(|byte| byte.is_ascii_digit())
    }

    /// Whether only beginnings count.
    pub fn is_short(&self) -> bool {
        self.is_short
    }

    /// The pattern of `like` of what has it anywhere.
    pub fn anywhere(&self) -> String {
        values::like_containing(&self.text)
    }

    /// The pattern of `like` of what begins with it in lower case, and that for the same in the form in which it is found,
    /// where these differ.
    pub fn beginning(&self) -> (String, Option<String>) {
        let folded = (self.text != self.lower).then(|| values::like_prefix(&self.text));
        (values::like_prefix(&self.lower), folded)
    }
}
