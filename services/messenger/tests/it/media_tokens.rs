//! What lets people into rooms.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde_json::{Value, json};
use testkit::livekit::{KEY, SECRET, URL};
use testkit::{eventually, text};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::calls::{Line, seconds};
use crate::id_of;

/// The header and the claims of a token, whose signature holds.
fn read(token: &str) -> (Value, Value) {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation};
    let key = DecodingKey::from_secret(SECRET.as_bytes());
    let claims =
        jsonwebtoken::decode::<Value>(token, &key, &Validation::new(Algorithm::HS256)).unwrap().claims;
    let header = BASE64_URL_SAFE_NO_PAD.decode(token.split('.').next().unwrap()).unwrap();
    (serde_json::from_slice(&header).unwrap(), claims)
}

/// Section 5, token: exactly these claims, for the host neither more.
#[tokio::test]
async fn a_token_says_what_is_needed_and_nothing_else() {
    let line = Line::new().await;
    let [client, agent, _] = line.people();
    for (media, sources) in [
        ("Audio", json!(["microphone"])),
        ("Video", json!(["microphone", "camera", "screen_share", "screen_share_audio"])),
    ] {
        let id = id_of(&line.start(client, json!({"Media": media})).await.expect(201)["Id"]);
        for (user, act) in
            [(client, "media-token"), (agent, "join"), (agent, "media-token"), (client, "join")]
        {
            let now = seconds(0);
            let answer = line.act(user, id, act).await.expect(200);
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
        line.act(client, id, "end").await.expect(200);
    }
}

/// Section 4: a repeated join and `media-token` each give a token that ends later, and change nothing. `media-token` is for who
/// is Joined.
#[tokio::test]
async fn a_repeated_join_gives_a_new_token_and_changes_nothing() {
    let line = Line::new().await;
    let [_, agent, _] = line.people();
    let id = line.ring(None).await;
    line.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
    let mut last = line.act(agent, id, "join").await.expect(200);
    let card = line.card(id).await;
    for act in ["join", "media-token"] {
        let end = |access: &Value| read(text(&access["Token"])).1["exp"].as_i64().unwrap();
        // The claims have whole seconds: a token of a later second differs from the last one.
        eventually("the next second", async || (seconds(600) > end(&last)).then_some(())).await;
        let earliest = seconds(600);
        let new = line.act(agent, id, act).await.expect(200);
        assert!(end(&new) >= earliest && new["Token"] != last["Token"], "{act} gives {new} after {last}");
        let expires = OffsetDateTime::parse(text(&new["ExpiresAt"]), &Rfc3339).unwrap();
        assert_eq!(expires.unix_timestamp(), end(&new), "{act}");
        last = new;
    }
    assert_eq!(line.card(id).await, card);
    line.act(agent, id, "leave").await.expect(200);
    line.act(agent, id, "media-token").await.expect_problem(404, "MESSENGER_PARTICIPANT_NOT_FOUND");
}
