//! The settings of the database.

use std::time::Duration;

use runtime::Env;
use tokio_postgres::config::SslMode;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::tls::{self, Authorities, TlsMode};

/// The time beyond the statement timeout that the client waits for a response. PostgreSQL reports a
/// cancelled statement within this time.
pub(crate) const CANCELLATION_MARGIN: Duration = Duration::from_secs(2);

/// The address of the database, and the limits of the pool and of statements.
#[derive(Clone)]
pub struct Config {
    server: tokio_postgres::Config,
    /// `None` for plain connections.
    pub(crate) tls: Option<MakeRustlsConnect>,
    tls_mode: Option<TlsMode>,
    authorities: Option<Authorities>,
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
        let server = env.require::<tokio_postgres::Config>(
            "DATABASE_URL",
            "URL of the PostgreSQL database, as in postgres://user:password@host/database",
        );
        let mode = env.optional::<TlsMode>(
            "DATABASE_TLS",
            "verify-full, or disable for plain connections; the default is disable on loopback, else verify-full",
        );
        let authorities = env.optional::<Authorities>(
            "DATABASE_CA",
            "certificates, in PEM format, of the authorities that the service trusts; by default those of the system",
        );
        let pool_size = env.with_default("DATABASE_POOL_SIZE", 16, "connections in the pool of a replica");
        let wait_ms = env.with_default(
            "DATABASE_WAIT_MS",
            2_000,
            "maximum wait for a connection or a lookup, in milliseconds",
        );
        let statement_timeout_ms = env.with_default(
            "DATABASE_STATEMENT_TIMEOUT_MS",
            5_000,
            "timeout of one statement, in milliseconds",
        );
        let (tls_mode, authorities) = (mode?, authorities?);
        let (server, tls) = with_tls(env, "DATABASE_URL", server?, tls_mode, authorities.clone())?;
        Some(Self {
            server,
            tls,
            tls_mode,
            authorities,
            schema,
            pool_size: pool_size?,
            wait_timeout: Duration::from_millis(wait_ms?),
            statement_timeout_ms: statement_timeout_ms?,
            has_generic_plans: false,
        })
    }

    /// Reads the address of a read replica of the database. All other settings are those of
    /// `primary`. Returns `Some(None)` if the variable is not set.
    pub fn read_replica(env: &mut Env, primary: Option<&Self>) -> Option<Option<Self>> {
        let server = env.optional::<tokio_postgres::Config>(
            "DATABASE_READ_URL",
            "URL of a read replica of the database, which serves the reads of guests. Guests then see a \
                change up to 4 s late, even if a developer was hidden or a link was closed. Without the \
                replica they see a change at once",
        )?;
        let Some(server) = server else { return Some(None) };
        let primary = primary?;
        let (mode, authorities) = (primary.tls_mode, primary.authorities.clone());
        let (server, tls) = with_tls(env, "DATABASE_READ_URL", server, mode, authorities)?;
        Some(Some(Self { server, tls, ..primary.clone() }))
    }

    pub(crate) fn with_generic_plans(&self) -> Self {
        Self { has_generic_plans: true, ..self.clone() }
    }

    /// Returns the address with the settings that every connection starts with.
    ///
    /// The client detects a vanished server within 15 s, by unanswered probes or by unacknowledged
    /// data.
    pub(crate) fn server(&self) -> tokio_postgres::Config {
        let settings: Vec<_> =
            self.settings().iter().map(|(name, value)| format!("-c{name}={value}")).collect();
        let mut server = self.server.clone();
        server
            .application_name(self.schema)
            .connect_timeout(Duration::from_secs(3))
            .tcp_user_timeout(Duration::from_secs(10))
            .keepalives_idle(Duration::from_secs(5))
            .keepalives_interval(Duration::from_secs(3))
            .keepalives_retries(3)
            .options(settings.join(" "));
        server
    }

    /// Returns the settings of PostgreSQL that each connection sends. A pooler must be configured
    /// to ignore them.
    ///
    /// - `lock_timeout`: shorter than the timeout of a statement, so that a wait for a lock and a
    ///   slow statement have different errors.
    /// - `jit=off`: compilation takes 200 ms, which is longer than any statement of a service.
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

    /// Returns the timeout of a response. PostgreSQL cancels a slow statement before this timeout.
    pub(crate) fn response_timeout(&self) -> Duration {
        Duration::from_millis(self.statement_timeout_ms.into()) + CANCELLATION_MARGIN
    }
}

