//! The client of LiveKit, which carries the media. It signs access tokens, sends commands and
//! verifies webhooks.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use auth::UserId;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_client::Call;
use jobs::AlreadyLogged;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use runtime::Env;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{ConferenceId, ConnectedParticipant, ConnectionSid, Media};

const CALL_TIMEOUT: Duration = Duration::from_secs(5);
/// Calls without retries, because the job `media-command` repeats a failed command.
const ROOM_SERVICE: Call = Call {
    service: "LiveKit",
    method: "POST",
    path: "/twirp/livekit.RoomService/{method}",
    timeout: CALL_TIMEOUT,
    retries: 0,
};

/// Every call to LiveKit.
pub const CALLS: &[Call] = &[ROOM_SERVICE];

/// Lifetime of an access token.
const TOKEN_LIFETIME: Duration = Duration::from_mins(10);
/// Tolerated difference between the clocks of LiveKit and of this service.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(30);
/// Consecutive failed probes after which LiveKit counts as unavailable.
const MAX_FAILED_PROBES: u32 = 3;

/// The addresses of LiveKit and the key pair of this service.
pub struct Config {
    /// Address for clients.
    url: String,
    /// Address for this service.
    api_url: String,
    api_key: String,
    api_secret: String,
}

impl Config {
    /// Reads the four settings, which are all set or all unset.
    /// The outer `None` is an invalid setting, and the inner one means unset.
    #[expect(clippy::option_option, reason = "the same shape as every optional setting")]
    pub fn read(env: &mut Env) -> Option<Option<Self>> {
        let variables = [
            ("LIVEKIT_URL", "address of LiveKit for clients, as in wss://media.example.org"),
            ("LIVEKIT_API_URL", "address of LiveKit for this service, as in http://livekit:7880"),
            ("LIVEKIT_API_KEY", "LiveKit API key; set all four LIVEKIT_ variables or none"),
            ("LIVEKIT_API_SECRET", "LiveKit API secret, which signs tokens, calls and webhooks"),
        ];
        let found = variables.map(|(name, about)| env.optional::<String>(name, about));
        if found.iter().all(|found| matches!(found, Some(None))) {
            return Some(None);
        }
        let [url, api_url, api_key, api_secret] = variables.map(|(name, about)| env.require(name, about));
        let api_url = api_url.map(|url: String| url.trim_end_matches('/').to_owned());
        Some(Some(Self { url: url?, api_url: api_url?, api_key: api_key?, api_secret: api_secret? }))
    }
}

/// The access of a participant to the room of a conference.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MediaAccess {
    /// The access token of LiveKit, valid until `ExpiresAt`.
    token: String,
    /// The address of LiveKit for clients.
    #[schema(examples("wss://media.example.org"))]
    url: String,
    /// Name of the room at the media server.
    room: ConferenceId,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

/// The claims of a token that this service signs.
#[derive(Serialize)]
struct Claims<'c, V> {
    iss: &'c str,
    #[serde(skip_serializing_if = "Option::is_none")]
    sub: Option<UserId>,
    nbf: i64,
    exp: i64,
    video: V,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
#[expect(clippy::struct_excessive_bools, reason = "LiveKit defines these fields")]
struct RoomGrant {
    room: ConferenceId,
    room_join: bool,
    can_subscribe: bool,
    can_publish: bool,
    can_publish_data: bool,
    can_publish_sources: &'static [&'static str],
}

/// The SHA-256 of a webhook's body, in base64, as LiveKit signed it.
pub struct SignedSha256(String);

impl SignedSha256 {
    pub fn matches(&self, bytes: &[u8]) -> bool {
        self.0 == BASE64_STANDARD.encode(digest(&SHA256, bytes))
    }
}

pub struct LiveKit {
    http: reqwest::Client,
    config: Config,
    encoding_key: EncodingKey,
    decoding_key: DecodingKey,
    /// Consecutive failed probes.
    failed_probes: AtomicU32,
    /// True if the last call failed to reach LiveKit, or LiveKit returned 5xx.
    is_unreachable: AtomicBool,
}

