//! A small OIDC issuer: discovery, JWKS and a token endpoint for machines.
//!
//! Tests sign tokens with it directly, and the local stack serves it. With `KEYCLOAK_URL` the tests
//! use tokens of Keycloak instead.

mod clients;

use std::io::{ErrorKind, Write};
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use actix_web::dev::ServerHandle;
use actix_web::http::header::{AUTHORIZATION, HeaderMap};
use actix_web::web::{self, Data, Form, ServiceConfig};
use actix_web::{App, HttpRequest, HttpResponse, HttpServer};
use anyhow::Context;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::jwk::{Jwk, JwkSet, PublicKeyUse, ThumbprintHash};
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::Duration;

use self::clients::Clients;
pub use crate::claims::{CLIENTS, Claims, PLATFORM, PLATFORM_INTERNAL};
use crate::keycloak::Realm;

/// An issuer with one ES256 key. Clones share the key.
#[derive(Clone)]
pub struct Issuer(Arc<Inner>);

#[derive(Clone)]
struct Inner {
    url: String,
    key: EncodingKey,
    key_id: String,
    jwks: JwkSet,
    machine_lifetime: Option<Duration>,
    realm: Option<Arc<Realm>>,
    /// The clients of machine accounts.
    clients: Arc<Clients>,
}

impl Issuer {
    /// Creates an issuer with a new key. `url` is the `iss` of its tokens.
    pub fn new(url: impl Into<String>) -> anyhow::Result<Self> {
        Self::from_pkcs8(&generate()?, url)
    }

    /// Loads the key from a file, or creates it there with mode 0600, so that tokens outlive the
    /// process. The clients of machine accounts are in a file beside it.
    pub fn load_or_create(path: &Path, url: impl Into<String>) -> anyhow::Result<Self> {
        if !path.exists() {
            write_private(path, &generate()?)?;
        }
        let key = std::fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
        let mut issuer = Self::from_pkcs8(&key, url)
            .with_context(|| format!("{} is not a signing key", path.display()))?;
        Arc::make_mut(&mut issuer.0).clients = Arc::new(Clients::load(&clients_file(path))?);
        Ok(issuer)
    }

