//! The types that a service publishes.

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

/// A kind of entity whose events a service publishes, with the table that holds one row for each.
#[derive(Clone, Copy, Debug)]
pub struct Aggregate {
    /// `aggregatetype` on the wire, for example `Selection`.
    pub name: &'static str,
    /// The table of the rows. Publishing an event locks its row, which orders the events of one
    /// key.
    pub table: &'static str,
    /// The unique `uuid` column that is the key of the events.
    pub key: &'static str,
}

/// An event type of a service, with its topic, key and version.
pub trait Event: Serialize + ToSchema {
    /// `platform.<service>.<event>.v1`, which is also the CloudEvents type.
    const TOPIC: &'static str;
    const CONTRACT_VERSION: u32;
    const AGGREGATE: Aggregate;

    /// Returns the id of the aggregate. Events of one key arrive in the order of their commits.
    fn key(&self) -> Uuid;
}
