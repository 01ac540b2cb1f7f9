//! Payout runs.

use std::collections::HashSet;

use ::db::Tx;
use ::web::{CursorPage, CursorPaging, Fields, Json, Problem};
use actix_web::web::{Data, Path};
use actix_web::{HttpResponse, Responder, get, post, web};
use auth::{Permitted, UserId};
use ids::Reference;
use runtime::clock;
use serde::Deserialize;
use service::{Idempotency, Reply};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{BasisPoints, Invalid, List, Moment, Whole};

use crate::app::App;
use crate::db::payout_preview::{PreviewFilter, PreviewKey};
use crate::domain::{
    MAX_BPS, MAX_RUN_AGENTS, MAX_RUN_PERIOD, ManagePayouts, PayoutPreview, PayoutRun, PayoutRunId,
    PayoutRunStatus, PayoutRunView, RunKey,
};
use crate::error::{Error, PAYOUT_RUN_NOT_FOUND};
use crate::{db, ops};

type UserReference = Reference<UserId>;
type Agents = List<UserReference, 1, MAX_RUN_AGENTS>;

#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct BeginPayoutRun {
    /// The caller's key of the run.
    /// A repeated request with the same key does not start another run.
    run_key: RunKey,
    /// Start of the period that statements show. The run also pays accruals that were approved
    /// earlier.
    period_from: Moment,
    /// End of the period, exclusive: the run pays accruals that were approved before this time. At
    /// most 366 days after `PeriodFrom`, and not in the future.
    period_to: Moment,
    /// Agents to pay, without duplicates; all agents if absent.
    agent_user_ids: Option<Agents>,
    /// Share to withhold, in basis points; 0 if absent.
    withholding_bps: Option<Whole<0, { MAX_BPS }>>,
}

/// The checked members that a run and its preview have in common.
struct SharedMembers {
    period_from: OffsetDateTime,
    period_to: OffsetDateTime,
    agent_user_ids: Option<Vec<UserId>>,
    withholding_bps: i32,
}

impl SharedMembers {
    fn check(
        fields: &mut Fields,
        (Moment(period_from), Moment(period_to)): (Moment, Moment),
        agents: Option<Agents>,
        withholding: Option<Whole<0, { MAX_BPS }>>,
        now: OffsetDateTime,
    ) -> Self {
        fields.check_range("/PeriodTo", Some(&period_from), Some(&period_to));
        let is_within = period_to <= now && period_to - period_from <= MAX_RUN_PERIOD;
        fields.check("/PeriodTo", if is_within { Ok(()) } else { Err(Invalid::new("out_of_bounds")) });
        let agents = agents.map(|ids| ids.into_inner().into_iter().map(|id| id.0));
        let agent_user_ids: Option<Vec<UserId>> = agents.map(Iterator::collect);
        let mut seen = HashSet::new();
        for (index, agent) in agent_user_ids.iter().flatten().enumerate() {
            let checked = if seen.insert(*agent) { Ok(()) } else { Err(Invalid::new("duplicate")) };
            fields.check(&format!("/AgentUserIds/{index}"), checked);
        }
        // `MAX_BPS` fits into `i32`, so the default never applies.
        let withholding_bps = i32::try_from(withholding.map_or(0, Whole::get)).unwrap_or_default();
        Self { period_from, period_to, agent_user_ids, withholding_bps }
    }
}

impl BeginPayoutRun {
    /// Creates the run of the request.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` with every invalid member.
    fn into_run(self, by: UserId, now: OffsetDateTime) -> Result<PayoutRun, Problem> {
        let mut fields = Fields::default();
        let period = (self.period_from, self.period_to);
        let members =
            SharedMembers::check(&mut fields, period, self.agent_user_ids, self.withholding_bps, now);
        fields.finish(Some(PayoutRun {
            id: PayoutRunId::generate(),
            run_key: self.run_key,
            period_from: members.period_from,
            period_to: members.period_to,
            agent_user_ids: members.agent_user_ids,
            withholding_bps: members.withholding_bps,
            status: PayoutRunStatus::Running,
            created_at: now,
            created_by_user_id: by,
            completed_at: None,
        }))
    }
}

