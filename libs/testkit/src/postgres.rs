//! A PostgreSQL of a test's own, which may be stopped, crashed and started again: as durable as PostgreSQL
//! is by default, unlike the one that all tests share.

use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tokio::process::Command;
use tokio::time::Instant;

use crate::database;
use crate::child::{self, Server};
use crate::ports;
use crate::signals::Signal;

/// How long it may take until it lets somebody in, recovery included.
const PATIENCE: Duration = Duration::from_mins(1);

/// Why there can be none, and what to do.
const ELSEWHERE: &str = "the server of DATABASE_URL is on another machine or in a container, and this test starts \
    one of its programs: unset DATABASE_URL, or have it name a server of this machine";

/// A server on its own data, running or not; both go when it is dropped.
pub struct Postgres {
    programs: PathBuf,
    owner: (u32, u32),
    folder: PathBuf,
    port: u16,
    account: Account,
    server: Option<Server>,
}

/// How a server ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// As an operator restarts it: connections are cut, and what is in memory is written.
    Fast,
    /// As if the power had failed: the next start recovers from the log.
    Crash,
}

/// Who may come in.
struct Account {
    user: String,
    password: String,
}

impl Postgres {
    /// Makes and starts one of the programs of the server that `DATABASE_URL` names, which must be a server
    /// of this machine, and lets the same account in.
    ///
    /// # Errors
    /// When that is somewhere else, or the new one does not start; its log says why.
    pub async fn start() -> anyhow::Result<Self> {
        let url = crate::required("DATABASE_URL")?;
        let shared = database::connect(&url).await.context("DATABASE_URL")?;
        let asked = "select setting, current_setting('data_directory') from pg_config where name = 'BINDIR'";
        let row = shared.query_one(asked, &[]).await?;
        let (programs, data) =
            (PathBuf::from(row.get::<_, String>(0)), PathBuf::from(row.get::<_, String>(1)));
        let metadata = std::fs::metadata(&data).context(ELSEWHERE)?;
        let parent = data.parent().context("data without a folder")?.join("temporary");
        let mut postgres = Self {
            programs,
            owner: (metadata.uid(), metadata.gid()),
            folder: child::temporary(&parent),
            port: ports::free()?,
            account: Account::of(&url)?,
            server: None,
        };
        postgres.make(&parent).await?;
        postgres.restart().await?;
        Ok(postgres)
    }

    pub fn url(&self) -> String {
        let Account { user, password } = &self.account;
        format!("postgres://{user}:{password}@127.0.0.1:{}/postgres", self.port)
    }

    /// Ends it and waits until it has ended.
    ///
    /// # Errors
    /// When it does not run.
    pub async fn stop(&mut self, end: End) -> anyhow::Result<()> {
        let mut server = self.server.take().context("it does not run")?;
        let signal = match end {
            End::Fast => Signal::SIGINT,
            End::Crash => Signal::SIGQUIT,
        };
        server.signal(signal)?;
        server.wait().await?;
        Ok(())
    }

    /// Starts it again on its data and waits until it lets somebody in.
    ///
    /// # Errors
    /// When it does not come up.
    pub async fn restart(&mut self) -> anyhow::Result<()> {
        let log = std::fs::File::options().create(true).append(true).open(self.folder.join("server.log"))?;
        let mut postgres = self.command("postgres");
        let data = self.folder.join("data");
        postgres.arg("-D").arg(data).args(["-h", "127.0.0.1", "-p", &self.port.to_string(), "-k", ""]);
        self.server = Some(Server::spawn(postgres.stdout(log.try_clone()?).stderr(log))?);
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = database::connect(&self.url()).await {
            if Instant::now() > deadline {
                bail!("PostgreSQL in {} lets nobody in: {error:#}", self.folder.display());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    async fn make(&self, parent: &Path) -> anyhow::Result<()> {
        for folder in [parent, &self.folder] {
            std::fs::create_dir_all(folder)?;
            chown(folder, Some(self.owner.0), Some(self.owner.1))?;
        }
        let password = self.folder.join("password");
        std::fs::write(&password, &self.account.password)?;
        let mut initdb = self.command("initdb");
        initdb.args(["--no-sync", "--auth=password", "--encoding=UTF8", "--username", &self.account.user]);
        initdb.arg("--pwfile").arg(password).arg("--pgdata").arg(self.folder.join("data"));
        let output = initdb.stdin(Stdio::null()).output().await.context("initdb cannot be run")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// One of its programs, run by the owner of the data: PostgreSQL refuses to be root.
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
            // One that is killed leaves its shared memory behind.
            server.end(Signal::SIGQUIT);
        }
        // What is not removed now is removed by a later run.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}
