//! Statements of payouts.

use ::db::PipelinedConn;
use ::web::{Problem, Query, reserve};
use actix_web::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use actix_web::middleware::from_fn;
use actix_web::web::{Data, Path};
use actix_web::{HttpRequest, HttpResponse, get};
use auth::{CompanyId, Permitted};
use csv::{Terminator, WriterBuilder};
use export::escape_formula;
use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::{IntoParams, ToSchema};
use values::{Currency, Money};

use super::own::{Extent, Own};
use crate::app::App;
use crate::db;
use crate::db::payout::PayoutLine;
use crate::domain::{
    AccrualId, AccrualKind, DealId, ManagePayouts, Payout, PayoutId, PayoutView, PropertyObjectId,
};
use crate::error::{Error, PAYOUT_NOT_FOUND};

/// The estimated size of a line with a name of usual length, for the byte budget.
const ESTIMATED_LINE_BYTES: usize = 512;

values::text_enum! {
    /// The format of a statement.
    pub enum StatementFormat {
        Json,
        Csv,
    }
}

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct StatementQuery {
    /// Format; `Json` if absent.
    #[param(inline)]
    format: Option<StatementFormat>,
}

/// A line of a statement, as the accrual was when the payout was created.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct StatementLine {
    accrual_id: AccrualId,
    deal_id: DealId,
    property_object_id: PropertyObjectId,
    developer_company_id: CompanyId,
    /// Name at that time; null if it was unknown.
    developer_name: Option<String>,
    kind: AccrualKind,
    /// Amount of the deal when the sale began.
    base_amount: Money,
    #[schema(minimum = 0, maximum = 10000)]
    rate_bps: i32,
    amount: Money,
    #[serde(with = "time::serde::rfc3339")]
    earned_at: OffsetDateTime,
}

impl From<PayoutLine> for StatementLine {
    fn from(line: PayoutLine) -> Self {
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

/// A payout and its lines.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Statement {
    /// The payout of the statement.
    payout: PayoutView,
    /// Lines sorted by `EarnedAt`, then by id. They never change.
    lines: Vec<StatementLine>,
}

/// A line in CSV. The members are the header.
#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct CsvLine {
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

impl From<PayoutLine> for CsvLine {
    fn from(line: PayoutLine) -> Self {
        Self {
            accrual_id: line.accrual_id,
            deal_id: line.deal_id,
            property_object_id: line.property_object_id,
            developer_company_id: line.developer_company_id,
            developer_name: line.developer_name.as_deref().map(escape_formula),
            kind: line.kind,
            base_amount_minor: line.base_amount,
            rate_bps: line.rate_bps,
            amount_minor: line.amount,
            currency: line.currency,
            earned_at: line.earned_at,
        }
    }
}

/// A file of one line, for the document.
const CSV_EXAMPLE: &str = "\
AccrualId,DealId,PropertyObjectId,DeveloperCompanyId,DeveloperName,Kind,BaseAmountMinor,RateBps,AmountMinor,\
Currency,EarnedAt\r\n\
01932b4e-7c1a-7d3e-9f00-1a2b3c4d5e6f,01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3,01932b4e-7c1a-7d3e-9f00-c71b63933ea1,\
01932b4e-7c1a-7d3e-9f00-ad3dc05d04f8,Volga Development,Base,1250000000,250,31250000,RUB,2026-05-04T09:30:00Z\r\n";

/// Formats lines as CSV (RFC 4180) with a header.
fn to_csv(lines: Vec<PayoutLine>) -> Result<Vec<u8>, csv::Error> {
    let mut writer = WriterBuilder::new().terminator(Terminator::CRLF).from_writer(Vec::new());
    for line in lines {
        writer.serialize(CsvLine::from(line))?;
    }
    writer.into_inner().map_err(|error| error.into_error().into())
}

async fn respond(
    app: &App,
    lookups: &PipelinedConn,
    request: &HttpRequest,
    id: PayoutId,
    is_visible: impl FnOnce(&Payout) -> bool,
    query: &StatementQuery,
) -> Result<HttpResponse, Error> {
    let found = lookups.run(async |conn| db::payout::look_up(conn, id).await).await?;
    let payout = found.filter(is_visible).ok_or(PAYOUT_NOT_FOUND)?;
    reserve(request, usize::try_from(payout.accruals_count).unwrap_or_default() * ESTIMATED_LINE_BYTES)
        .await?;
    let lines = db::payout::list_lines(&mut *app.db.conn().await?, id).await?;
    match query.format.unwrap_or(StatementFormat::Json) {
        StatementFormat::Json => {
            let lines = lines.into_iter().map(StatementLine::from).collect();
            Ok(HttpResponse::Ok().json(Statement { payout: payout.into(), lines }))
        }
        StatementFormat::Csv => {
            let name = format!("attachment; filename=\"payout-{id}.csv\"");
            Ok(HttpResponse::Ok()
                .insert_header((CONTENT_TYPE, "text/csv; charset=utf-8"))
                .insert_header((CONTENT_DISPOSITION, name))
                .body(to_csv(lines).map_err(|error| Problem::internal(&error))?))
        }
    }
}

/// Read the statement of my payout.
///
/// Returns the payout and its lines as JSON, or the lines as a CSV file.
/// A former agent may read a payout that is `Scheduled` or `InTransit`.
#[utoipa::path(
    tag = "Cabinet", params(("payout_id" = PayoutId, Path), StatementQuery),
    responses((status = 200, description = "The statement", content(
        (Statement = "application/json"), (String = "text/csv", example = json!(CSV_EXAMPLE))
    ), headers(("Content-Disposition" = String, description = "The name of a CSV file"))))
)]
#[get("/api/v1/my/payouts/{payout_id}/statement", wrap = "from_fn(auth::expensive)")]
pub async fn get_own_statement(
    app: Data<App>,
    own: Own<(Path<PayoutId>, Query<StatementQuery>)>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    let Own { agent, extent, query: (id, Query(query)) } = own;
    let is_visible =
        |payout: &Payout| payout.agent_user_id == agent && (extent == Extent::All || !payout.is_settled());
    respond(&app, &lookups, &request, *id, is_visible, &query).await
}

