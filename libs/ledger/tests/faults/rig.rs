//! The environment of a test: a database, a broker, the records of committed and published events,
//! and operations.

use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use testkit::database;
use testkit::history::{History, Log, Recorder, Stream, Verdict};
use testkit::postgres::Postgres;
use tokio_postgres::Client;

use crate::kafka::Broker;
use crate::replica::Replica;

pub const COUNTED: &str = "platform.ledger.counted.v1";
/// The compacted topic of republished accounts.
pub const UPSERTED: &str = "platform.ledger.account-upserted.v1";
/// A topic without consumers.
pub const BULK: &str = "platform.ledger.bulk.v1";
const TOPICS: [&str; 7] = [
    COUNTED,
    "platform.ledger.counted.v1.ledger.dlq",
    "platform.ledger.remarked.v1",
    "platform.ledger.remarked.v1.ledger.dlq",
    UPSERTED,
    "platform.ledger.account-upserted.v1.ledger.dlq",
    BULK,
];
/// Timeout of every wait in a test. It is long, since a busy machine is slow.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);
/// Properties of consumers. With the defaults, the embedded broker detects a lost consumer after
/// half a minute.
pub const GROUP_PROPERTIES: &str = "heartbeat.interval.ms=300";

/// Increments the accounts whose key matches the pattern `$2`, and appends an event for each. `$1`
/// is the number of additional bytes in an event.
const STEP: &str = "with counted as (update account set n = n + 1 where key::text like $2 returning key, n) \
    insert into outbox (event_id, topic, key, type, payload, headers) \
    select gen_random_uuid(), $3, key::text, $3, \
    convert_to(json_build_object('Key', key, 'N', n, 'Padding', repeat('x', $1))::text, 'UTF8'), \
    '{\"contractversion\": \"1\"}' from counted";

/// Counts the committed events that are not yet published and received.
const UNSETTLED: &str = "select (select count(*) from outbox) + (select count(*) from history_appended \
    where topic in ('platform.ledger.counted.v1', 'platform.ledger.remarked.v1') \
    and sequence not in (select sequence from history_received))";

/// Counts the accounts that differ from the appended events, or from the applied events in their
/// order.
const MISCOUNTED: &str = "select count(*) from account where n <> \
    (select count(*) from history_appended h where h.topic = 'platform.ledger.counted.v1' and h.key = account.key::text) \
    or array(select a.n from applied a where a.key = account.key order by a.id) \
    <> array(select generate_series(1, account.n))";

/// Waits for `condition`.
pub async fn eventually(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let wait = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(WAIT_TIMEOUT, wait).await.is_ok(), "timed out waiting for {what}");
}

/// The environment of one test.
pub struct Rig {
    pub db: Client,
    pub log: Log,
    pub broker: Broker,
    /// The addresses of the broker.
    pub servers: String,
    /// The URL of the database.
    url: String,
    /// The URL of the database for the processes, which may go through a pooler.
    process_url: String,
    /// Distinguishes the consumer groups from those of an earlier test, which may still exist on
    /// the broker.
    group_suffix: String,
    recorder: Recorder,
}

/// A transaction that holds its locks until its release.
pub struct OpenTransaction(Client);

impl OpenTransaction {
    pub async fn execute(&self, statement: &str) {
        self.0.batch_execute(statement).await.unwrap();
    }

    pub async fn release(self) {
        self.0.batch_execute("commit").await.unwrap();
    }
}

impl Rig {
    pub async fn new() -> Self {
        let url = database::create().await.unwrap();
        Self::start_with(pooled(&url), url, Broker::take(&topics()).await).await
    }

    /// Creates an environment with a broker of `nodes` nodes, which the test may stop.
    pub async fn with_nodes(nodes: u16) -> Self {
        let url = database::create().await.unwrap();
        Self::start_with(pooled(&url), url, Broker::start(nodes, &topics()).await).await
    }

    /// Creates an environment with a separate PostgreSQL server.
    pub async fn with_postgres(postgres: &Postgres) -> Self {
        Self::start_with(postgres.url(), postgres.url(), Broker::take(&topics()).await).await
    }