/// The members of a payout run without its key.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct PreviewPayoutRun {
    period_from: Moment,
    /// End of the period, exclusive: the run pays accruals that were approved before this time. At
    /// most 366 days after `PeriodFrom`, and not in the future.
    period_to: Moment,
    /// Agents to pay, without duplicates; all agents if absent.
    agent_user_ids: Option<Agents>,
    /// Share to withhold, in basis points; 0 if absent.
    withholding_bps: Option<Whole<0, { MAX_BPS }>>,
}

impl PreviewPayoutRun {
    /// Creates the filter of the preview.
    ///
    /// # Errors
    /// `400 VALIDATION_FAILED` with every invalid member.
    fn into_filter(self, max_lines: i64, now: OffsetDateTime) -> Result<PreviewFilter, Problem> {
        let mut fields = Fields::default();
        let period = (self.period_from, self.period_to);
        let members =
            SharedMembers::check(&mut fields, period, self.agent_user_ids, self.withholding_bps, now);
        fields.finish(Some(PreviewFilter {
            agent_user_ids: members.agent_user_ids,
            approved_before: members.period_to,
            withholding: BasisPoints(members.withholding_bps.unsigned_abs()),
            max_lines,
        }))
    }
}

/// Preview a payout run.
///
/// Returns a page of the payouts that a run with these members would create now, by agent and
/// currency. Creates and changes nothing.
#[utoipa::path(
    tag = "Payouts", params(CursorPaging<PreviewKey>),
    request_body = PreviewPayoutRun,
    responses((status = 200, description = "One page", body = CursorPage<PayoutPreview>))
)]
#[post("/api/platform-manager/agent/payouts/preview")]
pub async fn preview_payout_run(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    paging: CursorPaging<PreviewKey>,
    body: Json<PreviewPayoutRun>,
) -> Result<impl Responder, Error> {
    let filter = body.0.into_filter(app.settings.payout_max_lines.get().into(), clock::now())?;
    let conn = app.db.conn().await?;
    Ok(web::Json(db::payout_preview::list(&conn, &filter, &paging).await?))
}

/// Start a payout run.
///
/// Creates a payout for each agent and currency with a payable sum above 0, in the background.
/// A repeated request returns 200 with the run as it is now.
#[utoipa::path(
    tag = "Payouts", request_body = BeginPayoutRun,
    responses(
        (status = 201, description = "The new run", body = PayoutRunView,
            headers(("Location" = String, description = "The run"))),
        (status = 200, description = "The existing run of the key", body = PayoutRunView)
    )
)]
#[post("/api/platform-manager/agent/payouts")]
pub async fn begin_payout_run(
    app: Data<App>,
    permitted: Permitted<ManagePayouts>,
    idempotency: Idempotency,
    body: Json<BeginPayoutRun>,
) -> Result<HttpResponse, Error> {
    let run = body.0.into_run(permitted.actor.user_id, clock::now())?;
    let begin = async |tx: &mut Tx| {
        let (id, is_new) = ops::payout_run::start(tx, &run).await?;
        let view = db::payout_run::find_view(tx.conn(), id).await?.ok_or(PAYOUT_RUN_NOT_FOUND)?;
        if !is_new {
            return Ok(Reply::existing(view));
        }
        Ok(Reply::created(view).at(format!("/api/platform-manager/agent/payout-runs/{id}")))
    };
    idempotency.run(&app.db, begin).await
}

/// Read a payout run.
///
/// Returns the run with the number and the sums of its payouts so far.
#[utoipa::path(
    tag = "Payouts", params(("run_id" = PayoutRunId, Path)),
    responses((status = 200, description = "The run", body = PayoutRunView))
)]
#[get("/api/platform-manager/agent/payout-runs/{run_id}")]
pub async fn get_payout_run(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutRunId>,
) -> Result<impl Responder, Error> {
    let conn = app.db.conn().await?;
    Ok(web::Json(db::payout_run::find_view(&conn, *id).await?.ok_or(PAYOUT_RUN_NOT_FOUND)?))
}
