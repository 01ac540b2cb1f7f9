//! Routes that list deals, and the filters of lists, boards and exports.

use ::web::{Both, Check, CheckedQuery, CommaSeparated, FieldError, Fields, Page, Paging, Problem, Query};
use actix_web::middleware::from_fn;
use actix_web::web::Data;
use actix_web::{Responder, get, web};
use auth::{Actor, CompanyId, Permitted, Reach, UserId};
use ids::Reference;
use serde::Deserialize;
use time::OffsetDateTime;
use utoipa::IntoParams;
use values::{Currency, Invalid, Private, Text, Whole, fold};

use crate::app::App;
use crate::db;
use crate::db::deal_list::{DealListQuery, DealSearch, DealSort};
use crate::db::deal_view::{DealFilter, DealSummary};
use crate::domain::{DealStatus, PropertyObjectId, ReadDeals, ReadOwnDeals, StepId, may_read_contracts};
use crate::error::Error;

/// The developer whose deals are listed.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct TenantParam {
    /// Company id of the developer. By default the deals of all developers.
    #[param(value_type = Option<CompanyId>)]
    tenant_id: Option<Reference<CompanyId>>,
}

impl TenantParam {
    pub fn id(&self) -> Option<CompanyId> {
        self.tenant_id.map(|id| id.0)
    }
}

/// The status and the step of listed deals.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct StateParams {
    /// Statuses, separated by commas. By default all statuses.
    #[param(value_type = Option<Vec<DealStatus>>, inline, min_items = 1, style = Form, explode = false)]
    statuses: Option<CommaSeparated<DealStatus>>,
    #[param(value_type = Option<StepId>)]
    step_id: Option<Reference<StepId>>,
}

/// The filters that lists and boards share.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct DealFilterParams {
    #[param(value_type = Option<PropertyObjectId>)]
    property_object_id: Option<Reference<PropertyObjectId>>,
    #[param(value_type = Option<UserId>)]
    client_user_id: Option<Reference<UserId>>,
    #[param(value_type = Option<UserId>)]
    agent_user_id: Option<Reference<UserId>>,
    /// Inclusive lower bound of the creation time.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of the creation time.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    created_to: Option<OffsetDateTime>,
}

impl Check for DealFilterParams {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/CreatedTo", self.created_from.as_ref(), self.created_to.as_ref());
    }
}

impl From<DealFilterParams> for DealFilter {
    fn from(params: DealFilterParams) -> Self {
        Self {
            property_object_id: params.property_object_id.map(|id| id.0),
            client_user_id: params.client_user_id.map(|id| id.0),
            agent_user_id: params.agent_user_id.map(|id| id.0),
            created_from: params.created_from,
            created_to: params.created_to,
        }
    }
}

/// A bound of an amount in minor units. The highest exclusive bound is one above the maximum
/// amount.
type AmountBound = Whole<0, 1_000_000_000_000_001>;

/// The minimum length of a part of a project's name. The trigram index finds no shorter text.
const MIN_PROJECT_NAME: usize = 3;

/// The filters of lists and exports alone.
#[derive(Deserialize, IntoParams)]
#[serde(rename_all = "PascalCase")]
#[into_params(rename_all = "PascalCase", parameter_in = Query)]
pub struct DealSearchParams {
    /// Whole number of the object, regardless of letter case and of the kinds of spaces and dashes.
    #[param(inline)]
    object_number: Option<Text<0, 100>>,
    /// Text of at least 3 characters to find literally anywhere in the name of the object's
    /// project, regardless of letter case and of the kinds of spaces and dashes.
    #[param(inline)]
    project_name: Option<Text<0, 100>>,
    /// Whole number of the contract, regardless of letter case and of the kinds of spaces and
    /// dashes. Only for readers of contract data.
    #[param(value_type = Option<Text<0, 100>>, inline)]
    contract_number: Option<Private<Text<0, 100>>>,
    /// Id of a user who is the client or the agent.
    #[param(value_type = Option<UserId>)]
    participant_user_id: Option<Reference<UserId>>,
    /// Lowest amount in minor units, inclusive.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    amount_from: Option<AmountBound>,
    /// Only amounts below this one, in minor units.
    #[serde(default, deserialize_with = "::web::read_from_str")]
    #[param(inline)]
    amount_to: Option<AmountBound>,
    /// Currency of the amount.
    #[param(value_type = Option<String>, pattern = "^[A-Z]{3}$")]
    currency: Option<Currency>,
    /// Inclusive lower bound of the expiry time of the Active booking.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    booking_expires_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of the expiry time of the Active booking.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    booking_expires_to: Option<OffsetDateTime>,
    /// Inclusive lower bound of the time of the last change.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    updated_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of the time of the last change.
    #[serde(default, deserialize_with = "::web::read_time")]
    #[param(value_type = Option<String>, format = DateTime)]
    updated_to: Option<OffsetDateTime>,
    /// Only deals without an agent.
    #[serde(default)]
    #[param(default = false)]
    without_agent: bool,
}

