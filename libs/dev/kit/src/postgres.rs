//! A PostgreSQL cluster of this clone.

mod access;
mod backup;
mod standby;
pub mod tools;

use std::fmt::Write;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use testkit::ports;
use tokio::task::JoinSet;
use tokio_postgres::{Client, NoTls};

use self::standby::Standby;
use self::tools::Tools;
use crate::account::Account;
use crate::children;
use crate::progress::Step;
use crate::stack;

/// Name of the database and of the role that owns it.
const DATABASE: &str = "platform";
/// Timeout of an attempt to connect to a database.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Settings of the tests' cluster, whose data need not survive a crash.
const TEST_SETTINGS: &str =
    "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nshared_buffers = 256MB\n";
/// Access rules of a cluster with an address beside loopback. Every TCP client needs a password.
const REMOTE_HBA: &str =
    "local all all trust\nhost all all 127.0.0.1/32 password\nhost all all all scram-sha-256\n";
/// Maximum number of connections: enough for the pools of all services and for parallel tests.
const MAX_CONNECTIONS: u32 = 500;
/// Pause of a standby after its connection to the server was cut. Commits wait for the standby.
const STANDBY_RETRY_INTERVAL: &str = "200ms";

/// A private cluster, running or not.
pub struct Cluster {
    name: &'static str,
    folder: PathBuf,
    tools: Tools,
    account: Account,
    saved: SavedState,
    /// Address of the server beside loopback.
    extra_address: Option<IpAddr>,
    has_certificate: bool,
    standby: Option<Standby>,
}

/// State of a cluster between two starts.
#[derive(Serialize, Deserialize)]
struct SavedState {
    port: u16,
    password: String,
}

impl Cluster {
    /// The cluster of `cargo dev up`, as durable as PostgreSQL is by default.
    pub const STACK: &'static str = "postgres";
    /// The cluster of `cargo dev test`, which is not durable.
    pub const TESTS: &'static str = "postgres-test";
    /// The cluster of `cargo dev fuzz`, whose data is deleted.
    pub const FUZZ: &'static str = "postgres-fuzz";
    /// The cluster of `cargo dev chaos`, which is crashed and must lose nothing.
    pub const CHAOS: &'static str = "postgres-chaos";
    /// The cluster of `cargo dev watch`, which is crashed and starts empty each time.
    pub const ALERT_DRILL: &'static str = "postgres-watch";
    /// The cluster of `cargo dev trace`, which starts empty each time.
    pub const TRACE: &'static str = "postgres-trace";
    /// The cluster of `cargo dev bench`, as durable as the stack's.
    pub const BENCH: &'static str = "postgres-bench";
    /// The cluster of `cargo dev cluster`, which pods use.
    pub const PODS: &'static str = "postgres-pods";

    /// Finds the programs and the data. Installs missing programs, and creates missing data.
    pub async fn prepare(name: &'static str, fresh: bool, step: &Step) -> anyhow::Result<Self> {
        let data = folder_of(name)?.join("data");
        if fresh && data.exists() {
            // A cluster that is not found cannot be stopped, but its data is still deleted.
            if let Ok(Some(before)) = Self::find(name).await {
                before.stop().await?;
            }
            std::fs::remove_dir_all(&data)?;
        }
        let written_by = data_version(&data);
        let tools = Tools::find_or_install(written_by, step).await?;
        // Determined after the installation, which creates the user `postgres`.
        let account = Account::find(&data)?;
        let folder = account.folder(name)?;
        let saved = match written_by {
            Some(_) => SavedState::load(name)?,
            None => create(name, &folder, &tools, account, step).await?,
        };
        let cluster = Self::of(name, folder, tools, account, saved);
        cluster.ensure_version()?;
        Ok(cluster)
    }

    /// Returns the cluster if its data exists.
    pub async fn find(name: &'static str) -> anyhow::Result<Option<Self>> {
        let folder = folder_of(name)?;
        let Some(written_by) = data_version(&folder.join("data")) else {
            return Ok(None);
        };
        let Some(tools) = Tools::find(Some(written_by)).await else {
            return Ok(None);
        };
        let account = Account::find(&folder.join("data"))?;
        let saved = SavedState::load(name)?;
        Ok(Some(Self::of(name, folder, tools, account, saved)))
    }

    fn of(name: &'static str, folder: PathBuf, tools: Tools, account: Account, saved: SavedState) -> Self {
        let (extra_address, has_certificate, standby) = (None, false, None);
        Self { name, folder, tools, account, saved, extra_address, has_certificate, standby }
    }

