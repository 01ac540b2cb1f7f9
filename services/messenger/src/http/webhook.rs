//! What LiveKit tells: signed, and neither a guest's nor a person's.

use std::future::{Ready, ready};

use ::web::{FieldError, Problem, Raw};
use actix_web::dev::Payload;
use actix_web::http::header::AUTHORIZATION;
use actix_web::web::Data;
use actix_web::{FromRequest, HttpRequest, HttpResponse, post};
use serde_json::Value;
use values::Invalid;

use crate::app::App;
use crate::clients::SignedSha256;
use crate::error::Error;
use crate::ops::media::Webhook;
use crate::{db, ops};

/// A larger one is not LiveKit's.
const LIMIT: usize = 64 * 1024;

/// LiveKit, and what it has signed. Without it being configured nobody is.
pub struct LiveKitCaller(SignedSha256);

impl FromRequest for LiveKitCaller {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        let livekit = request.app_data::<Data<App>>().and_then(|app| app.livekit.as_ref());
        let header = request.headers().get(AUTHORIZATION).and_then(|header| header.to_str().ok());
        let signed = livekit.zip(header).and_then(|(livekit, header)| livekit.verify(header));
        ready(signed.map(Self).ok_or_else(Problem::unauthorized))
    }
}

/// Hear what LiveKit tells.
///
/// A webhook as LiveKit signs it, in whatever content type. Whatever does not concern a conference is as good.
#[utoipa::path(
    tag = "Webhooks", security(("signature" = [])), request_body(content = Value, description = "At most 64 KiB."),
    responses((status = 200, description = "Heard"))
)]
#[post("/api/messenger/webhooks/livekit")]
pub async fn hear_livekit(
    app: Data<App>,
    LiveKitCaller(signed): LiveKitCaller,
    Raw(body): Raw<LIMIT>,
) -> Result<HttpResponse, Error> {
    if !signed.is_of(&body) {
        return Err(Problem::unauthorized().into());
    }
    let told: Value = serde_json::from_slice(&body).map_err(|_| {
        Problem::validation_failed(vec![FieldError {
            field: String::new(),
            invalid: Invalid::new("malformed"),
        }])
    })?;
    let now = db::chat::clock(&*app.db.conn().await?).await?;
    if let Some(webhook) = Webhook::read(&told, now) {
        let terms = app.terms();
        app.db.tx(async |tx| ops::media::hear(tx, webhook, terms, now).await).await?;
    }
    Ok(HttpResponse::Ok().finish())
}
