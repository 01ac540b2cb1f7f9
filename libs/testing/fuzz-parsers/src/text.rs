//! Texts that are stored, searched or published.

use chessboard::parsers::BoundingBox;
use news::parsers::search_query;
use values::{
    Checked, Email, Invalid, Line, Lines, PhoneRegion, Prose, Rule, TrimmedEmail, WebAddress, check_public,
    fold, fold_case, remove_invisible,
};

/// Maximum number of characters of a text that is checked for personal data.
const MAX_PUBLIC_CHARS: usize = 256;

/// The largest factor by which folding lengthens a text. The character U+FDFA has 3 bytes, and its
/// folded form has 33.
const MAX_FOLD_GROWTH: usize = 12;

/// Reads a text in each way.
///
/// A stored form is stored unchanged when it is sent again. The forms of searches are stable and
/// bounded.
pub fn text(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    check_stored(text, Email::<256>::parse);
    check_stored(text, TrimmedEmail::<256>::parse);
    check_stored(text, WebAddress::<256>::parse);
    check_stored(text, Line::<1, 100>::parse);
    check_stored(text, Lines::<0, 100>::parse);
    check_stored(text, Prose::<0, 2000>::parse);
    let visible = remove_invisible(text);
    assert_eq!(remove_invisible(&visible), visible);
    check_search(text);
    if text.chars().count() <= MAX_PUBLIC_CHARS {
        let _ = check_public(text, PhoneRegion::RU);
    }
    if let Ok(area) = text.parse::<BoundingBox>() {
        assert!(area.south <= area.north && area.west <= area.east);
    }
}

fn check_stored<R: Rule>(text: &str, parse: impl Fn(&str) -> Result<Checked<R>, Invalid>) {
    if let Ok(stored) = parse(text) {
        assert_eq!(parse(stored.as_str()).as_ref(), Ok(&stored));
    }
}

fn check_search(text: &str) {
    let folded = fold(text);
    assert_eq!(fold(&folded), folded);
    assert!(folded.len() <= MAX_FOLD_GROWTH * text.len());
    let cased = fold_case(text);
    assert_eq!(fold_case(&cased), cased);
    let query = search_query(text);
    assert!(query.matches('"').count().is_multiple_of(2), "{query}");
}
