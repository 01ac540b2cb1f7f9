//! The access of services to the database: a role with a password for each service, and the
//! certificate of the server.

use std::net::{IpAddr, Ipv4Addr};

use devkit::postgres::Cluster;
use testkit::tls::Authority;

/// The host in the services' URLs, for which the certificates are issued.
const HOST: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
/// The last year of a valid and of an expired certificate.
const VALID: i32 = 4000;
const EXPIRED: i32 = 2020;

/// The certificates of the server, and the new passwords that the services do not have yet.
pub(super) struct Access {
    authority: Authority,
    unknown_authority: Authority,
    has_valid_certificate: bool,
    /// The expired password's successor, by the number of the service.
    new_passwords: Vec<Option<String>>,
}

/// A certificate that the services reject.
#[derive(Clone, Copy, Debug)]
pub(super) enum InvalidCertificate {
    Expired,
    UnknownAuthority,
}

impl InvalidCertificate {
    pub(super) fn of(number: usize) -> Self {
        if number == 0 { Self::Expired } else { Self::UnknownAuthority }
    }

    pub(super) fn describe(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::UnknownAuthority => "of an unknown authority",
        }
    }
}

impl Access {
    pub(super) fn new(services: usize) -> Self {
        Self {
            authority: Authority::new("platform"),
            unknown_authority: Authority::new("unknown"),
            has_valid_certificate: false,
            new_passwords: vec![None; services],
        }
    }

    /// Returns the settings with which services require TLS.
    pub(super) fn settings(&self) -> [(&'static str, String); 2] {
        [("DATABASE_TLS", "verify-full".to_owned()), ("DATABASE_CA", self.authority.pem())]
    }

    /// Gives the server a new valid certificate, unless it has a valid one.
    pub(super) async fn restore_certificate(&mut self, cluster: &mut Cluster) -> anyhow::Result<()> {
        if self.has_valid_certificate {
            return Ok(());
        }
        let certificate = self.authority.issue(&HOST.to_string(), VALID);
        cluster.set_certificate(&certificate.pem(), &certificate.key_pem()).await?;
        self.has_valid_certificate = true;
        Ok(())
    }

    /// Gives the server an invalid certificate and closes all connections. Returns false if it has
    /// an invalid one.
    pub(super) async fn invalidate_certificate(
        &mut self,
        cluster: &mut Cluster,
        invalid: InvalidCertificate,
    ) -> anyhow::Result<bool> {
        if !self.has_valid_certificate {
            return Ok(false);
        }
        self.has_valid_certificate = false;
        let (authority, last_year) = match invalid {
            InvalidCertificate::Expired => (&self.authority, EXPIRED),
            InvalidCertificate::UnknownAuthority => (&self.unknown_authority, VALID),
        };
        let certificate = authority.issue(&HOST.to_string(), last_year);
        cluster.set_certificate(&certificate.pem(), &certificate.key_pem()).await?;
        cluster.cut_connections(None).await?;
        Ok(true)
    }

    /// Creates the role of a service, and returns the URL for it.
    pub(super) async fn create_role(cluster: &Cluster, role: &str) -> anyhow::Result<String> {
        let password = devkit::random_hex();
        cluster.create_role(role, &password).await?;
        Ok(cluster.url_at(HOST, role, &password))
    }

    /// Changes the password of a service's role and closes the service's connections. Returns false
    /// if the service does not have the last new password yet.
    pub(super) async fn expire_password(
        &mut self,
        cluster: &Cluster,
        service: usize,
        role: &str,
    ) -> anyhow::Result<bool> {
        let Some(new_password) = self.new_passwords.get_mut(service) else { return Ok(false) };
        if new_password.is_some() {
            return Ok(false);
        }
        let password = devkit::random_hex();
        cluster.set_password(role, &password).await?;
        *new_password = Some(password);
        cluster.cut_connections(Some(role)).await?;
        Ok(true)
    }

    /// Returns the URL with the new password of a service that does not have it yet.
    pub(super) fn renew_password(&mut self, cluster: &Cluster, service: usize, role: &str) -> Option<String> {
        let password = self.new_passwords.get_mut(service)?.take()?;
        Some(cluster.url_at(HOST, role, &password))
    }
}
