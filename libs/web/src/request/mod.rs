//! Extractors of bodies, queries and path ids, and the values in them.

pub(crate) mod body;
pub(crate) mod cursor;
mod diagnosis;
pub(crate) mod fields;
pub(crate) mod json;
pub(crate) mod keyed;
pub(crate) mod paging;
pub(crate) mod path;
pub(crate) mod query;
pub(crate) mod query_value;
mod strict;
pub mod utc;
pub(crate) mod version;
