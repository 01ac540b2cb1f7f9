//! Background work of a service: *due* jobs, which run at a given time, and *periodic* jobs.
//!
//! [`schedule`] writes a due job as a row, in the transaction of the change that needs it, so a job
//! survives a restart. There is one row for each kind and key. All replicas claim rows by the clock
//! of the database. Each job runs in one replica at a time. [`Jobs`] declares the code of each
//! kind.

mod job;
mod jobs;
mod metrics;
mod worker;

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub use job::{Interrupted, Job, cancel, schedule};
pub use jobs::Jobs;
pub use worker::AlreadyLogged;

/// The table of jobs, for every service's schema.
pub const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/jobs");