/// Returns the server of `variable` with its TLS mode set, and the TLS connector. The connector is
/// `None` for plain connections.
fn with_tls(
    env: &mut Env,
    variable: &'static str,
    mut server: tokio_postgres::Config,
    mode: Option<TlsMode>,
    authorities: Option<Authorities>,
) -> Option<(tokio_postgres::Config, Option<MakeRustlsConnect>)> {
    let tls = read_tls(env, variable, &server, mode, authorities)?;
    server.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
    Some((server, tls))
}

/// Returns the TLS connector, or `Some(None)` for plain connections.
#[expect(clippy::option_option, reason = "the form of all optional settings")]
fn read_tls(
    env: &mut Env,
    variable: &'static str,
    server: &tokio_postgres::Config,
    mode: Option<TlsMode>,
    authorities: Option<Authorities>,
) -> Option<Option<MakeRustlsConnect>> {
    let is_disabled_by_url = server.get_ssl_mode() == SslMode::Disable;
    match mode.unwrap_or_else(|| TlsMode::default_for(server)) {
        TlsMode::Disable => Some(None),
        TlsMode::VerifyFull if is_disabled_by_url => env.reject(
            variable,
            "sslmode=disable contradicts DATABASE_TLS=verify-full, the default outside loopback; set \
             DATABASE_TLS=disable for plain connections",
        ),
        TlsMode::VerifyFull => match tls::connector(authorities) {
            Ok(connector) => Some(Some(connector)),
            Err(error) => env.reject("DATABASE_TLS", &format!("failed to set up TLS: {error:#}")),
        },
    }
}

/// Returns the `lock_timeout` for a statement timeout, both in milliseconds.
pub(crate) fn lock_timeout_ms(statement_timeout_ms: u128) -> u128 {
    // PostgreSQL takes 0 for no timeout.
    (statement_timeout_ms * 4 / 5).max(1)
}

#[cfg(test)]
mod tests {
    use runtime::Env;

    use super::Config;

    const PGBOUNCER_PAGE: &str = include_str!("../../../docs/decisions/0024-running-behind-pgbouncer.md");

    fn read(variables: &'static [(&str, &str)]) -> anyhow::Result<Config> {
        let find = |name: &str| variables.iter().find(|(set, _)| *set == name);
        let mut env = Env::new(move |name| find(name).map(|(_, value)| (*value).to_owned()));
        let config = Config::read(&mut env, "shop");
        env.finish(config)
    }

    fn read_error(variables: &'static [(&str, &str)]) -> String {
        read(variables).err().map(|error| error.to_string()).unwrap_or_default()
    }

    /// RULE-ALL-034: the page on PgBouncer names every setting that a connection sends. All but the
    /// last are also settings of the role. Connections differ in the last setting.
    #[test]
    fn page_on_pgbouncer_names_every_setting_of_a_connection() {
        let config = read(&[("DATABASE_URL", "postgres://localhost/database")]).unwrap();
        let names: Vec<_> = config.settings().into_iter().map(|(name, _)| name).collect();
        let server = config.server();
        let sent = server.get_options().unwrap().split(' ');
        let sent: Vec<_> = sent.filter_map(|option| option.strip_prefix("-c")?.split('=').next()).collect();
        assert_eq!(sent, names);
        let ignored =
            PGBOUNCER_PAGE.lines().find_map(|line| line.trim().strip_prefix("ignore_startup_parameters = "));
        assert_eq!(ignored, Some(names.join(", ").as_str()));
        let of_role =
            PGBOUNCER_PAGE.lines().filter_map(|line| line.trim().strip_prefix("alter role <role> set "));
        let of_role: Vec<_> = of_role.filter_map(|line| line.split(" = ").next()).collect();
        assert_eq!(of_role, names[..names.len() - 1], "settings of the role");
    }

