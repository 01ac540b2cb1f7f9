//! The settings that only this service has.

use std::num::NonZeroU32;
use std::time::Duration;

use runtime::Env;

use crate::domain::{DEFAULT_MAX_CONTENT_MIB, DEFAULT_MAX_DRAFTS, Quotas};

pub struct Settings {
    pub selections: http_client::Config,
    pub guest_reads_per_minute: u32,
    /// Maximum wait of a reader for all embeds of a post together.
    pub embeds_wait: Duration,
    /// Maximum age of the items of an embed, whose objects can be hidden at any time.
    pub embeds_max_age: Duration,
    pub quotas: Quotas,
}

impl Settings {
    pub fn read(env: &mut Env) -> Option<Self> {
        let selections = http_client::Config::read(env, "SELECTIONS_URL", "news");
        let guest_reads_per_minute = env.with_default(
            "GUEST_READS_PER_MINUTE",
            120,
            "reads a minute for each guest address; 0 for no limit",
        );
        let embeds_wait_ms = env.with_default(
            "EMBEDS_WAIT_MS",
            2_000,
            "maximum wait of a reader for all embeds of a post, in milliseconds",
        );
        let embeds_max_age_ms = env.with_default(
            "EMBEDS_MAX_AGE_MS",
            40_000,
            "maximum age of the items of an embed, in milliseconds",
        );
        let max_drafts = env.with_default(
            "NEWS_MAX_DRAFTS_PER_AUTHOR",
            DEFAULT_MAX_DRAFTS,
            "maximum number of drafts of an author; 0 for no limit",
        );
        let max_content_mib = env.with_default(
            "NEWS_MAX_CONTENT_MIB_PER_AUTHOR",
            DEFAULT_MAX_CONTENT_MIB,
            "maximum size of the stored blocks of all posts of an author, in MiB; 0 for no limit",
        );
        Some(Self {
            selections: selections?,
            guest_reads_per_minute: guest_reads_per_minute?,
            embeds_wait: Duration::from_millis(embeds_wait_ms?),
            embeds_max_age: Duration::from_millis(embeds_max_age_ms?),
            quotas: Quotas {
                drafts: NonZeroU32::new(max_drafts?),
                content_mib: NonZeroU32::new(max_content_mib?),
            },
        })
    }
}
