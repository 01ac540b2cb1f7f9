//! XLSX files, which write each row to a temporary file at once to bound their memory.

use std::fs::File;
use std::io::{Seek, SeekFrom};

use rust_xlsxwriter::{ExcelDateTime, Format, Workbook, Worksheet, XlsxError};

use crate::Table;
use crate::cell::{Cell, Row, is_formula};

/// A spreadsheet in progress.
pub(crate) struct Spreadsheet {
    workbook: Workbook,
    next_row: u32,
    formats: Formats,
}

struct Formats {
    header: Format,
    time: Format,
    /// The format of a text that begins like a formula. A spreadsheet does not execute such a text,
    /// even after an edit of its cell.
    quoted: Format,
}

/// A finished file at its beginning. Closing the file frees its disk space.
pub(crate) struct Finished {
    pub file: File,
    pub length: u64,
}

impl Spreadsheet {
    pub(crate) fn new(table: Table) -> Result<Self, XlsxError> {
        let mut workbook = Workbook::new();
        let formats = Formats {
            header: Format::new().set_bold(),
            time: Format::new().set_num_format("yyyy-mm-dd hh:mm:ss"),
            quoted: Format::new().set_quote_prefix(),
        };
        let sheet = workbook.add_worksheet_with_constant_memory()?;
        sheet.set_freeze_panes(1, 0)?;
        for (column, name) in (0..).zip(table.columns) {
            sheet.write_string_with_format(0, column, *name, &formats.header)?;
        }
        Ok(Self { workbook, next_row: 1, formats })
    }

    pub(crate) fn append(mut self, rows: &[Row]) -> Result<Self, XlsxError> {
        let sheet = self.workbook.worksheet_from_index(0)?;
        for row in rows {
            for (column, cell) in (0..).zip(row) {
                write(sheet, &self.formats, self.next_row, column, cell)?;
            }
            self.next_row += 1;
        }
        Ok(self)
    }

    pub(crate) fn finish(mut self) -> Result<Finished, XlsxError> {
        let mut file = tempfile::tempfile()?;
        self.workbook.save_to_writer(&mut file)?;
        let length = file.stream_position()?;
        file.seek(SeekFrom::Start(0))?;
        Ok(Finished { file, length })
    }
}

fn write(
    sheet: &mut Worksheet,
    formats: &Formats,
    row: u32,
    column: u16,
    cell: &Cell,
) -> Result<(), XlsxError> {
    match cell {
        Cell::Empty => {}
        Cell::Text(text) if is_formula(text) => {
            sheet.write_string_with_format(row, column, text, &formats.quoted)?;
        }
        Cell::Text(text) => {
            sheet.write_string(row, column, text)?;
        }
        Cell::Number(number) => {
            #[expect(clippy::cast_precision_loss, reason = "spreadsheets have floats only")]
            sheet.write_number(row, column, *number as f64)?;
        }
        Cell::Time(time) => {
            let time = ExcelDateTime::from_timestamp(time.unix_timestamp())?;
            sheet.write_datetime_with_format(row, column, &time, &formats.time)?;
        }
    }
    Ok(())
}
