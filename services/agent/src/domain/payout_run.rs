//! Payout runs: the payouts of all or some agents for a period.

use std::collections::BTreeSet;

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::{Duration, OffsetDateTime};
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{BasisPoints, Checked, Currency, Invalid, Rule, Text};

use super::PayoutRunId;
use crate::schema::{payout_run, payout_run_part};

/// The longest period of a run.
pub const MAX_RUN_PERIOD: Duration = Duration::days(366);
/// The greatest number of agents that a run may name.
pub const MAX_RUN_AGENTS: usize = 1000;

values::text_enum! {
    /// The status of a payout run.
    pub enum PayoutRunStatus {
        Running,
        Completed,
    }
}

/// The rule for run keys: 1 to 64 characters of `A-Za-z0-9._-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum RunKeyRule {}

/// The caller's key of a run. A repeated request with the same key does not start another run.
pub type RunKey = Checked<RunKeyRule>;

impl Rule for RunKeyRule {
    fn parse(raw: &str) -> Result<String, Invalid> {
        Text::<1, 64>::parse(raw)?;
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if raw.bytes().all(is_allowed) {
            Ok(raw.to_owned())
        } else {
            Err(Invalid::new("forbidden_character"))
        }
    }

    fn name() -> String {
        "RunKey".to_owned()
    }

    fn schema(text: ObjectBuilder) -> ObjectBuilder {
        text.pattern(Some("^[A-Za-z0-9._-]{1,64}$")).examples(["2026-10"])
    }
}

/// A payout run as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable, Insertable)]
#[diesel(table_name = payout_run, check_for_backend(Pg))]
pub struct PayoutRun {
    pub id: PayoutRunId,
    pub run_key: RunKey,
    pub period_from: OffsetDateTime,
    pub period_to: OffsetDateTime,
    /// The agents in the order of the request, or `None` for all agents.
    pub agent_user_ids: Option<Vec<UserId>>,
    pub withholding_bps: i32,
    pub status: PayoutRunStatus,
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    pub completed_at: Option<OffsetDateTime>,
}

impl PayoutRun {
    /// Returns true if both runs have the same content. The order of the agents does not matter.
    pub fn has_same_content(&self, other: &Self) -> bool {
        let agents = |run: &Self| run.agent_user_ids.clone().map(BTreeSet::from_iter);
        (self.period_from, self.period_to, self.withholding_bps, agents(self))
            == (other.period_from, other.period_to, other.withholding_bps, agents(other))
    }

    pub fn withholding(&self) -> BasisPoints {
        BasisPoints(self.withholding_bps.unsigned_abs())
    }
}

/// The part of a run that one job pays: the accounts of a range of agents.
#[derive(Clone, Debug, Queryable, Selectable, Insertable)]
#[diesel(table_name = payout_run_part, check_for_backend(Pg))]
pub struct PayoutRunPart {
    pub run_id: PayoutRunId,
    pub part: i16,
    /// The last agent before the range. `None` if the range begins with the first agent.
    pub after_agent_user_id: Option<UserId>,
    /// The last agent of the range. `None` if the range ends with the last agent.
    pub up_to_agent_user_id: Option<UserId>,
    /// The account that was processed last.
    pub last_agent_user_id: Option<UserId>,
    pub last_currency: Option<Currency>,
}

impl PayoutRunPart {
    /// Returns the parts of a run whose ranges end with `ends` and with the last agent.
    pub fn of(run_id: PayoutRunId, ends: &[UserId]) -> Vec<Self> {
        let starts = std::iter::once(None).chain(ends.iter().copied().map(Some));
        let ends = ends.iter().copied().map(Some).chain(std::iter::once(None));
        let ranges = (0..).zip(std::iter::zip(starts, ends));
        let parts = ranges.map(|(part, (after_agent_user_id, up_to_agent_user_id))| Self {
            run_id,
            part,
            after_agent_user_id,
            up_to_agent_user_id,
            last_agent_user_id: None,
            last_currency: None,
        });
        parts.collect()
    }
}

