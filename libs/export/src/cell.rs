//! Cells of exported tables.

use time::OffsetDateTime;
use uuid::Uuid;

/// A row of a table, with a cell for each column.
pub type Row = Vec<Cell>;

/// A cell. A text is never a formula.
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

/// Returns true if a spreadsheet would read the text as a formula.
pub(crate) fn is_formula(text: &str) -> bool {
    text.starts_with(['=', '+', '-', '@', '\t', '\r'])
}

/// Prefixes a text that a spreadsheet would execute as a formula.
pub fn escape_formula(text: String) -> String {
    if is_formula(&text) { format!("'{text}") } else { text }
}
