//! Results of upserts.

/// An entity after an upsert by its external id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upserted<T> {
    /// The entity is new, or was removed before.
    Created(T),
    Updated(T),
    Unchanged(T),
}

impl<T> Upserted<T> {
    pub fn into_inner(self) -> T {
        match self {
            Self::Created(entity) | Self::Updated(entity) | Self::Unchanged(entity) => entity,
        }
    }
}