/// A sum of amounts.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Sum {
    /// The exact sum in minor units. It may exceed 64 bits, and JavaScript rounds it above 2^53.
    #[schema(value_type = u64)]
    pub amount_minor: i128,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// The sums of a run's payouts in one currency.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = PayoutRunTotal)]
pub struct RunTotal {
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
    pub gross: Sum,
    pub withheld: Sum,
    pub net: Sum,
}

/// A payout run with its payouts so far.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = PayoutRun)]
pub struct PayoutRunView {
    id: PayoutRunId,
    /// The key that the caller chose for the run.
    run_key: RunKey,
    #[serde(with = "time::serde::rfc3339")]
    period_from: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    period_to: OffsetDateTime,
    /// Agents in the order of the request; null for all agents.
    agent_user_ids: Option<Vec<UserId>>,
    #[schema(minimum = 0, maximum = 10000)]
    withholding_bps: i32,
    status: PayoutRunStatus,
    /// Number of payouts so far.
    payouts_count: i64,
    /// Sums of all payouts so far, in any status, by currency.
    totals: Vec<RunTotal>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    completed_at: Option<OffsetDateTime>,
}

impl PayoutRunView {
    pub fn of(run: PayoutRun, payouts_count: i64, totals: Vec<RunTotal>) -> Self {
        Self {
            id: run.id,
            run_key: run.run_key,
            period_from: run.period_from,
            period_to: run.period_to,
            agent_user_ids: run.agent_user_ids,
            withholding_bps: run.withholding_bps,
            status: run.status,
            payouts_count,
            totals,
            created_at: run.created_at,
            completed_at: run.completed_at,
        }
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;

    use super::{PayoutRun, PayoutRunPart, RunKey};
    use crate::domain::PayoutRunId;
    use crate::domain::samples::{payout_run, user};

    #[test]
    fn run_key_has_only_the_permitted_characters() {
        let longest = "k".repeat(64);
        for key in ["2026-10", "A.z_9-", &longest] {
            assert_eq!(RunKey::parse(key).unwrap().as_str(), key);
        }
        for key in ["", "2026 10", "октябрь", "a/b", &"k".repeat(65)] {
            assert!(RunKey::parse(key).is_err(), "{key}");
        }
    }

    /// A repeated key starts no other run if the content is the same, in any order of the agents.
    #[test]
    fn runs_have_the_same_content_in_any_order_of_agents() {
        let of = |agents: &[u128]| PayoutRun {
            agent_user_ids: Some(agents.iter().copied().map(user).collect()),
            ..payout_run(1_000)
        };
        let all = payout_run(1_000);
        assert!(all.has_same_content(&PayoutRun { id: PayoutRunId::generate(), ..all.clone() }));
        assert!(of(&[1, 2]).has_same_content(&of(&[2, 1])));
        for other in [
            of(&[1]),
            of(&[1, 3]),
            all,
            PayoutRun { withholding_bps: 1_001, ..of(&[1, 2]) },
            PayoutRun { period_from: of(&[]).period_from + Duration::seconds(1), ..of(&[1, 2]) },
            PayoutRun { period_to: of(&[]).period_to + Duration::seconds(1), ..of(&[1, 2]) },
        ] {
            assert!(!of(&[1, 2]).has_same_content(&other), "{other:?}");
        }
    }

    #[test]
    fn parts_of_a_run_cover_all_agents() {
        let run = PayoutRunId::generate();
        let ranges = |ends: &[u128]| {
            let ends: Vec<_> = ends.iter().copied().map(user).collect();
            let parts = PayoutRunPart::of(run, &ends).into_iter();
            parts
                .map(|part| (part.part, part.after_agent_user_id, part.up_to_agent_user_id))
                .collect::<Vec<_>>()
        };
        assert_eq!(ranges(&[]), [(0, None, None)]);
        let [three, seven] = [3, 7].map(|number| Some(user(number)));
        assert_eq!(ranges(&[3, 7]), [(0, None, three), (1, three, seven), (2, seven, None)]);
    }
}