impl LiveKit {
    pub fn new(config: Config) -> anyhow::Result<Self> {
        Ok(Self {
            http: http_client::new_client(CALL_TIMEOUT)?,
            encoding_key: EncodingKey::from_secret(config.api_secret.as_bytes()),
            decoding_key: DecodingKey::from_secret(config.api_secret.as_bytes()),
            config,
            failed_probes: AtomicU32::new(0),
            is_unreachable: AtomicBool::new(false),
        })
    }

    /// Returns false while the last [`MAX_FAILED_PROBES`] probes have failed.
    pub fn is_available(&self) -> bool {
        self.failed_probes.load(Ordering::Relaxed) < MAX_FAILED_PROBES
    }

    /// Probes LiveKit once, and counts consecutive failures.
    pub async fn probe(&self, timeout: Duration) {
        let probed = self.http.get(&self.config.api_url).timeout(timeout.min(CALL_TIMEOUT)).send().await;
        // LiveKit returns 406 while it runs but is not ready.
        let is_ready =
            probed.is_ok_and(|response| !response.status().is_server_error() && response.status() != 406);
        let failed_probes = if is_ready {
            self.failed_probes.swap(0, Ordering::Relaxed)
        } else {
            self.failed_probes.fetch_add(1, Ordering::Relaxed) + 1
        };
        match (is_ready, failed_probes) {
            (false, MAX_FAILED_PROBES) => {
                tracing::warn!(failed_probes, "LiveKit became unavailable, conferences are refused");
            }
            (true, MAX_FAILED_PROBES..) => {
                tracing::info!(failed_probes, "LiveKit became available again");
            }
            _ => {}
        }
    }

    /// Signs an access token for one user and one room.
    pub fn create_access(
        &self,
        room: ConferenceId,
        user: UserId,
        media: Media,
        now: OffsetDateTime,
    ) -> anyhow::Result<MediaAccess> {
        let can_publish_sources: &[_] = match media {
            Media::Audio => &["microphone"],
            Media::Video => &["microphone", "camera", "screen_share", "screen_share_audio"],
        };
        let grant = RoomGrant {
            room,
            room_join: true,
            can_subscribe: true,
            can_publish: true,
            can_publish_data: true,
            can_publish_sources,
        };
        let expires_at = (now + TOKEN_LIFETIME).truncate_to_second();
        let token = self.sign(Some(user), grant, now, expires_at)?;
        Ok(MediaAccess { token, url: self.config.url.clone(), room, expires_at })
    }

