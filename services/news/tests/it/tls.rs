//! Calls to selections over https.

use testkit::deployed::Deployed;
use testkit::issuer::{CLIENTS, Claims};
use testkit::tls::Authority;

use crate::selections_down::assert_unavailable;
use crate::{Author, MANAGE_OWN, embed, guid, selections};

/// RULE-ALL-113: news calls selections over https if the authority is in `SSL_CERT_FILE`, and sends
/// no request to a server of another authority.
#[tokio::test]
async fn selections_is_called_over_https_with_a_trusted_authority_only() {
    let (trusted, another) = (Authority::new("ours"), Authority::new("another"));
    let file = std::env::temp_dir().join(format!("authority-{}.pem", guid()));
    std::fs::write(&file, trusted.pem()).unwrap();
    for (authority, is_trusted) in [(&trusted, true), (&another, false)] {
        let url = authority.issue("127.0.0.1", 4000).start_tls_proxy(&selections().internal_url()).await;
        let settings = [
            ("SELECTIONS_URL", url.as_str()),
            ("CLIENT_SECRET", CLIENTS[0].1),
            ("SSL_CERT_FILE", file.to_str().unwrap()),
        ];
        let news = Deployed::start(env!("CARGO_BIN_EXE_news"), &[], &settings).await;
        let id = guid();
        let claims = Claims::user(id).permission(MANAGE_OWN);
        let author = Author { id, news: news.caller(&claims), selections: selections().caller(&claims) };
        let (post, selection) = (author.create_post().await, author.create_selection().await);
        let response = author.set_blocks(&post, [embed(&selection)]).await;
        if is_trusted {
            response.expect(200);
        } else {
            assert_unavailable(response);
        }
    }
    std::fs::remove_file(file).unwrap();
}
