//! The recorded leases of a relay.

use std::time::Duration;

use time::OffsetDateTime;

use super::Recorder;

/// The time in which a statement that a process sent before its fault may still be executed.
const STATEMENT_DELAY: f64 = 0.5;

/// The lease after a fault of the process that held it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum NextLease {
    /// No session has acquired or renewed the lease.
    Pending,
    /// The session has renewed its lease, since its fault ended soon.
    Renewed,
    /// Another session acquired the lease this time after the fault.
    TakenOver(Duration),
}

impl Recorder {
    /// Returns the lease after a fault of the session with this epoch. The database has the clock
    /// of this machine.
    ///
    /// # Errors
    /// If the database cannot be reached.
    pub async fn next_lease(&self, epoch: i64, fault: OffsetDateTime) -> anyhow::Result<NextLease> {
        let Self { url, schema } = self;
        let fault = i64::try_from(fault.unix_timestamp_nanos() / 1_000)?;
        let leases = format!(
            "select epoch, extract(epoch from at - fault)::float8 \
             from {schema}.history_lease, to_timestamp($1::bigint / 1e6) as fault \
             where at > fault order by at"
        );
        let rows = crate::database::connect(url).await?.query(&leases, &[&fault]).await?;
        let leases = rows.iter().map(|row| (row.get(0), row.get(1)));
        Ok(next_lease(epoch, leases))
    }
}

/// Returns the first lease of another session, or the first renewal of this one. `leases` have the
/// seconds since the fault.
fn next_lease(epoch: i64, leases: impl IntoIterator<Item = (i64, f64)>) -> NextLease {
    let next = leases.into_iter().find(|(lease, after)| *lease != epoch || *after > STATEMENT_DELAY);
    match next {
        None => NextLease::Pending,
        Some((lease, _)) if lease == epoch => NextLease::Renewed,
        Some((_, after)) => NextLease::TakenOver(Duration::try_from_secs_f64(after).unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{NextLease, next_lease};

    #[test]
    fn lease_of_another_session_is_a_takeover() {
        let leases = [(7, 0.01), (8, 2.5), (8, 3.5), (9, 9.0)];
        assert_eq!(next_lease(7, leases), NextLease::TakenOver(Duration::from_millis(2500)));
    }

    /// A statement in flight at the time of the fault is no renewal.
    #[test]
    fn only_later_renewal_continues_the_session() {
        assert_eq!(next_lease(7, [(7, 0.01)]), NextLease::Pending);
        assert_eq!(next_lease(7, [(7, 0.01), (7, 1.2), (8, 9.0)]), NextLease::Renewed);
    }
}
