//! Certificates that a test authority issues, and a TLS proxy in front of a plain server.

use std::net::SocketAddr;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd};
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::PrivateKeyDer;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// An authority that issues the certificates of servers.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate of a server with its key.
pub struct Certificate {
    certificate: rcgen::Certificate,
    key: KeyPair,
}

impl Authority {
    /// # Panics
    /// If the key cannot be generated.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        Self(CertifiedIssuer::self_signed(params, key).expect("a certificate"))
    }

    /// Returns the certificate of the authority in PEM format.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for `host` that is valid until the end of `last_year`.
    ///
    /// # Panics
    /// If the host is neither a name nor an address.
    pub fn issue(&self, host: &str, last_year: i32) -> Certificate {
        let mut params = CertificateParams::new([host.to_owned()]).expect("a host");
        params.not_after = date_time_ymd(last_year, 12, 31);
        let key = KeyPair::generate().expect("a key");
        Certificate { certificate: params.signed_by(&key, &self.0).expect("a certificate"), key }
    }
}

impl Certificate {
    /// Returns the certificate in PEM format.
    pub fn pem(&self) -> String {
        self.certificate.pem()
    }

    /// Returns the private key in PEM format.
    pub fn key_pem(&self) -> String {
        self.key.serialize_pem()
    }

    /// Accepts TLS on a new port of loopback, forwards the connections to the plain server at
    /// `url`, and returns the https address. The proxy ends with the runtime of the test.
    ///
    /// # Panics
    /// If `url` is not `http://` with an address, or no port is free.
    pub async fn start_tls_proxy(self, url: &str) -> String {
        let plain: SocketAddr = url.strip_prefix("http://").expect("http").parse().expect("an address");
        let key = PrivateKeyDer::try_from(self.key.serialize_der()).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .expect("versions of TLS")
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.der().clone()], key)
            .expect("the certificate belongs to the key");
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address");
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let acceptor = acceptor.clone();
                tokio::spawn(async move {
                    // A client that does not trust the certificate ends the connection.
                    let mut client = acceptor.accept(client).await?;
                    let mut server = TcpStream::connect(plain).await?;
                    tokio::io::copy_bidirectional(&mut client, &mut server).await
                });
            }
        });
        format!("https://{address}")
    }
}
