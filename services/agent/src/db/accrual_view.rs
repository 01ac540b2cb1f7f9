//! Reading of accruals with the developer's name and the latest request.

use std::collections::HashMap;

use ::db::Conn;
use ::web::{Page, Paging, SortKey};
use auth::{CompanyId, UserId};
use diesel::dsl;
use diesel::pg::Pg;
use diesel::prelude::*;
use diesel_async::RunQueryDsl;
use futures_util::future::try_join;
use serde::Serialize;
use service::list::{self, OrderBy};
use strum::{EnumString, VariantNames};
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money};

use crate::domain::{
    Accrual, AccrualId, AccrualKind, AccrualStatus, AdjustmentRequest, AdjustmentRequestView, DealId,
    PayoutId, PropertyObjectId,
};
use crate::schema::{accrual, adjustment_request, developer};

/// An amount that a sale earns for an agent, or that the agent owes back.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = Accrual)]
pub struct AccrualView {
    id: AccrualId,
    agent_user_id: UserId,
    deal_id: DealId,
    property_object_id: PropertyObjectId,
    developer_company_id: CompanyId,
    /// Null until the name is known.
    developer_name: Option<String>,
    kind: AccrualKind,
    /// Amount of the deal when the sale began.
    base_amount: Money,
    #[schema(minimum = 0, maximum = 10000)]
    rate_bps: i32,
    /// Negative for a debt.
    amount: Money,
    status: AccrualStatus,
    /// The sale is completed, and the platform has to release the accrual.
    awaits_release: bool,
    /// The payout that contains the accrual.
    payout_id: Option<PayoutId>,
    /// For a Reversal, the accrual that it undoes.
    reverses_accrual_id: Option<AccrualId>,
    /// For a Bonus or Correction, the Base that it adjusts.
    adjusts_accrual_id: Option<AccrualId>,
    #[serde(with = "time::serde::rfc3339")]
    earned_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    approved_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339::option")]
    paid_at: Option<OffsetDateTime>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    version: i64,
    /// The latest request about the accrual.
    adjustment_request: Option<AdjustmentRequestView>,
}

/// Data of other tables for a list of accruals, read by two statements.
struct RelatedData {
    names: HashMap<CompanyId, String>,
    requests: HashMap<AccrualId, AdjustmentRequest>,
}

impl RelatedData {
    async fn read(conn: &Conn, accruals: &[Accrual]) -> QueryResult<Self> {
        let (mut first, mut second) = (conn, conn);
        let developers: Vec<_> = accruals.iter().map(|accrual| accrual.developer_company_id).collect();
        let ids: Vec<_> = accruals.iter().map(|accrual| accrual.id).collect();
        let names = developer::table
            .filter(developer::id.eq_any(developers))
            .select((developer::id, developer::name))
            .load::<(CompanyId, String)>(&mut first);
        let requests = adjustment_request::table
            .filter(adjustment_request::accrual_id.eq_any(ids))
            .distinct_on(adjustment_request::accrual_id)
            .order((
                adjustment_request::accrual_id,
                adjustment_request::created_at.desc(),
                adjustment_request::id.desc(),
            ))
            .select(AdjustmentRequest::as_select())
            .load(&mut second);
        let (names, requests) = try_join(names, requests).await?;
        let requests = requests.into_iter().map(|request| (request.accrual_id, request));
        Ok(Self { names: names.into_iter().collect(), requests: requests.collect() })
    }

    fn view(&mut self, accrual: &Accrual) -> AccrualView {
        let request = self.requests.remove(&accrual.id);
        AccrualView {
            id: accrual.id,
            agent_user_id: accrual.agent_user_id,
            deal_id: accrual.deal_id,
            property_object_id: accrual.property_object_id,
            developer_company_id: accrual.developer_company_id,
            developer_name: self.names.get(&accrual.developer_company_id).cloned(),
            kind: accrual.kind,
            base_amount: Money { amount_minor: accrual.base_amount, currency: accrual.currency },
            rate_bps: accrual.rate_bps,
            amount: accrual.money(),
            status: accrual.status,
            awaits_release: accrual.awaits_release,
            payout_id: accrual.payout_id,
            reverses_accrual_id: accrual.reverses_accrual_id,
            adjusts_accrual_id: accrual.adjusts_accrual_id,
            earned_at: accrual.earned_at,
            approved_at: accrual.approved_at,
            paid_at: accrual.paid_at,
            created_at: accrual.created_at,
            updated_at: accrual.updated_at,
            version: accrual.version,
            adjustment_request: request.map(|request| AdjustmentRequestView::of(request, accrual.currency)),
        }
    }
}

