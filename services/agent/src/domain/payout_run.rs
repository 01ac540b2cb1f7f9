//! A run: the payouts of everybody, or of some, for a period.

use std::collections::BTreeSet;

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use utoipa::openapi::schema::ObjectBuilder;
use values::{BasisPoints, Checked, Currency, Invalid, Rule, Text};

use super::PayoutRunId;
use crate::db::schema::payout_run;

values::text_enum! {
    /// Whether a run has been worked off.
    pub enum PayoutRunStatus {
        Running,
        Completed,
    }
}

/// `1..=64` of `A-Za-z0-9._-`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {}

/// What whoever asks for a run calls it, so that it can be repeated.
pub type RunKey = Checked<Key>;

impl Rule for Key {
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

/// The aggregate, as it is stored.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable, Insertable)]
#[diesel(table_name = payout_run, check_for_backend(Pg))]
pub struct PayoutRun {
    pub id: PayoutRunId,
    pub run_key: RunKey,
    pub period_from: OffsetDateTime,
    pub period_to: OffsetDateTime,
    /// In the order in which they were named. `None`: everybody.
    pub agent_user_ids: Option<Vec<UserId>>,
    pub withholding_bps: i32,
    pub status: PayoutRunStatus,
    /// The account that was worked off last.
    pub done_agent_user_id: Option<UserId>,
    pub done_currency: Option<Currency>,
    pub created_at: OffsetDateTime,
    pub created_by_user_id: UserId,
    pub completed_at: Option<OffsetDateTime>,
}

impl PayoutRun {
    /// Whether it asks for what another one of this key does; in which order it names whom is all the same.
    pub fn asks_as(&self, other: &Self) -> bool {
        let agents = |run: &Self| run.agent_user_ids.clone().map(BTreeSet::from_iter);
        (self.period_from, self.period_to, self.withholding_bps, agents(self))
            == (other.period_from, other.period_to, other.withholding_bps, agents(other))
    }

    pub fn withholding(&self) -> BasisPoints {
        BasisPoints(self.withholding_bps.unsigned_abs())
    }
}

/// An amount in minor units; of many payouts it may be more than 64 bits hold.
#[derive(Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
pub struct Sum {
    #[schema(value_type = u64)]
    pub amount_minor: i128,
    #[schema(value_type = String, pattern = "^[A-Z]{3}$", examples("RUB"))]
    pub currency: Currency,
}

/// What the payouts of a run come to in one currency.
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

/// A run as it is shown.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = PayoutRun)]
pub struct PayoutRunShown {
    id: PayoutRunId,
    run_key: RunKey,
    #[serde(with = "time::serde::rfc3339")]
    period_from: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339")]
    period_to: OffsetDateTime,
    /// As they were named; null: everybody.
    agent_user_ids: Option<Vec<UserId>>,
    #[schema(minimum = 0, maximum = 10000)]
    withholding_bps: i32,
    status: PayoutRunStatus,
    /// So far.
    payouts_count: i64,
    /// Of all that it has made so far, whatever became of them; by currency.
    totals: Vec<RunTotal>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    completed_at: Option<OffsetDateTime>,
}

impl PayoutRunShown {
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
