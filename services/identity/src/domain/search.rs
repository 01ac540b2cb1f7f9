//! Words as they are found and sorted, whatever their letter case, in any script.

use values::{Line, Private};

/// What somebody looks for.
pub type SearchText = Private<Line<0, 100>>;

/// The lower-case form, by which words are found and lists are sorted: the same for all letter cases of a text. `Σ`, `σ`
/// and `ς` are one letter, and `ß` and `ẞ` are `SS`: from the lower case, as `ẞ` is in upper case already and would stay
/// apart.
pub fn fold(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// What is looked for, as it is compared.
pub struct Fold {
    text: String,
    is_short: bool,
}

impl Fold {
    /// So many characters are found anywhere; fewer where a name begins.
    const ANYWHERE: usize = 3;

    /// `None`: nothing is looked for.
    pub fn of(query: Option<&SearchText>) -> Option<Self> {
        let query = query?.expose().as_str();
        (!query.is_empty())
            .then(|| Self { text: fold(query), is_short: query.chars().count() < Self::ANYWHERE })
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
        format!("%{}%", escaped(&self.text))
    }

    /// The pattern of `like` of what begins with it.
    pub fn beginning(&self) -> String {
        format!("{}%", escaped(&self.text))
    }
}

/// `%`, `_` and `\` stand for themselves.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '_' | '\\') {
            escaped.push('\\');
        }
        escaped.push(c);
    }
    escaped
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{escaped, fold};

    proptest! {
        /// Search: letter case does not count, in any script.
        #[test]
        fn all_letter_cases_of_a_text_are_one(text in "\\PC{0,20}") {
            prop_assert_eq!(fold(&text.to_uppercase()), fold(&text));
            prop_assert_eq!(fold(&text.to_lowercase()), fold(&text));
            prop_assert_eq!(fold(&fold(&text)), fold(&text));
        }
    }

    #[test]
    fn letters_are_one_in_any_script() {
        for (one, other) in [
            ("РОМАШКА", "ромашка"),
            ("ΟΔΟΣ", "οδος"),
            ("Straße", "STRASSE"),
            ("STRAẞE", "Straße"),
            ("ՀԱՅ", "հայ"),
            ("Ⰰ", "ⰰ"),
        ] {
            assert_eq!(fold(one), fold(other));
        }
    }

    #[test]
    fn wildcards_stand_for_themselves() {
        assert_eq!(escaped(r"50%_\"), r"50\%\_\\");
    }
}
