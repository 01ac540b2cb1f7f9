//! A database, a broker and the records of both, for one test; and what a test does to them.

use std::process::{Command, Output};
use std::time::Duration;

use testkit::database;
use testkit::history::{History, Log, Recorder, Stream, Verdict};
use testkit::postgres::Postgres;
use tokio_postgres::Client;

use crate::kafka::Broker;
use crate::replica::Replica;

pub const COUNTED: &str = "platform.ledger.counted.v1";
/// What accounts are, told anew.
pub const UPSERTED: &str = "platform.ledger.account-upserted.v1";
/// Nobody consumes this one.
pub const BULK: &str = "platform.ledger.bulk.v1";
const TOPICS: [&str; 6] = [
    COUNTED,
    "platform.ledger.counted.v1.ledger.dlq",
    "platform.ledger.remarked.v1",
    "platform.ledger.remarked.v1.ledger.dlq",
    UPSERTED,
    BULK,
];
/// More than enough on the slowest machine; what never comes is reported after it.
const PATIENCE: Duration = Duration::from_secs(90);
/// Without these the embedded broker takes half a minute to miss a consumer.
pub const GROUP_PROPERTIES: &str = "heartbeat.interval.ms=300";

/// Every account counts up by one; each tells of it. `$1` is how many bytes are added to the event.
const STEP: &str = "with counted as (update account set n = n + 1 where key::text like $2 returning key, n) \
    insert into outbox (event_id, topic, key, type, payload, headers) \
    select gen_random_uuid(), $3, key::text, $3, \
    convert_to(json_build_object('Key', key, 'N', n, 'Padding', repeat('x', $1))::text, 'UTF8'), \
    '{\"contractversion\": \"1\"}' from counted";

/// What has been committed and not been relayed and received.
const UNSETTLED: &str = "select (select count(*) from outbox) + (select count(*) from history_appended \
    where topic in ('platform.ledger.counted.v1', 'platform.ledger.remarked.v1') \
    and sequence not in (select sequence from history_received))";

/// Accounts that differ from the events that were appended, or from what was applied, in its order.
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
    assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "{what} did not come");
}

/// One database and one broker.
pub struct Rig {
    pub db: Client,
    pub log: Log,
    pub broker: Broker,
    /// Where clients find the broker.
    pub servers: String,
    /// The database, and how the processes reach it.
    url: String,
    reached: String,
    recorder: Recorder,
}

/// A table that others may read and not write.
pub struct Locked(Client);

impl Locked {
    /// Does something while the table is locked.
    pub async fn execute(&self, statement: &str) {
        self.0.batch_execute(statement).await.unwrap();
    }

    pub async fn release(self) {
        self.0.batch_execute("commit").await.unwrap();
    }
}

impl Rig {
    pub async fn new() -> Self {
        Self::with_nodes(1).await
    }

    /// With a broker of several nodes.
    pub async fn with_nodes(nodes: u16) -> Self {
        let url = database::create().await.unwrap();
        Self::start_on(pooled(&url), url, nodes).await
    }

    /// On a PostgreSQL of the test's own.
    pub async fn on(postgres: &Postgres) -> Self {
        Self::start_on(postgres.url(), postgres.url(), 1).await
    }

    async fn start_on(reached: String, url: String, nodes: u16) -> Self {
        let topics = TOPICS.map(str::to_owned);
        let broker = Broker::start(nodes, &topics).await;
        let servers = broker.servers().await;
        let log = Log::follow(&servers, &topics).unwrap();
        let migrated = ledger(&url, &servers).arg("migrate").output().unwrap();
        assert!(migrated.status.success(), "{migrated:?}");
        let recorder = Recorder::install(&url, "ledger").await.unwrap();
        let db = connect(&url).await;
        db.batch_execute("insert into account (key) select gen_random_uuid() from generate_series(1, 8)")
            .await
            .unwrap();
        Self { db, log, broker, servers, url, reached, recorder }
    }

    /// After the database was away, which ends the test's own connection too.
    pub async fn reconnect(&mut self) {
        self.db = connect(&self.url).await;
    }

    /// Starts a process in a role.
    pub async fn start(&self, role: &str, settings: &[(&str, &str)]) -> Replica {
        let mut command = ledger(&self.reached, &self.servers);
        command.args((role != "both").then_some(role)).envs(settings.iter().copied());
        Replica::start(command).await
    }

    /// Starts a process that relays and consumes.
    pub async fn work(&self) -> Replica {
        self.start("work", &[]).await
    }

    /// Runs an operator's command.
    pub fn operate(&self, arguments: &[&str]) -> Output {
        ledger(&self.reached, &self.servers).args(arguments).output().unwrap()
    }

    /// Every account counts up, in one transaction.
    pub async fn step(&self) {
        self.step_with("%", 0).await;
    }

    /// The account of one key counts up, or all of them for `%`, with so many bytes more in the event.
    pub async fn step_with(&self, key: &str, padding: i32) {
        self.db.execute(STEP, &[&padding, &key, &COUNTED]).await.unwrap();
    }

    /// Appends so many events that nobody consumes, of a thousand keys, in one transaction.
    pub async fn bulk(&self, count: i64) {
        self.bulk_of(count, 2).await;
    }

    /// The same with so many bytes in each.
    pub async fn bulk_of(&self, count: i64, bytes: i32) {
        let append = "insert into outbox (event_id, topic, key, type, payload, headers) \
            select gen_random_uuid(), $1, (n % 1000)::text, $1, convert_to(repeat('x', $3), 'UTF8'), '{}' \
            from generate_series(1, $2::bigint) n";
        self.db.execute(append, &[&BULK, &count, &bytes]).await.unwrap();
    }