    /// Deletes the clients of machine accounts that an issuer with the key in this file has stored.
    ///
    /// # Errors
    /// If the file cannot be deleted.
    pub fn delete_clients(path: &Path) -> anyhow::Result<()> {
        let file = clients_file(path);
        match std::fs::remove_file(&file) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("failed to delete {}", file.display()))
            }
            _ => Ok(()),
        }
    }

    fn from_pkcs8(der: &[u8], url: impl Into<String>) -> anyhow::Result<Self> {
        let key = EncodingKey::from_ec_der(der);
        let mut jwk = Jwk::from_encoding_key(&key, Algorithm::ES256)?;
        let key_id = jwk.thumbprint(ThumbprintHash::SHA256)?;
        jwk.common.key_id = Some(key_id.clone());
        jwk.common.public_key_use = Some(PublicKeyUse::Signature);
        let url = url.into();
        let jwks = JwkSet { keys: vec![jwk] };
        let clients = Arc::default();
        Ok(Self(Arc::new(Inner { url, key, key_id, jwks, machine_lifetime: None, realm: None, clients })))
    }

    /// Creates an issuer that requests its tokens from Keycloak. Its own key signs forged tokens.
    ///
    /// # Errors
    /// If no key can be generated.
    pub fn from_realm(realm: Realm) -> anyhow::Result<Self> {
        let mut issuer = Self::new(realm.issuer())?;
        Arc::make_mut(&mut issuer.0).realm = Some(Arc::new(realm));
        Ok(issuer)
    }

    /// Returns the Keycloak realm that issues the tokens, if any.
    pub fn realm(&self) -> Option<&Realm> {
        self.0.realm.as_deref()
    }

    /// Sets the lifetime of machine tokens.
    #[must_use]
    pub fn machine_lifetime(mut self, lifetime: Duration) -> Self {
        Arc::make_mut(&mut self.0).machine_lifetime = Some(lifetime);
        self
    }

    /// Serves a new issuer on a free loopback port until the result is dropped.
    pub fn start() -> anyhow::Result<RunningIssuer> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let issuer = Self::new(format!("http://{}", listener.local_addr()?))?;
        issuer.serve(listener)
    }

    /// Serves on a separate thread, since a test's runtime ends with the test.
    pub fn serve(self, listener: TcpListener) -> anyhow::Result<RunningIssuer> {
        let (issuer, (sender, receiver)) = (self.clone(), std::sync::mpsc::channel());
        std::thread::Builder::new().name("issuer".to_owned()).spawn(move || {
            let serve = async move {
                let server = HttpServer::new(move || App::new().configure(|routes| issuer.configure(routes)))
                    .workers(1)
                    .disable_signals()
                    .shutdown_timeout(1)
                    .listen(listener)?
                    .run();
                // The send fails only if the caller has stopped waiting. Nothing needs to be served
                // then.
                let _ = sender.send(server.handle());
                server.await
            };
            if let Err(error) = actix_web::rt::System::new().block_on(serve) {
                eprintln!("issuer stopped: {error}");
            }
        })?;
        let handle = receiver.recv().context("failed to start the issuer")?;
        Ok(RunningIssuer { issuer: self, handle })
    }

    /// Registers the routes: discovery, keys, token endpoint.
    pub fn configure(&self, routes: &mut ServiceConfig) {
        routes
            .app_data(Data::new(self.clone()))
            .route("/.well-known/openid-configuration", web::get().to(discovery))
            .route("/jwks", web::get().to(jwks))
            .route("/token", web::post().to(token))
            .configure(clients::routes);
    }

    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Returns the URL of the admin API for the clients of machine accounts.
    pub fn admin_url(&self) -> String {
        match self.realm() {
            Some(realm) => realm.admin_url(),
            None => format!("{}{}", self.0.url, clients::REALM),
        }
    }

    pub fn key_id(&self) -> &str {
        &self.0.key_id
    }

    /// Returns the public key, as `/jwks` does.
    pub fn jwks(&self) -> &JwkSet {
        &self.0.jwks
    }

    /// Returns a token that is valid from now on.
    pub fn token(&self, claims: &Claims) -> anyhow::Result<String> {
        if let Some(realm) = self.realm() {
            return realm.token(claims);
        }
        self.token_issued_at(claims, runtime::clock::now().unix_timestamp())
    }

    /// Returns a token of this small issuer, with this `iat` in seconds since 1970.
    pub fn token_issued_at(&self, claims: &Claims, iat: i64) -> anyhow::Result<String> {
        let mut all = serde_json::to_value(claims)?;
        all["iss"] = json!(self.0.url);
        all["iat"] = json!(iat);
        all["nbf"] = json!(iat);
        all["exp"] = json!(iat + claims.lifetime.whole_seconds());
        self.sign(&all)
    }

    /// Signs any claims under the usual header.
    pub fn sign(&self, claims: &impl Serialize) -> anyhow::Result<String> {
        let header = Header { kid: Some(self.0.key_id.clone()), ..Header::new(Algorithm::ES256) };
        self.sign_with(&header, claims)
    }

    /// Signs any claims under any header for an ES256 key.
    pub fn sign_with(&self, header: &Header, claims: &impl Serialize) -> anyhow::Result<String> {
        Ok(jsonwebtoken::encode(header, claims, &self.0.key)?)
    }
}

/// A listening issuer. Dropping it stops the issuer.
pub struct RunningIssuer {
    issuer: Issuer,
    handle: ServerHandle,
}

impl std::ops::Deref for RunningIssuer {
    type Target = Issuer;

    fn deref(&self) -> &Issuer {
        &self.issuer
    }
}

impl Drop for RunningIssuer {
    fn drop(&mut self) {
        // `stop` sends the command at once. The future only waits for its completion.
        drop(self.handle.stop(false));
    }
}

/// Returns the file with the clients of machine accounts beside the key.
fn clients_file(key: &Path) -> PathBuf {
    key.with_extension("clients.json")
}

/// Replaces a file that only this user can read. A process that stops early leaves the old file.
fn write_private(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let new = path.with_extension(format!("{}.tmp", std::process::id()));
    let mut options = std::fs::OpenOptions::new();
    let file = options.write(true).create(true).truncate(true).mode(0o600).open(&new);
    file.and_then(|mut file| file.write_all(content))
        .and_then(|()| std::fs::rename(&new, path))
        .with_context(|| format!("failed to write {}", path.display()))
}

fn generate() -> anyhow::Result<Vec<u8>> {
    let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| anyhow::anyhow!("failed to generate the signing key"))?;
    Ok(key.as_ref().to_vec())
}

