//! The reader of a file, one offer at a time.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::io::{self, BufRead, ErrorKind};

use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};
use sha2::{Digest, Sha256};

use super::NAMESPACE;
use super::element::Element;
use super::offer::{FeedItem, Values};
use super::source::{Exceeded, FeedLimits, FileRefusal, Source};

/// Longest text of an understood element, in bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// Maximum number of names of ignored elements that a reader counts.
const MAX_IGNORED_NAMES: usize = 100;

/// Longest name of an ignored element that a reader keeps, in bytes.
const MAX_IGNORED_NAME_BYTES: usize = 100;

/// The reason why reading a file ended early.
#[derive(Debug)]
pub enum ReadError {
    /// The file is rejected as a whole.
    Rejected(FileRefusal),
    /// The bytes of the file are not available.
    Source(io::Error),
}

/// A reader of offers in bounded memory.
///
/// The reader keeps one offer, and a hash of each `internal-id` to find repeated ones.
pub struct FeedReader<'a> {
    xml: Reader<Source<'a>>,
    limits: FeedLimits,
    buffer: Vec<u8>,
    depth: usize,
    has_root: bool,
    current: Option<Current>,
    offers: u32,
    /// The line of each `internal-id`, by the first half of its SHA-256.
    seen_ids: HashMap<[u8; 16], u64>,
    ignored: BTreeMap<String, u64>,
    is_finished: bool,
}

/// The offer that is being read.
struct Current {
    values: Values,
    start: u64,
    /// The path of the open element below the offer.
    path: String,
    /// The lengths of `path` before each open element.
    path_lengths: Vec<usize>,
    /// The text of an understood element that is open.
    text: Option<(Element, u64, String)>,
}

impl<'a> FeedReader<'a> {
    /// Reads `file`, which may be compressed with gzip.
    ///
    /// # Errors
    /// The errors of `file`.
    pub fn new(file: impl BufRead + Send + 'a, limits: FeedLimits) -> io::Result<Self> {
        let mut xml = Reader::from_reader(Source::new(file, limits)?);
        xml.config_mut().expand_empty_elements = true;
        Ok(Self {
            xml,
            limits,
            buffer: Vec::new(),
            depth: 0,
            has_root: false,
            current: None,
            offers: 0,
            seen_ids: HashMap::new(),
            ignored: BTreeMap::new(),
            is_finished: false,
        })
    }