    /// Starts the server unless it runs, and creates the database if it is missing.
    pub async fn start(&mut self, step: &Step) -> anyhow::Result<()> {
        if let Some(port) = self.running_port().await? {
            self.saved.port = port;
        } else {
            if std::net::TcpListener::bind(("127.0.0.1", self.saved.port)).is_err() {
                self.saved.port = ports::free()?;
                self.saved.save(self.name)?;
            }
            step.note(format!("starting on port {}", self.saved.port));
            self.configure(&self.data(), self.saved.port)?;
            self.launch(&self.data())?;
        }
        let server = connect(&self.url_of("postgres")).await.context("the private PostgreSQL cluster")?;
        let found =
            server.client.query_opt("select 1 from pg_database where datname = $1", &[&DATABASE]).await?;
        if found.is_none() {
            server.client.batch_execute(&format!("create database {DATABASE}")).await?;
        }
        Ok(())
    }

    /// Listens at this address, too, from the next start. Clients from there need a password.
    pub fn listen_at(&mut self, address: IpAddr) {
        self.extra_address = Some(address);
    }

    pub fn port(&self) -> u16 {
        self.saved.port
    }

    /// Returns the URL of the database at an address of the server, for a role.
    pub fn url_at(&self, address: IpAddr, role: &str, password: &str) -> String {
        let socket = SocketAddr::new(address, self.saved.port);
        format!("postgres://{role}:{password}@{socket}/{DATABASE}")
    }

    /// Stops the server without waiting for its clients. Returns true if it ran.
    pub async fn stop(&self) -> anyhow::Result<bool> {
        self.end("--mode=fast").await
    }

    /// Stops the server without a checkpoint, as a power cut does. The next start recovers from its
    /// log.
    pub async fn crash(&self) -> anyhow::Result<bool> {
        self.end("--mode=immediate").await
    }

    async fn end(&self, mode: &str) -> anyhow::Result<bool> {
        if self.running_port().await?.is_none() {
            return Ok(false);
        }
        let mut pg_ctl = self.pg_ctl(&self.data());
        let output = pg_ctl.args(["stop", mode, "--wait", "--timeout=60"]).output().await?;
        ensure!(output.status.success(), "PostgreSQL did not stop: {}", last_line(&output.stderr));
        Ok(true)
    }

    pub fn url(&self) -> String {
        self.url_of(DATABASE)
    }

    /// Returns the path of a program of the server.
    pub fn program(&self, name: &str) -> PathBuf {
        self.tools.path(name)
    }

    /// Returns the path of the server's log.
    pub fn log(&self) -> PathBuf {
        self.folder.join("server.log")
    }

    pub fn describe(&self) -> String {
        format!(
            "PostgreSQL {} on port {}, data in {}",
            self.tools.major,
            self.saved.port,
            self.data().display()
        )
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://{DATABASE}:{}@127.0.0.1:{}/{database}", self.saved.password, self.saved.port)
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn ensure_version(&self) -> anyhow::Result<()> {
        let (found, needed) = (self.tools.major, data_version(&self.data()).unwrap_or(self.tools.major));
        ensure!(
            found == needed,
            "the data was written by PostgreSQL {needed}, but only {found} is installed; --fresh deletes the data"
        );
        Ok(())
    }

    /// Returns a command for the server on this data.
    fn pg_ctl(&self, data: &Path) -> tokio::process::Command {
        let mut command = self.account.command(&self.tools.path("pg_ctl"), &self.folder);
        command.arg("--silent").arg("--pgdata").arg(data);
        // Ctrl-C signals the whole group, but the database must outlive the services.
        command.process_group(0);
        command
    }

    /// Returns the port of the server that runs on this data, if any.
    async fn running_port(&self) -> anyhow::Result<Option<u16>> {
        let path = self.data().join("postmaster.pid");
        let Ok(text) = std::fs::read_to_string(&path) else {
            return Ok(None);
        };
        let mut lines = text.lines().map(str::trim);
        let process = lines.next().and_then(|line| line.parse().ok());
        let command = match process {
            Some(process) => children::command_line(process).await,
            None => None,
        };
        // After a crash the id may belong to another process, which PostgreSQL would take for a
        // server.
        if command.is_none_or(|command| !command.contains("postgres")) {
            std::fs::remove_file(&path)?;
            // The lock file of the socket, `.s.PGSQL.<port>.lock`, is stale too.
            if let Some(port) = lines.nth(2) {
                let _ = std::fs::remove_file(self.folder.join(format!(".s.PGSQL.{port}.lock")));
            }
            return Ok(None);
        }
        Ok(lines.nth(2).and_then(|port| port.parse().ok()))
    }

    /// Writes the settings that differ from PostgreSQL's defaults.
    fn configure(&self, data: &Path, port: u16) -> anyhow::Result<()> {
        let socket = self.folder.to_string_lossy().replace('\'', "''");
        // A socket's path has at most 103 bytes on macOS, and PostgreSQL appends a file name.
        // Without a socket, clients use TCP.
        let socket = if socket.len() < 80 { socket } else { String::new() };
        let extra_address = self.extra_address.map(|address| format!(",{address}")).unwrap_or_default();
        let mut settings = format!(
            "port = {port}\nlisten_addresses = '127.0.0.1{extra_address}'\nunix_socket_directories = '{socket}'\nunix_socket_permissions = 0700\n\
            max_connections = {MAX_CONNECTIONS}\nwal_retrieve_retry_interval = '{STANDBY_RETRY_INTERVAL}'\n"
        );
        if self.extra_address.is_some() {
            let path = data.join("devstack-hba.conf");
            std::fs::write(&path, REMOTE_HBA)?;
            self.account.chown(&path)?;
            writeln!(settings, "hba_file = '{}'", path.to_string_lossy().replace('\'', "''"))?;
        }
        if self.name == Self::TESTS {
            settings.push_str(TEST_SETTINGS);
        }
        settings.push_str(&self.tls_settings());
        let path = data.join("devstack.conf");
        std::fs::write(&path, settings)?;
        self.account.chown(&path)
    }

    /// Starts the server. The call blocks, so that Ctrl-C cannot leave an unknown server behind.
    fn launch(&self, data: &Path) -> anyhow::Result<()> {
        let log = self.log();
        let mut pg_ctl = self.pg_ctl(data);
        pg_ctl.args(["start", "--wait", "--timeout=60", "--log"]).arg(&log);
        let output = tokio::task::block_in_place(|| pg_ctl.as_std_mut().output())?;
        if !output.status.success() {
            let log = std::fs::read_to_string(&log).unwrap_or_default();
            let reason = log.lines().rev().find(|line| line.contains("FATAL")).unwrap_or_default();
            bail!("PostgreSQL did not start: {reason} (log: {})", self.log().display());
        }
        Ok(())
    }
}

impl SavedState {
    fn path(name: &str) -> anyhow::Result<PathBuf> {
        stack::dev_path(&format!("{name}.json"))
    }

