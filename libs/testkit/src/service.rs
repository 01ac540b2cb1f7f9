//! A running service with its own database and ports. Broker and issuer are shared.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use runtime::{Env, Process, telemetry};
use service::{Endpoints, Role, Service};
use tokio::sync::Mutex;
use uuid::Uuid;

use crate::bus::{Bus, Published, skip_to_end};
use crate::client::Client;
use crate::issuer::{Claims, Issuer};
use crate::keycloak::{self, Realm};
use crate::{contract, database, eventually, required};

/// A running service. Dropping it stops the service.
pub struct Running {
    pub name: &'static str,
    pub database_url: String,
    pub process: Process,
    endpoints: Endpoints,
    topics: Vec<String>,
}

/// Returns the issuer of all services under test: the Keycloak at `KEYCLOAK_URL`, or a new issuer.
///
/// # Panics
/// If the issuer does not start.
pub fn issuer() -> &'static Issuer {
    static ISSUER: OnceLock<Issuer> = OnceLock::new();
    ISSUER.get_or_init(|| match required(keycloak::URL_VARIABLE) {
        Ok(url) => Issuer::from_realm(Realm::new(&url)).expect("an issuer"),
        // Leaked, since the issuer serves until the process ends.
        Err(_) => Issuer::clone(Box::leak(Box::new(Issuer::start().expect("an issuer")))),
    })
}

impl Running {
    /// Starts a service in both roles. `settings` override the defaults.
    ///
    /// The service has its own threads, since it may outlive the runtime of the test that starts
    /// it.
    ///
    /// # Panics
    /// If the service does not start.
    pub fn start<S: Service>(settings: &[(&str, &str)]) -> Self {
        let settings: HashMap<String, String> =
            settings.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        let (sender, receiver) = mpsc::channel();
        std::thread::spawn(move || {
            let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
            tokio.expect("a runtime").block_on(async {
                let started = launch::<S>(settings).await;
                let process = started.as_ref().ok().map(|running| running.process.clone());
                sender.send(started).expect("the test waits");
                if let Some(process) = process
                    && let Err(error) = process.finished().await
                {
                    eprintln!("{} stopped: {error:#}", S::NAME);
                }
            });
        });
        receiver
            .recv()
            .expect("the service's thread")
            .unwrap_or_else(|error| panic!("{}: {error:#}", S::NAME))
    }

    /// Returns a new user id and a client with a token of that user.
    pub fn user(&self) -> (Uuid, Client) {
        let id = Uuid::from_u128(rand::random());
        (id, self.caller(&Claims::user(id)))
    }

    /// Returns a client of the public port with a token of these claims.
    ///
    /// # Panics
    /// If the token cannot be signed.
    pub fn caller(&self, claims: &Claims) -> Client {
        self.bearer(&issuer().token(claims).expect("a token"))
    }

    /// Returns a client of the public port with this token.
    pub fn bearer(&self, token: &str) -> Client {
        Client::new(self.public_url(), Some(token.to_owned()))
    }

    /// Returns a client of the public port without a token.
    pub fn guest(&self) -> Client {
        Client::new(self.public_url(), None)
    }

    /// Returns a client of the internal port with a token of the machine `client_id`.
    ///
    /// # Panics
    /// If the token cannot be signed.
    pub fn machine(&self, client_id: &str) -> Client {
        let token = issuer().token(&Claims::client(client_id)).expect("a token");
        Client::new(self.internal_url(), Some(token))
    }

    /// Returns a client of the internal port, with this token if there is one.
    pub fn internal_client(&self, token: Option<String>) -> Client {
        Client::new(self.internal_url(), token)
    }

    /// Returns a client of the admin port.
    pub fn operator(&self) -> Client {
        Client::new(format!("http://{}", self.endpoints.admin), None)
    }

