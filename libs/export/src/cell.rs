//! Cells of exported tables.

use time::OffsetDateTime;
use uuid::Uuid;

/// A row of a table, with a cell for each column.
pub type Row = Vec<Cell>;

/// A cell. A spreadsheet never executes a text as a formula.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cell {
    Empty,
    Text(String),
    Number(i64),
    Time(OffsetDateTime),
}

impl Cell {
    /// Returns a text cell, or an empty one without a text.
    pub fn text(text: Option<impl Into<String>>) -> Self {
        text.map_or(Self::Empty, |text| Self::Text(text.into()))
    }

    /// Returns a cell with an id, or an empty one without an id.
    pub fn id(id: Option<impl Into<Uuid>>) -> Self {
        id.map_or(Self::Empty, |id| Self::Text(id.into().to_string()))
    }

    /// Returns a cell with a time, or an empty one without a time.
    pub fn time(time: Option<OffsetDateTime>) -> Self {
        time.map_or(Self::Empty, Self::Time)
    }
}

/// The characters that begin a formula, also in full width.
const FORMULA: [char; 8] = ['=', '+', '-', '@', '＝', '＋', '－', '＠'];

/// The control characters that may precede a formula at the start of a text.
const CONTROLS: [char; 3] = ['\t', '\r', '\n'];

/// The characters at which a spreadsheet may end a cell. In some languages `;` is one of them, even
/// within quotes.
const SEPARATORS: [char; 4] = [';', '\t', '\r', '\n'];

/// Returns true if a spreadsheet may read the whole text as a formula.
pub(crate) fn is_formula(text: &str) -> bool {
    text.starts_with(FORMULA) || text.starts_with(CONTROLS)
}

/// Puts an apostrophe before each part of a text that a spreadsheet would execute as a formula.
///
/// A spreadsheet may split a text into several cells, so each part after a separator is checked.
pub fn escape_formula(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len() + 1);
    if text.starts_with(CONTROLS) {
        escaped.push('\'');
    }
    let mut is_start = true;
    for character in text.chars() {
        if is_start && FORMULA.contains(&character) {
            escaped.push('\'');
        }
        escaped.push(character);
        // A spreadsheet removes a quote at the start of a cell.
        is_start = SEPARATORS.contains(&character) || is_start && character == '"';
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::{escape_formula, is_formula};

    /// RULE-CRM-081: an apostrophe precedes each part that is a formula, also after a separator.
    #[test]
    fn formula_at_start_or_after_separator_is_escaped() {
        for (text, escaped) in [
            ("=1", "'=1"),
            ("+1", "'+1"),
            ("-1", "'-1"),
            ("@a", "'@a"),
            ("＝1", "'＝1"),
            ("＋1", "'＋1"),
            ("－1", "'－1"),
            ("＠a", "'＠a"),
            ("\t1", "'\t1"),
            ("\r1", "'\r1"),
            ("\n1", "'\n1"),
            ("\n=1", "'\n'=1"),
            ("a;=1;-2", "a;'=1;'-2"),
            ("a\t+1\r@b\n＝1", "a\t'+1\r'@b\n'＝1"),
            ("a;\"=1", "a;\"'=1"),
            ("1=1", "1=1"),
            ("a; b\r\nc", "a; b\r\nc"),
            ("a-b", "a-b"),
            ("", ""),
        ] {
            assert_eq!(escape_formula(text), escaped, "{text:?}");
        }
        assert!(is_formula("＝1") && is_formula("\n1") && !is_formula("a;=1") && !is_formula(""));
    }
}