/// Read a statement.
///
/// Returns a payout and its lines as JSON, or the lines as a CSV file.
#[utoipa::path(
    tag = "Payouts", params(("payout_id" = PayoutId, Path), StatementQuery),
    responses((status = 200, description = "The statement", content(
        (Statement = "application/json"), (String = "text/csv", example = json!(CSV_EXAMPLE))
    ), headers(("Content-Disposition" = String, description = "The name of a CSV file"))))
)]
#[get("/api/platform-manager/agent/payouts/{payout_id}/statement", wrap = "from_fn(auth::expensive)")]
pub async fn get_statement(
    app: Data<App>,
    _: Permitted<ManagePayouts>,
    id: Path<PayoutId>,
    Query(query): Query<StatementQuery>,
    lookups: Data<PipelinedConn>,
    request: HttpRequest,
) -> Result<HttpResponse, Error> {
    respond(&app, &lookups, &request, *id, |_| true, &query).await
}

#[cfg(test)]
mod tests {
    use auth::CompanyId;
    use time::OffsetDateTime;
    use values::Currency;

    use super::{CSV_EXAMPLE, to_csv};
    use crate::db::payout::PayoutLine;
    use crate::domain::{AccrualId, AccrualKind, DealId, PropertyObjectId};

    /// The example of the document has the columns of a statement.
    #[test]
    fn example_has_the_columns_of_a_statement() {
        let line = PayoutLine {
            accrual_id: AccrualId::generate(),
            deal_id: DealId::generate(),
            property_object_id: PropertyObjectId::generate(),
            developer_company_id: CompanyId::generate(),
            developer_name: None,
            kind: AccrualKind::Base,
            base_amount: 1,
            rate_bps: 1,
            amount: 1,
            currency: Currency::RUB,
            earned_at: OffsetDateTime::UNIX_EPOCH,
        };
        let written = String::from_utf8(to_csv(vec![line]).unwrap()).unwrap();
        assert_eq!(CSV_EXAMPLE.lines().next(), written.lines().next());
        let columns = |line: &str| line.split(',').count();
        assert_eq!(CSV_EXAMPLE.lines().map(columns).collect::<Vec<_>>(), [11, 11]);
    }
}
