//! Cursors of pages.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use form_urlencoded::Serializer;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use uuid::Uuid;
use web::{CursorPaging, FromQuery};

/// Maximum length of a cursor, as in `web`.
const MAX_CURSOR_BYTES: usize = 4096;

/// A key with a member of each type that the services' keys have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Key {
    #[serde(with = "web::utc")]
    at: OffsetDateTime,
    id: Uuid,
    name: String,
    number: i64,
    descending: bool,
}

type KeyPaging = CursorPaging<Key>;

/// Reads a cursor, and a cursor whose decoded key is the input.
///
/// The key of an accepted cursor has a cursor, which is read as the same key.
pub fn cursor(data: &[u8]) {
    if let Ok(cursor) = std::str::from_utf8(data) {
        check(cursor);
    }
    check(&BASE64_URL_SAFE_NO_PAD.encode(data));
}

fn check(cursor: &str) {
    let Some(key) = read(cursor) else { return };
    let paging = KeyPaging { page_size: 1, after: None };
    let page = paging.page(vec![key.clone(), key.clone()], Clone::clone);
    let Some(written) = page.next_cursor else { panic!("{key:?} has no cursor") };
    // A cursor may leave out names and hyphens that its key is written with.
    if written.len() <= MAX_CURSOR_BYTES {
        assert_eq!(read(&written), Some(key));
    }
}

fn read(cursor: &str) -> Option<Key> {
    let query = Serializer::new(String::new()).append_pair("Cursor", cursor).finish();
    KeyPaging::from_query(&query).ok()?.after
}