    fn sign(
        &self,
        sub: Option<UserId>,
        video: impl Serialize,
        now: OffsetDateTime,
        expires_at: OffsetDateTime,
    ) -> anyhow::Result<String> {
        let claims = Claims {
            iss: &self.config.api_key,
            sub,
            nbf: (now - MAX_CLOCK_SKEW).unix_timestamp(),
            exp: expires_at.unix_timestamp(),
            video,
        };
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.encoding_key)?)
    }

    /// Verifies the token in `authorization`, and returns the hash of the body that LiveKit signed.
    /// Returns `None` for a token that is invalid or expired.
    /// The scheme `Bearer` is optional.
    pub fn verify(&self, authorization: &str) -> Option<SignedSha256> {
        #[derive(Deserialize)]
        struct Signed {
            sha256: String,
        }
        let token = match authorization.trim().split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            Some(_) => return None,
            None => authorization.trim(),
        };
        let mut validation = Validation::new(Algorithm::HS256);
        validation.leeway = MAX_CLOCK_SKEW.as_secs();
        validation.validate_nbf = true;
        validation.validate_aud = false;
        validation.set_issuer(&[&self.config.api_key]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        let signed = jsonwebtoken::decode::<Signed>(token, &self.decoding_key, &validation).ok()?;
        Some(SignedSha256(signed.claims.sha256))
    }

    /// Removes a participant from a room. An absent participant is a success.
    ///
    /// # Errors
    /// LiveKit is unreachable, returned 5xx (both as [`AlreadyLogged`]), or refused the call.
    pub async fn remove_participant(&self, room: ConferenceId, user: UserId) -> anyhow::Result<()> {
        let body = json!({"room": room, "identity": user});
        self.call("RemoveParticipant", admin_grant(room), &body).await.map(drop)
    }

    /// Closes a room. An unknown room is a success.
    ///
    /// # Errors
    /// The errors of [`LiveKit::remove_participant`].
    pub async fn delete_room(&self, room: ConferenceId) -> anyhow::Result<()> {
        self.call("DeleteRoom", json!({"roomCreate": true}), &json!({"room": room})).await.map(drop)
    }

    /// Returns the users who are connected to a room.
    ///
    /// # Errors
    /// The errors of [`LiveKit::remove_participant`].
    pub async fn list_participants(&self, room: ConferenceId) -> anyhow::Result<Vec<ConnectedParticipant>> {
        let response = self.call("ListParticipants", admin_grant(room), &json!({"room": room})).await?;
        let Some(response) = response else { return Ok(Vec::new()) };
        let listed = response["participants"].as_array().map_or(&[][..], Vec::as_slice);
        let connected = listed.iter().filter(|listed| listed["state"] != "DISCONNECTED");
        Ok(connected.filter_map(parse_participant).collect())
    }

    /// Calls a method of LiveKit. Returns `None` if LiveKit answers `not_found`. Logs the beginning
    /// and the end of an outage once, instead of one line for each failed call.
    async fn call(&self, method: &str, grant: Value, body: &Value) -> anyhow::Result<Option<Value>> {
        let called = self.attempt(method, grant, body).await;
        let is_unreachable = called.as_ref().is_err_and(anyhow::Error::is::<AlreadyLogged>);
        match (self.is_unreachable.swap(is_unreachable, Ordering::Relaxed), &called) {
            (false, Err(error)) if is_unreachable => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "LiveKit became unreachable, calls will be retried"
                );
            }
            (true, _) if !is_unreachable => tracing::info!("LiveKit became reachable again"),
            _ => {}
        }
        called
    }

    /// Calls a method without a log line.
    ///
    /// # Errors
    /// LiveKit is unreachable, returned 5xx (both as [`AlreadyLogged`]), or refused the call.
    async fn attempt(&self, method: &str, grant: Value, body: &Value) -> anyhow::Result<Option<Value>> {
        #[derive(Deserialize)]
        struct Refusal {
            code: String,
        }
        let now = runtime::clock::now();
        // The call starts at once, so the token only has to outlast the difference of the clocks.
        let token = self.sign(None, grant, now, now + MAX_CLOCK_SKEW)?;
        let url = format!("{}{}", self.config.api_url, ROOM_SERVICE.path_with(method));
        let call = self.http.post(url).headers(http_client::trace_headers()).bearer_auth(token).json(body);
        let response = call.send().await.context("failed to call LiveKit").map_err(AlreadyLogged::wrap)?;
        let status = response.status();
        if status.is_server_error() {
            return Err(AlreadyLogged::wrap(anyhow!("LiveKit returned {status} for {method}")));
        }
        if status.is_success() {
            return Ok(Some(response.json().await.context("failed to decode the response of LiveKit")?));
        }
        match response.json::<Refusal>().await {
            Ok(Refusal { code }) if code == "not_found" => Ok(None),
            Ok(Refusal { code }) => bail!("LiveKit returned {status} {code} for {method}"),
            Err(_) => bail!("LiveKit returned {status} for {method}"),
        }
    }
}

/// Returns the grant to list and to remove the participants of a room.
fn admin_grant(room: ConferenceId) -> Value {
    json!({"roomAdmin": true, "room": room})
}

/// Parses a participant of LiveKit. Returns `None` if its identity is not a user id.
pub fn parse_participant(participant: &Value) -> Option<ConnectedParticipant> {
    let user_id = participant["identity"].as_str()?.parse().ok()?;
    let sid = participant["sid"].as_str().and_then(|sid| ConnectionSid::parse(sid).ok());
    Some(ConnectedParticipant { user_id, sid })
}
