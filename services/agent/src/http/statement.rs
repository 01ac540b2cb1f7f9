//! What payouts were made of.

use ::db::Lookups;
use ::web::{Problem, Query, reserve};
use actix_web::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};
use auth::{CompanyId, Permitted, UserId};
use csv::{Terminator, WriterBuilder};
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use values::{Currency, Money};

use crate::app::App;
use crate::db;
use crate::db::payout::Line;
use crate::domain::{
    AccrualId, AccrualKind, DealId, ManagePayouts, Payout, PayoutId, PayoutShown, PropertyObjectId,
    UseCabinet,
};
use crate::error::{Error, PAYOUT_NOT_FOUND};

/// A line with a name of usual length; one that is longer takes the room that is left.
const BYTES_OF_LINE: usize = 512;

values::text_enum! {
    /// How a statement is written.
    pub enum StatementFormat {
        Json,
        Csv,
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct AskedStatement {
    /// `Json` where it is left out.
    #[param(inline)]
    format: Option<StatementFormat>,
}

/// An accrual as it was when the payout was made.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct StatementLine {
    accrual_id: AccrualId,
    deal_id: DealId,
    property_object_id: PropertyObjectId,
    developer_company_id: CompanyId,
    /// As it was known then.
    developer_name: Option<String>,
    kind: AccrualKind,
    base_amount: Money,
    #[schema(minimum = 0, maximum = 10000)]
    rate_bps: i32,
    amount: Money,
    #[serde(with = "time::serde::rfc3339")]
    earned_at: OffsetDateTime,
}

impl From<Line> for StatementLine {
    fn from(line: Line) -> Self {
        let money = |amount_minor| Money { amount_minor, currency: line.currency };
        Self {
            accrual_id: line.accrual_id,
            deal_id: line.deal_id,
            property_object_id: line.property_object_id,
            developer_company_id: line.developer_company_id,
            base_amount: money(line.base_amount),
            amount: money(line.amount),
            developer_name: line.developer_name,
            kind: line.kind,
            rate_bps: line.rate_bps,
            earned_at: line.earned_at,
        }
    }
}

/// A payout, and what it was made of.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Statement {
    payout: PayoutShown,
    /// By `EarnedAt`, then by id. They never change, whatever becomes of the payout.
    lines: Vec<StatementLine>,
}

/// The same for a spreadsheet.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Row {
    accrual_id: AccrualId,
    deal_id: DealId,
    property_object_id: PropertyObjectId,
    developer_company_id: CompanyId,
    developer_name: Option<String>,
    kind: AccrualKind,
    base_amount_minor: i64,
    rate_bps: i32,
    amount_minor: i64,
    currency: Currency,
    #[serde(with = "time::serde::rfc3339")]
    earned_at: OffsetDateTime,
}

impl From<Line> for Row {
    fn from(line: Line) -> Self {
        Self {
            accrual_id: line.accrual_id,
            deal_id: line.deal_id,
            property_object_id: line.property_object_id,
            developer_company_id: line.developer_company_id,
            developer_name: line.developer_name.map(inert),
            kind: line.kind,
            base_amount_minor: line.base_amount,
            rate_bps: line.rate_bps,
            amount_minor: line.amount,
            currency: line.currency,
            earned_at: line.earned_at,
        }
    }
}

/// A text that no spreadsheet takes for a formula.
fn inert(text: String) -> String {
    if text.starts_with(['=', '+', '-', '@', '\t', '\r']) { format!("'{text}") } else { text }
}

/// RFC 4180, with a header.
///
/// # Errors
/// None of what a statement holds; the signature is that of the writer.
fn csv(lines: Vec<Line>) -> Result<Vec<u8>, csv::Error> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for line in lines {
        writer.serialize(Row::from(line))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

async fn answer(
    app: &App,
    lookups: &Lookups,
    request: &HttpRequest,
    id: PayoutId,
    agent: Option<UserId>,
    asked: &AskedStatement,
) -> Result<HttpResponse, Error> {
    let found = lookups.run(async |conn| db::payout::look_up(conn, id).await).await?;
    let is_theirs = |payout: &Payout| agent.is_none_or(|agent| payout.agent_user_id == agent);
    let payout = found.filter(is_theirs).ok_or(PAYOUT_NOT_FOUND)?;
    reserve(request, usize::try_from(payout.accruals_count).unwrap_or_default() * BYTES_OF_LINE).await?;
    let lines = db::payout::lines(&mut *app.db.conn().await?, id).await?;
    match asked.format.unwrap_or(StatementFormat::Json) {
        StatementFormat::Json => {
            let lines = lines.into_iter().map(StatementLine::from).collect();
            Ok(HttpResponse::Ok().json(Statement { payout: payout.into(), lines }))
        }
        StatementFormat::Csv => {
            let name = format!("attachment; filename=\"payout-{id}.csv\"");
            Ok(HttpResponse::Ok()
                .insert_header((CONTENT_TYPE, "text/csv; charset=utf-8"))
                .insert_header((CONTENT_DISPOSITION, name))
                .body(csv(lines).map_err(|error| Problem::internal(&error))?))
        }
    }
}

/// Read what one's own payout was made of.
///
/// As JSON, or as CSV to be kept.
#[utoipa::path(
    tag = "Cabinet", params(("payout_id" = PayoutId, Path), AskedStatement),
    responses((status = 200, description = "The statement", content(
        (Statement = "application/json"), (String = "text/csv")
    )))
)]
#[get("/api/v1/my/payouts/{payout_id}/statement")]
pub async fn get_own_statement(
    app: Data<App>,
    permitted: Permitted<UseCabinet>,
    id: Path<PayoutId>,
    Query(asked): Query<AskedStatement>,
    lookups: Data<Lookups>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    answer(&app, &lookups, &request, *id, Some(permitted.actor.user_id), &asked).await
}

/// Read what a payout was made of.
///
/// As JSON, or as CSV to be kept.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path), AskedStatement),
    responses((status = 200, description = "The statement", content(
        (Statement = "application/json"), (String = "text/csv")
    )))
)]
#[get("/api/platform-manager/agent/payouts/{payout_id}/statement")]
pub async fn get_statement(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    Query(asked): Query<AskedStatement>,
    lookups: Data<Lookups>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    answer(&app, &lookups, &request, *id, None, &asked).await
}