async fn discovery(issuer: Data<Issuer>) -> HttpResponse {
    let url = issuer.url();
    HttpResponse::Ok().json(json!({
        "issuer": url,
        "jwks_uri": format!("{url}/jwks"),
        "token_endpoint": format!("{url}/token"),
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "response_types_supported": ["token"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["ES256"],
    }))
}

async fn jwks(issuer: Data<Issuer>) -> HttpResponse {
    HttpResponse::Ok().json(issuer.jwks())
}

#[derive(Deserialize)]
struct TokenRequest {
    grant_type: String,
    client_id: Option<String>,
    client_secret: Option<String>,
}

/// Issues a token of a service or of a machine account for client credentials (RFC 6749,
/// section 4.4).
async fn token(issuer: Data<Issuer>, request: HttpRequest, form: Form<TokenRequest>) -> HttpResponse {
    if form.grant_type != "client_credentials" {
        return refuse(HttpResponse::BadRequest(), "unsupported_grant_type");
    }
    let posted = form.client_id.clone().zip(form.client_secret.clone());
    let claims = basic(request.headers()).or(posted).and_then(|(id, secret)| {
        let service = CLIENTS.into_iter().find(|client| *client == (id.as_str(), secret.as_str()));
        service.map(|(id, _)| Claims::client(id)).or_else(|| issuer.0.clients.claims(&id, &secret))
    });
    let Some(claims) = claims else {
        return refuse(HttpResponse::Unauthorized(), "invalid_client");
    };
    let claims = match issuer.0.machine_lifetime {
        Some(lifetime) => claims.lifetime(lifetime),
        None => claims,
    };
    match issuer.token(&claims) {
        Ok(token) => HttpResponse::Ok().insert_header(("cache-control", "no-store")).json(json!({
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": claims.lifetime.whole_seconds(),
        })),
        Err(_) => refuse(HttpResponse::InternalServerError(), "server_error"),
    }
}

fn refuse(mut response: actix_web::HttpResponseBuilder, error: &str) -> HttpResponse {
    response.json(Value::from_iter([("error", error)]))
}

/// Returns client id and secret of HTTP basic authentication.
fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let encoded = headers.get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Basic ")?;
    let text = String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()?;
    let (id, secret) = text.split_once(':')?;
    Some((id.to_owned(), secret.to_owned()))
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};
    use serde_json::Value;
    use uuid::Uuid;

    use super::{CLIENTS, Claims, Issuer};

    fn verify(issuer: &Issuer, audience: &str, token: &str) -> Value {
        let mut rules = Validation::new(Algorithm::ES256);
        rules.set_audience(&[audience]);
        rules.set_issuer(&[issuer.url()]);
        let key = DecodingKey::from_jwk(&issuer.jwks().keys[0]).unwrap();
        jsonwebtoken::decode::<Value>(token, &key, &rules).unwrap().claims
    }

    /// Only an absent file of clients counts as empty. Otherwise a damaged one would lose all
    /// clients.
    #[test]
    fn damaged_file_of_clients_is_rejected() {
        let path = std::env::temp_dir().join(format!("issuer-damaged-{}.key", std::process::id()));
        let clients = super::clients_file(&path);
        Issuer::load_or_create(&path, "http://issuer").unwrap();
        std::fs::create_dir(&clients).unwrap();
        assert!(Issuer::load_or_create(&path, "http://issuer").is_err());
        std::fs::remove_dir(&clients).unwrap();
        std::fs::write(&clients, "{").unwrap();
        assert!(Issuer::load_or_create(&path, "http://issuer").is_err());
        Issuer::delete_clients(&path).unwrap();
        Issuer::load_or_create(&path, "http://issuer").unwrap();
        Issuer::delete_clients(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn token_verifies_with_the_published_key() {
        let issuer = Issuer::new("http://issuer").unwrap();
        let user = Uuid::from_u128(7);
        let token = issuer.token(&Claims::user(user).permission("crm.deals.manage@platform")).unwrap();
        let claims = verify(&issuer, "platform", &token);
        assert_eq!(claims["sub"], user.to_string());
        assert_eq!(claims["permissions"][0], "crm.deals.manage@platform");
    }

    #[test]
    fn stored_key_is_loaded_by_the_next_process() {
        let path = std::env::temp_dir().join(format!("issuer-{}.key", std::process::id()));
        let token =
            Issuer::load_or_create(&path, "http://issuer").unwrap().token(&Claims::client("crm")).unwrap();
        let later = Issuer::load_or_create(&path, "http://issuer").unwrap();
        std::fs::remove_file(path).unwrap();
        assert_eq!(verify(&later, "platform-internal", &token)["client_id"], "crm");
    }

    /// RULE-ALL-041: a machine token needs the secret of the machine.
    #[tokio::test]
    async fn machine_token_needs_the_secret() {
        let issuer = Issuer::start().unwrap();
        let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().unwrap();
        let request = async |secret: &str| {
            let form = [
                ("grant_type", "client_credentials"),
                ("client_id", CLIENTS[0].0),
                ("client_secret", secret),
            ];
            http.post(format!("{}/token", issuer.url())).form(&form).send().await.unwrap()
        };
        assert_eq!(request("guess").await.status(), 401);
        let response: Value = request(CLIENTS[0].1).await.json().await.unwrap();
        let claims = verify(&issuer, "platform-internal", response["access_token"].as_str().unwrap());
        assert_eq!(claims["client_id"], CLIENTS[0].0);
    }
}
