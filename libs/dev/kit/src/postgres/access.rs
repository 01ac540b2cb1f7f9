//! The access of clients: roles with passwords, and the certificate of the server.

use std::time::Duration;

use super::{Cluster, DATABASE, connect};
use crate::stack;

/// The files of the certificate and of its key. They are beside the data, so that a standby has the
/// present ones when it is promoted.
const CERTIFICATE: &str = "server.crt";
const KEY: &str = "server.key";
const RELOAD_POLL_INTERVAL: Duration = Duration::from_millis(20);

impl Cluster {
    /// Creates a role that may create schemas in the database.
    pub async fn create_role(&self, role: &str, password: &str) -> anyhow::Result<()> {
        let create = format!(
            "create role {role} login password '{password}'; grant create on database {DATABASE} to {role}"
        );
        Ok(connect(&self.url()).await?.client.batch_execute(&create).await?)
    }

    /// Changes the password of a role. Open connections stay.
    pub async fn set_password(&self, role: &str, password: &str) -> anyhow::Result<()> {
        let alter = format!("alter role {role} password '{password}'");
        Ok(connect(&self.url()).await?.client.batch_execute(&alter).await?)
    }

    /// Closes the connections of a role, or those of all clients and of the standby.
    pub async fn cut_connections(&self, role: Option<&str>) -> anyhow::Result<()> {
        let cut = "select pg_terminate_backend(pid) from pg_stat_activity \
            where pid <> pg_backend_pid() and backend_type in ('client backend', 'walsender') \
            and usename = coalesce($1, usename)";
        connect(&self.url()).await?.client.execute(cut, &[&role]).await?;
        Ok(())
    }

    /// Replaces the certificate of the server, both in PEM format. A client may use TLS or not. A
    /// running server uses the certificate for the next connection.
    pub async fn set_certificate(&mut self, certificate: &str, key: &str) -> anyhow::Result<()> {
        for (name, content) in [(CERTIFICATE, certificate), (KEY, key)] {
            let path = self.folder.join(name);
            stack::write_private(&path, content.as_bytes())?;
            self.account.chown(&path)?;
        }
        self.has_certificate = true;
        if self.running_port().await?.is_some() {
            self.reload().await?;
        }
        Ok(())
    }

    /// Makes the server read its files again, and waits until new connections have their settings.
    async fn reload(&self) -> anyhow::Result<()> {
        let loaded_at = "select extract(epoch from pg_conf_load_time())::float8";
        let server = connect(&self.url()).await?;
        let before: f64 = server.client.query_one(loaded_at, &[]).await?.get(0);
        server.client.execute("select pg_reload_conf()", &[]).await?;
        while connect(&self.url()).await?.client.query_one(loaded_at, &[]).await?.get::<_, f64>(0) <= before {
            tokio::time::sleep(RELOAD_POLL_INTERVAL).await;
        }
        Ok(())
    }

    /// Returns the settings for the certificate, if the server has one.
    pub(super) fn tls_settings(&self) -> String {
        if !self.has_certificate {
            return String::new();
        }
        let path = |name| self.folder.join(name).to_string_lossy().replace('\'', "''");
        format!("ssl = on\nssl_cert_file = '{}'\nssl_key_file = '{}'\n", path(CERTIFICATE), path(KEY))
    }
}
