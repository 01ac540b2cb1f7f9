//! Access tokens for rooms.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::livekit::{KEY, SECRET, URL};
use testkit::{eventually, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::fixture::{ConferenceFixture, state, unix_seconds};
use crate::id_of;

/// Verifies a token and returns its header and its claims.
fn verify(token: &str) -> (Value, Value) {
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
            let response = fixture.act(user, id, act).await.expect(200);
            assert_eq!((&response["Url"], &response["Room"]), (&json!(URL), &json!(id)));
            assert_eq!(response.as_object().unwrap().len(), 4);
            let (header, claims) = verify(text(&response["Token"]));
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
            let expires = OffsetDateTime::parse(text(&response["ExpiresAt"]), &Rfc3339).unwrap();
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
        let expiry = |access: &Value| verify(text(&access["Token"])).1["exp"].as_i64().unwrap();
        // Claims have whole seconds, so only a token of a later second differs from the last one.
        eventually("the next second", async || (unix_seconds(600) > expiry(&last)).then_some(())).await;
        let earliest = unix_seconds(600);
        let new = fixture.act(agent, id, act).await.expect(200);
        assert!(expiry(&new) >= earliest && new["Token"] != last["Token"], "{act} gives {new} after {last}");
        let expires = OffsetDateTime::parse(text(&new["ExpiresAt"]), &Rfc3339).unwrap();
        assert_eq!(expires.unix_timestamp(), expiry(&new), "{act}");
        last = new;
    }
    assert_eq!(fixture.conference(id).await, conference);
    fixture.act(agent, id, "leave").await.expect(200);
    fixture.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}

/// RULE-MSG-085: a participant whose connection broke gets a token without a join, and is Joined
/// when the connection begins. After a leave by request they have to join.
#[tokio::test]
async fn participant_with_a_broken_connection_gets_a_token() {
    let fixture = ConferenceFixture::new().await;
    let [client, agent, _] = fixture.users();
    let id = fixture.ring_and_join().await;
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_1", unix_seconds(1)).await;
    fixture.send_participant_webhook("participant_left", id, agent, "PA_1", unix_seconds(2)).await;
    let broken = fixture.conference(id).await;
    assert_eq!(state(&broken, agent), "Left");
    let access = fixture.act(agent, id, "media-token").await.expect(200);
    assert_eq!(verify(text(&access["Token"])).1["sub"], json!(agent));
    assert_eq!(fixture.conference(id).await, broken, "the token changes nothing");
    fixture.send_participant_webhook("participant_joined", id, agent, "PA_2", unix_seconds(3)).await;
    assert_eq!(state(&fixture.conference(id).await, agent), "Joined");

    fixture.send_participant_webhook("participant_left", id, agent, "PA_2", unix_seconds(4)).await;
    fixture.act(agent, id, "leave").await.expect(200);
    fixture.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    fixture.act(agent, id, "join").await.expect(200);
    fixture.send_participant_webhook("participant_left", id, agent, "PA_3", unix_seconds(5)).await;
    fixture.remove_participant(client, id, agent).await.expect(200);
    fixture.act(agent, id, "media-token").await.expect_problem(403, "MESSENGER_PARTICIPANT_REMOVED");
    fixture.act(client, id, "end").await.expect(200);
}

/// RULE-MSG-085: a participant whose connection broke gets no token while all seats are taken.
#[tokio::test]
async fn participant_with_a_broken_connection_needs_a_seat() {
    let fixture = ConferenceFixture::new().await;
    let more = fixture.add_members(20).await;
    let agent = fixture.deal.agent();
    let id = fixture.ring(Some(&more[..19])).await;
    fixture.act(agent, id, "join").await.expect(200);
    fixture.send_participant_webhook("participant_left", id, agent, "PA_1", unix_seconds(1)).await;
    fixture.act(more[19], id, "join").await.expect(200);
    fixture.act(agent, id, "media-token").await.expect_problem(409, "MESSENGER_CONFERENCE_FULL");
    fixture.act(more[19], id, "leave").await.expect(200);
    fixture.act(agent, id, "media-token").await.expect(200);
}
