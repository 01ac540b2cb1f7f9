//! Reads the stored parts of the file of an import and parses its offers.

use std::io::{self, BufReader, Read};

use anyhow::{Context, anyhow, bail};
use tokio::sync::mpsc;

use crate::app::App;
use crate::db;
use crate::db::feed_import::IgnoredElement;
use crate::domain::feed::{FeedItem, FeedLimits, FeedReader, FileRefusal, ReadError};
use crate::domain::{FeedImport, FeedImportId, FeedUploadId};

/// Number of offers that one transaction stores.
const BATCH_SIZE: usize = 500;
/// Number of problems at which a batch ends.
const BATCH_PROBLEMS: usize = 1_000;

/// The result of parsing a file.
pub enum FileResult {
    Read { ignored: Vec<IgnoredElement> },
    Rejected(FileRefusal),
}

/// Sends the parts of the file to the parser.
///
/// # Errors
/// If a part is missing. The parser receives an error, too, so that it does not treat the received
/// parts as the whole file.
pub async fn send_chunks(
    app: &App,
    import: &FeedImport,
    chunks: mpsc::Sender<io::Result<Vec<u8>>>,
) -> anyhow::Result<()> {
    let upload = import.upload_id.context("the import has no file")?;
    let mut sent = 0;
    for position in 0.. {
        let chunk = match find_chunk(app, import.id, upload, position).await {
            Ok(None) if sent == import.file_bytes => return Ok(()),
            Ok(Some(chunk)) => chunk,
            missing => {
                let _ = chunks.send(Err(io::Error::other("a part of the file is missing"))).await;
                missing?;
                bail!("the file has {sent} of its {} bytes", import.file_bytes);
            }
        };
        sent += i64::try_from(chunk.len()).unwrap_or(i64::MAX);
        if chunks.send(Ok(chunk)).await.is_err() {
            // The parser has rejected the file.
            return Ok(());
        }
    }
    Ok(())
}

async fn find_chunk(
    app: &App,
    id: FeedImportId,
    upload: FeedUploadId,
    position: i32,
) -> Result<Option<Vec<u8>>, ::db::Error> {
    let mut conn = app.db.conn().await?;
    db::feed_import::find_chunk(&mut conn, id, upload, position).await
}

/// The parts of a file as a stream of bytes, for a thread that may block.
struct Chunks {
    received: mpsc::Receiver<io::Result<Vec<u8>>>,
    current: io::Cursor<Vec<u8>>,
}

impl Read for Chunks {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.current.read(out)?;
            if read > 0 {
                return Ok(read);
            }
            match self.received.blocking_recv() {
                None => return Ok(0),
                Some(chunk) => self.current = io::Cursor::new(chunk?),
            }
        }
    }
}

/// Reads the offers of a file and sends them in batches.
pub fn parse_file(
    received: mpsc::Receiver<io::Result<Vec<u8>>>,
    batches: &mpsc::Sender<Vec<FeedItem>>,
) -> anyhow::Result<FileResult> {
    let file = BufReader::new(Chunks { received, current: io::Cursor::default() });
    let mut reader = FeedReader::new(file, FeedLimits::DEFAULT)?;
    let (mut batch, mut problems) = (Vec::with_capacity(BATCH_SIZE), 0);
    loop {
        match reader.next_offer() {
            Ok(Some(item)) => {
                problems += item.offer.as_ref().err().map_or(0, Vec::len);
                batch.push(item);
            }
            Ok(None) => break,
            Err(ReadError::Rejected(refusal)) => return Ok(FileResult::Rejected(refusal)),
            Err(ReadError::Source(error)) => return Err(error.into()),
        }
        if batch.len() == BATCH_SIZE || problems >= BATCH_PROBLEMS {
            problems = 0;
            batches.blocking_send(std::mem::take(&mut batch)).map_err(|_| anyhow!("the job has ended"))?;
        }
    }
    batches.blocking_send(batch).map_err(|_| anyhow!("the job has ended"))?;
    let ignored = reader.ignored_elements().iter();
    let ignored = ignored.map(|(name, count)| IgnoredElement { name: name.clone(), count: *count });
    Ok(FileResult::Read { ignored: ignored.collect() })
}
