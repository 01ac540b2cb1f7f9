//! Exports of lists as CSV or XLSX files, in bounded memory.

mod cell;
mod comma_separated;
mod limits;
mod spreadsheet;

use std::fmt::Display;
use std::io;

use actix_web::HttpResponse;
use actix_web::body::SizedStream;
use actix_web::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use actix_web::web::{Bytes, block};
use futures_util::{Stream, StreamExt, TryStreamExt, stream};
use tokio_util::io::ReaderStream;
use web::Problem;

pub use cell::{Cell, Row, escape_formula};

use crate::limits::{Limited, permit};
use crate::spreadsheet::Spreadsheet;

values::text_enum! {
    /// The format of an exported file.
    pub enum ExportFormat {
        Csv,
        Xlsx,
    }
}

/// The maximum number of rows of a spreadsheet, which limits its file on the disk.
pub const MAX_SPREADSHEET_ROWS: u32 = 100_000;

/// The media type of a spreadsheet.
pub const XLSX: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet";

/// The size of the chunks in which a spreadsheet is sent.
const CHUNK_BYTES: usize = 64 * 1024;

/// The name of an exported file without its extension, and the names of its columns.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    pub name: &'static str,
    pub columns: &'static [&'static str],
}

/// Responds with a file of the rows that `batches` returns.
///
/// A CSV file is sent while the rows are read, at the speed of the client.
/// A spreadsheet is written to a temporary file first, since its format needs all rows.
/// A process runs a limited number of exports of each format. An export ends when its file is sent
/// or its client disconnects.
///
/// # Errors
/// `503 SERVICE_UNAVAILABLE` while too many other exports are in progress.
/// For a spreadsheet, the first error of `batches`.
/// For a CSV file, only an error of the first batch. An error of a later batch closes the
/// connection, so that the client detects the incomplete file.
pub async fn respond<S, E>(format: ExportFormat, table: Table, batches: S) -> Result<HttpResponse, E>
where
    S: Stream<Item = Result<Vec<Row>, E>> + 'static,
    E: From<Problem> + Display + 'static,
{
    let mut response = HttpResponse::Ok();
    let (media_type, extension) = match format {
        ExportFormat::Csv => ("text/csv; charset=utf-8", "csv"),
        ExportFormat::Xlsx => (XLSX, "xlsx"),
    };
    let disposition = format!("attachment; filename=\"{}.{extension}\"", table.name);
    response.insert_header((CONTENT_TYPE, media_type)).insert_header((CONTENT_DISPOSITION, disposition));
    let permit = permit(format).await?;
    match format {
        ExportFormat::Csv => {
            let mut batches = Box::pin(batches);
            let first = batches.next().await.transpose()?.unwrap_or_default();
            let header = comma_separated::header(table.columns);
            let rest = batches.map(|batch| match batch {
                Ok(rows) => comma_separated::encode(&rows).map(Bytes::from),
                Err(error) => Err(log_interruption(&error)),
            });
            let first = header.and_then(|header| {
                comma_separated::encode(&first).map(|rows| Bytes::from([header, rows].concat()))
            });
            let body = stream::iter([first]).chain(rest);
            Ok(response.streaming(Limited { body, _permit: permit }))
        }
        ExportFormat::Xlsx => {
            let mut batches = Box::pin(batches);
            let mut sheet = run_blocking(move || Spreadsheet::new(table)).await?;
            while let Some(rows) = batches.try_next().await? {
                sheet = run_blocking(move || sheet.append(&rows)).await?;
            }
            let file = run_blocking(move || sheet.finish()).await?;
            let length = file.length;
            let body = ReaderStream::with_capacity(tokio::fs::File::from_std(file.file), CHUNK_BYTES);
            Ok(response.body(SizedStream::new(length, Limited { body, _permit: permit })))
        }
    }
}

/// Runs a function that blocks on disk I/O on a thread of the blocking pool.
async fn run_blocking<T: Send + 'static>(
    f: impl FnOnce() -> Result<T, rust_xlsxwriter::XlsxError> + Send + 'static,
) -> Result<T, Problem> {
    let done = block(f).await.map_err(|error| Problem::internal(&error))?;
    done.map_err(|error| Problem::internal(&error))
}

fn log_interruption(error: &impl Display) -> io::Error {
    tracing::error!(%error, "failed to finish an export");
    io::Error::other("the export was interrupted")
}

#[cfg(test)]
mod tests {
    use actix_web::{HttpResponse, ResponseError};
    use futures_util::{future, stream};
    use web::Problem;

    use super::limits::{MAX_CSV_FILES, MAX_SPREADSHEETS};
    use super::{Cell, ExportFormat, Table, respond};

    async fn export(format: ExportFormat) -> Result<HttpResponse, Problem> {
        let table = Table { name: "x", columns: &["X"] };
        respond(format, table, stream::iter([Ok(vec![vec![Cell::Number(1)]])])).await
    }

    /// RULE-CRM-084: an export above the limit of its format gets 503 until the body of another one
    /// ends.
    #[tokio::test]
    async fn export_above_limit_is_refused_until_another_body_ends() {
        let check = async |format, limit| {
            let mut sent = Vec::new();
            for _ in 0..limit {
                sent.push(export(format).await.unwrap());
            }
            let refused = export(format).await.unwrap_err();
            assert_eq!(refused.status_code(), 503);
            sent.pop();
            export(format).await.unwrap();
        };
        future::join(check(ExportFormat::Csv, MAX_CSV_FILES), check(ExportFormat::Xlsx, MAX_SPREADSHEETS))
            .await;
    }
}
