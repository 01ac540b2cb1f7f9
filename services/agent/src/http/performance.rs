//! The performance of an agent.

use ::web::{Fields, Query};
use actix_web::middleware::from_fn;
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
use crate::domain::{CountBy, Period, UseCabinet, Zone};
use crate::error::Error;

/// The period of the statistics.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct PeriodQuery {
    /// Start, inclusive. The default is the first day of the month that is eleven months before the
    /// month of `To`.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    from: Option<OffsetDateTime>,
    /// End, exclusive. The default is now.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    to: Option<OffsetDateTime>,
    /// Time zone of the months, as an IANA name such as `Europe/Moscow`. The default is UTC.
    time_zone: Option<String>,
    /// The agent for whom a deal counts. The default is `DealAgent`.
    #[param(inline)]
    count_by: Option<CountBy>,
}

/// Read my performance.
///
/// Returns the caller's deals and sales of a period by their current state, in total and by month.
/// The period has at most 366 days. `TimeZone` decides where months begin.
/// By default a deal counts for its current agent. With `CountBy=CommissionAgent` a sale counts for
/// the agent who earns its commission. `SalesVolume` has the newest amounts of the deals, and
/// includes sales without a rate.
#[utoipa::path(
    tag = "Cabinet", params(PeriodQuery),
    responses((status = 200, description = "The statistics", body = Performance))
)]
#[get("/api/v1/my/agent-performance", wrap = "from_fn(auth::expensive)")]
pub async fn get_performance(
    app: Data<App>,
    permitted: Permitted<UseCabinet>,
    Query(query): Query<PeriodQuery>,
) -> Result<impl Responder, Error> {
    let mut fields = Fields::default();
    let zone = fields.check("/TimeZone", Zone::parse(query.time_zone.as_deref()));
    let period =
        zone.and_then(|zone| fields.check("/To", Period::parse(query.from, query.to, zone, clock::now())));
    let period = fields.finish(period)?;
    let count_by = query.count_by.unwrap_or(CountBy::DealAgent);
    let conn = app.db.conn().await?;
    Ok(web::Json(db::performance::read(&conn, permitted.actor.user_id, count_by, &period).await?))
}
