//! The clients of machine accounts, which identity manages over a part of Keycloak's admin API.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use actix_web::http::header::AUTHORIZATION;
use actix_web::web::{self, Data, Json, ServiceConfig};
use actix_web::{HttpRequest, HttpResponse};
use anyhow::Context;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Value, json};

use super::{Claims, Issuer, PLATFORM_INTERNAL};

/// The path of the realm in the admin API.
pub(super) const REALM: &str = "/admin/realms/platform";
/// The service that may manage clients.
const MANAGER: &str = "identity";

/// Clients by their ids, as Keycloak represents them. The file keeps them for the next process.
#[derive(Default)]
pub(super) struct Clients {
    by_id: Mutex<BTreeMap<String, Value>>,
    file: Option<PathBuf>,
}

impl Clients {
    pub(super) fn load(file: &Path) -> anyhow::Result<Self> {
        let by_id = match std::fs::read(file) {
            Ok(text) => serde_json::from_slice(&text).with_context(|| file.display().to_string())?,
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        Ok(Self { by_id: Mutex::new(by_id), file: Some(file.to_owned()) })
    }

    /// Returns the claims of a client's next token, if the secret is right and the client enabled.
    pub(super) fn claims(&self, id: &str, secret: &str) -> Option<Claims> {
        let by_id = self.lock();
        let client =
            by_id.get(id).filter(|client| client["secret"] == secret && client["enabled"] == true)?;
        let constant = |claim: &str| {
            let mappers = client["protocolMappers"].as_array()?;
            let mapper = mappers.iter().find(|mapper| mapper["config"]["claim.name"] == claim)?;
            Some(mapper["config"]["claim.value"].as_str()?.to_owned())
        };
        Some(Claims {
            company_id: constant("company_id")?.parse().ok(),
            permissions: serde_json::from_str(&constant("permissions")?).ok()?,
            ..Claims::user(constant("sub")?.parse().ok()?)
        })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Value>> {
        self.by_id.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the clients and writes the file.
    fn change<T>(&self, change: impl FnOnce(&mut BTreeMap<String, Value>) -> T) -> anyhow::Result<T> {
        let mut by_id = self.lock();
        let result = change(&mut by_id);
        if let Some(file) = &self.file {
            super::write_private(file, &serde_json::to_vec(&*by_id)?)?;
        }
        Ok(result)
    }
}

pub(super) fn routes(routes: &mut ServiceConfig) {
    routes
        .route(&format!("{REALM}/clients"), web::post().to(create))
        .route(&format!("{REALM}/clients/{{id}}"), web::put().to(replace))
        .route(&format!("{REALM}/clients/{{id}}"), web::delete().to(delete))
        .route(&format!("{REALM}/clients/{{id}}/client-secret"), web::post().to(renew_secret));
}

async fn create(issuer: Data<Issuer>, request: HttpRequest, client: Json<Value>) -> HttpResponse {
    answer(&issuer, &request, |clients| {
        let id = client["id"].as_str().unwrap_or_default();
        if clients.contains_key(id) {
            return HttpResponse::Conflict().finish();
        }
        clients.insert(id.to_owned(), with_secret(client.0.clone(), new_secret().into()));
        HttpResponse::Created().finish()
    })
}

async fn replace(issuer: Data<Issuer>, request: HttpRequest, client: Json<Value>) -> HttpResponse {
    change_client(&issuer, &request, |present| {
        *present = with_secret(client.0.clone(), present["secret"].take());
        HttpResponse::NoContent().finish()
    })
}

async fn renew_secret(issuer: Data<Issuer>, request: HttpRequest) -> HttpResponse {
    change_client(&issuer, &request, |client| {
        client["secret"] = new_secret().into();
        HttpResponse::Ok().json(json!({"type": "secret", "value": client["secret"]}))
    })
}

async fn delete(issuer: Data<Issuer>, request: HttpRequest) -> HttpResponse {
    answer(&issuer, &request, |clients| match clients.remove(id(&request)) {
        Some(_) => HttpResponse::NoContent().finish(),
        None => HttpResponse::NotFound().finish(),
    })
}

fn change_client(
    issuer: &Issuer,
    request: &HttpRequest,
    change: impl FnOnce(&mut Value) -> HttpResponse,
) -> HttpResponse {
    answer(issuer, request, |clients| match clients.get_mut(id(request)) {
        Some(client) => change(client),
        None => HttpResponse::NotFound().finish(),
    })
}

/// Answers a request of [`MANAGER`], and rejects other callers.
fn answer(
    issuer: &Issuer,
    request: &HttpRequest,
    change: impl FnOnce(&mut BTreeMap<String, Value>) -> HttpResponse,
) -> HttpResponse {
    if caller(issuer, request).as_deref() != Some(MANAGER) {
        return HttpResponse::Unauthorized().finish();
    }
    issuer.0.clients.change(change).unwrap_or_else(|_| HttpResponse::InternalServerError().finish())
}

/// Returns the client id of the caller's machine token.
fn caller(issuer: &Issuer, request: &HttpRequest) -> Option<String> {
    let token = request.headers().get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")?;
    let mut rules = Validation::new(Algorithm::ES256);
    rules.set_audience(&[PLATFORM_INTERNAL]);
    rules.set_issuer(&[issuer.url()]);
    let key = DecodingKey::from_jwk(issuer.jwks().keys.first()?).ok()?;
    let claims = jsonwebtoken::decode::<Value>(token, &key, &rules).ok()?.claims;
    Some(claims["client_id"].as_str()?.to_owned())
}

fn id(request: &HttpRequest) -> &str {
    request.match_info().get("id").unwrap_or_default()
}

fn with_secret(mut client: Value, secret: Value) -> Value {
    client["secret"] = secret;
    client
}

fn new_secret() -> String {
    format!("{:032x}{:032x}", rand::random::<u128>(), rand::random::<u128>())
}
