//! The function `trigrams` of every service's schema, for searches of texts with an index.

use diesel_migrations::{EmbeddedMigrations, embed_migrations};

pub(crate) const MIGRATIONS: EmbeddedMigrations = embed_migrations!("../../migrations/search");
