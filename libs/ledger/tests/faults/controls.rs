//! Writers that commit out of order; and relays that are known to be wrong, which the verdict must find
//! out: a checker that never complains proves nothing.

use rdkafka::ClientConfig;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use testkit::history::Fault;

use crate::rig::{COUNTED, Rig, eventually};

/// A pending row.
pub struct Row {
    pub id: i64,
    pub key: String,
    payload: Vec<u8>,
}

/// A relay without a lease.
pub struct Naive<'r> {
    rig: &'r Rig,
    producer: FutureProducer,
}

impl<'r> Naive<'r> {
    pub fn new(rig: &'r Rig) -> Self {
        let producer = ClientConfig::new().set("bootstrap.servers", &rig.servers).create();
        Self { rig, producer: producer.unwrap() }
    }

    pub async fn pending(&self, after: i64) -> Vec<Row> {
        let query = "select id, key, payload from outbox where id > $1 order by id limit 500";
        let rows = self.rig.db.query(query, &[&after]).await.unwrap();
        rows.iter().map(|row| Row { id: row.get(0), key: row.get(1), payload: row.get(2) }).collect()
    }

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

#[tokio::test]
async fn writers_that_commit_out_of_order_lose_nothing() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[("LEDGER_WRITERS", "6"), ("LEDGER_PAUSE_MS", "5")]).await;
    let replicas = [rig.work().await, rig.work().await];
    rig.committed(1000).await;
    assert!(writers.terminate().await.success());
    rig.clean().await;
    drop(replicas);
}

/// What they write is a child of the key's row, and that is locked by nobody but the outbox.
#[tokio::test]
async fn writers_that_do_not_lock_the_row_of_their_key_lose_nothing() {
    let rig = Rig::new().await;
    let settings = [("LEDGER_WRITERS", "0"), ("LEDGER_REMARKERS", "6"), ("LEDGER_PAUSE_MS", "5")];
    let writers = rig.start("serve", &settings).await;
    let _worker = rig.work().await;
    let remarks = "select count(*) from remark";
    eventually("remarks", async || rig.number(remarks).await >= 500).await;
    assert!(writers.terminate().await.success());
    let verdict = rig.clean().await;
    assert_eq!(i64::try_from(verdict.committed).unwrap(), rig.number(remarks).await);
}

#[tokio::test]
async fn a_cursor_over_ids_is_found_to_lose_events() {
    let rig = Rig::new().await;
    let writers = rig.start("serve", &[("LEDGER_WRITERS", "6"), ("LEDGER_PAUSE_MS", "5")]).await;
    let relay = Naive::new(&rig);
    let mut cursor = 0;
    while rig.number("select count(*) from history_appended").await < 500 {
        let rows = relay.pending(cursor).await;
        relay.send(&rows).await;
        relay.delete(&rows).await;
        cursor = rows.last().map_or(cursor, |row| row.id);
    }
    assert!(writers.terminate().await.success());
    let rest = relay.pending(cursor).await;
    relay.send(&rest).await;
    relay.delete(&rest).await;
    let left_behind = usize::try_from(rig.number("select count(*) from outbox").await).unwrap();
    assert!(left_behind > 0, "no event was committed behind the cursor");
    rig.read_all().await;
    let verdict = rig.verdict().await;
    assert_eq!(verdict.count(Fault::Lost), left_behind);
    eprintln!("{left_behind} of {} lost", verdict.committed);
}

#[tokio::test]
async fn a_relay_without_a_lease_is_found_to_send_stale_events() {
    let rig = Rig::new().await;
    let (frozen, successor) = (Naive::new(&rig), Naive::new(&rig));
    rig.step().await;
    let in_hand = frozen.pending(0).await;
    for _ in 0..2 {
        let rows = successor.pending(0).await;
        successor.send(&rows).await;
        successor.delete(&rows).await;
        rig.step().await;
    }
    frozen.send(&in_hand).await;
    rig.read_all().await;
    assert_eq!(rig.verdict().await.count(Fault::Stale), 8);
}
