//! Words as they are found, whatever their letter case, in any script.

/// The form by which words are found: the same for all letter cases of a text. `Σ`, `σ` and `ς` are one letter, and `ß`
/// and `ẞ` are `SS`: from the lower case, as `ẞ` is in upper case already and would stay apart.
pub fn fold(text: &str) -> String {
    let lower = text.chars().flat_map(char::to_lowercase);
    lower.flat_map(char::to_uppercase).flat_map(char::to_lowercase).collect()
}

/// The pattern of `like` of what has `text` anywhere, taken literally.
pub fn anywhere(text: &str) -> String {
    format!("%{}%", escaped(text))
}

/// The pattern of `like` of what begins with `text`, taken literally.
pub fn beginning(text: &str) -> String {
    format!("{}%", escaped(text))
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

    use super::{anywhere, beginning, fold};

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
        assert_eq!(anywhere(r"50%_\"), r"%50\%\_\\%");
        assert_eq!(beginning("50%"), r"50\%%");
    }
}
