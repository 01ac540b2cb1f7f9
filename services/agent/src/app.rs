//! The state that handlers and jobs share.

use ::db::Db;
use prometheus_client::metrics::gauge::Gauge;

use crate::settings::Settings;

pub struct App {
    pub db: Db,
    pub settings: Settings,
    /// Number of mismatches that the last ledger audit of this replica found.
    pub ledger_mismatches: Gauge,
}
