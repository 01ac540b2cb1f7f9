//! CSV (RFC 4180).

use std::io;

use csv::{Terminator, WriterBuilder};
use time::format_description::well_known::Rfc3339;

use crate::cell::{Cell, Row, escape_formula};

/// Returns the line with the names of the columns.
pub(crate) fn header(columns: &[&str]) -> io::Result<Vec<u8>> {
    write([columns.iter().map(|name| (*name).to_owned())])
}

/// Returns the lines of rows.
pub(crate) fn encode(rows: &[Row]) -> io::Result<Vec<u8>> {
    write(rows.iter().map(|row| row.iter().map(to_text)))
}

fn write<R: Iterator<Item = String>>(records: impl IntoIterator<Item = R>) -> io::Result<Vec<u8>> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for record in records {
        writer.write_record(record)?;
    }
    writer.into_inner().map_err(io::Error::other)
}

fn to_text(cell: &Cell) -> String {
    match cell {
        Cell::Empty => String::new(),
        Cell::Text(text) => escape_formula(text),
        Cell::Number(number) => number.to_string(),
        Cell::Time(time) => time.format(&Rfc3339).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use time::macros::datetime;

    use super::encode;
    use crate::cell::Cell;

    /// RULE-CRM-081: a text that begins like a formula gets an apostrophe, and a number does not.
    #[test]
    fn cells_are_quoted_and_formulas_are_escaped() {
        let text = |text: &str| Cell::Text(text.to_owned());
        let time = Cell::Time(datetime!(2026-05-01 10:00 UTC));
        let row = vec![Cell::Empty, text("a,\"б\"\r\n"), Cell::Number(-5), time];
        let formulas = ["=1", "+1", "-1", "@a", "\t1", "\r1", "1=1"].map(text).to_vec();
        for (row, expected) in [
            (row, ",\"a,\"\"б\"\"\r\n\",-5,2026-05-01T10:00:00Z\r\n"),
            (formulas, "'=1,'+1,'-1,'@a,'\t1,\"'\r1\",1=1\r\n"),
        ] {
            assert_eq!(String::from_utf8(encode(&[row]).unwrap()).unwrap(), expected);
        }
    }
}
