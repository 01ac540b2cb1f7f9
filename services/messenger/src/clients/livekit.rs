//! LiveKit, which carries sound and picture: what lets people in, what it is told and asked, and how it signs what it
//! tells.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use auth::UserId;
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use http_client::Call;
use jobs::KnownFailure;
use jsonwebtoken::{Algorithm, DecodingKey, EncodingKey, Header, Validation};
use runtime::Env;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::domain::{ConferenceId, ConnectionSid, Media, Present};

/// Of one call.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Not repeated here: what it has to be told is told again by a job.
const ROOM_SERVICE: Call = Call {
    of: "LiveKit",
    method: "POST",
    path: "/twirp/livekit.RoomService/{method}",
    timeout: TIMEOUT,
    retries: 0,
};

/// Every call.
pub const CALLS: &[Call] = &[ROOM_SERVICE];

/// How long an access token lets its bearer in.
const LIFETIME: Duration = Duration::from_mins(10);
/// Clocks may differ by so much.
const SKEW: Duration = Duration::from_secs(30);
/// After so many probes in a row that failed nobody is rung.
const FAILURES: u32 = 3;

/// Where it is, and who we are to it.
pub struct Config {
    /// For those who join.
    url: String,
    /// For us.
    api_url: String,
    api_key: String,
    api_secret: String,
}

impl Config {
    /// All of it or nothing. The outer `None` is a mistake, the inner one absence.
    #[expect(clippy::option_option, reason = "as everywhere in a configuration")]
    pub fn read(env: &mut Env) -> Option<Option<Self>> {
        let variables = [
            ("LIVEKIT_URL", "the media server as clients reach it, as in wss://media.example.org"),
            ("LIVEKIT_API_URL", "the same as this service reaches it, as in http://livekit:7880"),
            ("LIVEKIT_API_KEY", "who this service is to it; with the other three or not at all"),
            ("LIVEKIT_API_SECRET", "what tokens for it, and what it tells, are signed with"),
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

/// What lets somebody into the room of a conference.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct MediaAccess {
    /// For LiveKit, until `ExpiresAt`.
    token: String,
    /// Where LiveKit is.
    #[schema(examples("wss://media.example.org"))]
    url: String,
    room: ConferenceId,
    #[serde(with = "time::serde::rfc3339")]
    expires_at: OffsetDateTime,
}

/// What a token of ours says.
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
#[expect(clippy::struct_excessive_bools, reason = "they are LiveKit's")]
struct Entrance {
    room: ConferenceId,
    room_join: bool,
    can_subscribe: bool,
    can_publish: bool,
    can_publish_data: bool,
    can_publish_sources: &'static [&'static str],
}

/// Of what somebody signed, in base64.
pub struct SignedSha256(String);

impl SignedSha256 {
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        self.0 == BASE64_STANDARD.encode(digest(&SHA256, bytes))
    }
}

pub struct LiveKit {
    http: reqwest::Client,
    config: Config,
    signing: EncodingKey,
    checking: DecodingKey,
    /// In a row.
    failed_probes: AtomicU32,
    /// Whether it was when it was called last.
    is_away: AtomicBool,
}

impl LiveKit {
    /// # Errors
    /// When no HTTP client can be made.
    pub fn new(config: Config) -> anyhow::Result<Self> {
        Ok(Self {
            http: http_client::client(TIMEOUT)?,
            signing: EncodingKey::from_secret(config.api_secret.as_bytes()),
            checking: DecodingKey::from_secret(config.api_secret.as_bytes()),
            config,
            failed_probes: AtomicU32::new(0),
            is_away: AtomicBool::new(false),
        })
    }

    /// Whether somebody who is rung now could hear anything.
    pub fn is_available(&self) -> bool {
        self.failed_probes.load(Ordering::Relaxed) < FAILURES
    }

    /// Looks whether it lives.
    pub async fn probe(&self, patience: Duration) {
        let asked = self.http.get(&self.config.api_url).timeout(patience.min(TIMEOUT)).send().await;
        // It answers 406 when it is there and not ready.
        let lives = asked.is_ok_and(|answer| !answer.status().is_server_error() && answer.status() != 406);
        let failed = if lives {
            self.failed_probes.swap(0, Ordering::Relaxed)
        } else {
            self.failed_probes.fetch_add(1, Ordering::Relaxed) + 1
        };
        match (lives, failed) {
            (false, FAILURES) => {
                tracing::warn!("LiveKit does not answer: nobody can start or join a conference");
            }
            (true, FAILURES..) => tracing::info!("LiveKit answers again"),
            _ => {}
        }
    }

