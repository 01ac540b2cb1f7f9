//! The lease on a service's outbox, which one replica at a time holds.
//!
//! The lease is a row with an epoch, because a session lock would not survive a proxy that pools
//! transactions. All times come from the database's clock. The lease has its own connection, since
//! a burst of requests may use all connections of the pool.
//!
//! Each session has a new owner id. A database whose history has changed may assign an epoch twice.
//! The owner id then still fences the previous session.

use std::time::Duration;

use db::{Conn, Tx};
use diesel::OptionalExtension;
use diesel::sql_types::{BigInt, Bool, Double, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::outbox::EventId;

/// The time after which a relay loses its lease unless it renews, for example because it is frozen.
const TTL: &str = "interval '3 seconds'";
/// The interval of renewals, which is also their timeout. [`TTL`] lasts as long as an interval, a
/// timeout and the closing of the producer together.
const RENEWAL_INTERVAL: Duration = Duration::from_secs(1);

/// The result of an attempt to acquire the lease.
pub(super) enum Acquisition {
    Acquired {
        lease: Lease,
        /// False if pending events may have ids that other events have had.
        is_history_known: bool,
    },
    /// Another replica holds the lease for this time, or longer if it renews the lease.
    HeldFor(Duration),
}

/// The right to relay, which expires without a renewal.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub owner: Uuid,
    pub epoch: i64,
}

#[derive(diesel::QueryableByName)]
struct Acquired {
    #[diesel(sql_type = BigInt)]
    epoch: i64,
    #[diesel(sql_type = Bool)]
    is_history_known: bool,
}

#[derive(diesel::QueryableByName)]
struct Remaining {
    #[diesel(sql_type = Double)]
    seconds: f64,
}

impl Lease {
    /// The longest time for which a relay may still send rows that it read before an
    /// [`interrupt`](Self::interrupt).
    pub const INTERRUPT_DELAY: Duration = Duration::from_secs(3);

    /// Acquires the lease if it is free or expired.
    ///
    /// Each session has a new owner id. A replica therefore also waits for the expiry of its own
    /// previous lease, unless it released that lease.
    pub(super) async fn acquire(conn: &mut Conn) -> Result<Acquisition, db::Error> {
        let owner = EventId::generate().into();
        let acquired = diesel::sql_query(format!(
            "update outbox_lease set owner = $1, epoch = epoch + 1, expires_at = clock_timestamp() + {TTL} \
             where expires_at < clock_timestamp() \
             returning epoch, history = database_history() as is_history_known"
        ))
        .bind::<SqlUuid, _>(owner)
        .get_result::<Acquired>(conn)
        .await
        .optional()?;
        if let Some(Acquired { epoch, is_history_known }) = acquired {
            return Ok(Acquisition::Acquired { lease: Self { owner, epoch }, is_history_known });
        }
        let held = diesel::sql_query(
            "select extract(epoch from greatest(expires_at, clock_timestamp()) - clock_timestamp())::float8 as seconds from outbox_lease",
        )
        .get_result::<Remaining>(conn)
        .await?;
        Ok(Acquisition::HeldFor(Duration::try_from_secs_f64(held.seconds).unwrap_or_default()))
    }

    /// Ends the session of the present owner, if there is one. The owner detects this at its next
    /// renewal, and closes its producer. The next session begins after [`TTL`].
    pub async fn interrupt(tx: &mut Tx) -> Result<(), db::Error> {
        diesel::sql_query(format!(
            "update outbox_lease set owner = $1, epoch = epoch + 1, expires_at = clock_timestamp() + {TTL}"
        ))
        .bind::<SqlUuid, _>(Uuid::from(EventId::generate()))
        .execute(tx.conn())
        .await?;
        Ok(())
    }

    /// Renews the lease at each interval. Returns when the lease is lost or may be lost, or when
    /// the history of the database has changed.
    pub async fn keep_renewed(self, conn: &mut Conn) -> Result<(), db::Error> {
        loop {
            tokio::time::sleep(RENEWAL_INTERVAL).await;
            let renewal = diesel::sql_query(format!(
                "update outbox_lease set expires_at = clock_timestamp() + {TTL} \
                 where owner = $1 and epoch = $2 and history = database_history()"
            ))
            .bind::<SqlUuid, _>(self.owner)
            .bind::<BigInt, _>(self.epoch)
            .execute(conn);
            // The lease may be lost: the database did not answer in time, or the process was
            // frozen.
            let Ok(renewed) = tokio::time::timeout(RENEWAL_INTERVAL, renewal).await else {
                tracing::warn!(epoch = self.epoch, "the lease was not renewed in time");
                return Ok(());
            };
            if renewed? == 0 {
                return Ok(());
            }
        }
    }

    /// Ends the lease, so that the next replica can acquire it at once.
    pub async fn release(self, conn: &mut Conn) -> Result<(), db::Error> {
        diesel::sql_query(
            "update outbox_lease set expires_at = '-infinity' \
             where owner = $1 and epoch = $2",
        )
        .bind::<SqlUuid, _>(self.owner)
        .bind::<BigInt, _>(self.epoch)
        .execute(conn)
        .await?;
        Ok(())
    }
}
