//! Routes that export lists as files.

use ::web::{Both, CheckedQuery, FileContent, Problem, Query};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{HttpResponse, get};
use auth::{Actor, CompanyId, Permitted, Revocations};
use export::{Cell, ExportFormat, MAX_SPREADSHEET_ROWS, Requester, Row, Table};
use futures_util::{Stream, stream};
use runtime::clock;
use serde::Deserialize;
use utoipa::IntoParams;
use values::{Private, Prose, Text};

use super::deal_list::{DealFilterParams, DealQuery, DealReader, DealSearchParams, StateParams, TenantParam};
use super::override_register::OverrideFilterParams;
use crate::app::App;
use crate::db;
use crate::db::deal_view::DealView;
use crate::db::status_override::{OverrideFilter, OverrideKey, OverrideRecord};
use crate::domain::{ManageDeals, ReadDeals, ReadOwnDeals};
use crate::error::{EXPORT_TOO_LARGE, Error};

/// The number of rows that one statement reads.
const BATCH: u16 = 1_000;

#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct ExportParams {
    /// Format of the file; `Csv` if absent. `Xlsx` has at most 100,000 rows.
    #[param(inline)]
    format: Option<ExportFormat>,
}

impl ExportParams {
    fn format(&self) -> ExportFormat {
        self.format.unwrap_or(ExportFormat::Csv)
    }
}

/// The caller of an export, whose token must stay valid while rows are read.
struct Exporter {
    actor: Actor,
    revocations: Data<Revocations>,
}

impl Exporter {
    fn requester(&self) -> Requester {
        Requester { user: self.actor.user_id.into(), company: self.actor.company_id.map(Into::into) }
    }

    /// # Errors
    /// `UNAUTHORIZED` if the token has expired or is revoked.
    fn check_token(&self) -> Result<(), Problem> {
        let has_ended = clock::now() >= self.actor.expires_at() || self.revocations.revokes(&self.actor);
        if has_ended { Err(Problem::unauthorized()) } else { Ok(()) }
    }
}

/// Reads all rows of a list in batches. `read` returns up to [`BATCH`] rows after a key.
///
/// No connection is in use between two batches, so a slow client holds none.
///
/// # Errors
/// `UNAUTHORIZED` if the token has expired or is revoked before the next batch;
/// [`EXPORT_TOO_LARGE`] if a spreadsheet gets too many rows, because rows were added after the
/// handler's check.
fn walk<T, K, R, F>(
    format: ExportFormat,
    exporter: Exporter,
    key: fn(&T) -> K,
    to_row: fn(&T) -> Row,
    read: R,
) -> impl Stream<Item = Result<Vec<Row>, Error>>
where
    R: Fn(Option<K>) -> F,
    F: Future<Output = Result<Vec<T>, Error>>,
{
    let first = Some((None, 0));
    stream::try_unfold((first, exporter, read), move |(next, exporter, read)| async move {
        let Some((after, count)) = next else { return Ok(None) };
        exporter.check_token()?;
        let found = read(after).await?;
        if found.is_empty() {
            return Ok(None);
        }
        let count = count + found.len();
        if matches!(format, ExportFormat::Xlsx) && count > MAX_SPREADSHEET_ROWS as usize {
            return Err(EXPORT_TOO_LARGE.into());
        }
        let last = found.last().filter(|_| found.len() == usize::from(BATCH));
        let next = last.map(|last| (Some(key(last)), count));
        Ok(Some((found.iter().map(to_row).collect(), (next, exporter, read))))
    })
}

const DEALS: Table = Table {
    name: "deals",
    columns: &[
        "DealId",
        "Status",
        "StepName",
        "StepGroup",
        "TenantId",
        "DeveloperName",
        "ProjectName",
        "BuildingName",
        "Number",
        "PropertyObjectId",
        "ClientUserId",
        "AgentUserId",
        "AmountMinor",
        "Currency",
        "ContractType",
        "PaymentMethod",
        "ContractNumber",
        "BookingExpiresAt",
        "StepEnteredAt",
        "CreatedAt",
        "UpdatedAt",
        "CancelledAt",
        "CancelReason",
        "CompletedAt",
        "RowVersion",
    ],
};

/// A file of one deal, for the document.
const DEALS_EXAMPLE: &str = "\
DealId,Status,StepName,StepGroup,TenantId,DeveloperName,ProjectName,BuildingName,Number,PropertyObjectId,\
ClientUserId,AgentUserId,AmountMinor,Currency,ContractType,PaymentMethod,ContractNumber,BookingExpiresAt,\
StepEnteredAt,CreatedAt,UpdatedAt,CancelledAt,CancelReason,CompletedAt,RowVersion\r\n\
01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3,Booking,Viewing,Booking,01932b4e-7c1a-7d3e-9f00-ad3dc05d04f8,\
Volga Development,Riverside,Building 2,142,01932b4e-7c1a-7d3e-9f00-c71b63933ea1,\
01932b4e-7c1a-7d3e-9f00-e6b5e645473c,,1250000000,RUB,,,,2026-05-07T09:30:00Z,2026-05-04T09:30:00Z,\
2026-05-02T08:00:00Z,2026-05-04T09:30:00Z,,,,4\r\n";

