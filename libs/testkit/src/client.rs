//! An HTTP client that checks each response against the documents of the service.

use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::contract;
pub use crate::response::Response;

/// A caller: an address, and a token unless the caller is a guest.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    /// The forwarded client address. It is random, so that rate limits count each test separately.
    address: String,
}

impl Client {
    pub(crate) fn new(base: String, token: Option<String>) -> Self {
        let [a, b, c] = rand::random::<[u8; 3]>();
        // Services under test serve plain HTTP. Reading the machine's certificates would take
        // longer than a test.
        let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().expect("a client");
        Self { http, base, token, address: format!("10.{a}.{b}.{c}") }
    }

    /// Builds a request that the test completes and sends with [`send`].
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .header("X-Forwarded-For", &self.address);
        match &self.token {
            Some(token) => request.bearer_auth(token),
            None => request,
        }
    }

    pub async fn get(&self, path: &str) -> Response {
        send(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> Response {
        send(self.request(Method::DELETE, path)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Response {
        send(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Response {
        send(self.request(Method::POST, path).json(&body)).await
    }
}

/// Sends a request and reads the whole response.
///
/// # Panics
/// If there is no response, or the service does not document it.
pub async fn send(request: RequestBuilder) -> Response {
    let (client, request) = request.build_split();
    let request = request.expect("a request");
    let (method, url) = (request.method().clone(), request.url().clone());
    let received = client.execute(request).await.expect("a response");
    let (status, headers) = (received.status().as_u16(), received.headers().clone());
    let bytes = received.bytes().await.expect("a whole response");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let response =
        Response { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), text };
    if let Some(contract) = contract::of(url.authority())
        && let Err(error) = contract.check_response(method.as_str(), url.path(), &response)
    {
        panic!("undocumented response {status} to {method} {}: {error:#}: {}", url.path(), response.text);
    }
    response
}
