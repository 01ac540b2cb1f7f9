//! The OIDC issuer and its documents.

use anyhow::{Context, ensure};
use reqwest::Response;
use runtime::Env;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use url::{Host, Url};

/// The maximum size of a document of the issuer. Documents of common products have some KiB.
const MAX_DOCUMENT_BYTES: usize = 256 * 1024;

/// The trusted issuer.
#[derive(Clone, Debug)]
pub struct Issuer {
    url: String,
    allows_http: bool,
}

/// The discovery document (`OpenID` Connect Discovery 1.0, section 3).
#[derive(Debug, Deserialize)]
pub struct Discovery {
    issuer: String,
    pub jwks_uri: String,
    pub token_endpoint: Option<String>,
}

impl Issuer {
    pub fn read(env: &mut Env) -> Option<Self> {
        let url = env.require("AUTH_ISSUER", "URL of the OIDC issuer, as in the claim `iss` of its tokens");
        let allows_http = env.with_default(
            "AUTH_ALLOW_HTTP",
            false,
            "`true` permits an issuer without https outside loopback, in a trusted network",
        );
        let issuer = Self { url: url?, allows_http: allows_http? };
        match issuer.check_address(&issuer.url) {
            Ok(()) => Some(issuer),
            Err(error) => env.reject("AUTH_ISSUER", &error.to_string()),
        }
    }

    /// Returns the issuer as in the claim `iss`.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Checks that no host between this service and the issuer can change keys or read a secret.
    ///
    /// # Errors
    /// If the scheme is not https. `http` is permitted for loopback hosts, and with
    /// `AUTH_ALLOW_HTTP`.
    pub fn check_address(&self, address: &str) -> anyhow::Result<()> {
        let url = Url::parse(address).context("it is not a URL")?;
        let is_loopback = match url.host() {
            Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        let is_safe = url.scheme() == "https" || url.scheme() == "http" && (is_loopback || self.allows_http);
        ensure!(
            is_safe,
            "it must begin with https://, since http does not protect keys and secrets outside \
             loopback. AUTH_ALLOW_HTTP=true permits http in a trusted network"
        );
        Ok(())
    }

    /// Fetches the discovery document.
    ///
    /// # Errors
    /// If the issuer does not send the document, or if the document belongs to another issuer.
    pub async fn discover(&self, http: &reqwest::Client) -> anyhow::Result<Discovery> {
        let url = format!("{}/.well-known/openid-configuration", self.url.trim_end_matches('/'));
        let found: Discovery = self.get(http, &url).await?;
        ensure!(
            found.issuer == self.url,
            "the issuer of {url} is {:?}, but AUTH_ISSUER is {:?}",
            found.issuer,
            self.url
        );
        Ok(found)
    }

    /// Fetches a document of the issuer.
    ///
    /// # Errors
    /// If the address is not safe, the issuer does not send the document, or the document is too
    /// large.
    pub async fn get<T: DeserializeOwned>(&self, http: &reqwest::Client, url: &str) -> anyhow::Result<T> {
        self.check_address(url).context(url.to_owned())?;
        let mut response = http.get(url).send().await.context("no response")?.error_for_status()?;
        let document = read_body(&mut response, MAX_DOCUMENT_BYTES).await;
        let document = document.with_context(|| format!("failed to read {url}"))?;
        serde_json::from_slice(&document).with_context(|| format!("unexpected response from {url}"))
    }
}

/// Reads a body of at most `max` bytes.
pub(crate) async fn read_body(response: &mut Response, max: usize) -> anyhow::Result<Vec<u8>> {
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await? {
        ensure!(body.len() + chunk.len() <= max, "the response is larger than {max} bytes");
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use runtime::Env;

    use super::Issuer;

    fn check(url: &'static str, allow_http: &'static str) -> Result<(), String> {
        let mut env = Env::new(move |name| match name {
            "AUTH_ISSUER" => Some(url.to_owned()),
            "AUTH_ALLOW_HTTP" => Some(allow_http.to_owned()),
            _ => None,
        });
        let issuer = Issuer::read(&mut env);
        env.finish(issuer).map(drop).map_err(|error| error.to_string())
    }

    /// RULE-ALL-055: outside loopback an issuer has https, and the error names the settings.
    #[test]
    fn issuer_without_https_is_refused_outside_loopback() {
        for url in [
            "https://id.example.com/realms/platform",
            "http://127.0.0.1:8081",
            "http://127.1.2.3",
            "http://[::1]:8081/",
            "http://localhost:8080/realms/x",
            "http://id.localhost",
        ] {
            assert_eq!(check(url, "false"), Ok(()), "{url}");
        }
        for url in [
            "http://id.example.com",
            "http://10.0.0.1",
            "http://localhost.example.com",
            "http://[2001:db8::1]",
            "ftp://127.0.0.1",
        ] {
            let error = check(url, "false").unwrap_err();
            assert!(error.contains("AUTH_ISSUER") && error.contains("AUTH_ALLOW_HTTP"), "{error}");
        }
        assert_eq!(check("http://id.example.com", "true"), Ok(()));
        assert!(check("id.example.com", "true").is_err());
    }
}
