//! The settings of the database.

use std::time::Duration;

use runtime::Env;

/// The time beyond the statement timeout that the client waits for a response. Within it PostgreSQL
/// reports a cancelled statement.
pub(crate) const CANCELLATION_MARGIN: Duration = Duration::from_secs(2);

/// The address of the database, and the limits of a replica.
#[derive(Clone)]
pub struct Config {
    url: String,
    pub(crate) schema: &'static str,
    pub(crate) pool_size: usize,
    /// The maximum wait for a connection or a lookup.
    pub(crate) wait_timeout: Duration,
    statement_timeout_ms: u32,
    /// Gives each prepared statement one plan for all parameters.
    has_generic_plans: bool,
}

impl Config {
    /// Reads the settings of the service whose tables are in `schema`.
    pub fn read(env: &mut Env, schema: &'static str) -> Option<Self> {
        let url = env.require(
            "DATABASE_URL",
            "URL of the PostgreSQL database, as in postgres://user:password@host/database",
        );
        let pool_size = env.or("DATABASE_POOL_SIZE", 16, "connections in the pool of a replica");
        let wait_ms =
            env.or("DATABASE_WAIT_MS", 2_000, "maximum wait for a connection or a lookup, in milliseconds");
        let statement_timeout_ms =
            env.or("DATABASE_STATEMENT_TIMEOUT_MS", 5_000, "timeout of one statement, in milliseconds");
        Some(Self {
            url: url?,
            schema,
            pool_size: pool_size?,
            wait_timeout: Duration::from_millis(wait_ms?),
            statement_timeout_ms: statement_timeout_ms?,
            has_generic_plans: false,
        })
    }

    pub(crate) fn with_generic_plans(&self) -> Self {
        Self { has_generic_plans: true, ..self.clone() }
    }

    /// Returns the URL with the settings that every connection starts with.
    ///
    /// - TCP timeouts: the client detects a vanished server within 15 s, by unanswered probes or by
    ///   unacknowledged data.
    /// - `client_connection_check_interval`: PostgreSQL checks twice a second that the client of a
    ///   running statement is still connected.
    /// - `jit=off`: compiling takes 200 ms, which is longer than any of our statements.
    pub(crate) fn connection_url(&self) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        format!(
            "{}{separator}application_name={schema}&connect_timeout=3\
             &tcp_user_timeout=10&keepalives_idle=5&keepalives_interval=3&keepalives_retries=3\
             &options=-csearch_path%3D{schema}%20-cstatement_timeout%3D{timeout}\
             %20-cidle_in_transaction_session_timeout%3D30000%20-cjit%3Doff%20-cclient_connection_check_interval%3D500\
             %20-cplan_cache_mode%3D{plans}",
            self.url,
            schema = self.schema,
            timeout = self.statement_timeout_ms,
            plans = if self.has_generic_plans { "force_generic_plan" } else { "auto" },
        )
    }

    /// Returns the timeout of a response. It exceeds the time in which PostgreSQL cancels the
    /// statement.
    pub(crate) fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms.into()) + CANCELLATION_MARGIN
    }
}
