//! The money log.

use ::web::{Both, CursorPage, CursorPaging, Query};
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Permitted, UserId};
use ids::Reference;
use serde::Deserialize;
use utoipa::IntoParams;

use crate::app::App;
use crate::db;
use crate::db::money_log::MoneyFilter;
use crate::domain::{MoneyEntryId, MoneyEntryView, ReadMoneyLog, SubjectId};
use crate::error::Error;

/// The filter of the log. An entry has to match every parameter.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct MoneyLogQuery {
    /// Accrual, adjustment request, bonus proposal, rate card, agent, deal, payout run or payout.
    #[param(value_type = Option<SubjectId>)]
    subject_id: Option<Reference<SubjectId>>,
    /// Agent whose money or terms changed.
    #[param(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
    /// User who made the change.
    #[param(value_type = Option<UserId>)]
    actor_user_id: Option<Reference<UserId>>,
}

/// Read the money log.
///
/// Returns who moved or decided money, the newest entries first.
#[utoipa::path(
    tag = "Payouts", params(MoneyLogQuery, CursorPaging<MoneyEntryId>),
    responses((status = 200, description = "One page", body = CursorPage<MoneyEntryView>))
)]
#[get("/api/platform-manager/agent/money-log")]
pub async fn list_money_log(
    app: Data<App>,
    _: Permitted<ReadMoneyLog>,
    Both(Query(query), paging): Both<Query<MoneyLogQuery>, CursorPaging<MoneyEntryId>>,
) -> Result<impl Responder, Error> {
    let filter = MoneyFilter {
        subject_id: query.subject_id.map(|id| id.0),
        agent_user_id: query.agent_user_id.map(|id| id.0),
        actor_user_id: query.actor_user_id.map(|id| id.0),
    };
    let conn = app.db.conn().await?;
    Ok(web::Json(db::money_log::list(&conn, &filter, &paging).await?))
}
