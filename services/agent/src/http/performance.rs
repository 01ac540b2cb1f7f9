//! What an agent has done.

use ::web::{Fields, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::Permitted;
use runtime::clock;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;

use crate::app::App;
use crate::db;
use crate::db::performance::Performance;
use crate::domain::{Period, UseCabinet};
use crate::error::Error;

/// Of at most 366 days.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AskedPeriod {
    /// By default the first of the month eleven months before that of `To`, in UTC.
    #[serde(default, deserialize_with = "::web::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<OffsetDateTime>,
    /// Exclusive; by default now.
    #[serde(default, deserialize_with = "::web::time")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<OffsetDateTime>,
}

/// Read what one has done.
///
/// Deals and sales of a period, as they are now, with the months that it touches.
#[utoipa::path(
    tag = "Cabinet", params(AskedPeriod),
    responses((status = 200, description = "The statistics", body = Performance))
)]
#[get("/api/v1/my/agent-performance")]
pub async fn get_performance(
    app: Data<App>,
    permitted: Permitted<UseCabinet>,
    Query(asked): Query<AskedPeriod>,
) -> Result<impl Responder, Error> {
    let mut fields = Fields::default();
    let period = fields.check("/To", Period::parse(asked.from, asked.to, clock::now()));
    let period = fields.finish(period)?;
    let conn = app.db.conn().await?;
    Ok(web::Json(db::performance::read(&conn, permitted.actor.user_id, period).await?))
}
