//! A standby that replaces the server of a cluster after a failure.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::ensure;
use runtime::clock;
use testkit::ports;
use time::OffsetDateTime;

use super::{Cluster, DATABASE, connect, last_line};

const STANDBY_POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A copy of a running server that applies the server's write-ahead log.
pub(super) struct Standby {
    data: PathBuf,
    port: u16,
}

impl Cluster {
    /// Copies the running server to a standby, and makes each commit wait for it.
    pub async fn add_standby(&mut self) -> anyhow::Result<()> {
        let standby = Standby { data: self.folder.join("standby"), port: ports::free()? };
        // Remains of an interrupted command.
        self.stop_standby(&standby).await?;
        if standby.data.exists() {
            std::fs::remove_dir_all(&standby.data)?;
        }
        let mut backup = self.account.command(&self.tools.path("pg_basebackup"), &self.folder);
        backup.args(["--write-recovery-conf", "--checkpoint=fast", "--wal-method=stream"]);
        backup.arg("--dbname").arg(self.url_of("postgres")).arg("--pgdata").arg(&standby.data);
        let output = backup.output().await?;
        ensure!(output.status.success(), "the backup failed: {}", last_line(&output.stderr));
        self.configure(&standby.data, standby.port)?;
        self.launch(&standby.data)?;
        self.standby = Some(standby);
        let server = connect(&self.url_of("postgres")).await?;
        server.client.execute("alter system set synchronous_standby_names = 'ANY 1 (*)'", &[]).await?;
        server.client.execute("select pg_reload_conf()", &[]).await?;
        Ok(())
    }

    /// Detaches the standby from the server, and returns the URL of its database. The standby lacks
    /// all later commits, which no longer wait for it.
    pub async fn detach_standby(&mut self) -> anyhow::Result<String> {
        let Some(standby) = &self.standby else { anyhow::bail!("the cluster has no standby") };
        let url =
            format!("postgres://{DATABASE}:{}@127.0.0.1:{}/{DATABASE}", self.saved.password, standby.port);
        let server = connect(&self.url_of("postgres")).await?;
        server.client.execute("alter system set synchronous_standby_names = ''", &[]).await?;
        server.client.execute("select pg_reload_conf()", &[]).await?;
        let detached = connect(&url).await?;
        detached.client.execute("alter system set primary_conninfo = ''", &[]).await?;
        detached.client.execute("select pg_reload_conf()", &[]).await?;
        let is_detached = "select not exists (select from pg_stat_wal_receiver) \
            and pg_last_wal_receive_lsn() = pg_last_wal_replay_lsn()";
        while !detached.client.query_one(is_detached, &[]).await?.get::<_, bool>(0) {
            tokio::time::sleep(STANDBY_POLL_INTERVAL).await;
        }
        Ok(url)
    }

    /// Waits until the standby has every commit, and then fails over.
    ///
    /// A connection that is closed while its commit waits for the standby leaves a commit that only
    /// the server has. An operator promotes no standby that lacks one.
    pub async fn fail_over_in_sync(&mut self) -> anyhow::Result<()> {
        let server = connect(&self.url_of("postgres")).await?;
        let end = server.client.query_one("select pg_current_wal_flush_lsn()::text", &[]).await?;
        let end: String = end.get(0);
        let is_in_sync = "select exists (select from pg_stat_replication \
            where state = 'streaming' and flush_lsn >= $1::text::pg_lsn)";
        while !server.client.query_one(is_in_sync, &[&end]).await?.get::<_, bool>(0) {
            tokio::time::sleep(STANDBY_POLL_INTERVAL).await;
        }
        self.fail_over().await?;
        Ok(())
    }

    /// Crashes the server, promotes the standby in its place and on its port, and adds a new
    /// standby. Commits wait for a standby again once the new one is added. Returns a time after
    /// the last commit of the server and before the first one of the standby.
    pub async fn fail_over(&mut self) -> anyhow::Result<OffsetDateTime> {
        let Some(standby) = self.standby.take() else { anyhow::bail!("the cluster has no standby") };
        self.crash().await?;
        let crashed_at = clock::now();
        self.stop_standby(&standby).await?;
        std::fs::remove_dir_all(self.data())?;
        std::fs::rename(&standby.data, self.data())?;
        self.configure(&self.data(), self.saved.port)?;
        self.launch(&self.data())?;
        let output = self.pg_ctl(&self.data()).args(["promote", "--wait"]).output().await?;
        ensure!(output.status.success(), "the promotion failed: {}", last_line(&output.stderr));
        self.add_standby().await?;
        Ok(crashed_at)
    }

    /// Stops the server and its standby without waiting for their clients.
    pub async fn stop_with_standby(&mut self) -> anyhow::Result<()> {
        // The primary ends first, since its last commits wait for the standby.
        self.stop().await?;
        match self.standby.take() {
            Some(standby) => self.stop_standby(&standby).await,
            None => Ok(()),
        }
    }

    async fn stop_standby(&self, standby: &Standby) -> anyhow::Result<()> {
        if standby.data.join("postmaster.pid").exists() {
            // `pg_ctl` fails if a server that has ended left the file. The failure is ignored.
            self.pg_ctl(&standby.data).args(["stop", "--mode=fast", "--wait"]).output().await?;
        }
        Ok(())
    }
}