    async fn start_with(process_url: String, url: String, broker: Broker) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let group_suffix = format!(".{}", NEXT.fetch_add(1, Ordering::Relaxed));
        let servers = broker.servers().await;
        let log = Log::follow(&servers, &topics()).unwrap();
        let migrated = ledger(&url, &servers, &group_suffix).arg("migrate").output().unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        let recorder = Recorder::install(&url, "ledger").await.unwrap();
        let db = connect(&url).await;
        db.batch_execute("insert into account (key) select gen_random_uuid() from generate_series(1, 8)")
            .await
            .unwrap();
        Self { db, log, broker, servers, url, process_url, group_suffix, recorder }
    }

    /// Connects again after a fault of the database has closed the test's own connection.
    pub async fn reconnect(&mut self) {
        self.db = connect(&self.url).await;
    }

    /// Starts a process in a role.
    pub async fn start(&self, role: &str, settings: &[(&str, &str)]) -> Replica {
        let mut command = self.command();
        command.args((role != "both").then_some(role)).envs(settings.iter().copied());
        Replica::start(command).await
    }

    /// Creates a second deployment of the service, with its own database, on the same broker.
    pub async fn add_deployment(&self, url: &str) -> Deployment {
        Deployment::migrate(url, &self.servers, format!("{}.second", self.group_suffix)).await
    }

    /// Returns a command of the service with the settings of this environment.
    pub fn command(&self) -> Command {
        ledger(&self.process_url, &self.servers, &self.group_suffix)
    }

    /// Returns the id of a consumer group on the broker.
    pub fn group(&self, group: &str) -> String {
        format!("{group}{}", self.group_suffix)
    }

    /// Starts a process with the role `work`: relay and consumers.
    pub async fn start_worker(&self) -> Replica {
        self.start("work", &[]).await
    }

    /// Runs an operator's command.
    pub fn run_command(&self, arguments: &[&str]) -> Output {
        self.command().args(arguments).output().unwrap()
    }

    /// Increments each of the eight accounts and appends its event, in one transaction.
    pub async fn step(&self) {
        self.step_with("%", 0).await;
    }

    /// Increments the account of a key, or all accounts for `%`, with `padding` more bytes in each
    /// event.
    pub async fn step_with(&self, key: &str, padding: i32) {
        self.db.execute(STEP, &[&padding, &key, &COUNTED]).await.unwrap();
    }

    /// Appends `count` events of up to a thousand keys without consumers, in one transaction.
    pub async fn append_bulk(&self, count: i64) {
        self.append_sized_bulk(count, 2).await;
    }

    /// Appends bulk events with `bytes` bytes of payload each.
    pub async fn append_sized_bulk(&self, count: i64, bytes: i32) {
        let append = "insert into outbox (event_id, topic, key, type, payload, headers) \
            select gen_random_uuid(), $1, (n % 1000)::text, $1, convert_to(repeat('x', $3), 'UTF8'), '{}' \
            from generate_series(1, $2::bigint) n";
        self.db.execute(append, &[&BULK, &count, &bytes]).await.unwrap();
    }

    /// Returns the keys of all accounts in their order.
    pub async fn keys(&self) -> Vec<String> {
        let rows = self.db.query("select key::text from account order by key", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Makes the consumer fail for a key: `reject`, `panic`, `later`, `slow`, `locked` or
    /// `nul`.
    pub async fn poison(&self, key: &str, kind: &str) {
        let poison = "insert into poison (key, kind) values ($1::text::uuid, $2)";
        self.db.execute(poison, &[&key, &kind]).await.unwrap();
    }

    pub async fn remove_poison(&self) {
        self.db.execute("delete from poison", &[]).await.unwrap();
    }

    /// Begins a transaction on a connection of its own.
    pub async fn begin(&self) -> OpenTransaction {
        let client = connect(&self.url).await;
        client.batch_execute("begin").await.unwrap();
        OpenTransaction(client)
    }

    /// Locks a table against writes. Processes that write to it wait.
    pub async fn lock(&self, table: &str) -> OpenTransaction {
        let transaction = self.begin().await;
        transaction.execute(&format!("lock table {table} in share mode")).await;
        transaction
    }

    /// Returns the number that a query selects.
    pub async fn query_number(&self, query: &str) -> i64 {
        self.db.query_one(query, &[]).await.unwrap().get(0)
    }

    /// Returns the number of rows of a table that sequential scans have read.
    pub async fn sequentially_read_rows(&self, table: &str) -> i64 {
        let query = format!("select seq_tup_read from pg_stat_user_tables where relid = '{table}'::regclass");
        self.query_number(&query).await
    }

    /// Returns the epoch of the lease.
    pub async fn epoch(&self) -> i64 {
        self.query_number("select coalesce(max(epoch), 0) from outbox_lease").await
    }

    /// Waits until at least `count` statements like `pattern` wait for a lock.
    pub async fn wait_until_blocked(&self, count: i64, pattern: &str) {
        let query = format!(
            "select count(*) from pg_stat_activity where datname = current_database() \
             and wait_event_type = 'Lock' and query ilike '{pattern}'"
        );
        eventually(pattern, async || self.query_number(&query).await >= count).await;
    }

    /// Closes the connections of all processes of the service, dead ones included. Returns their
    /// number.
    pub async fn terminate_connections(&self) -> i64 {
        self.query_number(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where datname = current_database() and application_name = 'ledger'",
        )
        .await
    }

    /// Makes the server refuse connections to this database, or accept them again.
    pub async fn refuse_connections(&self, refuse: bool) {
        let name: String = self.db.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let server = database::connect(&testkit::required("DATABASE_URL").unwrap()).await.unwrap();
        let statement = format!("alter database {name} allow_connections {}", !refuse);
        server.batch_execute(&statement).await.unwrap();
    }

    /// Waits until at least `count` changes have been committed.
    pub async fn wait_until_committed(&self, count: i64) {
        let query = "select sum(n)::bigint from account";
        eventually("the commits", async || self.query_number(query).await >= count).await;
    }

    /// Waits until at least `count` events have been applied.
    pub async fn wait_until_applied(&self, count: i64) {
        eventually("the events", async || self.query_number("select count(*) from applied").await >= count)
            .await;
    }

    /// Returns the verdict on the history so far.
    pub async fn verdict(&self) -> Verdict {
        let mut history = History::default();
        self.recorder.read(&mut history).await.unwrap();
        self.log.read(&mut history);
        history.verdict()
    }

    /// Waits until all committed events have been published and received.
    pub async fn wait_until_settled(&self) {
        eventually("the delivery of all events", async || self.query_number(UNSETTLED).await == 0).await;
        self.wait_until_read().await;
    }

    /// Waits until the log has read all messages of the broker.
    pub async fn wait_until_read(&self) {
        let read = async {
            while !self.log.unread_partitions().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let outcome = tokio::time::timeout(WAIT_TIMEOUT, read).await;
        assert!(outcome.is_ok(), "timed out reading the log: {:?}", self.log.unread_partitions());
    }

    /// Returns the number of accounts that differ from the appended or the applied events.
    pub async fn miscounted_accounts(&self) -> i64 {
        self.query_number(MISCOUNTED).await
    }

    /// Waits until all events are delivered, and asserts that the verdict has no faults.
    pub async fn expect_no_faults(&self) -> Verdict {
        self.wait_until_settled().await;
        let verdict = self.verdict().await;
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!(self.miscounted_accounts().await, 0, "accounts, appended and applied events differ");
        assert_eq!(self.query_number("select count(*) from dead_letter").await, 0, "dead letters");
        let Verdict { committed, delivered, repeated, .. } = verdict;
        eprintln!("{committed} committed, {delivered} delivered, {repeated} of them repeated");
        verdict
    }
}

/// A second deployment of the service. It has a database and consumer groups of its own.
pub struct Deployment {
    url: String,
    servers: String,
    group_suffix: String,
}

impl Deployment {
    async fn migrate(url: &str, servers: &str, group_suffix: String) -> Self {
        let migrated = ledger(url, servers, &group_suffix).arg("migrate").output().unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        Self { url: url.to_owned(), servers: servers.to_owned(), group_suffix }
    }

    pub async fn start_worker(&self) -> Replica {
        let mut command = ledger(&self.url, &self.servers, &self.group_suffix);
        command.arg("work");
        Replica::start(command).await
    }

    /// Returns the applied counts of each account in their order, or `None` while the database is
    /// down.
    pub async fn applied(&self) -> Option<Vec<Vec<i64>>> {
        let client = database::connect(&self.url).await.ok()?;
        let query = "select array_agg(n order by id) from ledger.applied group by key order by key";
        let rows = client.query(query, &[]).await.ok()?;
        Some(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Waits until each of the eight accounts has the counts 1 to `count`, each applied once and in
    /// order.
    pub async fn wait_until_accounts_reach(&self, count: i64) {
        let expected = vec![(1..=count).collect::<Vec<_>>(); 8];
        let mut last = None;
        for _ in 0..WAIT_TIMEOUT.as_secs() * 10 {
            last = self.applied().await;
            if last.as_ref() == Some(&expected) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("expected the counts 1 to {count} of 8 accounts, found {last:?}");
    }
}

/// Returns the stream of a key's counts.
pub fn stream_of(key: &str) -> Stream {
    (COUNTED.to_owned(), key.to_owned())
}

fn topics() -> Vec<String> {
    TOPICS.map(str::to_owned).to_vec()
}

async fn connect(url: &str) -> Client {
    let client = database::connect(url).await.unwrap();
    // Behind a pooler the role has the timeouts of the service.
    client.batch_execute("set search_path = ledger; set statement_timeout = 0").await.unwrap();
    client
}

/// Returns the URL of the database through the pooler in `DATABASE_POOLER`, for example
/// `127.0.0.1:6432`, or unchanged without one.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
fn pooled(url: &str) -> String {
    let Ok(pooler) = std::env::var("DATABASE_POOLER") else { return url.to_owned() };
    let (account, server) = url.rsplit_once('@').unwrap();
    format!("{account}@{pooler}/{}", server.split_once('/').unwrap().1)
}

fn ledger(url: &str, brokers: &str, group_suffix: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command
        .env("DATABASE_URL", url)
        .env("DATABASE_POOL_SIZE", "8")
        .env("KAFKA_BROKERS", brokers)
        .env("KAFKA_GROUP_SUFFIX", group_suffix)
        .env("KAFKA_FETCH_WAIT_MS", "20")
        .env("KAFKA_PROPERTIES", GROUP_PROPERTIES)
        .env("KAFKA_SESSION_TIMEOUT_MS", "3000")
        .env("ADMIN_LISTEN", "127.0.0.1:0")
        .env("LOG", "info");
    command
}
