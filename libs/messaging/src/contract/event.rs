//! Event types and their aggregates.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A kind of entity whose events a service publishes, with the table of these entities.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    /// The name, for example `Selection`. Events carry it in `aggregatetype`.
    pub name: &'static str,
    /// The table with one row for each aggregate. Publishing an event locks the aggregate's row,
    /// which orders the events of one key.
    pub table: &'static str,
    /// The unique `uuid` column that is the key of the events.
    pub key: &'static str,
}

/// An event type of a service, with its topic, key and version.
pub trait Event: Serialize + ToSchema {
    /// The topic, `platform.<service>.<event>.v1`, which is also the CloudEvents type.
    const TOPIC: &'static str;
    const CONTRACT_VERSION: u32;
    const AGGREGATE: Aggregate;

    /// Returns the id of the aggregate. Events of one key arrive in the order of their commits.
    fn key(&self) -> Uuid;
}
