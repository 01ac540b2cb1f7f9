//! The webhook of LiveKit, which is authenticated by its signature.

use std::future::{Ready, ready};

use ::web::{FieldError, Problem, RawBody};
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

/// Maximum size of a webhook's body. LiveKit's own webhooks are smaller.
const MAX_BODY_BYTES: usize = 64 * 1024;

/// The signed hash of the body, from a request that LiveKit signed.
/// Without the settings of LiveKit every request is refused.
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

/// Receive a webhook of LiveKit.
///
/// Accepts a webhook with LiveKit's signature, in any content type.
/// Events, rooms and identities that the service does not know have no effect.
#[utoipa::path(
    operation_id = "hear_livekit",
    tag = "Webhooks", security(("signature" = [])), request_body(content = Value, description = "At most 64 KiB."),
    responses((status = 200, description = "The webhook was accepted"))
)]
#[post("/api/messenger/webhooks/livekit")]
pub async fn receive_livekit_webhook(
    app: Data<App>,
    LiveKitCaller(signed): LiveKitCaller,
    RawBody(body): RawBody<MAX_BODY_BYTES>,
) -> Result<HttpResponse, Error> {
    if !signed.matches(&body) {
        return Err(Problem::unauthorized().into());
    }
    let json: Value = serde_json::from_slice(&body).map_err(|_| {
        Problem::validation_failed(vec![FieldError {
            field: String::new(),
            invalid: Invalid::new("malformed"),
        }])
    })?;
    let now = db::clock::read(&*app.db.conn().await?).await?;
    if let Some(webhook) = Webhook::parse(&json, now) {
        let context = app.conference_context();
        app.db.tx(async |tx| ops::media::apply_webhook(tx, webhook, context, now).await).await?;
    }
    Ok(HttpResponse::Ok().finish())
}
