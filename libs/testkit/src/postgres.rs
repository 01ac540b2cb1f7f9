//! A separate PostgreSQL server that a test can stop, crash, restart and fail over.
//!
//! Its durability settings are the defaults, unlike those of the server that all tests share.

use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;
use tokio::time::Instant;

use crate::child::{self, Server};
use crate::database;
use crate::ports;
use crate::signals::Signal;

/// Timeout of a start, recovery included.
const START_TIMEOUT: Duration = Duration::from_mins(1);

/// The error for a server whose programs this process cannot run.
const NO_LOCAL_SERVER: &str = "the server of DATABASE_URL is on another machine or in a container, but this test starts a \
    server from its programs: unset DATABASE_URL, or set it to a server of this machine";

/// A server with its data. Dropping it stops the server and removes the data.
pub struct Postgres {
    programs: PathBuf,
    owner: (u32, u32),
    folder: PathBuf,
    port: u16,
    account: Account,
    server: Option<Server>,
}

/// PostgreSQL's shutdown mode.
#[derive(Clone, Copy, Debug)]
pub enum ShutdownMode {
    /// The server closes its connections and writes its buffers.
    Fast,
    /// The server ends at once, as after a power failure. The next start recovers from the log.
    Immediate,
}

/// The account of the server's clients.
#[derive(Clone)]
struct Account {
    user: String,
    password: String,
}

impl Postgres {
    /// Starts a new server with the programs and the account of the server of `DATABASE_URL`.
    ///
    /// # Errors
    /// If that server is not on this machine, or the new one does not start. The error names its
    /// folder.
    pub async fn start() -> anyhow::Result<Self> {
        let url = crate::required("DATABASE_URL")?;
        let shared = database::connect(&url).await.context("DATABASE_URL")?;
        let query = "select setting, current_setting('data_directory') from pg_config where name = 'BINDIR'";
        let row = shared.query_one(query, &[]).await?;
        let (programs, data) =
            (PathBuf::from(row.get::<_, String>(0)), PathBuf::from(row.get::<_, String>(1)));
        let metadata = std::fs::metadata(&data).context(NO_LOCAL_SERVER)?;
        let parent = data.parent().context("the data directory has no parent")?.join("temporary");
        let mut postgres = Self {
            programs,
            owner: (metadata.uid(), metadata.gid()),
            folder: child::temporary(&parent),
            port: ports::free()?,
            account: Account::of(&url)?,
            server: None,
        };
        postgres.initialize(&parent).await?;
        postgres.restart().await?;
        Ok(postgres)
    }

    pub fn url(&self) -> String {
        let Account { user, password } = &self.account;
        format!("postgres://{user}:{password}@127.0.0.1:{}/postgres", self.port)
    }

    /// Stops the server and waits for its end.
    ///
    /// # Errors
    /// If the server is not running.
    pub async fn stop(&mut self, mode: ShutdownMode) -> anyhow::Result<()> {
        let mut server = self.server.take().context("the server is not running")?;
        let signal = match mode {
            ShutdownMode::Fast => Signal::SIGINT,
            ShutdownMode::Immediate => Signal::SIGQUIT,
        };
        server.signal(signal)?;
        server.wait().await?;
        Ok(())
    }