    /// Returns the bus that the service publishes to.
    pub fn bus(&self) -> &'static Bus {
        Bus::shared(&self.topics)
    }

    /// Returns every event of `key` that the service has committed, in the order of
    /// [`Bus::events`].
    ///
    /// Waits until the relay has published all rows of the key and the reader has reached the end
    /// of the bus. Unexpected events are therefore in the result, too.
    ///
    /// # Panics
    /// If the events do not arrive.
    pub async fn published(&self, key: impl ToString) -> Vec<Published> {
        published(self.cached_sql().await.as_ref(), self.bus(), &key.to_string()).await
    }

    /// Connects to the service's schema, for data that no edge returns.
    ///
    /// # Panics
    /// If the database cannot be reached.
    pub async fn sql(&self) -> tokio_postgres::Client {
        let client = database::connect(&self.database_url).await.expect("the database");
        let schema = format!("set search_path = {}", self.name);
        client.batch_execute(&schema).await.expect("the schema");
        client
    }

    /// Returns a connection like [`Self::sql`], which is cached for the current thread.
    ///
    /// # Panics
    /// If the database cannot be reached.
    pub async fn cached_sql(&self) -> Arc<tokio_postgres::Client> {
        thread_local! {
            static KEPT: RefCell<HashMap<String, Arc<tokio_postgres::Client>>> = RefCell::default();
        }
        let kept = KEPT.with_borrow(|kept| kept.get(&self.database_url).cloned());
        // A connection ends with the runtime of its test.
        if let Some(client) = kept.filter(|client| !client.is_closed()) {
            return client;
        }
        let client = Arc::new(self.sql().await);
        KEPT.with_borrow_mut(|kept| kept.insert(self.database_url.clone(), client.clone()));
        client
    }

    /// Returns the URL of the public port.
    ///
    /// # Panics
    /// If the service has no public port.
    pub fn public_url(&self) -> String {
        format!("http://{}", self.endpoints.public.expect("a public port"))
    }

    /// Returns true if the service has an internal port.
    pub fn has_internal(&self) -> bool {
        self.endpoints.internal.is_some()
    }

    /// Returns the URL of the internal port.
    ///
    /// # Panics
    /// If the service has no internal port.
    pub fn internal_url(&self) -> String {
        format!("http://{}", self.endpoints.internal.expect("an internal port"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.process.stop();
    }
}

/// Returns all committed events of a key, as [`Running::published`]. `sql` is a connection to the
/// service's schema.
///
/// # Panics
/// If the events do not arrive.
pub async fn published(sql: &tokio_postgres::Client, bus: &Bus, key: &str) -> Vec<Published> {
    eventually("the outbox to be published", async || {
        let waiting = sql.query_one("select count(*) from outbox where key = $1", &[&key]).await;
        (waiting.expect("a count").get::<_, i64>(0) == 0).then_some(())
    })
    .await;
    bus.read_to_end().await;
    bus.events(key)
}

async fn launch<S: Service>(mut settings: HashMap<String, String>) -> anyhow::Result<Running> {
    static TELEMETRY: OnceLock<telemetry::Telemetry> = OnceLock::new();
    TELEMETRY.get_or_init(|| {
        let mut env = Env::new(|name| {
            (name == "LOG").then(|| required("TEST_LOG").unwrap_or_else(|_| "off".to_owned()))
        });
        let config = telemetry::Config::read(&mut env);
        env.finish(config).and_then(|config| telemetry::start("test", &config)).expect("telemetry")
    });
    // Each service under test has its own consumer groups on the shared broker.
    let group_suffix = format!(".{}", Uuid::from_u128(rand::random()).simple());
    // With DATABASE_URL in its settings, the service takes over the database of another one.
    let database_url = if let Some(url) = settings.get("DATABASE_URL") {
        url.clone()
    } else {
        skip_to_end::<S>(settings.get("KAFKA_GROUP_SUFFIX").unwrap_or(&group_suffix)).await?;
        migrated_database::<S>(&settings).await?
    };
    settings.insert("DATABASE_URL".to_owned(), database_url.clone());
    let config = configure::<S>(settings, group_suffix)?;
    service::migrate(&config).await.context("migrate")?;
    let process = Process::new();
    let endpoints = service::start(config, Role::Both, &process).await?;
    contract::register::<S>(&endpoints)?;
    Ok(Running { name: S::NAME, database_url, process, endpoints, topics: service::topics::<S>() })
}

/// Returns a new database with the tables of the service.
///
/// The first call of a process migrates a template. The others copy it, which is faster than the
/// migrations.
async fn migrated_database<S: Service>(settings: &HashMap<String, String>) -> anyhow::Result<String> {
    static TEMPLATES: Mutex<BTreeMap<&str, String>> = Mutex::const_new(BTreeMap::new());
    let mut templates = TEMPLATES.lock().await;
    if let Some(template) = templates.get(S::NAME) {
        return database::copy(template).await;
    }
    let template = database::create().await?;
    let mut settings = settings.clone();
    settings.insert("DATABASE_URL".to_owned(), template.clone());
    service::migrate(&configure::<S>(settings, String::new())?).await.context("migrate")?;
    let copy = database::copy(&template).await;
    templates.insert(S::NAME, template);
    copy
}

/// Reads a configuration in which these settings override the defaults of tests.
fn configure<S: Service>(
    mut settings: HashMap<String, String>,
    group_suffix: String,
) -> anyhow::Result<service::Config<S>> {
    let loopback = "127.0.0.1:0".to_owned();
    for (name, value) in [
        // Long timeouts, since a busy test machine may stall for seconds.
        ("DATABASE_WAIT_MS", "20000".to_owned()),
        ("DATABASE_STATEMENT_TIMEOUT_MS", "30000".to_owned()),
        ("KAFKA_BROKERS", required("KAFKA_BROKERS")?),
        ("KAFKA_FETCH_WAIT_MS", "50".to_owned()),
        // The embedded broker delays a group by almost this time after a member has left.
        ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
        ("AUTH_ISSUER", issuer().url().to_owned()),
        ("PUBLIC_LISTEN", loopback.clone()),
        ("INTERNAL_LISTEN", loopback.clone()),
        ("ADMIN_LISTEN", loopback),
        ("TRUSTED_PROXIES", "127.0.0.0/8".to_owned()),
        ("KAFKA_GROUP_SUFFIX", group_suffix),
    ] {
        settings.entry(name.to_owned()).or_insert(value);
    }
    let mut env = Env::new(move |name| settings.get(name).cloned());
    let config = service::configure::<S>(&mut env);
    env.finish(config)
}
