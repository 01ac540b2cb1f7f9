//! Tokens: the header before its signature is verified, and the claims after it.

use auth::Grant;
use auth::parsers::{read_actor, read_header};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Deserializer, Value};

/// Reads a token, a token whose decoded header is the input, and the claims of a token.
///
/// An accepted header has the key id. Each grant of accepted claims has its own spelling.
pub fn token(data: &[u8]) {
    if let Ok(token) = std::str::from_utf8(data) {
        let _ = read_header(token);
    }
    if let Some((_, key_id)) = read_header(&format!("{}.e30.AA", BASE64_URL_SAFE_NO_PAD.encode(data))) {
        let header: Option<Value> = serde_json::from_slice(data).ok();
        let expected = header.as_ref().and_then(|header| header.get("kid")?.as_str());
        assert!(expected.is_none_or(|expected| expected == key_id), "{key_id}");
    }
    let Some(actor) = read_actor(&mut Deserializer::from_slice(data)) else { return };
    assert!(actor.issued_at() >= 0);
    let _ = actor.expires_at();
    for grant in actor.grants() {
        let spelling = format!("{}@{}", grant.name, grant.scope);
        assert_eq!(Grant::parse(&spelling).as_ref(), Some(grant));
    }
}