fn name_cell<const MIN: usize, const MAX: usize>(text: Option<&Text<MIN, MAX>>) -> Cell {
    Cell::text(text.map(Text::as_str))
}

fn private_cell<const MIN: usize, const MAX: usize>(text: Option<&Private<Prose<MIN, MAX>>>) -> Cell {
    Cell::text(text.map(|text| text.expose().as_str()))
}

fn word_cell(word: Option<impl Into<&'static str>>) -> Cell {
    Cell::text(word.map(Into::into))
}

fn deal_row(view: &DealView) -> Row {
    let deal = &view.summary;
    vec![
        Cell::id(Some(deal.card.deal_id)),
        word_cell(Some(deal.card.status)),
        Cell::text(Some(view.step_name.as_str())),
        word_cell(Some(deal.card.step_group)),
        Cell::id(Some(deal.tenant_id)),
        name_cell(view.developer_name.as_ref()),
        name_cell(deal.project_name.as_ref()),
        name_cell(deal.building_name.as_ref()),
        name_cell(deal.number.as_ref()),
        Cell::id(Some(deal.property_object_id)),
        Cell::id(Some(deal.client_user_id)),
        Cell::id(deal.agent_user_id),
        Cell::Number(deal.amount.amount_minor.get()),
        Cell::Text(deal.amount.currency.to_string()),
        word_cell(view.contract_type),
        word_cell(view.payment_method),
        private_cell(view.contract_number.as_ref()),
        Cell::time(deal.booking_expires_at),
        Cell::Time(deal.step_entered_at),
        Cell::Time(deal.created_at),
        Cell::Time(deal.card.updated_at),
        Cell::time(view.cancelled_at),
        private_cell(view.cancel_reason.as_ref()),
        Cell::time(view.completed_at),
        Cell::Number(deal.card.row_version),
    ]
}

async fn respond_with_deals(
    app: Data<App>,
    format: ExportFormat,
    exporter: Exporter,
    reader: DealReader,
    tenant_id: Option<CompanyId>,
    query: DealQuery,
) -> Result<HttpResponse, Error> {
    let query = reader.to_list_query(tenant_id, query)?;
    if format == ExportFormat::Xlsx {
        let conn = app.db.conn().await?;
        if db::deal_list::has_more_than(&conn, &query, MAX_SPREADSHEET_ROWS).await? {
            return Err(EXPORT_TOO_LARGE.into());
        }
    }
    let reads_contracts = reader.reads_contracts;
    let read = move |after| {
        let (app, query) = (app.clone(), query.clone());
        async move {
            let conn = app.db.conn().await?;
            let mut found = db::deal_list::read_batch(&conn, &query, after, i64::from(BATCH)).await?;
            if !reads_contracts {
                for view in &mut found {
                    view.contract_number = None;
                }
            }
            Ok(found)
        }
    };
    let key = |last: &DealView| (last.summary.created_at, last.summary.card.deal_id);
    let requester = exporter.requester();
    export::respond(format, DEALS, requester, walk(format, exporter, key, deal_row, read)).await
}

/// Export deals.
///
/// All deals that match the filters, newest first.
///
/// CSV follows RFC 4180: UTF-8, a header, commas, and quotes where a text needs them. A text that
/// could be a formula begins with an apostrophe. The rows are sent while they are read. If the
/// token expires or a read fails, the connection breaks, so that a client detects the incomplete
/// file.
#[utoipa::path(
    tag = "Deals", params(ExportParams, TenantParam, StateParams, DealFilterParams, DealSearchParams),
    responses((status = 200, description = "The file", content(
        (String = "text/csv", example = json!(DEALS_EXAMPLE)),
        (inline(FileContent) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
    ), headers(("Content-Disposition" = String, description = "The name of the file"))))
)]
#[get("/api/platform-manager/crm/exports/deals", wrap = "from_fn(auth::expensive)")]
pub async fn export_deals(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
    revocations: Data<Revocations>,
    Both(Query(params), Both(Query(tenant), query)): Both<
        Query<ExportParams>,
        Both<Query<TenantParam>, DealQuery>,
    >,
) -> Result<HttpResponse, Error> {
    let reader = DealReader::from(&permitted);
    let exporter = Exporter { actor: permitted.actor, revocations };
    respond_with_deals(app, params.format(), exporter, reader, tenant.id(), query).await
}

