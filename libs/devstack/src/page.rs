//! The first page of the local stack: its areas, each with its API page, and the demo actors, as whom one may
//! sign in there. It belongs to the stack: no service knows of it.

use std::fmt::Write;
use std::time::Duration;

use actix_web::middleware::DefaultHeaders;
use actix_web::web::{self, Data, Path, ServiceConfig};
use actix_web::{HttpResponse, Responder};
use futures_util::future::join_all;

use crate::actors::{ACTORS, Actor};
use crate::areas::Area;
use crate::identity::Identity;

/// How long an area may take to say that it is well.
const PATIENCE: Duration = Duration::from_secs(1);

const POLICY: &str =
    "default-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// What the page tells of, and whose tokens it hands out.
pub(crate) struct Page {
    /// Each with where its health is told.
    areas: Vec<(Area, String)>,
    identity: Identity,
    client: reqwest::Client,
}

impl Page {
    pub(crate) fn new(areas: Vec<(Area, String)>, identity: Identity) -> anyhow::Result<Self> {
        Ok(Self { areas, identity, client: crate::http::client()? })
    }

    async fn is_ready(&self, admin: &str) -> bool {
        let asked = self.client.get(format!("{admin}/health/ready")).timeout(PATIENCE).send().await;
        asked.is_ok_and(|answer| answer.status().is_success())
    }
}

pub(crate) fn configure(app: &mut ServiceConfig, page: Data<Page>) {
    let policy = || DefaultHeaders::new().add(("content-security-policy", POLICY));
    app.app_data(page)
        .service(web::resource("/").wrap(policy()).get(index))
        .route("/stack/page.css", web::get().to(style))
        .route("/stack/page.js", web::get().to(script))
        .route("/stack/tokens/{actor}", web::post().to(sign_in));
}

async fn index(page: Data<Page>) -> impl Responder {
    let health = join_all(page.areas.iter().map(|(_, admin)| page.is_ready(admin))).await;
    let (mut areas, mut actors) = (String::new(), String::new());
    for ((Area { name, about, .. }, _), ready) in page.areas.iter().zip(health) {
        let health = if ready { "ready" } else { "away" };
        // Writing to a string cannot fail.
        let _ = write!(
            areas,
            "<li><a href=\"/docs/{name}/\">{name}</a><span class=\"{health}\">{health}</span><p>{about}</p></li>"
        );
    }
    for actor in &ACTORS {
        let Actor { name, about, .. } = actor;
        let _ = write!(
            actors,
            "<li><button data-actor=\"{name}\">{name}</button><p>{about}</p><code>{}</code></li>",
            actor.may()
        );
    }
    let html = include_str!("page/index.html").replace("{areas}", &areas).replace("{actors}", &actors);
    HttpResponse::Ok().content_type("text/html; charset=utf-8").body(html)
}

async fn style() -> impl Responder {
    HttpResponse::Ok().content_type("text/css; charset=utf-8").body(include_str!("page/page.css"))
}

async fn script() -> impl Responder {
    HttpResponse::Ok().content_type("text/javascript; charset=utf-8").body(include_str!("page/page.js"))
}

/// A token of a demo actor. Other sites cannot read the answer: it allows no other origin to.
async fn sign_in(page: Data<Page>, name: Path<String>) -> HttpResponse {
    let Some(actor) = ACTORS.iter().find(|actor| actor.name == *name) else {
        return HttpResponse::NotFound().finish();
    };
    match page.identity.token(actor).await {
        Ok(token) => HttpResponse::Ok()
            .content_type("text/plain; charset=utf-8")
            .insert_header(("cache-control", "no-store"))
            .body(token),
        // Identity is away, perhaps because it was told to be.
        Err(_) => HttpResponse::ServiceUnavailable().finish(),
    }
}

#[cfg(test)]
mod tests {
    use actix_web::web::Data;
    use actix_web::{App, test};
    use testkit::issuer::Issuer;

    use super::{Page, configure};
    use crate::actors::ACTORS;
    use crate::areas;
    use crate::identity::Identity;

    /// Status, policy and text, with every area away.
    async fn ask(request: test::TestRequest) -> (u16, String, String) {
        let areas = areas::all().into_iter().map(|area| (area, "http://127.0.0.1:1".to_owned())).collect();
        let issuer = Issuer::new("http://issuer").unwrap();
        let identity = Identity::new(issuer, "http://127.0.0.1:1".to_owned()).unwrap();
        let page = Data::new(Page::new(areas, identity).unwrap());
        let app = test::init_service(App::new().configure(|app| configure(app, page))).await;
        let answer = test::call_service(&app, request.to_request()).await;
        let policy = answer.headers().get("content-security-policy");
        let policy = policy.map(|value| value.to_str().unwrap().to_owned()).unwrap_or_default();
        let status = answer.status().as_u16();
        (status, policy, String::from_utf8(test::read_body(answer).await.to_vec()).unwrap())
    }

    #[actix_web::test]
    async fn the_first_page_lists_areas_and_actors() {
        let (status, policy, page) = ask(test::TestRequest::with_uri("/")).await;
        assert_eq!(status, 200);
        assert!(policy.starts_with("default-src 'self';"), "{policy}");
        for area in areas::all() {
            assert!(page.contains(&format!("href=\"/docs/{}/\"", area.name)), "{page}");
        }
        for actor in ACTORS {
            assert!(page.contains(&format!("data-actor=\"{}\"", actor.name)), "{page}");
        }
        assert!(page.contains(">away<") && !page.contains("://"), "{page}");
        for part in ["/stack/page.css", "/stack/page.js"] {
            assert!(page.contains(part));
            let (status, _, text) = ask(test::TestRequest::with_uri(part)).await;
            assert!(status == 200 && !text.contains("://"), "{part}");
        }
    }

    #[actix_web::test]
    async fn only_actors_are_signed_in() {
        let (status, _, token) = ask(test::TestRequest::post().uri("/stack/tokens/anna")).await;
        assert_eq!((status, token.split('.').count()), (200, 3));
        // What employees may do, identity says, and here it is away.
        assert_eq!(ask(test::TestRequest::post().uri("/stack/tokens/maria")).await.0, 503);
        assert_eq!(ask(test::TestRequest::post().uri("/stack/tokens/news")).await.0, 404);
        assert_ne!(ask(test::TestRequest::with_uri("/stack/tokens/anna")).await.0, 200);
    }
}
