//! What only a real LiveKit proves: that it reads our tokens and orders as we mean them, and we what it signs.

use messenger::Service;
use serde_json::json;
use testkit::livekit::{KEY, RealLiveKit, SECRET, sign_as};
use testkit::service::Running;
use testkit::{eventually, text};

use crate::calls::{Line, WEBHOOK, seconds};

/// Section 5: a token lets its bearer in; who is not there is removed as well; a room is closed, and its end is heard.
#[tokio::test]
#[ignore = "needs a LiveKit server: cargo dev up --media brings one"]
async fn a_real_livekit_lets_people_in_and_is_believed() {
    let mut livekit = RealLiveKit::new().unwrap();
    let url = livekit.url();
    let own = Running::start::<Service>(&[
        ("LIVEKIT_URL", "ws://127.0.0.1"),
        ("LIVEKIT_API_URL", &url),
        ("LIVEKIT_API_KEY", KEY),
        ("LIVEKIT_API_SECRET", SECRET),
        ("MESSENGER_MEDIA_PROBE_SECONDS", "1"),
    ]);
    livekit.start(&format!("{}{WEBHOOK}", own.public_url())).unwrap();
    let http = reqwest::ClientBuilder::new().tls_certs_only([]).build().unwrap();
    let answers =
        async || http.get(&url).send().await.is_ok_and(|answer| answer.status() == 200).then_some(());
    eventually("LiveKit", answers).await;
    let line = Line::of(&own).await;
    let start = async || {
        let answer = line.start(line.deal.client, json!({"Media": "Video"})).await;
        (answer.status == 201).then(|| crate::id_of(&answer.body["Id"]))
    };
    let id = eventually("a call", start).await;
    let agent = line.deal.agent();
    let joined = line.act(agent, id, "join").await.expect(200);
    let validate = format!("{url}/rtc/validate?access_token={}", text(&joined["Token"]));
    assert_eq!(http.get(&validate).send().await.unwrap().status(), 200, "the token lets in");

    // As somebody who connects would have it.
    let create = json!({"iss": KEY, "nbf": seconds(-30), "exp": seconds(60), "video": {"roomCreate": true}});
    let room = http.post(format!("{url}/twirp/livekit.RoomService/CreateRoom"));
    let room = room.bearer_auth(sign_as(&create, SECRET)).json(&json!({"name": id}));
    assert_eq!(room.send().await.unwrap().status(), 200);
    line.act(agent, id, "leave").await.expect(200);
    line.act(line.deal.client, id, "end").await.expect(200);
    let sql = own.sql().await;
    let heard = async || {
        let orders = "select count(*) from job where kind = 'media-order'";
        let left: i64 = sql.query_one(orders, &[]).await.unwrap().get(0);
        let heard: i64 = sql.query_one("select count(*) from webhook", &[]).await.unwrap().get(0);
        (left == 0 && heard == 1).then_some(())
    };
    eventually("LiveKit has closed the room, and said so", heard).await;
}
