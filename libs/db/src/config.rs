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
    /// The client detects a vanished server within 15 s, by unanswered probes or by unacknowledged
    /// data.
    pub(crate) fn connection_url(&self) -> String {
        let separator = if self.url.contains('?') { '&' } else { '?' };
        let settings: Vec<_> =
            self.settings().iter().map(|(name, value)| format!("-c{name}%3D{value}")).collect();
        format!(
            "{}{separator}application_name={schema}&connect_timeout=3\
             &tcp_user_timeout=10&keepalives_idle=5&keepalives_interval=3&keepalives_retries=3\
             &options={settings}",
            self.url,
            schema = self.schema,
            settings = settings.join("%20"),
        )
    }

    /// Returns the settings of PostgreSQL for each connection. A pooler has to ignore their names.
    ///
    /// - `lock_timeout`: shorter than the timeout of a statement, so that a wait for a lock and a
    ///   slow statement have different errors.
    /// - `jit=off`: compiling takes 200 ms, which is longer than any of our statements.
    /// - `client_connection_check_interval`: PostgreSQL checks twice a second that the client of a
    ///   running statement is still connected.
    fn settings(&self) -> [(&'static str, String); 7] {
        let plans = if self.has_generic_plans { "force_generic_plan" } else { "auto" };
        [
            ("search_path", self.schema.to_owned()),
            ("statement_timeout", self.statement_timeout_ms.to_string()),
            ("lock_timeout", lock_timeout_ms(self.statement_timeout_ms.into()).to_string()),
            ("idle_in_transaction_session_timeout", "30000".to_owned()),
            ("jit", "off".to_owned()),
            ("client_connection_check_interval", "500".to_owned()),
            ("plan_cache_mode", plans.to_owned()),
        ]
    }

    /// Returns the timeout of a response. It exceeds the time in which PostgreSQL cancels the
    /// statement.
    pub(crate) fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms.into()) + CANCELLATION_MARGIN
    }
}

/// Returns the timeout of a lock for a timeout of a statement, both in milliseconds.
pub(crate) fn lock_timeout_ms(statement_timeout_ms: u128) -> u128 {
    // PostgreSQL takes 0 for no timeout.
    (statement_timeout_ms * 4 / 5).max(1)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::Config;

    const PGBOUNCER_PAGE: &str = include_str!("../../../docs/decisions/0024-running-behind-pgbouncer.md");

    /// RULE-ALL-034: the page on PgBouncer names every setting that a connection sends, and gives
    /// the role those that are the same for all connections.
    #[test]
    fn page_on_pgbouncer_names_every_setting_of_a_connection() {
        let config = Config {
            url: "postgres://host/database".to_owned(),
            schema: "shop",
            pool_size: 1,
            wait_timeout: Duration::from_secs(1),
            statement_timeout_ms: 5_000,
            has_generic_plans: false,
        };
        let names: Vec<_> = config.settings().into_iter().map(|(name, _)| name).collect();
        let url = config.connection_url();
        let sent = url.split_once("&options=").unwrap().1.split("%20");
        let sent: Vec<_> = sent.filter_map(|option| option.strip_prefix("-c")?.split("%3D").next()).collect();
        assert_eq!(sent, names, "settings of {url}");
        let ignored =
            PGBOUNCER_PAGE.lines().find_map(|line| line.trim().strip_prefix("ignore_startup_parameters = "));
        assert_eq!(ignored, Some(names.join(", ").as_str()));
        let of_role =
            PGBOUNCER_PAGE.lines().filter_map(|line| line.trim().strip_prefix("alter role <role> set "));
        let of_role: Vec<_> = of_role.filter_map(|line| line.split(" = ").next()).collect();
        assert_eq!(of_role, names[..names.len() - 1], "settings of the role");
    }
}
