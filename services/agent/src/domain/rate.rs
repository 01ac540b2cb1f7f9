//! Rate cards, and the agencies whose terms apply to agents.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::BasisPoints;

use super::RateCardId;
use crate::schema::{agent, rate, rate_card};

/// The greatest rate in basis points: 100 %.
pub const MAX_BPS: i64 = 10_000;
/// The greatest number of rates of a card.
pub const MAX_CARD_RATES: usize = 100;

/// The key of a card. The card covers the sales that match every id of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardKey {
    pub developer_company_id: Option<CompanyId>,
    pub agency_company_id: Option<CompanyId>,
    pub agent_user_id: Option<UserId>,
}

/// A commission rate and its validity.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Queryable, Selectable, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[diesel(table_name = rate, check_for_backend(Pg))]
pub struct Rate {
    #[schema(minimum = 0, maximum = 10000)]
    pub rate_bps: i32,
    #[serde(with = "time::serde::rfc3339")]
    pub valid_from: OffsetDateTime,
    /// Exclusive; null if the rate has no end.
    #[serde(with = "time::serde::rfc3339::option")]
    pub valid_to: Option<OffsetDateTime>,
}

/// The rate of a sale, from the request that assigns it or from the first card that covers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleRate {
    pub share: BasisPoints,
    /// The agent of the sale made the latest change of the card. False for a rate from a request.
    pub is_set_by_agent: bool,
}

/// A rate card as it is stored, without its rates.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = rate_card, check_for_backend(Pg))]
pub struct RateCard {
    pub id: RateCardId,
    pub developer_company_id: Option<CompanyId>,
    pub agency_company_id: Option<CompanyId>,
    pub agent_user_id: Option<UserId>,
    pub created_at: OffsetDateTime,
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
    pub version: i64,
}

/// A rate card with its rates.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = RateCard)]
pub struct RateCardView {
    id: RateCardId,
    /// Id of the developer's company. Null for a card that covers all developers.
    developer_company_id: Option<CompanyId>,
    /// Id of the agency. Null for a card that covers all agencies.
    agency_company_id: Option<CompanyId>,
    /// Id of the agent as a user. Null for a card that covers all agents.
    agent_user_id: Option<UserId>,
    /// Rates sorted by `ValidFrom`.
    rates: Vec<Rate>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    version: i64,
}

impl RateCardView {
    pub fn of(card: &RateCard, rates: Vec<Rate>) -> Self {
        Self {
            id: card.id,
            developer_company_id: card.developer_company_id,
            agency_company_id: card.agency_company_id,
            agent_user_id: card.agent_user_id,
            rates,
            created_at: card.created_at,
            updated_at: card.updated_at,
            version: card.version,
        }
    }
}

/// The stored agency of an agent.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = agent, check_for_backend(Pg))]
pub struct Agent {
    pub user_id: UserId,
    pub agency_company_id: Option<CompanyId>,
    pub version: i64,
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
}

/// An agent and the agency whose terms apply.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = Agent)]
pub struct AgentView {
    agent_user_id: UserId,
    agency_company_id: Option<CompanyId>,
    /// 0 for an agent without an entry.
    version: i64,
}

impl AgentView {
    /// Creates the view of an agent. Without an entry the agency is null and the version is 0.
    pub fn of(agent_user_id: UserId, entry: Option<&Agent>) -> Self {
        Self {
            agent_user_id,
            agency_company_id: entry.and_then(|agent| agent.agency_company_id),
            version: entry.map_or(0, |agent| agent.version),
        }
    }
}