/// Export the deals of the own company.
///
/// All deals that match the filters, newest first.
///
/// CSV follows RFC 4180: UTF-8, a header, commas, and quotes where a text needs them. A text that
/// could be a formula begins with an apostrophe. The rows are sent while they are read. If the
/// token expires or a read fails, the connection breaks, so that a client detects the incomplete
/// file.
#[utoipa::path(
    tag = "Own deals", params(ExportParams, StateParams, DealFilterParams, DealSearchParams),
    responses((status = 200, description = "The file", content(
        (String = "text/csv", example = json!(DEALS_EXAMPLE)),
        (inline(FileContent) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
    ), headers(("Content-Disposition" = String, description = "The name of the file"))))
)]
#[get("/api/v1/crm/exports/deals", wrap = "from_fn(auth::expensive)")]
pub async fn export_own_deals(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    revocations: Data<Revocations>,
    Both(Query(params), query): Both<Query<ExportParams>, DealQuery>,
) -> Result<HttpResponse, Error> {
    let reader = DealReader::from(&permitted);
    let exporter = Exporter { actor: permitted.actor, revocations };
    respond_with_deals(app, params.format(), exporter, reader, None, query).await
}

const OVERRIDES: Table = Table {
    name: "status-overrides",
    columns: &[
        "Id",
        "CreatedAt",
        "ActorUserId",
        "DealId",
        "TenantId",
        "DeveloperName",
        "ProjectName",
        "BuildingName",
        "Number",
        "FromStatus",
        "ToStatus",
        "Comment",
        "RowVersion",
    ],
};

/// A file of one override, for the document.
const OVERRIDES_EXAMPLE: &str = "\
Id,CreatedAt,ActorUserId,DealId,TenantId,DeveloperName,ProjectName,BuildingName,Number,FromStatus,ToStatus,\
Comment,RowVersion\r\n\
01932b4e-7c1a-7d3e-9f00-2f2b3c4d5e6f,2026-05-04T09:30:00Z,01932b4e-7c1a-7d3e-9f00-ee736ee59b28,\
01932b4e-7c1a-7d3e-9f00-5c0fa8b1d2e3,01932b4e-7c1a-7d3e-9f00-ad3dc05d04f8,Volga Development,Riverside,\
Building 2,142,Cancelled,Application,The client came back,5\r\n";

fn override_row(record: &OverrideRecord) -> Row {
    vec![
        Cell::id(Some(record.id)),
        Cell::Time(record.created_at),
        Cell::id(Some(record.actor_user_id)),
        Cell::id(Some(record.deal_id)),
        Cell::id(Some(record.tenant_id)),
        name_cell(record.developer_name.as_ref()),
        name_cell(record.project_name.as_ref()),
        name_cell(record.building_name.as_ref()),
        name_cell(record.number.as_ref()),
        word_cell(Some(record.from_status)),
        word_cell(Some(record.to_status)),
        private_cell(Some(&record.comment)),
        Cell::Number(record.row_version),
    ]
}

/// Export overrides.
///
/// All overrides that match the filters, newest first.
///
/// CSV follows RFC 4180: UTF-8, a header, commas, and quotes where a text needs them. A text that
/// could be a formula begins with an apostrophe. The rows are sent while they are read. If the
/// token expires or a read fails, the connection breaks, so that a client detects the incomplete
/// file.
#[utoipa::path(
    tag = "Overrides", params(ExportParams, OverrideFilterParams),
    responses((status = 200, description = "The file", content(
        (String = "text/csv", example = json!(OVERRIDES_EXAMPLE)),
        (inline(FileContent) = "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet")
    ), headers(("Content-Disposition" = String, description = "The name of the file"))))
)]
#[get("/api/platform-manager/crm/exports/status-overrides", wrap = "from_fn(auth::expensive)")]
pub async fn export_status_overrides(
    app: Data<App>,
    permitted: Permitted<ManageDeals>,
    revocations: Data<Revocations>,
    Both(Query(params), CheckedQuery(filter)): Both<Query<ExportParams>, CheckedQuery<OverrideFilterParams>>,
) -> Result<HttpResponse, Error> {
    let (format, filter) = (params.format(), OverrideFilter::from(filter));
    if format == ExportFormat::Xlsx {
        let conn = app.db.conn().await?;
        if db::status_override::has_more_than(&conn, filter, MAX_SPREADSHEET_ROWS).await? {
            return Err(EXPORT_TOO_LARGE.into());
        }
    }
    let read = move |after| {
        let app = app.clone();
        async move {
            let conn = app.db.conn().await?;
            Ok(db::status_override::read_batch(&conn, filter, after, i64::from(BATCH)).await?)
        }
    };
    let key = |last: &OverrideRecord| OverrideKey::from(last);
    let exporter = Exporter { actor: permitted.actor, revocations };
    let requester = exporter.requester();
    export::respond(format, OVERRIDES, requester, walk(format, exporter, key, override_row, read)).await
}

#[cfg(test)]
mod tests {
    use super::{DEALS, DEALS_EXAMPLE, OVERRIDES, OVERRIDES_EXAMPLE};

    /// The examples of the document have the columns of their files.
    #[test]
    fn examples_have_the_columns_of_their_files() {
        for (example, table) in [(DEALS_EXAMPLE, DEALS), (OVERRIDES_EXAMPLE, OVERRIDES)] {
            let records: Vec<Vec<_>> =
                example.split_terminator("\r\n").map(|line| line.split(',').collect()).collect();
            assert_eq!(records.len(), 2);
            assert_eq!(records[0], table.columns);
            assert_eq!(records[1].len(), table.columns.len());
        }
    }
}
