//! The lease on a service's outbox: one relay at a time, whatever the number of replicas.
//!
//! A row with an epoch rather than a session lock, which a transaction-pooling proxy would break.
//! Time is the database's alone. It is kept on a connection of its own: a burst of work may have taken
//! all of the pool.

use std::time::Duration;

use db::Conn;
use diesel::OptionalExtension;
use diesel::sql_types::{BigInt, Double, Uuid as SqlUuid};
use diesel_async::RunQueryDsl;
use uuid::Uuid;

use crate::outbox::EventId;

/// A relay that was frozen for longer has lost its lease.
const TTL: &str = "interval '3 seconds'";
const RENEWAL: Duration = Duration::from_secs(1);

/// The answer to asking for the lease.
pub(crate) enum Acquired {
    Lease(Lease),
    /// Another replica holds it, for so long if it does not renew.
    HeldFor(Duration),
}

/// The right to relay, for as long as it is renewed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lease {
    pub owner: Uuid,
    pub epoch: i64,
}

#[derive(diesel::QueryableByName)]
struct Epoch {
    #[diesel(sql_type = BigInt)]
    epoch: i64,
}

#[derive(diesel::QueryableByName)]
struct Remaining {
    #[diesel(sql_type = Double)]
    seconds: f64,
}

impl Lease {
    /// Takes the lease if it is free or has run out. Each tenure has an owner of its own: what the last one of this
    /// replica has left with the broker runs out for it, too.
    pub(crate) async fn acquire(conn: &mut Conn) -> Result<Acquired, db::Error> {
        let owner = EventId::generate().into();
        let epoch = diesel::sql_query(format!(
            "insert into outbox_lease (owner, epoch, expires_at) values ($1, 1, clock_timestamp() + {TTL}) \
             on conflict (only_one) do update \
             set owner = excluded.owner, epoch = outbox_lease.epoch + 1, expires_at = excluded.expires_at \
             where outbox_lease.expires_at < clock_timestamp() \
             returning epoch"
        ))
        .bind::<SqlUuid, _>(owner)
        .get_result::<Epoch>(conn)
        .await
        .optional()?;
        if let Some(Epoch { epoch }) = epoch {
            return Ok(Acquired::Lease(Self { owner, epoch }));
        }
        let held = diesel::sql_query(
            "select extract(epoch from greatest(expires_at, clock_timestamp()) - clock_timestamp())::float8 as seconds from outbox_lease",
        )
        .get_result::<Remaining>(conn)
        .await?;
        Ok(Acquired::HeldFor(Duration::try_from_secs_f64(held.seconds).unwrap_or_default()))
    }

    /// Renews the lease each second; ends when it is lost, as far as can be known.
    pub(crate) async fn keep(self, conn: &mut Conn) -> Result<(), db::Error> {
        loop {
            tokio::time::sleep(RENEWAL).await;
            let renewal = diesel::sql_query(format!(
                "update outbox_lease set expires_at = clock_timestamp() + {TTL} where owner = $1 and epoch = $2"
            ))
            .bind::<SqlUuid, _>(self.owner)
            .bind::<BigInt, _>(self.epoch)
            .execute(conn);
            // The pause, the renewal and the end of the producer fit into the lease.
            // Without an answer in time it may be lost: a process that was frozen meanwhile wakes up here.
            let Ok(renewed) = tokio::time::timeout(RENEWAL, renewal).await else {
                tracing::warn!(epoch = self.epoch, "the lease was not renewed in time");
                return Ok(());
            };
            if renewed? == 0 {
                return Ok(());
            }
        }
    }

    /// Lets the next replica take over at once.
    pub(crate) async fn release(self, conn: &mut Conn) -> Result<(), db::Error> {
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
