//! LiveKit for tests: a fake that responds as `RoomService` does, records calls and signs webhooks,
//! and a real server with a real client.

mod programs;
mod real;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use time::OffsetDateTime;

pub use self::programs::{browser_client, fetch, fetch_browser_client, server};
pub use self::real::{Participant, RealLiveKit};
use crate::faults::{Call, Fault, FaultProxy};

/// The configured URL for clients of the fake.
pub const URL: &str = "wss://media.example.org/rtc";
pub const KEY: &str = "APIkey";
pub const SECRET: &str = "a secret that is long enough for LiveKit";

const SERVICE: &str = "/twirp/livekit.RoomService/";

/// The fake. Dropping it stops the fake.
pub struct LiveKit(FaultProxy);

impl LiveKit {
    /// Starts a fake that accepts every call.
    ///
    /// # Panics
    /// If the fake does not start.
    pub fn start() -> Self {
        let proxy = FaultProxy::start("http://127.0.0.1:1");
        proxy.inject("/", Fault::Respond(200, "OK".to_owned()));
        proxy.inject(SERVICE, Fault::Respond(200, "{}".to_owned()));
        Self(proxy)
    }

    /// Returns the settings of a service that uses the fake.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("LIVEKIT_URL", URL.to_owned()),
            ("LIVEKIT_API_URL", self.0.url()),
            ("LIVEKIT_API_KEY", KEY.to_owned()),
            ("LIVEKIT_API_SECRET", SECRET.to_owned()),
        ]
    }

    /// Returns the proxy, which injects faults and records calls.
    pub fn proxy(&self) -> &FaultProxy {
        &self.0
    }

    /// Responds to the next `count` calls of a method with a Twirp error.
    pub fn refuse(&self, count: usize, method: &str, status: u16, code: &str) {
        let error = json!({"code": code, "msg": "injected by a test"});
        self.0.inject_next(count, format!("{SERVICE}{method}"), Fault::Respond(status, error.to_string()));
    }

    /// Sets the participants of every room, each with identity and `sid`.
    pub fn set_participants(&self, participants: &[(String, &str)]) {
        let entries = participants.iter().map(|(identity, sid)| {
            json!({"sid": sid, "identity": identity, "state": "ACTIVE", "joined_at": "1", "kind": "STANDARD"})
        });
        let response = json!({"participants": entries.collect::<Vec<_>>()});
        self.0.inject(format!("{SERVICE}ListParticipants"), Fault::Respond(200, response.to_string()));
    }

    /// Returns every call of a method for a room.
    pub fn calls(&self, method: &str, room: &str) -> Vec<Call> {
        let calls = self.0.calls(format!("{SERVICE}{method}")).into_iter();
        calls.filter(|call| call.body["room"] == room).collect()
    }
}

/// Returns the `Authorization` of a webhook with this body, signed now.
pub fn sign(body: &[u8]) -> String {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    sign_as(&json!({"iss": KEY, "nbf": now, "exp": now + 300, "sha256": sha256(body)}), SECRET)
}

/// Returns an `Authorization` with any claims, signed by any secret.
///
/// # Panics
/// If the claims cannot be signed.
pub fn sign_as(claims: &Value, secret: &str) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}

/// Returns the hash of a body in the encoding of webhook tokens.
pub fn sha256(body: &[u8]) -> String {
    BASE64_STANDARD.encode(digest(&SHA256, body))
}
