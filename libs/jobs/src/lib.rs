//! Background work of a service: *due* jobs, each at its time, and *periodic* jobs.
//!
//! [`schedule`] writes a due job as a row, in the transaction of the change that needs it. There is
//! one row for each kind and key. So a job survives the end of the process. All replicas work on
//! the rows. Each job runs in one replica at a time, by the clock of the database. [`Jobs`]
//! declares the code of each kind.

mod job;
mod jobs;
mod metrics;
mod worker;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use job::{Job, cancel, schedule};
pub use jobs::Jobs;
pub use worker::AlreadyLogged;

/// The table of jobs, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/jobs");