    /// The keys of all accounts.
    pub async fn keys(&self) -> Vec<String> {
        let rows = self.db.query("select key::text from account order by key", &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Makes a key fail when it is consumed: `reject`, `panic` or `later`.
    pub async fn poison(&self, key: &str, kind: &str) {
        let poison = "insert into poison (key, kind) values ($1::text::uuid, $2)";
        self.db.execute(poison, &[&key, &kind]).await.unwrap();
    }

    pub async fn cure(&self) {
        self.db.execute("delete from poison", &[]).await.unwrap();
    }

    /// Locks a table against writes. Processes that write to it wait.
    pub async fn lock(&self, table: &str) -> Locked {
        let client = connect(&self.url).await;
        client.batch_execute(&format!("begin; lock table {table} in share mode")).await.unwrap();
        Locked(client)
    }

    /// The number that a query answers.
    pub async fn number(&self, query: &str) -> i64 {
        self.db.query_one(query, &[]).await.unwrap().get(0)
    }

    /// How many rows of a table were read by going through the whole of it.
    pub async fn read_sequentially(&self, table: &str) -> i64 {
        let query = format!("select seq_tup_read from pg_stat_user_tables where relid = '{table}'::regclass");
        self.number(&query).await
    }

    /// The epoch of the lease.
    pub async fn epoch(&self) -> i64 {
        self.number("select coalesce(max(epoch), 0) from outbox_lease").await
    }

    /// Waits until at least so many statements like `pattern` wait for a lock.
    pub async fn blocked(&self, count: i64, pattern: &str) {
        let query = format!(
            "select count(*) from pg_stat_activity where datname = current_database() \
             and wait_event_type = 'Lock' and query ilike '{pattern}'"
        );
        eventually(pattern, async || self.number(&query).await >= count).await;
    }

    /// Ends the service's connections, of processes that live and of those that do not. Answers how many.
    pub async fn disconnect(&self) -> i64 {
        self.number(
            "select count(pg_terminate_backend(pid)) from pg_stat_activity \
             where datname = current_database() and application_name = 'ledger'",
        )
        .await
    }

    /// Has the server refuse connections to this database, or take them again.
    pub async fn close(&self, closed: bool) {
        let name: String = self.db.query_one("select current_database()::text", &[]).await.unwrap().get(0);
        let server = database::connect(&testkit::required("DATABASE_URL").unwrap()).await.unwrap();
        let statement = format!("alter database {name} allow_connections {}", !closed);
        server.batch_execute(&statement).await.unwrap();
    }

    /// Waits until so many changes were committed.
    pub async fn committed(&self, count: i64) {
        let query = "select sum(n)::bigint from account";
        eventually("the changes", async || self.number(query).await >= count).await;
    }

    /// Waits until so many events were applied.
    pub async fn applied(&self, count: i64) {
        eventually("the events", async || self.number("select count(*) from applied").await >= count).await;
    }

    /// The verdict on what has happened so far.
    pub async fn verdict(&self) -> Verdict {
        let mut history = History::default();
        self.recorder.read(&mut history).await.unwrap();
        self.log.read(&mut history);
        history.verdict()
    }

    /// Waits until all that was committed has been relayed and received.
    pub async fn settle(&self) {
        eventually("an end", async || self.number(UNSETTLED).await == 0).await;
        self.read_all().await;
    }

    /// Waits until all that the broker has was read.
    pub async fn read_all(&self) {
        let read = async {
            while !self.log.behind().is_empty() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        let outcome = tokio::time::timeout(PATIENCE, read).await;
        assert!(outcome.is_ok(), "the log's end did not come: {:?}", self.log.behind());
    }

    /// How many accounts differ from what was told or applied.
    pub async fn miscounted(&self) -> i64 {
        self.number(MISCOUNTED).await
    }

    /// Waits for the end and demands that all is as it should be.
    pub async fn clean(&self) -> Verdict {
        self.settle().await;
        let verdict = self.verdict().await;
        assert!(verdict.faults.is_empty(), "{verdict:?}");
        assert_eq!(self.miscounted().await, 0, "what was counted, told and applied differs");
        assert_eq!(self.number("select count(*) from dead_letter").await, 0, "dead letters");
        let Verdict { committed, delivered, repeated, .. } = verdict;
        eprintln!("{committed} committed, {delivered} delivered, {repeated} of them again");
        verdict
    }
}

/// The stream of a key's events.
pub fn stream(key: &str) -> Stream {
    (COUNTED.to_owned(), key.to_owned())
}

async fn connect(url: &str) -> Client {
    let client = database::connect(url).await.unwrap();
    client.batch_execute("set search_path = ledger").await.unwrap();
    client
}

/// The database as the processes reach it: through the pooler that `DATABASE_POOLER` names, as in
/// `127.0.0.1:6432`, to run all of this through one.
#[expect(clippy::disallowed_methods, reason = "a test is configured by its own environment")]
fn pooled(url: &str) -> String {
    let Ok(pooler) = std::env::var("DATABASE_POOLER") else { return url.to_owned() };
    let (account, server) = url.rsplit_once('@').unwrap();
    format!("{account}@{pooler}/{}", server.split_once('/').unwrap().1)
}

fn ledger(url: &str, brokers: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ledger"));
    command
        .env("DATABASE_URL", url)
        .env("DATABASE_POOL_SIZE", "8")
        .env("KAFKA_BROKERS", brokers)
        .env("KAFKA_FETCH_WAIT_MS", "20")
        .env("KAFKA_PROPERTIES", GROUP_PROPERTIES)
        .env("KAFKA_SESSION_TIMEOUT_MS", "3000")
        .env("ADMIN_LISTEN", "127.0.0.1:0")
        .env("LOG", "info");
    command
}
