//! A media server as services see it: it answers as LiveKit's `RoomService` does, remembers what it is told, and signs
//! what it tells. And a real one, with its own client.

mod programs;
mod real;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use serde_json::{Value, json};
use time::OffsetDateTime;

pub use self::programs::{fetch, fetch_browser_client, browser_client, server};
pub use self::real::{Participant, RealLiveKit};
use crate::faults::{Call, Fault, FaultProxy};

/// Where clients find it, says the configuration.
pub const URL: &str = "wss://media.example.org/rtc";
pub const KEY: &str = "APIkey";
pub const SECRET: &str = "a secret that is long enough for LiveKit";

const SERVICE: &str = "/twirp/livekit.RoomService/";

/// The peer. It stops when dropped.
pub struct LiveKit(FaultProxy);

impl LiveKit {
    /// One with whose rooms all is well.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start() -> Self {
        let peer = FaultProxy::start("http://127.0.0.1:1");
        peer.on("/", Fault::Respond(200, "OK".to_owned()));
        peer.on(SERVICE, Fault::Respond(200, "{}".to_owned()));
        Self(peer)
    }

    /// What a service is told of it.
    pub fn settings(&self) -> [(&'static str, String); 4] {
        [
            ("LIVEKIT_URL", URL.to_owned()),
            ("LIVEKIT_API_URL", self.0.url()),
            ("LIVEKIT_API_KEY", KEY.to_owned()),
            ("LIVEKIT_API_SECRET", SECRET.to_owned()),
        ]
    }

    /// How it fails, and every call.
    pub fn faults(&self) -> &FaultProxy {
        &self.0
    }

    /// Answers the next calls of a method with an error, as twirp writes one.
    pub fn refuse(&self, count: usize, method: &str, status: u16, code: &str) {
        let answer = json!({"code": code, "msg": "as a test asks for"});
        self.0.next(count, format!("{SERVICE}{method}"), Fault::Respond(status, answer.to_string()));
    }

    /// Answers from now on that these are in every room: identity and `sid`.
    pub fn seat(&self, participants: &[(String, &str)]) {
        let seated = participants.iter().map(|(identity, sid)| {
            json!({"sid": sid, "identity": identity, "state": "ACTIVE", "joined_at": "1", "kind": "STANDARD"})
        });
        let answer = json!({"participants": seated.collect::<Vec<_>>()});
        self.0.on(format!("{SERVICE}ListParticipants"), Fault::Respond(200, answer.to_string()));
    }

    /// Every call of a method that concerns a room.
    pub fn calls(&self, method: &str, room: &str) -> Vec<Call> {
        let calls = self.0.calls(format!("{SERVICE}{method}")).into_iter();
        calls.filter(|call| call.body["room"] == room).collect()
    }
}

/// The `Authorization` of a webhook with this body, as it signs one now.
pub fn sign(body: &[u8]) -> String {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    sign_as(&json!({"iss": KEY, "nbf": now, "exp": now + 300, "sha256": sha256(body)}), SECRET)
}

/// The same, with claims of a test's own, signed by this secret.
///
/// # Panics
/// When they cannot be signed.
pub fn sign_as(claims: &Value, secret: &str) -> String {
    let key = EncodingKey::from_secret(secret.as_bytes());
    jsonwebtoken::encode(&Header::new(Algorithm::HS256), claims, &key).expect("a token")
}

/// Of a body, as a webhook's token has it.
pub fn sha256(body: &[u8]) -> String {
    BASE64_STANDARD.encode(digest(&SHA256, body))
}
