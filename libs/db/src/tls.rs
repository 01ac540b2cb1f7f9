//! TLS of the connections to PostgreSQL.

use std::fmt::{self, Display};
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::{bail, ensure};
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::BuilderVerifierExt;
use tokio_postgres::config::Host;
use tokio_postgres_rustls::MakeRustlsConnect;

/// The TLS mode of the connections to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TlsMode {
    /// No TLS.
    Disable,
    /// TLS with a certificate that a trusted authority issued for the host of the URL.
    VerifyFull,
}

impl TlsMode {
    /// Returns the default mode: plain within the machine, and verified TLS elsewhere.
    pub(crate) fn default_for(server: &tokio_postgres::Config) -> Self {
        if server.get_hosts().iter().all(is_local) { Self::Disable } else { Self::VerifyFull }
    }
}

impl FromStr for TlsMode {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "disable" => Ok(Self::Disable),
            "verify-full" => Ok(Self::VerifyFull),
            _ => Err("it must be verify-full or disable"),
        }
    }
}

impl Display for TlsMode {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Disable => "disable",
            Self::VerifyFull => "verify-full",
        })
    }
}

fn is_local(host: &Host) -> bool {
    match host {
        Host::Tcp(name) => {
            name == "localhost" || name.parse().is_ok_and(|address: IpAddr| address.is_loopback())
        }
        Host::Unix(_) => true,
    }
}

/// The certificates of trusted authorities.
#[derive(Clone)]
pub(crate) struct Authorities(RootCertStore);

impl FromStr for Authorities {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> anyhow::Result<Self> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(text.as_bytes()) {
            match certificate {
                Ok(certificate) => roots.add(certificate)?,
                Err(error) => bail!("it must be certificates in PEM format: {error}"),
            }
        }
        ensure!(!roots.is_empty(), "it must be certificates in PEM format, but contains none");
        Ok(Self(roots))
    }
}

/// Creates the connector, which trusts these authorities, or else those of the operating system.
pub(crate) fn connector(authorities: Option<Authorities>) -> anyhow::Result<MakeRustlsConnect> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let config = match authorities {
        Some(Authorities(roots)) => config.with_root_certificates(roots),
        None => config.with_platform_verifier()?,
    };
    Ok(MakeRustlsConnect::new(config.with_no_client_auth()))
}
