//! The parsers of tokens, for the fuzz targets in `libs/testing/fuzz-parsers`.

use std::sync::Arc;

use serde::{Deserialize, Deserializer};

use crate::extract::Actor;
use crate::verifier::Claims;

pub use crate::verifier::read_header;

/// Reads the claims of a user's token.
pub fn read_actor<'de, D: Deserializer<'de>>(claims: D) -> Option<Actor> {
    Actor::from_claims(Arc::new(Claims::deserialize(claims).ok()?))
}
