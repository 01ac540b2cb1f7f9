//! Visible and invisible characters.

use icu_properties::props::{
    BinaryProperty, CanonicalCombiningClass, DefaultIgnorableCodePoint, Emoji, EmojiModifier,
    EnumeratedProperty, JoiningType, VariationSelector,
};

/// Returns true if a text has white space and invisible characters only, or nothing.
///
/// Such a text counts as empty. Control characters other than white space are not invisible, since
/// programs show a substitute for them. The blank braille cell is white space here.
pub fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || c == '\u{2800}' || is_invisible(c))
}

/// Removes the invisible characters from a text for readers.
///
/// A joiner or selector remains if it forms a letter or an emoji with the character before it, as
/// in Persian words and in emoji of families.
pub fn remove_invisible(text: &str) -> String {
    let mut visible = String::with_capacity(text.len());
    for c in text.chars() {
        if !is_invisible(c) || is_selector(c) && visible.chars().next_back().is_some_and(is_selector_base) {
            visible.push(c);
        }
    }
    visible
}

/// Returns true for characters without a glyph, such as the zero-width space.
///
/// White space is not among them, and neither are control characters.
pub fn is_invisible(c: char) -> bool {
    // The anchors of annotations are invisible, too, but do not have the property
    // `Default_Ignorable_Code_Point`.
    DefaultIgnorableCodePoint::for_char(c) || matches!(c, '\u{fff9}'..='\u{fffb}')
}

/// Returns true for joiners, and for selectors of variants and of flags.
fn is_selector(c: char) -> bool {
    VariationSelector::for_char(c) || matches!(c, '\u{200c}' | '\u{200d}' | '\u{e0020}'..='\u{e007f}')
}

/// Returns true if a selector after this character can change the glyph.
fn is_selector_base(c: char) -> bool {
    // Digits have the property `Emoji`, because keycap emoji contain them. A selector within a
    // number therefore remains, without an effect.
    Emoji::for_char(c)
        || EmojiModifier::for_char(c)
        || is_selector(c)
        || CanonicalCombiningClass::for_char(c) == CanonicalCombiningClass::Virama
        || matches!(
            JoiningType::for_char(c),
            JoiningType::DualJoining | JoiningType::LeftJoining | JoiningType::RightJoining
        )
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{is_blank, is_invisible, remove_invisible};

    /// Characters without a glyph, one of each kind.
    const INVISIBLE: &str = "\u{ad}\u{34f}\u{61c}\u{115f}\u{17b4}\u{180e}\u{200b}\u{200c}\u{200d}\u{200e}\
        \u{202d}\u{2060}\u{2063}\u{2069}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fffa}\u{e0001}\u{e0100}";

    /// RULE-ALL-006: a text of white space and invisible characters is empty.
    #[test]
    fn white_space_and_invisible_characters_are_blank() {
        for c in INVISIBLE.chars() {
            assert!(is_invisible(c), "{c:?}");
            assert!(is_blank(&format!(" {c}\n")), "{c:?}");
        }
        for blank in ["", " \t\r\n", "\u{a0}\u{2003}\u{3000}\u{85}\u{2028}", "\u{200b}\u{200b}", "\u{2800}"] {
            assert!(is_blank(blank), "{blank:?}");
        }
        for visible in [".", "\u{1}", "\u{7f}", "\u{200b}x", "\u{301}", "🏠\u{fe0f}", "\u{fffd}", "\u{e000}"]
        {
            assert!(!is_blank(visible), "{visible:?}");
        }
    }

    /// RULE-NWS-009: invisible characters within words are removed.
    #[test]
    fn words_lose_invisible_characters() {
        for c in INVISIBLE.chars() {
            assert_eq!(remove_invisible(&format!("Ново{c}стройка")), "Новостройка", "{c:?}");
            assert_eq!(remove_invisible(&format!("{c}New{c}")), "New", "{c:?}");
        }
        assert_eq!(remove_invisible(" a\u{a0}b\n"), " a\u{a0}b\n");
    }

    /// RULE-NWS-009: the joiners of emoji, of Persian and of Devanagari remain.
    #[test]
    fn joiners_that_change_a_glyph_remain() {
        for text in [
            "👨\u{200d}👩\u{200d}👧",
            "❤\u{fe0f}\u{200d}🔥",
            "1\u{fe0f}\u{20e3}",
            "👋🏽",
            "می\u{200c}خواهم",
            "क्\u{200d}ष",
        ] {
            assert_eq!(remove_invisible(text), text);
        }
        let flag = "🏴\u{e0067}\u{e0062}\u{e0065}\u{e006e}\u{e0067}\u{e007f}";
        assert_eq!(remove_invisible(flag), flag);
    }

    proptest! {
        /// RULE-NWS-009: only invisible characters are removed.
        #[test]
        fn only_invisible_characters_are_removed(text in "(\\PC|[\u{200b}\u{200d}\u{fe0f}\u{ad}👩ا])*") {
            let visible = remove_invisible(&text);
            prop_assert_eq!(remove_invisible(&visible), visible.clone());
            let seen = |text: &str| text.chars().filter(|c| !is_invisible(*c)).collect::<String>();
            prop_assert_eq!(seen(&visible), seen(&text));
            prop_assert_eq!(is_blank(&text), seen(&text).trim().is_empty());
        }
    }
}