    /// RULE-ALL-098: connections are plain by default on loopback and through a Unix socket, and
    /// use TLS elsewhere.
    #[test]
    fn host_outside_loopback_uses_tls_by_default() {
        for variables in [
            &[("DATABASE_URL", "postgres://localhost/a")],
            &[("DATABASE_URL", "postgres://127.0.0.1/a")],
            &[("DATABASE_URL", "postgres://[::1]/a")],
            &[("DATABASE_URL", "postgres://%2Frun%2Fpostgresql/a")],
        ] {
            assert!(read(variables).unwrap().tls.is_none(), "{variables:?}");
        }
        for variables in [
            &[("DATABASE_URL", "postgres://db.example.org/a")][..],
            &[("DATABASE_URL", "postgres://10.0.0.1/a?sslmode=prefer")],
            &[("DATABASE_URL", "postgres://localhost,db.example.org/a")],
            &[("DATABASE_URL", "postgres://localhost.example.org/a")],
            &[("DATABASE_URL", "postgres://localhost/a"), ("DATABASE_TLS", "verify-full")],
        ] {
            assert!(read(variables).unwrap().tls.is_some(), "{variables:?}");
        }
        let disabled = &[("DATABASE_URL", "postgres://db.example.org/a"), ("DATABASE_TLS", "disable")];
        assert!(read(disabled).unwrap().tls.is_none());
    }

    /// RULE-ALL-098: a plain connection outside loopback needs `DATABASE_TLS=disable`.
    #[test]
    fn url_without_tls_is_refused_outside_loopback() {
        let plain = read_error(&[("DATABASE_URL", "postgres://db.example.org/a?sslmode=disable")]);
        assert!(plain.contains("set DATABASE_TLS=disable for plain connections"), "{plain}");
    }

    /// RULE-ALL-120: a URL of the read replica outside loopback needs TLS or
    /// `DATABASE_TLS=disable`, as that of the primary.
    #[test]
    fn replica_url_outside_loopback_requires_tls() {
        let read = |url: &'static str, mode: &'static str| {
            let mut env = Env::new(move |name| match name {
                "DATABASE_URL" => Some("postgres://localhost/a".to_owned()),
                "DATABASE_READ_URL" => Some(url.to_owned()),
                "DATABASE_TLS" => Some(mode.to_owned()),
                _ => None,
            });
            let primary = Config::read(&mut env, "shop");
            let replica = Config::read_replica(&mut env, primary.as_ref());
            env.finish(replica).map(Option::unwrap).map_err(|error| error.to_string())
        };
        assert!(read("postgres://localhost/a", "").unwrap().tls.is_none());
        assert!(read("postgres://db.example.org/a", "").unwrap().tls.is_some());
        assert!(read("postgres://db.example.org/a", "disable").unwrap().tls.is_none());
        let plain = read("postgres://db.example.org/a?sslmode=disable", "").err().unwrap();
        assert!(plain.contains("DATABASE_READ_URL is not valid"), "{plain}");
    }

    /// RULE-ALL-098: an invalid TLS setting stops the service at its start.
    #[test]
    fn unknown_mode_and_empty_authorities_are_refused() {
        let mode = read_error(&[("DATABASE_URL", "postgres://localhost/a"), ("DATABASE_TLS", "prefer")]);
        assert!(mode.contains("DATABASE_TLS is not valid: it must be verify-full or disable"), "{mode}");
        let authorities = read_error(&[("DATABASE_URL", "postgres://localhost/a"), ("DATABASE_CA", "none")]);
        assert!(authorities.contains("DATABASE_CA is not valid: it must be certificates"), "{authorities}");
    }
}
