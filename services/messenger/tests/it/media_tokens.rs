//! Access tokens for rooms.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::livekit::{KEY, SECRET, URL};
use testkit::{eventually, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::fixture::{ConferenceFixture, unix_seconds};
use crate::id_of;

/// Verifies a token and returns its header and its claims.
fn read(token: &str) -> (Value, Value) {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    let claims =
        jsonwebtoken::decode::<Value>(token, &key, &Validation::new(Algorithm::HS256)).unwrap().claims;
    let header = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    (serde_json::from_slice(&header).unwrap(), claims)
}

/// RULE-MSG-047: a token has exactly the claims of the table, for the host and for others.
#[tokio::test]
async fn media_token_has_exactly_the_listed_claims() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    for (media, sources) in [
        ("Audio", json!(["microphone"])),
        ("Video", json!(["microphone", "camera", "screen_share", "screen_share_audio"])),
    ] {
        let id = id_of(&fixture.start(client, json!({"Media": media})).await.expect(201)["Id"]);
        for (user, act) in
            [(client, "media-token"), (agent, "join"), (agent, "media-token"), (client, "join")]
        {
            let now = unix_seconds(0);
            let answer = fixture.act(user, id, act).await.expect(200);
            assert_eq!((&answer["Url"], &answer["Room"]), (&json!(URL), &json!(id)));
            assert_eq!(answer.as_object().unwrap().len(), 4);
            let (header, claims) = read(text(&answer["Token"]));
            assert_eq!(header, json!({"typ": "JWT", "alg": "HS256"}));
            let (exp, nbf) = (claims["exp"].as_i64().unwrap(), claims["nbf"].as_i64().unwrap());
            let expected = json!({
                "iss": KEY, "sub": user, "nbf": nbf, "exp": exp,
                "video": {
                    "room": id, "roomJoin": true, "canSubscribe": true, "canPublish": true,
                    "canPublishData": true, "canPublishSources": sources,
                },
            });
            assert_eq!(claims, expected);
            assert!((now + 599..=now + 602).contains(&exp) && (now - 31..=now - 28).contains(&nbf));
            let expires = OffsetDateTime::parse(text(&answer["ExpiresAt"]), &Rfc3339).unwrap();
            assert_eq!((expires.unix_timestamp(), expires.nanosecond()), (exp, 0));
        }
        fixture.act(client, id, "end").await.expect(200);
    }
}

/// RULE-MSG-032: a repeated join and `media-token` return a later token and change nothing.
/// `media-token` needs Joined.
#[tokio::test]
async fn repeated_join_returns_a_new_token_and_changes_nothing() {
    let fixture = ConferenceFixture::new().await;
    let [_, agent, _] = fixture.users();
    let id = fixture.ring(None).await;
    fixture.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let mut last = fixture.act(agent, id, "join").await.expect(200);
    let conference = fixture.conference(id).await;
    for act in ["join", "media-token"] {
        let end = |access: &Value| read(text(&access["Token"])).1["exp"].as_i64().unwrap();
        // Claims have whole seconds, so only a token of a later second differs from the last one.
        eventually("the next second", async || (unix_seconds(600) > end(&last)).then_some(())).await;
        let earliest = unix_seconds(600);
        let new = fixture.act(agent, id, act).await.expect(200);
        assert!(end(&new) >= earliest && new["Token"] != last["Token"], "{act} gives {new} after {last}");
        let expires = OffsetDateTime::parse(text(&new["ExpiresAt"]), &Rfc3339).unwrap();
        assert_eq!(expires.unix_timestamp(), end(&new), "{act}");
        last = new;
    }
    assert_eq!(fixture.conference(id).await, conference);
    fixture.act(agent, id, "leave").await.expect(200);
    fixture.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}