    /// Returns the next offer, or `None` at the end of the file.
    pub fn next_offer(&mut self) -> Result<Option<FeedItem>, ReadError> {
        while !self.is_finished {
            let line = self.xml.get_ref().line();
            self.xml.get_mut().begin_event();
            let mut buffer = std::mem::take(&mut self.buffer);
            buffer.clear();
            let item = match self.xml.read_event_into(&mut buffer) {
                Ok(event) => self.handle(line, event),
                Err(error) => Err(read_error(line, error)),
            };
            self.buffer = buffer;
            if let Some(item) = item? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Returns how often each ignored element of an offer occurred. Names beyond the first 100 are
    /// counted as `*`.
    pub fn ignored_elements(&self) -> &BTreeMap<String, u64> {
        &self.ignored
    }

    /// Returns the capacity of the buffer of one tag or text.
    #[cfg(test)]
    pub(super) fn buffer_bytes(&self) -> usize {
        self.buffer.capacity()
    }

    fn handle(&mut self, line: u64, event: Event<'_>) -> Result<Option<FeedItem>, ReadError> {
        match event {
            Event::Decl(declaration) => {
                let encoding = declaration.encoding().transpose().map_err(|_| rejected(line, "not_xml"))?;
                let is_utf_8 = encoding.is_none_or(|name| name.eq_ignore_ascii_case(b"utf-8"));
                if is_utf_8 { Ok(None) } else { Err(rejected(line, "encoding_unsupported")) }
            }
            Event::DocType(_) => Err(rejected(line, "dtd_forbidden")),
            Event::Start(start) => self.open(line, &start).map(|()| None),
            Event::End(_) => Ok(self.close()),
            Event::Text(text) => {
                let text = text.xml10_content().map_err(|_| rejected(line, "encoding_unsupported"))?;
                self.append(line, &text).map(|()| None)
            }
            Event::CData(text) => {
                let text = text.xml10_content().map_err(|_| rejected(line, "encoding_unsupported"))?;
                self.append(line, &text).map(|()| None)
            }
            Event::GeneralRef(reference) => {
                let text = resolve(&reference).ok_or_else(|| rejected(line, "entity_forbidden"))?;
                self.append(line, &text).map(|()| None)
            }
            Event::Eof if self.depth == 0 && self.has_root => {
                self.is_finished = true;
                Ok(None)
            }
            Event::Eof => Err(rejected(line, if self.has_root { "truncated" } else { "not_xml" })),
            Event::Comment(_) | Event::PI(_) | Event::Empty(_) => Ok(None),
        }
    }

    fn open(&mut self, line: u64, start: &BytesStart<'_>) -> Result<(), ReadError> {
        self.depth += 1;
        if self.depth > self.limits.depth {
            return Err(rejected(line, "too_deep"));
        }
        let name = start.local_name();
        let name = std::str::from_utf8(name.as_ref()).map_err(|_| rejected(line, "encoding_unsupported"))?;
        match (self.depth, &mut self.current) {
            (1, _) => self.open_root(line, name, start),
            (2, _) if name == "offer" => self.open_offer(line, start),
            (_, Some(current)) => {
                if let Some(ignored) = current.open(line, name) {
                    self.count_ignored(ignored);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn open_root(&mut self, line: u64, name: &str, start: &BytesStart<'_>) -> Result<(), ReadError> {
        let attribute = |name: &str| {
            let found = start.try_get_attribute(name).map_err(|_| rejected(line, "not_xml"))?;
            Ok::<_, ReadError>(found.map(|found| found.value.into_owned()))
        };
        let namespace = match start.name().prefix() {
            None => attribute("xmlns")?,
            Some(prefix) => attribute(&format!("xmlns:{}", String::from_utf8_lossy(prefix.as_ref())))?,
        };
        let is_yrl = name == "realty-feed"
            && namespace.is_none_or(|namespace| namespace == NAMESPACE.as_bytes())
            && !self.has_root;
        self.has_root = true;
        if is_yrl { Ok(()) } else { Err(rejected(line, "not_yrl")) }
    }

    fn open_offer(&mut self, line: u64, start: &BytesStart<'_>) -> Result<(), ReadError> {
        self.offers += 1;
        if self.offers > self.limits.offers {
            return Err(rejected(line, "too_many_offers"));
        }
        let id = start.try_get_attribute("internal-id").map_err(|_| rejected(line, "not_xml"))?;
        let id = id.map(|id| id.normalized_value(XmlVersion::Implicit1_0).map(Cow::into_owned)).transpose();
        let id = id.map_err(|_| rejected(line, "entity_forbidden"))?;
        let mut values = Values::new(line, id);
        if let Some(id) = &values.internal_id {
            let hash = Sha256::digest(id.as_str()).0;
            let hash = hash.first_chunk().copied().unwrap_or_default();
            if let Some(first_line) = self.seen_ids.get(&hash) {
                values.reject(line, "internal-id", "duplicate_id", Some(&first_line.to_string()));
            } else {
                self.seen_ids.insert(hash, line);
            }
        }
        let start = self.xml.get_ref().position();
        let (path, path_lengths) = (String::new(), Vec::new());
        self.current = Some(Current { values, start, path, path_lengths, text: None });
        Ok(())
    }

    fn append(&mut self, line: u64, text: &str) -> Result<(), ReadError> {
        if self.depth == 0 && !text.trim().is_empty() {
            return Err(rejected(line, "not_xml"));
        }
        if let Some(Current { text: Some((.., kept)), .. }) = &mut self.current {
            kept.push_str(text);
            // Keeps at least one byte above the limit, so that `close` rejects the text. The last
            // kept character may have 4 bytes.
            kept.truncate(kept.floor_char_boundary(MAX_VALUE_BYTES + 4));
        }
        Ok(())
    }

    fn close(&mut self) -> Option<FeedItem> {
        self.depth = self.depth.saturating_sub(1);
        let position = self.xml.get_ref().position();
        let current = self.current.as_mut()?;
        let is_too_large = position - current.start > self.limits.offer_bytes;
        if self.depth > 1 {
            current.close(is_too_large);
            return None;
        }
        let Current { mut values, .. } = self.current.take()?;
        if is_too_large {
            let line = values.line;
            values.reject(line, "offer", "offer_too_large", None);
        }
        Some(values.into_item())
    }

    fn count_ignored(&mut self, path: String) {
        let is_new = !self.ignored.contains_key(&path);
        let path = if is_new && self.ignored.len() >= MAX_IGNORED_NAMES { "*".to_owned() } else { path };
        *self.ignored.entry(path).or_default() += 1;
    }
}

impl Current {
    /// Opens an element below the offer. Returns the path of an ignored element, unless it is
    /// inside another ignored one.
    fn open(&mut self, line: u64, name: &str) -> Option<String> {
        let is_inside_ignored = !self.path.is_empty() && !is_container(&self.path);
        self.path_lengths.push(self.path.len());
        if !self.path.is_empty() {
            self.path.push('/');
        }
        self.path.push_str(name);
        let element = Element::find(&self.path);
        self.text = element.map(|element| (element, line, String::new()));
        let is_ignored = element.is_none() && !is_container(&self.path) && !is_inside_ignored;
        is_ignored.then(|| self.path[..self.path.floor_char_boundary(MAX_IGNORED_NAME_BYTES)].to_owned())
    }

    /// Closes an element below the offer. An offer that is too large takes no more values.
    fn close(&mut self, is_too_large: bool) {
        let length = self.path_lengths.pop().unwrap_or_default();
        self.path.truncate(length);
        let Some((element, line, text)) = self.text.take().filter(|_| !is_too_large) else { return };
        if text.len() > MAX_VALUE_BYTES {
            self.values.reject(line, element.path(), "text_too_long", Some(&text));
        } else {
            self.values.add(element, line, text.trim());
        }
    }
}

/// Returns true for an element that contains understood elements.
fn is_container(path: &str) -> bool {
    matches!(path, "location" | "price" | "area" | "living-space" | "kitchen-space")
}

fn rejected(line: u64, code: &'static str) -> ReadError {
    ReadError::Rejected(FileRefusal { line, code })
}

/// Returns the text of a reference to a character or to a predefined entity.
fn resolve(reference: &BytesRef<'_>) -> Option<Cow<'static, str>> {
    if let Some(character) = reference.resolve_char_ref().ok()? {
        return Some(character.to_string().into());
    }
    resolve_predefined_entity(&reference.decode().ok()?).map(Cow::Borrowed)
}

fn read_error(line: u64, error: quick_xml::Error) -> ReadError {
    let quick_xml::Error::Io(error) = error else {
        let is_encoding = matches!(error, quick_xml::Error::Encoding(_));
        return rejected(line, if is_encoding { "encoding_unsupported" } else { "not_xml" });
    };
    let exceeded = error.get_ref().and_then(|error| error.downcast_ref::<Exceeded>());
    match (exceeded, error.kind()) {
        (Some(exceeded), _) => rejected(line, exceeded.code()),
        (None, ErrorKind::InvalidInput | ErrorKind::InvalidData | ErrorKind::UnexpectedEof) => {
            rejected(line, "damaged")
        }
        _ => ReadError::Source(io::Error::other(error)),
    }
}
