//! Changes of rate cards and of the agencies of agents.

use ::db::Tx;
use auth::{CompanyId, UserId};
use time::OffsetDateTime;

use super::deal::UNRATED_DEALS;
use crate::db;
use crate::domain::{Agent, AgentView, CardKey, MoneyEntry, Rate, RateCard, RateCardId, RateCardView};
use crate::error::{CONCURRENCY_CONFLICT, Error, TERMS_OWN};

/// The author, time and expected version of a change. `None` matches any version.
pub struct Change {
    pub by: UserId,
    pub now: OffsetDateTime,
    pub expected_version: Option<i64>,
}

impl Change {
    /// Returns the version after the current one.
    ///
    /// # Errors
    /// [`CONCURRENCY_CONFLICT`] if another version was expected.
    fn next_version(&self, current: i64) -> Result<i64, Error> {
        if self.expected_version.is_some_and(|version| version != current) {
            return Err(CONCURRENCY_CONFLICT.into());
        }
        Ok(current + 1)
    }
}

/// Replaces the rates of a card, or creates the card. Equal rates change nothing.
///
/// `rates` are sorted by `ValidFrom`.
///
/// # Errors
/// - [`TERMS_OWN`] if the card names the caller, or the caller's agency.
/// - [`CONCURRENCY_CONFLICT`] if another version was expected, or a concurrent change has other
///   rates.
pub async fn replace_card(
    tx: &mut Tx,
    key: CardKey,
    rates: Vec<Rate>,
    change: &Change,
) -> Result<RateCardView, Error> {
    refuse_own_card(tx, key, change.by).await?;
    let current = match db::rate_card::find(tx, key).await? {
        Some((card, current)) if current == rates => return Ok(RateCardView::of(&card, rates)),
        current => current.map(|(card, _)| card),
    };
    let version = change.next_version(current.as_ref().map_or(0, |card| card.version))?;
    let card = RateCard {
        id: current.as_ref().map_or_else(RateCardId::generate, |card| card.id),
        developer_company_id: key.developer_company_id,
        agency_company_id: key.agency_company_id,
        agent_user_id: key.agent_user_id,
        created_at: current.as_ref().map_or(change.now, |card| card.created_at),
        updated_at: current.map_or(change.now, |card| change.now.max(card.updated_at)),
        updated_by_user_id: change.by,
        version,
    };
    if !db::rate_card::save(tx, &card, &rates).await? {
        // If the concurrent change has the same rates, both callers succeed.
        return match db::rate_card::find(tx, key).await? {
            Some((card, current)) if current == rates => Ok(RateCardView::of(&card, rates)),
            _ => Err(CONCURRENCY_CONFLICT.into()),
        };
    }
    db::money_log::append(tx, vec![MoneyEntry::of_card(&card, &rates)]).await?;
    // The key of a periodic job is empty.
    jobs::schedule(tx, UNRATED_DEALS, [""], change.now).await?;
    Ok(RateCardView::of(&card, rates))
}

/// Refuses a card that names the caller or the caller's agency.
///
/// A card that names only a developer covers every agent, so the caller may set it.
async fn refuse_own_card(tx: &mut Tx, key: CardKey, by: UserId) -> Result<(), Error> {
    let is_own = match key.agency_company_id {
        Some(agency) => {
            let caller = db::agent::find(tx.conn(), by).await?;
            caller.is_some_and(|caller| caller.agency_company_id == Some(agency))
        }
        None => key.agent_user_id == Some(by),
    };
    if is_own { Err(TERMS_OWN.into()) } else { Ok(()) }
}

/// Replaces the agency of an agent. An equal agency changes nothing.
///
/// # Errors
/// - [`TERMS_OWN`] if the agent is the caller.
/// - [`CONCURRENCY_CONFLICT`] if another version was expected, or a concurrent change has another
///   agency.
pub async fn replace_agent(
    tx: &mut Tx,
    id: UserId,
    agency: Option<CompanyId>,
    change: &Change,
) -> Result<AgentView, Error> {
    if id == change.by {
        return Err(TERMS_OWN.into());
    }
    let current = db::agent::find(tx.conn(), id).await?;
    if current.as_ref().and_then(|agent| agent.agency_company_id) == agency {
        return Ok(AgentView::of(id, current.as_ref()));
    }
    let version = change.next_version(current.as_ref().map_or(0, |agent| agent.version))?;
    let agent = Agent {
        user_id: id,
        agency_company_id: agency,
        version,
        updated_at: current.map_or(change.now, |agent| change.now.max(agent.updated_at)),
        updated_by_user_id: change.by,
    };
    if !db::agent::save(tx, &agent).await? {
        // If the concurrent change has the same agency, both callers succeed.
        return match db::agent::find(tx.conn(), id).await? {
            Some(current) if current.agency_company_id == agency => Ok(AgentView::of(id, Some(&current))),
            _ => Err(CONCURRENCY_CONFLICT.into()),
        };
    }
    db::money_log::append(tx, vec![MoneyEntry::of_agent(&agent)]).await?;
    // The key of a periodic job is empty.
    jobs::schedule(tx, UNRATED_DEALS, [""], change.now).await?;
    Ok(AgentView::of(id, Some(&agent)))
}