/// Returns the view of an accrual that the caller has loaded.
pub async fn view(conn: &Conn, accrual: Accrual) -> QueryResult<AccrualView> {
    let mut related = RelatedData::read(conn, std::slice::from_ref(&accrual)).await?;
    Ok(related.view(&accrual))
}

/// The sort keys of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
pub enum AccrualSort {
    CreatedAt,
    EarnedAt,
    Amount,
}

impl SortKey for AccrualSort {
    const DEFAULT: &'static str = "-CreatedAt";
}

/// The filter of a list.
#[derive(Debug, Default)]
pub struct AccrualFilter {
    pub agent_user_id: Option<UserId>,
    pub statuses: Option<Vec<AccrualStatus>>,
    pub kinds: Option<Vec<AccrualKind>>,
    pub awaits_release: Option<bool>,
    /// Only Pending and Approved accruals.
    pub is_owed: bool,
    pub deal_id: Option<DealId>,
    pub developer_company_id: Option<CompanyId>,
    pub payout_id: Option<PayoutId>,
    pub currency: Option<Currency>,
    pub created_from: Option<OffsetDateTime>,
    /// Exclusive upper bound of `created_at`.
    pub created_to: Option<OffsetDateTime>,
}

/// Returns one page of the accruals that match the filter.
pub async fn list(
    conn: &Conn,
    filter: &AccrualFilter,
    paging: &Paging<AccrualSort>,
) -> QueryResult<Page<AccrualView>> {
    let order: OrderBy<accrual::table> = match paging.sort {
        AccrualSort::CreatedAt => list::order_by(paging, accrual::created_at),
        AccrualSort::EarnedAt => list::order_by(paging, accrual::earned_at),
        AccrualSort::Amount => list::order_by(paging, accrual::amount),
    };
    let sorted =
        filtered(filter).select(Accrual::as_select()).order((order, list::order_by(paging, accrual::id)));
    let counted = filtered(filter).select(accrual::id);
    let Page { items, page, page_size, total_count } =
        list::page::<_, Accrual, _, _>(conn, paging, sorted, counted).await?;
    let mut related = RelatedData::read(conn, &items).await?;
    let items = items.iter().map(|accrual| related.view(accrual)).collect();
    Ok(Page { items, page, page_size, total_count })
}

fn filtered(filter: &AccrualFilter) -> accrual::BoxedQuery<'static, Pg> {
    let mut query = accrual::table.filter(list::custom_plan()).into_boxed();
    if let Some(agent) = filter.agent_user_id {
        query = query.filter(accrual::agent_user_id.eq(agent));
    }
    if let Some(statuses) = &filter.statuses {
        query = query.filter(accrual::status.eq_any(statuses.clone()));
    }
    if let Some(kinds) = &filter.kinds {
        query = query.filter(accrual::kind.eq_any(kinds.clone()));
    }
    if let Some(awaits_release) = filter.awaits_release {
        query = if awaits_release {
            query.filter(accrual::awaits_release)
        } else {
            query.filter(dsl::not(accrual::awaits_release))
        };
    }
    if filter.is_owed {
        query = query.filter(accrual::status.eq_any([AccrualStatus::Pending, AccrualStatus::Approved]));
    }
    if let Some(deal) = filter.deal_id {
        query = query.filter(accrual::deal_id.eq(deal));
    }
    if let Some(developer) = filter.developer_company_id {
        query = query.filter(accrual::developer_company_id.eq(developer));
    }
    if let Some(payout) = filter.payout_id {
        query = query.filter(accrual::payout_id.eq(payout));
    }
    if let Some(currency) = filter.currency {
        query = query.filter(accrual::currency.eq(currency));
    }
    if let Some(from) = filter.created_from {
        query = query.filter(accrual::created_at.ge(from));
    }
    if let Some(to) = filter.created_to {
        query = query.filter(accrual::created_at.lt(to));
    }
    query
}
