//! Previews of payout runs.

use auth::UserId;
use serde::Serialize;
use utoipa::ToSchema;
use values::{Money, div_half_to_even};

/// The payout that a run would create for an agent in one currency.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "PascalCase")]
#[schema(as = PayoutPreview)]
pub struct PayoutPreview {
    pub agent_user_id: UserId,
    pub gross: Money,
    pub withheld: Money,
    pub net: Money,
    #[schema(minimum = 1)]
    pub accruals_count: i64,
    /// The agent has no payout in status Paid yet, in any currency.
    pub is_first_payment: bool,
    /// Difference of `Gross` from the mean of the agent's Paid payouts in this currency, in
    /// percent. Null without such a payout.
    #[schema(value_type = Option<i64>)]
    pub deviation_percent: Option<i128>,
}

/// Returns the difference of `gross` from the mean of `count` paid amounts, in whole percent.
///
/// `sum` is the sum of the paid amounts. Returns `None` without paid amounts, or beyond 128 bits.
pub fn deviation_percent(gross: i64, count: i64, sum: i128) -> Option<i128> {
    let difference = i128::from(gross).checked_mul(i128::from(count))?.checked_sub(sum)?;
    (sum > 0).then(|| difference.checked_mul(100).map(|percent| div_half_to_even(percent, sum))).flatten()
}

#[cfg(test)]
mod tests {
    use super::deviation_percent;

    /// RULE-AGT-063: the deviation is relative to the mean, and rounds half to even.
    #[test]
    fn deviation_is_relative_to_the_mean_of_paid_amounts() {
        for (gross, count, sum, expected) in [
            (100, 0, 0, None),
            (100, 1, 100, Some(0)),
            (300, 2, 200, Some(200)),
            (25, 2, 200, Some(-75)),
            (1_005, 1, 1_000, Some(0)),
            (1_015, 1, 1_000, Some(2)),
            (i64::MAX, 3, 3, Some((i128::from(i64::MAX) - 1) * 100)),
        ] {
            assert_eq!(deviation_percent(gross, count, sum), expected, "{gross} {count} {sum}");
        }
    }
}