    fn load(name: &str) -> anyhow::Result<Self> {
        let path = Self::path(name)?;
        let text = std::fs::read(&path)
            .with_context(|| format!("{} is missing; --fresh deletes the data", path.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }

    fn save(&self, name: &str) -> anyhow::Result<()> {
        stack::write_private(&Self::path(name)?, &serde_json::to_vec_pretty(self)?)
    }
}

/// Creates the data folder under another name first, so that an incomplete one is never used.
async fn create(
    name: &str,
    folder: &Path,
    tools: &Tools,
    account: Account,
    step: &Step,
) -> anyhow::Result<SavedState> {
    step.note(format!("creating a PostgreSQL {} cluster", tools.major));
    let (new, password_file) = (folder.join("data.new"), folder.join("password"));
    // Remains of an interrupted creation, or data outside a clone whose `.dev/` was deleted.
    for old in [&new, &folder.join("data")] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    let saved = SavedState { port: ports::free()?, password: crate::random_hex() };
    saved.save(name)?;
    stack::write_private(&password_file, saved.password.as_bytes())?;
    account.chown(&password_file)?;
    let locale = if cfg!(target_os = "macos") { "en_US.UTF-8" } else { "C.UTF-8" };
    let mut initdb = account.command(&tools.path("initdb"), folder);
    // The password crosses loopback only. With SCRAM, each connection of a test would cost 4,096
    // rounds of a hash, even if the client sends the password itself.
    initdb.args(["--auth-local=trust", "--auth-host=md5", "--encoding=UTF8", "--username", DATABASE]);
    initdb.arg(format!("--locale={locale}")).arg("--pwfile").arg(&password_file).arg("--pgdata").arg(&new);
    let output = initdb.output().await.context("failed to run initdb")?;
    std::fs::remove_file(&password_file)?;
    ensure!(
        output.status.success(),
        "failed to create the PostgreSQL cluster: {}",
        last_line(&output.stderr)
    );
    let settings = new.join("postgresql.conf");
    let defaults = std::fs::read_to_string(&settings)?;
    std::fs::write(&settings, defaults + "\ninclude 'devstack.conf'\n")?;
    std::fs::rename(&new, folder.join("data"))?;
    Ok(saved)
}

/// Returns the folder of a cluster. `.dev/<name>` may be a link.
fn folder_of(name: &str) -> anyhow::Result<PathBuf> {
    let inside = stack::dev_path(name)?;
    Ok(std::fs::read_link(&inside).unwrap_or(inside))
}

/// Returns the major version that wrote the data.
fn data_version(data: &Path) -> Option<u32> {
    std::fs::read_to_string(data.join("PG_VERSION")).ok()?.trim().parse().ok()
}

fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("no reason was given").to_owned()
}

/// A connection and the task that drives it.
pub struct Connection {
    pub client: Client,
    _driver: JoinSet<()>,
}

/// Connects to a database.
///
/// # Errors
/// The reason of the database in one line.
pub async fn connect(url: &str) -> anyhow::Result<Connection> {
    let connecting = tokio::time::timeout(CONNECT_TIMEOUT, tokio_postgres::connect(url, NoTls)).await;
    let (client, connection) = connecting.context("the database does not respond")??;
    let mut driver = JoinSet::new();
    driver.spawn(async {
        // The query in progress reports how the connection ended.
        let _ = connection.await;
    });
    Ok(Connection { client, _driver: driver })
}
