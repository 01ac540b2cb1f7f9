//! Updates of machine clients at the token issuer, which jobs make.

use std::time::Duration;

use ::db::Tx;
use auth::UserId;
use time::OffsetDateTime;

/// The job that sends the present state of an account.
pub const MACHINE_CLIENT: &str = "machine-client";
/// The job that sends it again, after every older request has ended.
pub const CONFIRMATION: &str = "machine-client-confirmation";

/// The time from a change to its confirmation, which is longer than the longest call to the issuer.
const CONFIRMATION_DELAY: Duration = Duration::from_mins(1);

/// Schedules both jobs for each of these accounts after a change at `now`.
pub async fn schedule(tx: &mut Tx, accounts: &[UserId], now: OffsetDateTime) -> Result<(), ::db::Error> {
    ::jobs::schedule(tx, MACHINE_CLIENT, accounts, now).await?;
    ::jobs::schedule(tx, CONFIRMATION, accounts, now + CONFIRMATION_DELAY).await
}
