//! A backup of one schema, which replaces the schema later.

use std::path::{Path, PathBuf};

use anyhow::ensure;

use super::{Cluster, connect, last_line};

impl Cluster {
    /// Writes the state of a schema at one moment to a file, and returns its path.
    pub async fn back_up(&self, schema: &str) -> anyhow::Result<PathBuf> {
        let file = self.folder.join(format!("{schema}.backup"));
        let mut dump = self.account.command(&self.tools.path("pg_dump"), &self.folder);
        dump.args(["--format=custom", "--schema", schema, "--dbname"]).arg(self.url());
        let output = dump.arg("--file").arg(&file).output().await?;
        ensure!(output.status.success(), "the backup failed: {}", last_line(&output.stderr));
        Ok(file)
    }

    /// Replaces a schema with its backup. No client may use the schema.
    pub async fn restore_backup(&self, schema: &str, file: &Path) -> anyhow::Result<()> {
        let server = connect(&self.url()).await?;
        server.client.batch_execute(&format!("drop schema {schema} cascade")).await?;
        let mut restore = self.account.command(&self.tools.path("pg_restore"), &self.folder);
        restore.args(["--exit-on-error", "--dbname"]).arg(self.url());
        let output = restore.arg(file).output().await?;
        ensure!(output.status.success(), "the restore failed: {}", last_line(&output.stderr));
        Ok(())
    }
}
