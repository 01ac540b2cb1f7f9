//! An HTTP client that checks each response against the documents of the service.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::contract;

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

/// A response with its whole body.
#[derive(Debug)]
pub struct Response {
    pub status: u16,
    pub headers: HeaderMap,
    /// `null` if the body is not JSON.
    pub body: Value,
    pub text: String,
}

impl Response {
    /// Returns a header as text, empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// Asserts the status and returns the body.
    ///
    /// # Panics
    /// If the status differs.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// Asserts that the response is this problem, with every member of a problem, and returns its
    /// body.
    ///
    /// # Panics
    /// If the response differs.
    #[track_caller]
    pub fn expect_problem(self, status: u16, code: &str) -> Value {
        assert_eq!((self.status, self.body["code"].as_str()), (status, Some(code)), "{}", self.text);
        assert_eq!(self.header("content-type"), "application/problem+json");
        assert_eq!(self.body["status"], status);
        for member in ["type", "title", "instance", "traceId"] {
            assert!(
                self.body[member].as_str().is_some_and(|text| !text.is_empty()),
                "{member}: {}",
                self.text
            );
        }
        assert_ne!(self.body["title"], code, "{code} has no title in the message files");
        assert!(self.body.get("detail").is_some() && self.body["errors"].is_array(), "{}", self.text);
        self.body
    }

    /// Asserts that the response is 400 with this code, and that its errors name `field` and
    /// `reason`.
    ///
    /// # Panics
    /// If the response differs.
    #[track_caller]
    pub fn expect_refusal(self, code: &str, field: &str, reason: &str) {
        let body = self.expect_problem(400, code);
        let errors = body["errors"].as_array().expect("errors");
        let reported = errors.iter().find(|error| error["field"] == field && error["code"] == reason);
        let message =
            reported.unwrap_or_else(|| panic!("{field} is not {reason}: {body}"))["message"].as_str();
        assert!(message.is_some_and(|message| !message.is_empty() && message != reason), "{body}");
    }
}
