//! Case-insensitive search in any script.

/// Returns a form that is the same for all letter cases of a text.
///
/// `Σ`, `σ` and `ς` are one letter, and `ß` and `ẞ` equal `SS`. The first step converts to lower
/// case, since the upper case of `ẞ` is `ẞ` and not `SS`.
pub fn fold_case(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// Returns the SQL `like` pattern for texts that contain `text`.
pub fn like_containing(text: &str) -> String {
    format!("%{}%", escape(text))
}

/// Returns the SQL `like` pattern for texts that begin with `text`.
pub fn like_prefix(text: &str) -> String {
    format!("{}%", escape(text))
}

/// Escapes `%`, `_` and `\`.
fn escape(text: &str) -> String {
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

    use super::{fold_case, like_containing, like_prefix};

    proptest! {
        /// Search: letter case is ignored in any script.
        #[test]
        fn letter_cases_of_a_text_fold_to_the_same(text in "\\PC{0,20}") {
            prop_assert_eq!(fold_case(&text.to_uppercase()), fold_case(&text));
            prop_assert_eq!(fold_case(&text.to_lowercase()), fold_case(&text));
            prop_assert_eq!(fold_case(&fold_case(&text)), fold_case(&text));
        }
    }

    /// RULE-ALL-006: letters of every script match in every case.
    #[test]
    fn letter_case_is_ignored_in_any_script() {
        for (one, other) in [
            ("РОМАШКА", "ромашка"),
            ("ΟΔΟΣ", "οδος"),
            ("Straße", "STRASSE"),
            ("STRAẞE", "Straße"),
            ("ՀԱՅ", "հայ"),
            ("Ⰰ", "ⰰ"),
        ] {
            assert_eq!(fold_case(one), fold_case(other));
        }
    }

    #[test]
    fn wildcards_are_escaped() {
        assert_eq!(like_containing(r"50%_\"), r"%50\%\_\\%");
        assert_eq!(like_prefix("50%"), r"50\%%");
    }
}
