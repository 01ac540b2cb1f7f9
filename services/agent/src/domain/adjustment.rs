//! Requests of agents to adjust accruals, and the decisions about them.

use auth::UserId;
use diesel::pg::Pg;
use diesel::prelude::*;
use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;
use values::{Currency, Money, Private, Prose};

use super::{AccrualId, AccrualKind, AdjustmentRequestId};
use crate::schema::adjustment_request;

values::text_enum! {
    /// The reason for an adjustment request.
    pub enum AdjustmentReason {
        WrongAmount,
        WrongRate,
        MissingBonus,
        WrongDeal,
        Other,
    }
}

values::text_enum! {
    /// The status of an adjustment request or a bonus proposal. Approved and Rejected are final.
    pub enum AdjustmentStatus {
        Open,
        Approved,
        Rejected,
    }
}

/// The greatest length of a comment, in characters.
pub const MAX_COMMENT_LENGTH: usize = 2000;

/// A comment of a request or a decision.
pub type Comment = Private<Prose<1, MAX_COMMENT_LENGTH>>;
/// The comment of an approval. An empty one counts as absent.
pub type OptionalComment = Private<Prose<0, MAX_COMMENT_LENGTH>>;

/// Returns the comment, or `None` for an absent or empty one.
pub fn non_empty_comment(comment: Option<OptionalComment>) -> Option<Comment> {
    Prose::parse(comment?.expose().as_str()).ok().map(Private::new)
}

/// An adjustment request as it is stored, with amounts in the currency of its accrual.
#[derive(Clone, Debug, PartialEq, Eq, Queryable, QueryableByName, Selectable)]
#[diesel(table_name = adjustment_request, check_for_backend(Pg))]
pub struct AdjustmentRequest {
    pub id: AdjustmentRequestId,
    pub accrual_id: AccrualId,
    pub agent_user_id: UserId,
    pub reason: AdjustmentReason,
    /// The whole amount that the accrual should have.
    pub requested_amount: Option<i64>,
    pub comment: Comment,
    pub status: AdjustmentStatus,
    pub granted_amount: Option<i64>,
    pub decision_comment: Option<Comment>,
    pub result_accrual_id: Option<AccrualId>,
    pub created_at: OffsetDateTime,
    pub decided_at: Option<OffsetDateTime>,
    pub decided_by_user_id: Option<UserId>,
    pub version: i64,
}

impl AdjustmentRequest {
    /// Returns the kind of the accrual that an approval creates.
    pub fn kind(&self) -> AccrualKind {
        match self.reason {
            AdjustmentReason::MissingBonus => AccrualKind::Bonus,
            _ => AccrualKind::Correction,
        }
    }

    /// Returns the request with a decision. For an approval, the caller also sets the granted
    /// amount and the created accrual.
    #[must_use]
    pub fn with_decision(
        self,
        status: AdjustmentStatus,
        by: UserId,
        comment: Option<Comment>,
        now: OffsetDateTime,
    ) -> Self {
        Self {
            status,
            decision_comment: comment,
            decided_at: Some(now.max(self.created_at)),
            decided_by_user_id: Some(by),
            version: self.version + 1,
            ..self
        }
    }
}

/// A request of an agent to adjust an accrual.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = AdjustmentRequest)]
pub struct AdjustmentRequestView {
    id: AdjustmentRequestId,
    accrual_id: AccrualId,
    agent_user_id: UserId,
    /// The reason for the request.
    reason: AdjustmentReason,
    /// The whole amount that the accrual should have.
    requested_amount: Option<Money>,
    /// Comment of the agent.
    comment: Comment,
    status: AdjustmentStatus,
    /// The whole amount that was granted.
    granted_amount: Option<Money>,
    decision_comment: Option<Comment>,
    /// The accrual that the decision created.
    result_accrual_id: Option<AccrualId>,
    #[serde(with = "time::serde::rfc3339")]
    created_at: OffsetDateTime,
    #[serde(with = "time::serde::rfc3339::option")]
    decided_at: Option<OffsetDateTime>,
    version: i64,
}

impl AdjustmentRequestView {
    /// Creates the view of a request. `currency` is the currency of its accrual.
    pub fn of(request: AdjustmentRequest, currency: Currency) -> Self {
        let money = |amount: Option<i64>| amount.map(|amount_minor| Money { amount_minor, currency });
        Self {
            id: request.id,
            accrual_id: request.accrual_id,
            agent_user_id: request.agent_user_id,
            reason: request.reason,
            requested_amount: money(request.requested_amount),
            comment: request.comment,
            status: request.status,
            granted_amount: money(request.granted_amount),
            decision_comment: request.decision_comment,
            result_accrual_id: request.result_accrual_id,
            created_at: request.created_at,
            decided_at: request.decided_at,
            version: request.version,
        }
    }
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use values::Prose;

    use super::{AdjustmentReason, AdjustmentRequest, AdjustmentStatus, OptionalComment, non_empty_comment};
    use crate::domain::samples::{NOW, comment, user};
    use crate::domain::{AccrualId, AccrualKind, AdjustmentRequestId};

    fn request(reason: AdjustmentReason) -> AdjustmentRequest {
        AdjustmentRequest {
            id: AdjustmentRequestId::generate(),
            accrual_id: AccrualId::generate(),
            agent_user_id: user(1),
            reason,
            requested_amount: Some(100),
            comment: comment("прошу проверить"),
            status: AdjustmentStatus::Open,
            granted_amount: None,
            decision_comment: None,
            result_accrual_id: None,
            created_at: NOW,
            decided_at: None,
            decided_by_user_id: None,
            version: 3,
        }
    }

    #[test]
    fn empty_comment_counts_as_absent() {
        let optional = |text: &str| Some(OptionalComment::new(Prose::parse(text).unwrap()));
        assert_eq!(non_empty_comment(None), None);
        assert_eq!(non_empty_comment(optional("")), None);
        let kept = non_empty_comment(optional("верно")).map(|comment| comment.expose().as_str().to_owned());
        assert_eq!(kept.as_deref(), Some("верно"));
    }

    #[test]
    fn only_a_missing_bonus_creates_a_bonus() {
        use AdjustmentReason::{MissingBonus, Other, WrongAmount, WrongDeal, WrongRate};
        assert_eq!(request(MissingBonus).kind(), AccrualKind::Bonus);
        for reason in [WrongAmount, WrongRate, WrongDeal, Other] {
            assert_eq!(request(reason).kind(), AccrualKind::Correction, "{reason}");
        }
    }

    #[test]
    fn decision_records_its_author_time_and_comment() {
        let request = request(AdjustmentReason::Other);
        let later = NOW + Duration::hours(1);
        let decide =
            |at| request.clone().with_decision(AdjustmentStatus::Approved, user(2), Some(comment("да")), at);
        let expected = AdjustmentRequest {
            status: AdjustmentStatus::Approved,
            decision_comment: Some(comment("да")),
            decided_at: Some(later),
            decided_by_user_id: Some(user(2)),
            version: 4,
            ..request.clone()
        };
        assert_eq!(decide(later), expected);
        assert_eq!(decide(NOW - Duration::hours(1)).decided_at, Some(NOW), "not before the request");
    }
}
