//! The bytes of a file: decompressed, counted and limited.

use std::fmt::{self, Display, Formatter};
use std::io::{self, BufRead, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use memchr::memchr_iter;

/// The first bytes of a gzip file (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// Size of a buffer of decompressed bytes.
const BUFFER_BYTES: usize = 64 * 1024;

/// The limits of one file. They bound the memory and the time of a reader.
#[derive(Clone, Copy, Debug)]
pub struct FeedLimits {
    /// Decompressed size of the file, in bytes.
    pub file_bytes: u64,
    /// Highest ratio of the decompressed to the compressed size.
    pub ratio: u64,
    /// Decompressed size from which the ratio counts, in bytes.
    pub ratio_from_bytes: u64,
    /// Size of one tag, comment or text, in bytes.
    pub event_bytes: u64,
    /// Size of one offer, in bytes.
    pub offer_bytes: u64,
    pub offers: u32,
    /// Number of nested elements.
    pub depth: usize,
}

impl FeedLimits {
    pub const DEFAULT: Self = Self {
        file_bytes: 512 * 1024 * 1024,
        ratio: 200,
        ratio_from_bytes: 4 * 1024 * 1024,
        event_bytes: 256 * 1024,
        offer_bytes: 512 * 1024,
        offers: 100_000,
        depth: 16,
    };
}

/// The reason why a file is rejected as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRefusal {
    pub line: u64,
    pub code: &'static str,
}

/// A limit of the file that its bytes exceed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Exceeded {
    FileBytes,
    Ratio,
    EventBytes,
}

impl Exceeded {
    pub fn code(self) -> &'static str {
        match self {
            Self::FileBytes => "file_too_large",
            Self::Ratio => "compressed_too_much",
            Self::EventBytes => "text_too_long",
        }
    }
}

impl Display for Exceeded {
    fn fmt(&self, out: &mut Formatter<'_>) -> fmt::Result {
        out.write_str(self.code())
    }
}

impl std::error::Error for Exceeded {}

/// Counts the bytes that are read.
struct Counted<R> {
    inner: R,
    count: Arc<AtomicU64>,
}

impl<R: BufRead> Read for Counted<R> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl<R: BufRead> BufRead for Counted<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        self.count.fetch_add(amount as u64, Ordering::Relaxed);
        self.inner.consume(amount);
    }
}

/// The decompressed bytes of a file, with their lines and their limits.
pub(super) struct Source<'a> {
    inner: Box<dyn BufRead + Send + 'a>,
    /// Number of compressed bytes. `None` for a file that is not compressed.
    compressed: Option<Arc<AtomicU64>>,
    limits: FeedLimits,
    read_bytes: u64,
    event_bytes: u64,
    line: u64,
}

impl<'a> Source<'a> {
    /// Reads a file, which may be compressed with gzip.
    ///
    /// # Errors
    /// The errors of `file`.
    pub fn new(mut file: impl BufRead + Send + 'a, limits: FeedLimits) -> io::Result<Self> {
        let is_compressed = file.fill_buf()?.starts_with(&GZIP_MAGIC);
        let (inner, compressed): (Box<dyn BufRead + Send + 'a>, _) = if is_compressed {
            let count = Arc::new(AtomicU64::new(0));
            let decoder = MultiGzDecoder::new(Counted { inner: file, count: count.clone() });
            (Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)), Some(count))
        } else {
            (Box::new(file), None)
        };
        Ok(Self { inner, compressed, limits, read_bytes: 0, event_bytes: 0, line: 1 })
    }

    /// Begins another tag, comment or text.
    pub fn begin_event(&mut self) {
        self.event_bytes = 0;
    }

    /// Returns the number of the current line, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the number of decompressed bytes before the current position.
    pub fn position(&self) -> u64 {
        self.read_bytes
    }

    fn check(&self) -> Result<(), Exceeded> {
        if self.read_bytes > self.limits.file_bytes {
            return Err(Exceeded::FileBytes);
        }
        if self.event_bytes > self.limits.event_bytes {
            return Err(Exceeded::EventBytes);
        }
        let compressed = self.compressed.as_ref().map(|count| count.load(Ordering::Relaxed));
        let is_bomb = compressed.is_some_and(|compressed| {
            self.read_bytes > self.limits.ratio_from_bytes
                && self.read_bytes > compressed.saturating_mul(self.limits.ratio)
        });
        if is_bomb { Err(Exceeded::Ratio) } else { Ok(()) }
    }
}

impl Read for Source<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.fill_buf()?.read(out)?;
        self.consume(read);
        Ok(read)
    }
}

impl BufRead for Source<'_> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        self.check().map_err(io::Error::other)?;
        self.inner.fill_buf()
    }

    fn consume(&mut self, amount: usize) {
        // The bytes to consume are in the buffer, so this call reads nothing.
        let consumed = self.inner.fill_buf().unwrap_or_default();
        let consumed = &consumed[..amount.min(consumed.len())];
        self.line += memchr_iter(b'\n', consumed).count() as u64;
        self.read_bytes += amount as u64;
        self.event_bytes += amount as u64;
        self.inner.consume(amount);
    }
}
