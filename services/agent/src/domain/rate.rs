//! What is paid for sales: cards of rates, and by whose terms an agent is paid.

use auth::{CompanyId, UserId};
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::RateCardId;
use crate::db::schema::{agent, rate, rate_card};

/// Whose sales a card is for: of these three each that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CardKey {
    pub developer_company_id: Option<CompanyId>,
    pub agency_company_id: Option<CompanyId>,
    pub agent_user_id: Option<UserId>,
}

/// What a card pays for a while.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Queryable, Selectable, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[diesel(table_name = rate, check_for_backend(Pg))]
pub struct Rate {
    #[schema(minimum = 0, maximum = 10000)]
    pub rate_bps: i32,
    #[serde(with = "time::serde::rfc3339")]
    pub valid_from: OffsetDateTime,
    /// Exclusive; null for ever.
    #[serde(with = "time::serde::rfc3339::option")]
    pub valid_to: Option<OffsetDateTime>,
}

/// The aggregate, as it is stored; its rates stand apart.
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

/// A card as it is shown.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = RateCard)]
pub struct RateCardShown {
    id: RateCardId,
    developer_company_id: Option<CompanyId>,
    agency_company_id: Option<CompanyId>,
    agent_user_id: Option<UserId>,
    /// By `ValidFrom`.
    rates: Vec<Rate>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    updated_at: OffsetDateTime,
    version: i64,
}

impl RateCardShown {
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

/// By whose terms an agent is paid, as the platform has entered it.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = agent, check_for_backend(Pg))]
pub struct Agent {
    pub user_id: UserId,
    pub agency_company_id: Option<CompanyId>,
    pub version: i64,
    pub updated_at: OffsetDateTime,
    pub updated_by_user_id: UserId,
}

/// The same as it is shown.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = Agent)]
pub struct AgentShown {
    agent_user_id: UserId,
    agency_company_id: Option<CompanyId>,
    /// 0: never entered.
    version: i64,
}

impl AgentShown {
    /// Of an agent who may never have been entered.
    pub fn of(agent_user_id: UserId, entered: Option<&Agent>) -> Self {
        Self {
            agent_user_id,
            agency_company_id: entered.and_then(|agent| agent.agency_company_id),
            version: entered.map_or(0, |agent| agent.version),
        }
    }
}
