//! References to the parents of buildings and objects.

use super::ExternalId;

/// The parent that a request names by its id or by its external id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Parent<I> {
    Id(I),
    ExternalId(ExternalId),
}
