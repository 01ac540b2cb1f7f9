//! An HTTP client that knows what answers should look like.

use reqwest::header::HeaderMap;
use reqwest::{Method, RequestBuilder};
use serde_json::Value;

use crate::contract;

/// A caller: an address, and a token unless it is a guest.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    token: Option<String>,
    /// Its address as the trusted proxy tells it, so that rate limits take tests for different guests.
    address: String,
}

impl Client {
    pub(crate) fn new(base: String, token: Option<String>) -> Self {
        let [a, b, c] = rand::random::<[u8; 3]>();
        // Services under test speak plain HTTP; reading the machine's certificates takes longer than a test.
        let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().expect("a client");
        Self { http, base, token, address: format!("10.{a}.{b}.{c}") }
    }

    /// A request that the test completes and sends with [`Client::send`].
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

    pub async fn get(&self, path: &str) -> Answer {
        send(self.request(Method::GET, path)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        send(self.request(Method::DELETE, path)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        send(self.request(Method::PUT, path).json(&body)).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        send(self.request(Method::POST, path).json(&body)).await
    }
}

/// Sends a request and reads the whole answer.
///
/// # Panics
/// When there is no answer, or one that the service does not document.
pub async fn send(request: RequestBuilder) -> Answer {
    let (client, request) = request.build_split();
    let request = request.expect("a request");
    let (method, url) = (request.method().clone(), request.url().clone());
    let response = client.execute(request).await.expect("an answer");
    let (status, headers) = (response.status().as_u16(), response.headers().clone());
    let bytes = response.bytes().await.expect("a whole answer");
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let answer =
        Answer { status, headers, body: serde_json::from_slice(&bytes).unwrap_or(Value::Null), text };
    if let Some(contract) = contract::of(url.authority())
        && let Err(error) = contract.check_answer(method.as_str(), url.path(), &answer)
    {
        panic!("{method} {} is answered {status}, and {error:#}: {}", url.path(), answer.text);
    }
    answer
}

/// An answer, read whole.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    /// `null` when it is not JSON.
    pub body: Value,
    pub text: String,
}

impl Answer {
    /// A header as text, empty when it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The body of a success.
    ///
    /// # Panics
    /// Unless the status is this one.
    #[track_caller]
    pub fn expect(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text);
        self.body
    }

    /// A problem, with every member that a problem has.
    ///
    /// # Panics
    /// Unless it is this one.
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

    /// `400 VALIDATION_FAILED` (or `code`) that blames `field` for `reason`.
    ///
    /// # Panics
    /// Unless it is that.
    #[track_caller]
    pub fn expect_refusal(self, code: &str, field: &str, reason: &str) {
        let body = self.expect_problem(400, code);
        let errors = body["errors"].as_array().expect("errors");
        let blamed = errors.iter().find(|error| error["field"] == field && error["code"] == reason);
        let message = blamed.unwrap_or_else(|| panic!("{field} is not {reason}: {body}"))["message"].as_str();
        assert!(message.is_some_and(|message| !message.is_empty() && message != reason), "{body}");
    }
}