    /// # Errors
    /// When the token cannot be signed.
    pub fn access(
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
        let entrance = Entrance {
            room,
            room_join: true,
            can_subscribe: true,
            can_publish: true,
            can_publish_data: true,
            can_publish_sources,
        };
        let expires_at = (now + LIFETIME).truncate_to_second();
        let token = self.sign(Some(user), entrance, now, expires_at)?;
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
            nbf: (now - SKEW).unix_timestamp(),
            exp: expires_at.unix_timestamp(),
            video,
        };
        Ok(jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &self.signing)?)
    }

    /// What has been signed, where `authorization` (with or without `Bearer`) is LiveKit's and holds now.
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
        validation.leeway = SKEW.as_secs();
        validation.validate_nbf = true;
        validation.validate_aud = false;
        validation.set_issuer(&[&self.config.api_key]);
        validation.set_required_spec_claims(&["exp", "iss"]);
        let signed = jsonwebtoken::decode::<Signed>(token, &self.checking, &validation).ok()?;
        Some(SignedSha256(signed.claims.sha256))
    }

    /// Has somebody leave a room; one who is not there is as good.
    ///
    /// # Errors
    /// When it does not answer, or refuses.
    pub async fn remove_participant(&self, room: ConferenceId, user: UserId) -> anyhow::Result<()> {
        let body = json!({"room": room, "identity": user});
        self.call("RemoveParticipant", admission(room), &body).await.map(drop)
    }

    /// Closes a room; one that is not there is as good.
    ///
    /// # Errors
    /// As of [`LiveKit::remove_participant`].
    pub async fn delete_room(&self, room: ConferenceId) -> anyhow::Result<()> {
        self.call("DeleteRoom", json!({"roomCreate": true}), &json!({"room": room})).await.map(drop)
    }

    /// Who is connected to a room: of our people.
    ///
    /// # Errors
    /// As of [`LiveKit::remove_participant`].
    pub async fn list_participants(&self, room: ConferenceId) -> anyhow::Result<Vec<Present>> {
        let answer = self.call("ListParticipants", admission(room), &json!({"room": room})).await?;
        let Some(answer) = answer else { return Ok(Vec::new()) };
        let listed = answer["participants"].as_array().map_or(&[][..], Vec::as_slice);
        let connected = listed.iter().filter(|listed| listed["state"] != "DISCONNECTED");
        Ok(connected.filter_map(present).collect())
    }

    /// `None`: it knows of no such thing. That it is away is said once, and not by all who call it.
    async fn call(&self, method: &str, grant: Value, body: &Value) -> anyhow::Result<Option<Value>> {
        let called = self.attempt(method, grant, body).await;
        let is_away = called.as_ref().is_err_and(anyhow::Error::is::<KnownFailure>);
        match (self.is_away.swap(is_away, Ordering::Relaxed), &called) {
            (false, Err(error)) if is_away => {
                tracing::warn!(
                    error = format!("{error:#}"),
                    "LiveKit takes no calls: each will be tried again"
                );
            }
            (true, _) if !is_away => tracing::info!("LiveKit takes calls again"),
            _ => {}
        }
        called
    }

    /// # Errors
    /// As [`KnownFailure`] where it is away.
    async fn attempt(&self, method: &str, grant: Value, body: &Value) -> anyhow::Result<Option<Value>> {
        #[derive(Deserialize)]
        struct Refusal {
            code: String,
        }
        let now = runtime::clock::now();
        let token = self.sign(None, grant, now, now + SKEW)?;
        let url = format!("{}{}", self.config.api_url, ROOM_SERVICE.at(method));
        let call = self.http.post(url).headers(http_client::trace()).bearer_auth(token).json(body);
        let answer = call.send().await.context("no answer").context(KnownFailure)?;
        let status = answer.status();
        if status.is_server_error() {
            return Err(anyhow!("{method} is answered {status}").context(KnownFailure));
        }
        if status.is_success() {
            return Ok(Some(answer.json().await.context("it does not answer what it should")?));
        }
        match answer.json::<Refusal>().await {
            Ok(Refusal { code }) if code == "not_found" => Ok(None),
            Ok(Refusal { code }) => bail!("{method} is answered {status} {code}"),
            Err(_) => bail!("{method} is answered {status}"),
        }
    }
}

/// What lets us see who is in a room, and send somebody away.
fn admission(room: ConferenceId) -> Value {
    json!({"roomAdmin": true, "room": room})
}

/// A participant as LiveKit writes one. `None`: none of our people.
pub fn present(participant: &Value) -> Option<Present> {
    let user_id = participant["identity"].as_str()?.parse().ok()?;
    let sid = participant["sid"].as_str().and_then(|sid| ConnectionSid::parse(sid).ok());
    Some(Present { user_id, sid })
}
