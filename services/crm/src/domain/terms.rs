//! The limits of a deal's parties and of its amount.

use auth::UserId;
use values::{Code, Money};

use super::{Amount, Role};
use crate::error::{
    AGENT_IS_ACTOR, AGENT_IS_CLIENT, AGENT_NOT_ACTIVE, AMOUNT_OUT_OF_TOLERANCE, CLIENT_IS_ACTOR,
};

/// Checks that the acting user, the client and the agent are different persons (INV-DEAL-11).
///
/// # Errors
/// The first violation.
pub(super) fn check_parties(
    actor: Option<UserId>,
    client: UserId,
    agent: Option<UserId>,
) -> Result<(), Code> {
    if actor == Some(client) {
        return Err(CLIENT_IS_ACTOR);
    }
    match agent {
        Some(_) if agent == actor => Err(AGENT_IS_ACTOR),
        Some(agent) if agent == client => Err(AGENT_IS_CLIENT),
        _ => Ok(()),
    }
}

/// Checks that an agent whom a developer's employee chose works for an active agency. Platform
/// managers may choose any agent.
pub(super) fn check_agent(role: Role, agent: Option<UserId>, is_agent_active: bool) -> Result<(), Code> {
    if role.is_of_developer() && agent.is_some() && !is_agent_active {
        return Err(AGENT_NOT_ACTIVE);
    }
    Ok(())
}

/// Checks that an amount that a developer's employee chose is close to the object's price. Platform
/// managers may choose any amount.
///
/// The price of an unknown object is `None`. Then every amount that a developer's employee chose is
/// refused.
pub(super) fn check_amount(
    role: Role,
    amount: Amount,
    price: Option<Money>,
    tolerance_percent: u8,
) -> Result<(), Code> {
    let is_close = |price| is_close(amount, price, tolerance_percent);
    if role.is_of_developer() && !price.is_some_and(is_close) {
        return Err(AMOUNT_OUT_OF_TOLERANCE);
    }
    Ok(())
}

/// Returns true if an amount differs from the price by at most `tolerance_percent` of the price, in
/// the same currency.
fn is_close(amount: Amount, price: Money, tolerance_percent: u8) -> bool {
    let price_minor = i128::from(price.amount_minor);
    let difference = (i128::from(amount.amount_minor.get()) - price_minor).abs();
    amount.currency == price.currency && difference * 100 <= price_minor * i128::from(tolerance_percent)
}

#[cfg(test)]
mod tests {
    use auth::UserId;
    use proptest::prelude::*;
    use values::{Currency, Money, Whole};

    use super::{check_agent, check_amount, check_parties, is_close};
    use crate::domain::{Amount, Role};

    fn amount(minor: i64) -> Amount {
        Amount { amount_minor: Whole::parse(minor).unwrap(), currency: Currency::RUB }
    }

    fn rub(amount_minor: i64) -> Money {
        Money { amount_minor, currency: Currency::RUB }
    }

    /// RULE-CRM-068: the bounds are inclusive. No amount is close to a price in another currency,
    /// or to a price of zero or less.
    #[test]
    fn amount_at_the_bound_is_close_to_the_price() {
        for (minor, is_expected) in [(79, false), (80, true), (100, true), (120, true), (121, false)] {
            assert_eq!(is_close(amount(minor), rub(100), 20), is_expected, "{minor}");
        }
        assert!(is_close(amount(100), rub(100), 0) && !is_close(amount(101), rub(100), 0));
        let dollars = Money { currency: "USD".parse().unwrap(), ..rub(100) };
        assert!(!is_close(amount(100), dollars, 20));
        for price in [0, -100, i64::MIN] {
            assert!(!is_close(amount(1), rub(price), 255), "{price}");
        }
    }

    proptest! {
        /// RULE-CRM-068: the comparison agrees with the one in floating point, away from the
        /// bounds.
        #[test]
        fn closeness_follows_the_percentage(minor in 1..1_000_000_000_000_000_i64, price: i64, percent: u8) {
            #[expect(clippy::cast_precision_loss, reason = "the comparison tolerates it")]
            let share = (minor as f64 - price as f64).abs() / price as f64 * 100.0;
            if price > 0 && (share - f64::from(percent)).abs() > 0.001 {
                prop_assert_eq!(is_close(amount(minor), rub(price), percent), share < f64::from(percent));
            }
        }

        /// INV-DEAL-11: parties are accepted exactly if all of them are different.
        #[test]
        fn parties_are_accepted_if_all_differ(actor in 0..3_u128, client in 0..3_u128, agent in prop::option::of(0..3_u128)) {
            let user = |number| UserId::from(uuid::Uuid::from_u128(number));
            let differ = actor != client && agent != Some(actor) && agent != Some(client);
            let checked = check_parties(Some(user(actor)), user(client), agent.map(user));
            prop_assert_eq!(checked.is_ok(), differ);
        }
    }

    /// A developer's employee chooses an active agent and an amount close to the price, and the
    /// platform chooses any.
    #[test]
    fn limits_apply_to_employees_of_the_developer_only() {
        let (developer, platform) = (Role::DeveloperManager, Role::PlatformManager);
        let agent = Some(UserId::generate());
        assert!(check_agent(developer, agent, true).is_ok() && check_agent(developer, None, false).is_ok());
        assert!(check_agent(developer, agent, false).is_err() && check_agent(platform, agent, false).is_ok());
        assert!(check_amount(developer, amount(120), Some(rub(100)), 20).is_ok());
        assert!(check_amount(developer, amount(121), Some(rub(100)), 20).is_err());
        assert!(check_amount(developer, amount(100), None, 20).is_err());
        assert!(check_amount(platform, amount(121), Some(rub(100)), 20).is_ok());
        assert!(check_amount(platform, amount(100), None, 20).is_ok());
    }
}