impl Check for DealSearchParams {
    fn check(&self, fields: &mut Fields) {
        fields.check_range("/AmountTo", self.amount_from.as_ref(), self.amount_to.as_ref());
        let (from, to) = (self.booking_expires_from.as_ref(), self.booking_expires_to.as_ref());
        fields.check_range("/BookingExpiresTo", from, to);
        fields.check_range("/UpdatedTo", self.updated_from.as_ref(), self.updated_to.as_ref());
        let project = self.project_name.as_ref().and_then(to_filter);
        if project.is_some_and(|project| project.chars().count() < MIN_PROJECT_NAME) {
            let invalid = Invalid::new("too_short").with("min", MIN_PROJECT_NAME);
            fields.check::<()>("/ProjectName", Err(invalid));
        }
    }
}

/// Returns the folded text, or `None` for a blank text, which does not filter.
fn to_filter(text: &Text<0, 100>) -> Option<String> {
    Some(fold(text.as_str())).filter(|text| !text.is_empty())
}

impl From<DealSearchParams> for DealSearch {
    fn from(params: DealSearchParams) -> Self {
        Self {
            object_number: params.object_number.as_ref().and_then(to_filter),
            project_name: params.project_name.as_ref().and_then(to_filter),
            contract_number: params.contract_number.as_ref().and_then(|number| to_filter(number.expose())),
            participant_user_id: params.participant_user_id.map(|id| id.0),
            amount_from: params.amount_from.map(Whole::get),
            amount_to: params.amount_to.map(Whole::get),
            currency: params.currency,
            booking_expires_from: params.booking_expires_from,
            booking_expires_to: params.booking_expires_to,
            updated_from: params.updated_from,
            updated_to: params.updated_to,
            is_without_agent: params.without_agent,
        }
    }
}

/// The filters of a list of deals or its export.
pub type DealQuery =
    Both<Both<Query<StateParams>, CheckedQuery<DealFilterParams>>, CheckedQuery<DealSearchParams>>;

/// The reader of a list, and the deals that the reader may list.
pub struct DealReader {
    pub reach: Reach,
    pub reads_contracts: bool,
}

impl DealReader {
    fn new(actor: &Actor, reach: Reach) -> Self {
        Self { reach, reads_contracts: may_read_contracts(actor, reach) }
    }

    /// Returns the query of the deals to list. On company routes it ignores `tenant_id` and lists
    /// the company's deals.
    ///
    /// # Errors
    /// `VALIDATION_FAILED` for a search by contract number without access to contract data.
    pub fn to_list_query(
        &self,
        tenant_id: Option<CompanyId>,
        Both(Both(Query(state), CheckedQuery(filter)), CheckedQuery(search)): DealQuery,
    ) -> Result<DealListQuery, Problem> {
        if search.contract_number.is_some() && !self.reads_contracts {
            let invalid = Invalid::new("not_permitted");
            let field = "/ContractNumber".to_owned();
            return Err(Problem::validation_failed(vec![FieldError { field, invalid }]));
        }
        let tenant_id = match self.reach {
            Reach::Platform => tenant_id,
            Reach::Company(company) => Some(company),
        };
        Ok(DealListQuery {
            tenant_id,
            statuses: state.statuses.map(|statuses| statuses.0),
            step_id: state.step_id.map(|id| id.0),
            filter: filter.into(),
            search: search.into(),
        })
    }
}

impl From<&Permitted<ReadDeals>> for DealReader {
    fn from(permitted: &Permitted<ReadDeals>) -> Self {
        Self::new(&permitted.actor, Reach::Platform)
    }
}

impl From<&Permitted<ReadOwnDeals>> for DealReader {
    fn from(permitted: &Permitted<ReadOwnDeals>) -> Self {
        Self::new(&permitted.actor, Reach::Company(permitted.granted))
    }
}

type ListQuery = Both<DealQuery, Paging<DealSort>>;

async fn list(
    app: &App,
    reader: &DealReader,
    tenant_id: Option<CompanyId>,
    Both(query, paging): ListQuery,
) -> Result<web::Json<Page<DealSummary>>, Error> {
    let query = reader.to_list_query(tenant_id, query)?;
    let conn = app.db.conn().await?;
    Ok(web::Json(db::deal_list::list(&conn, &query, &paging).await?))
}

/// List deals.
///
/// Lists the deals of all developers or of one. A deal must match all filters.
#[utoipa::path(
    tag = "Deals", params(TenantParam, StateParams, DealFilterParams, DealSearchParams, Paging<DealSort>),
    responses((status = 200, description = "One page", body = Page<DealSummary>))
)]
#[get("/api/platform-manager/crm/deals", wrap = "from_fn(auth::expensive)")]
pub async fn list_deals(
    app: Data<App>,
    permitted: Permitted<ReadDeals>,
    Both(Query(tenant), query): Both<Query<TenantParam>, ListQuery>,
) -> Result<impl Responder, Error> {
    list(&app, &(&permitted).into(), tenant.id(), query).await
}

/// List the deals of the own company.
///
/// A deal must match all filters.
#[utoipa::path(
    tag = "Own deals", params(StateParams, DealFilterParams, DealSearchParams, Paging<DealSort>),
    responses((status = 200, description = "One page", body = Page<DealSummary>))
)]
#[get("/api/v1/crm/deals", wrap = "from_fn(auth::expensive)")]
pub async fn list_own_deals(
    app: Data<App>,
    permitted: Permitted<ReadOwnDeals>,
    query: ListQuery,
) -> Result<impl Responder, Error> {
    list(&app, &(&permitted).into(), None, query).await
}
