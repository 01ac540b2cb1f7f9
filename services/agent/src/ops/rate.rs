//! What the platform says of rates and terms.

use ::db::Tx;
use auth::{CompanyId, UserId};
use time::OffsetDateTime;

use super::deal::UNRATED_DEALS;
use crate::db;
use crate::domain::{Agent, AgentShown, CardKey, Rate, RateCard, RateCardId, RateCardShown};
use crate::error::{CONCURRENCY_CONFLICT, Error};

/// Who enters something, when, and on top of which version: any, where none is named.
pub struct Change {
    pub by: UserId,
    pub now: OffsetDateTime,
    pub version: Option<i64>,
}

impl Change {
    /// The version of what is written, over the present one.
    fn next(&self, present: i64) -> Result<i64, Error> {
        if self.version.is_some_and(|version| version != present) {
            return Err(CONCURRENCY_CONFLICT.into());
        }
        Ok(present + 1)
    }
}

/// Replaces the rates of a card, or makes it. `rates` are by `ValidFrom`. The same ones again change nothing.
///
/// # Errors
/// [`CONCURRENCY_CONFLICT`]
pub async fn replace_card(
    tx: &mut Tx,
    key: CardKey,
    rates: Vec<Rate>,
    change: &Change,
) -> Result<RateCardShown, Error> {
    let present = match db::rate_card::find(tx, key).await? {
        Some((card, present)) if present == rates => return Ok(RateCardShown::of(&card, rates)),
        present => present.map(|(card, _)| card),
    };
    let version = change.next(present.as_ref().map_or(0, |card| card.version))?;
    let card = RateCard {
        id: present.as_ref().map_or_else(RateCardId::generate, |card| card.id),
        developer_company_id: key.developer_company_id,
        agency_company_id: key.agency_company_id,
        agent_user_id: key.agent_user_id,
        created_at: present.as_ref().map_or(change.now, |card| card.created_at),
        updated_at: present.map_or(change.now, |card| change.now.max(card.updated_at)),
        updated_by_user_id: change.by,
        version,
    };
    if !db::rate_card::save(tx, &card, &rates).await? {
        // Whoever was first may have said the same.
        return match db::rate_card::find(tx, key).await? {
            Some((card, present)) if present == rates => Ok(RateCardShown::of(&card, rates)),
            _ => Err(CONCURRENCY_CONFLICT.into()),
        };
    }
    jobs::schedule(tx, UNRATED_DEALS, [""], change.now).await?;
    Ok(RateCardShown::of(&card, rates))
}

/// Enters by whose terms an agent is paid. The same again changes nothing.
///
/// # Errors
/// [`CONCURRENCY_CONFLICT`]
pub async fn replace_agent(
    tx: &mut Tx,
    id: UserId,
    agency: Option<CompanyId>,
    change: &Change,
) -> Result<AgentShown, Error> {
    let present = db::agent::find(tx.conn(), id).await?;
    if present.as_ref().and_then(|agent| agent.agency_company_id) == agency {
        return Ok(AgentShown::of(id, present.as_ref()));
    }
    let version = change.next(present.as_ref().map_or(0, |agent| agent.version))?;
    let agent = Agent {
        user_id: id,
        agency_company_id: agency,
        version,
        updated_at: present.map_or(change.now, |agent| change.now.max(agent.updated_at)),
        updated_by_user_id: change.by,
    };
    if !db::agent::save(tx, &agent).await? {
        // As with cards.
        return match db::agent::find(tx.conn(), id).await? {
            Some(present) if present.agency_company_id == agency => Ok(AgentShown::of(id, Some(&present))),
            _ => Err(CONCURRENCY_CONFLICT.into()),
        };
    }
    jobs::schedule(tx, UNRATED_DEALS, [""], change.now).await?;
    Ok(AgentShown::of(id, Some(&agent)))
}