    /// Starts the server on its data and waits until it accepts a connection.
    ///
    /// # Errors
    /// If the server does not start.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("server.log"))?;
        let mut postgres = self.command("postgres");
        postgres.arg("-D").arg(self.data()).args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-k", ""]);
        self.server = Some(Server::spawn(postgres.stdout(log.try_clone()?).stderr(log))?);
        let deadline = Instant::now() + START_TIMEOUT;
        while let Err(error) = database::connect(&self.url()).await {
            if Instant::now() > deadline {
                bail!("failed to connect to PostgreSQL in {}: {error:#}", self.folder.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Serves TLS with this certificate and its key, both in PEM format. Restarts the server.
    ///
    /// # Errors
    /// If the server is not running, or rejects them.
    pub async fn serve_tls(&mut self, certificate: &str, key: &str) -> anyhow::Result<()> {
        for (name, content) in [("server.crt", certificate), ("server.key", key)] {
            let path = self.data().join(name);
            std::fs::write(&path, content)?;
            // PostgreSQL refuses a key that others can read.
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600))?;
            chown(&path, Some(self.owner.0), Some(self.owner.1))?;
        }
        database::connect(&self.url()).await?.batch_execute("alter system set ssl = on").await?;
        self.stop(ShutdownMode::Fast).await?;
        self.restart().await
    }

    /// Copies the server's current state to a standby, which receives no later changes.
    ///
    /// # Errors
    /// If the server is not running, or rejects the copy.
    pub async fn create_standby(&self) -> anyhow::Result<()> {
        let mut copy = self.command("pg_basebackup");
        copy.args(["--no-sync", "--checkpoint=fast", "--wal-method=fetch", "--dbname", &self.url()]);
        let output = copy.arg("--pgdata").arg(self.standby()).stdin(Stdio::null()).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Starts a standby that receives everything that this server commits.
    ///
    /// # Errors
    /// If the server is not running, or the standby does not start.
    pub async fn start_standby(&self) -> anyhow::Result<Self> {
        let parent = self.folder.parent().context("the folder has no parent")?;
        let mut standby = Self {
            programs: self.programs.clone(),
            owner: self.owner,
            folder: child::temporary(parent),
            port: ports::free()?,
            account: self.account.clone(),
            server: None,
        };
        std::fs::create_dir_all(&standby.folder)?;
        chown(&standby.folder, Some(self.owner.0), Some(self.owner.1))?;
        let mut copy = self.command("pg_basebackup");
        copy.args(["--no-sync", "--checkpoint=fast", "--write-recovery-conf", "--dbname", &self.url()]);
        let output = copy.arg("--pgdata").arg(standby.data()).stdin(Stdio::null()).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        standby.restart().await?;
        Ok(standby)
    }

    /// Crashes the server and promotes the standby at the same address. Everything that was
    /// committed since the standby was created is lost.
    ///
    /// # Errors
    /// If there is no standby, or it does not start.
    pub async fn fail_over(&mut self) -> anyhow::Result<()> {
        self.stop(ShutdownMode::Immediate).await?;
        std::fs::remove_dir_all(self.data())?;
        std::fs::rename(self.standby(), self.data())?;
        std::fs::write(self.data().join("standby.signal"), "")?;
        self.restart().await?;
        database::connect(&self.url()).await?.execute("select pg_promote()", &[]).await?;
        Ok(())
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn standby(&self) -> PathBuf {
        self.folder.join("standby")
    }

    async fn initialize(&self, parent: &Path) -> anyhow::Result<()> {
        for folder in [parent, &self.folder] {
            std::fs::create_dir_all(folder)?;
            chown(folder, Some(self.owner.0), Some(self.owner.1))?;
        }
        let password = self.folder.join("password");
        std::fs::write(&password, &self.account.password)?;
        let mut initdb = self.command("initdb");
        initdb.args(["--no-sync", "--auth=password", "--encoding=UTF8", "--username", &self.account.user]);
        initdb.arg("--pwfile").arg(password).arg("--pgdata").arg(self.data());
        let output = initdb.stdin(Stdio::null()).output().await.context("failed to run initdb")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Returns the command of a program, run by the owner of the data, since PostgreSQL refuses to
    /// run as root.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(self.programs.join(program));
        command.current_dir(&self.folder).uid(self.owner.0).gid(self.owner.1);
        command
    }
}

impl Account {
    fn of(url: &str) -> anyhow::Result<Self> {
        let config: tokio_postgres::Config = url.parse()?;
        let user = config.get_user().context("DATABASE_URL names no user")?;
        let password = config.get_password().context("DATABASE_URL has no password")?;
        Ok(Self { user: user.to_owned(), password: String::from_utf8(password.to_owned())? })
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if let Some(server) = self.server.take() {
            // A killed server would leave its shared memory behind.
            server.end(Signal::SIGQUIT);
        }
        // A later run removes the rest.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
