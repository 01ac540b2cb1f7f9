//! Writers that commit out of order, and relays with a known fault.
//!
//! The verdict must report the known faults, since a check that never fails proves nothing.

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use testkit::history::Fault;

use crate::rig::{COUNTED, Rig, eventually};

/// A pending row of the outbox.
pub struct Row {
    pub id: i64,
    pub key: String,
    payload: Vec<u8>,
}

/// A faulty relay, which holds no lease.
pub struct NaiveRelay<'r> {
    rig: &'r Rig,
    producer: FutureProducer,
}

impl<'r> NaiveRelay<'r> {
    pub fn new(rig: &'r Rig) -> Self {
        let producer = ClientConfig::new().set("bootstrap.servers", &rig.servers).create();
        Self { rig, producer: producer.unwrap() }
    }

    /// Returns the next rows after an id.
    pub async fn pending(&self, after: i64) -> Vec<Row> {
        let query = "select id, key, payload from outbox where id > $1 order by id limit 500";
        let rows = self.rig.db.query(query, &[&after]).await.unwrap();
        rows.iter().map(|row| Row { id: row.get(0), key: row.get(1), payload: row.get(2) }).collect()
    }

    /// Sends rows and waits for their acknowledgements.
    pub async fn send(&self, rows: impl IntoIterator<Item = &Row>) {
        let mut acks = Vec::new();
        for row in rows {
            let sequence = row.id.to_string();
            let headers = OwnedHeaders::new().insert(Header { key: "ce_sequence", value: Some(&sequence) });
            let record = FutureRecord::to(COUNTED).key(&row.key).payload(&row.payload).headers(headers);
            acks.push(self.producer.send_result(record).unwrap());
        }
        for ack in acks {
            ack.await.unwrap().unwrap();
        }
    }

    pub async fn delete(&self, rows: &[Row]) {
        let ids: Vec<i64> = rows.iter().map(|row| row.id).collect();
        self.rig.db.execute("delete from outbox where id = any($1)", &[&ids]).await.unwrap();
    }
}

/// RULE-EVT-033, RULE-EVT-022: no event is lost if concurrent writers commit out of order.
#[tokio::test]
async fn writers_that_commit_out_of_order_lose_no_event() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[("LEDGER_WRITERS", "6"), ("LEDGER_PAUSE_MS", "5")]).await;
    let replicas = [rig.start_worker().await, rig.start_worker().await];
    rig.wait_until_committed(1000).await;
    assert!(writers.terminate().await.success());
    rig.expect_no_faults().await;
    drop(replicas);
}

/// RULE-EVT-033: no event is lost if writers lock no row. The writers insert children of the row,
/// and only the outbox locks the row.
#[tokio::test]
async fn writers_without_row_locks_lose_no_event() {
    let rig = Rig::new().await;
    let settings = [("LEDGER_WRITERS", "0"), ("LEDGER_REMARKERS", "6"), ("LEDGER_PAUSE_MS", "5")];
    let writers = rig.start("serve", &settings).await;
    let _worker = rig.start_worker().await;
    let remarks = "select count(*) from remark";
    eventually("remarks", async || rig.query_number(remarks).await >= 500).await;
    assert!(writers.terminate().await.success());
    let verdict = rig.expect_no_faults().await;
    assert_eq!(i64::try_from(verdict.committed).unwrap(), rig.query_number(remarks).await);
}

/// RULE-EVT-028: a relay with a cursor over ids loses events, and the verdict reports each.
#[tokio::test]
async fn relay_with_an_id_cursor_is_detected() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[("LEDGER_WRITERS", "6"), ("LEDGER_PAUSE_MS", "5")]).await;
    let relay = NaiveRelay::new(&rig);
    let mut cursor = 0;
    while rig.query_number("select count(*) from history_appended").await < 500 {
        let rows = relay.pending(cursor).await;
        relay.send(&rows).await;
        relay.delete(&rows).await;
        cursor = rows.last().map_or(cursor, |row| row.id);
    }
    assert!(writers.terminate().await.success());
    let rest = relay.pending(cursor).await;
    relay.send(&rest).await;
    relay.delete(&rest).await;
    let left_behind = usize::try_from(rig.query_number("select count(*) from outbox").await).unwrap();
    assert!(left_behind > 0, "no event was committed behind the cursor");
    rig.wait_until_read().await;
    let verdict = rig.verdict().await;
    assert_eq!(verdict.count(Fault::Lost), left_behind);
    eprintln!("{left_behind} of {} lost", verdict.committed);
}

/// RULE-EVT-028: a relay without a lease sends stale events, and the verdict reports each.
#[tokio::test]
async fn relay_without_a_lease_is_detected() {
    let rig = Rig::new().await;
    let (frozen, successor) = (NaiveRelay::new(&rig), NaiveRelay::new(&rig));
    rig.step().await;
    let unsent = frozen.pending(0).await;
    for _ in 0..2 {
        let rows = successor.pending(0).await;
        successor.send(&rows).await;
        successor.delete(&rows).await;
        rig.step().await;
    }
    frozen.send(&unsent).await;
    rig.wait_until_read().await;
    assert_eq!(rig.verdict().await.count(Fault::Stale), 8);
}
