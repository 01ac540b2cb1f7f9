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
pub use limits::Requester;

use crate::limits::{ExportPermit, next_batch};
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
/// A process runs a limited number of exports, and a user and a company have a share of it. An
/// export ends when its file is sent, or when its client disconnects or reads too slowly.
///
/// # Errors
/// `429 RATE_LIMITED` while other exports of the user or of the company are in progress.
/// `503 SERVICE_UNAVAILABLE` while too many exports of others are in progress.
/// For a spreadsheet, the first error of `batches`.
/// For a CSV file, only an error of the first batch. An error of a later batch closes the
/// connection, so that the client detects the incomplete file.
pub async fn respond<S, E>(
    format: ExportFormat,
    table: Table,
    requester: Requester,
    batches: S,
) -> Result<HttpResponse, E>
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
    let permit = ExportPermit::acquire(requester).await?;
    let mut batches = Box::pin(batches);
    match format {
        ExportFormat::Csv => {
            let reading = permit.start_reading().await?;
            let first = batches.next().await.transpose()?.unwrap_or_default();
            drop(reading);
            let header = comma_separated::header(table.columns);
            let first = header.and_then(|header| {
                comma_separated::encode(&first).map(|rows| Bytes::from([header, rows].concat()))
            });
            let rest = stream::unfold(batches, |mut batches| async move {
                let chunk = match next_batch(&mut batches).await? {
                    Ok(rows) => comma_separated::encode(&rows).map(Bytes::from),
                    Err(error) => Err(log_interruption(&error)),
                };
                Some((chunk, batches))
            });
            Ok(response.streaming(permit.send(stream::iter([first]).chain(rest))))
        }
        ExportFormat::Xlsx => {
            let writing = permit.start_writing().await?;
            let mut sheet = run_blocking(move || Spreadsheet::new(table)).await?;
            while let Some(rows) = batches.try_next().await? {
                sheet = run_blocking(move || sheet.append(&rows)).await?;
            }
            let file = run_blocking(move || sheet.finish()).await?;
            drop(writing);
            let length = file.length;
            let chunks = ReaderStream::with_capacity(tokio::fs::File::from_std(file.file), CHUNK_BYTES);
            Ok(response.body(SizedStream::new(length, permit.send(chunks))))
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
    use futures_util::stream;
    use uuid::Uuid;
    use web::Problem;

    use super::limits::{MAX_EXPORTS, MAX_EXPORTS_OF_COMPANY};
    use super::{Cell, ExportFormat, Requester, Table, respond};

    /// Starts an export whose file is not read, so that it stays in progress.
    async fn export(user: u128, company: Option<u128>) -> Result<HttpResponse, Problem> {
        let table = Table { name: "x", columns: &["X"] };
        let requester = Requester { user: Uuid::from_u128(user), company: company.map(Uuid::from_u128) };
        let batches = (0..4).map(|_| Ok(vec![vec![Cell::Number(1)]]));
        respond(ExportFormat::Csv, table, requester, stream::iter(batches)).await
    }

    fn status(refused: Result<HttpResponse, Problem>) -> u16 {
        refused.unwrap_err().status_code().as_u16()
    }

    /// RULE-CRM-084: an export above the share of its user or its company gets 429, and one above
    /// the limit of the process gets 503, until the body of another one ends.
    #[actix_web::test]
    async fn export_above_share_or_limit_is_refused_until_another_body_ends() {
        let own = export(1, Some(100)).await.unwrap();
        assert_eq!(status(export(1, None).await), 429, "the share of the user");
        let mut sent = vec![own];
        for user in 2..=MAX_EXPORTS_OF_COMPANY as u128 {
            sent.push(export(user, Some(100)).await.unwrap());
        }
        assert_eq!(status(export(99, Some(100)).await), 429, "the share of the company");
        for user in sent.len() as u128 + 1..=MAX_EXPORTS as u128 {
            sent.push(export(user, None).await.unwrap());
        }
        assert_eq!(status(export(99, None).await), 503, "the limit of the process");
        sent.remove(0);
        export(1, Some(100)).await.unwrap();
    }
}
