//! Runs that make payouts.

use std::collections::HashSet;

use ::web::{Fields, Json, Moment, Problem};
use actix_web::http::header::LOCATION;
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::{Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;
use values::{Invalid, List, Whole};

use crate::app::App;
use crate::domain::{ManagePayouts, PayoutRun, PayoutRunId, PayoutRunShown, PayoutRunStatus, RunKey};
use crate::error::{Error, PAYOUT_RUN_NOT_FOUND};
use crate::{db, ops};

const LONGEST_PERIOD: Duration = Duration::days(366);

type UserReference = Reference<UserId>;
type Agents = List<UserReference, 1, 1000>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BeginPayoutRun {
    /// What the caller calls this run, so that it can be repeated.
    run_key: RunKey,
    /// It only names the period: what was left from before is paid along.
    #[schema(value_type = String, format = DateTime)]
    period_from: Moment,
    /// What was approved before is paid. At most now, and 366 days after `PeriodFrom`.
    #[schema(value_type = String, format = DateTime)]
    period_to: Moment,
    /// Whom it pays, each once; everybody where it is left out.
    agent_user_ids: Option<Agents>,
    /// The share that is withheld; nothing where it is left out.
    withholding_bps: Option<Whole<0, 10_000>>,
}

impl BeginPayoutRun {
    /// # Errors
    /// `400 VALIDATION_FAILED`
    fn into_run(self, by: UserId, now: OffsetDateTime) -> Result<PayoutRun, Problem> {
        let mut fields = Fields::default();
        let (Moment(period_from), Moment(period_to)) = (self.period_from, self.period_to);
        fields.range("/PeriodTo", Some(&period_from), Some(&period_to));
        let is_within = period_to <= now && period_to - period_from <= LONGEST_PERIOD;
        fields.check("/PeriodTo", if is_within { Ok(()) } else { Err(Invalid::new("out_of_bounds")) });
        let agents = self.agent_user_ids.map(|ids| ids.into_inner().into_iter().map(|id| id.0));
        let agents: Option<Vec<UserId>> = agents.map(Iterator::collect);
        let mut seen = HashSet::new();
        for (at, agent) in agents.iter().flatten().enumerate() {
            let first = if seen.insert(*agent) { Ok(()) } else { Err(Invalid::new("duplicate")) };
            fields.check(&format!("/AgentUserIds/{at}"), first);
        }
        let withholding = self.withholding_bps.map_or(0, Whole::get);
        fields.finish(Some(PayoutRun {
            id: PayoutRunId::generate(),
            run_key: self.run_key,
            period_from,
            period_to,
            agent_user_ids: agents,
            withholding_bps: i32::try_from(withholding).unwrap_or_default(),
            status: PayoutRunStatus::Running,
            done_agent_user_id: None,
            done_currency: None,
            created_at: now,
            created_by_user_id: by,
            completed_at: None,
        }))
    }
}

/// Pay agents.
///
/// Begins a run, which makes a payout for each agent and currency that something is to be paid of. It may be repeated: 200 with
/// the run as it stands.
#[utoipa::path(
    tag = "Payouts", request_body(content = BeginPayoutRun, description = "At most 256 KiB."),
    responses(
        (status = 201, description = "It has begun", body = PayoutRunShown,
            headers(("Location" = String, description = "The run"))),
        (status = 200, description = "It was begun before", body = PayoutRunShown)
    )
)]
#[post("/api/platform-manager/agent/payouts")]
pub async fn begin_payout_run(
    app: Data<App>,
    permitted: Permitted<ManagePayouts>,
    body: Json<BeginPayoutRun>,
) -> Result<HttpResponse, Error> {
    let run = body.0.into_run(permitted.actor.user_id, clock::now())?;
    let (is_new, shown) = app
        .db
        .tx(async |tx| {
            let (id, is_new) = ops::payout_run::begin(tx, &run).await?;
            let shown = db::payout_run::show(tx.conn(), id).await?.ok_or(PAYOUT_RUN_NOT_FOUND)?;
            Ok::<_, Error>((is_new, shown))
        })
        .await?;
    if !is_new {
        return Ok(HttpResponse::Ok().json(shown));
    }
    let location = format!("/api/platform-manager/agent/payout-runs/{}", run.id);
    Ok(HttpResponse::Created().insert_header((LOCATION, location)).json(shown))
}

/// Read a run.
///
/// With what it has made so far.
#[utoipa::path(
    tag = "Payouts", params(("run_id" = PayoutRunId, Path)),
    responses((status = 200, description = "The run", body = PayoutRunShown))
)]
#[get("/api/platform-manager/agent/payout-runs/{run_id}")]
pub async fn get_payout_run(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutRunId>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::payout_run::show(&conn, *id).await?.ok_or(PAYOUT_RUN_NOT_FOUND)?))
}
