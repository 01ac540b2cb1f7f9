//! A worker that is killed while it tells of objects what has changed above them.

use serde_json::{Value, json};
use testkit::deployed::Deployed;
use testkit::{database, eventually, guid};
use tokio_postgres::Client;

use crate::objects::{OBJECT_UPSERTED, flats, house_of};
use crate::own::{Broker, payloads, published};
use crate::{COMPANY_UPSERTED, MANAGE, ME, company, holder, id_of, next, profile};

const BATCH: usize = 4;

/// What a batch comes to wait for, when the test has it: an object of the second batch, before anything of that is written; how far the
/// first one has come, after all of it is written.
const BEFORE_WRITING: &str = "select from property_object where id in \
    (select id from property_object order by id offset 4 limit 1) for update";
const BEFORE_COMMIT: &str = "select from propagation for update";

struct Deployment {
    settings: Vec<(&'static str, String)>,
    worker: Deployed,
    sql: Client,
}

impl Deployment {
    async fn deploy(settings: &[(&'static str, String)], role: &str) -> Deployed {
        let settings: Vec<_> = settings.iter().map(|(name, value)| (*name, value.as_str())).collect();
        Deployed::start(env!("CARGO_BIN_EXE_chessboard"), &[role], &settings).await
    }

    async fn connect(&self) -> Client {
        let sql = database::connect(&self.settings[0].1).await.unwrap();
        sql.batch_execute("set search_path = chessboard").await.unwrap();
        sql
    }

    /// Has `change` made, and the worker killed when what it tells of that comes to `lock`. Answers how many objects have been told
    /// that they are public, or are not.
    async fn cut_off(&mut self, lock: &str, change: impl Future<Output = ()>, is_public: bool) -> i64 {
        let (held, locked) = (self.connect().await, self.connect().await);
        held.batch_execute("begin").await.unwrap();
        // Nobody takes up a job whose row is locked; and nobody is at it.
        let job = "select 1 from job where kind = 'object-propagation' and run is null for update";
        eventually("the job", async || held.query_opt(job, &[]).await.unwrap()).await;
        change.await;
        locked.batch_execute(&format!("begin; {lock}")).await.unwrap();
        let holder: i32 = locked.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        held.batch_execute("rollback").await.unwrap();
        let waiting = "select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
        let ask = async || self.sql.query_opt(waiting, &[&holder]).await.unwrap();
        let waiting: i32 = eventually("the batch to wait", ask).await.get(0);
        self.worker.process.kill().await.unwrap();
        locked.batch_execute("rollback").await.unwrap();
        let lives = "select 1 from pg_stat_activity where pid = $1";
        eventually("the end of the batch", async || {
            self.sql.query_opt(lives, &[&waiting]).await.unwrap().is_none().then_some(())
        })
        .await;
        let told = "select count(*) from property_object where told_is_public = $1";
        self.sql.query_one(told, &[&is_public]).await.unwrap().get(0)
    }
}

/// Section 10: jobs may be cut off anywhere. The next worker publishes what a batch had not committed, and nothing twice: after a change of
/// a project's status and of a developer's.
#[tokio::test]
async fn the_next_worker_publishes_once_what_a_killed_worker_left() {
    let suffix = format!(".{}", guid().simple());
    let broker = Broker::start();
    let settings = vec![
        ("DATABASE_URL", database::create().await.unwrap()),
        ("KAFKA_BROKERS", broker.servers().to_owned()),
        ("KAFKA_GROUP_SUFFIX", suffix),
        ("KAFKA_SESSION_TIMEOUT_MS", "6000".to_owned()),
        ("OBJECT_PROPAGATION_BATCH", BATCH.to_string()),
        ("OBJECT_PROPAGATION_INTERVAL_MS", "100".to_owned()),
    ];
    let serve = Deployment::deploy(&settings, "serve").await;
    let worker = Deployment::deploy(&settings, "work").await;
    let sql = database::connect(&settings[0].1).await.unwrap();
    sql.batch_execute("set search_path = chessboard").await.unwrap();
    let mut deployment = Deployment { settings, worker, sql };

    let developer = guid();
    broker.bus().publish(COMPANY_UPSERTED, developer, next(), &company(developer, "Active", 1)).await;
    let by = serve.caller(&holder(Some(developer), &[MANAGE]));
    eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
    by.put(ME, profile()).await.expect(200);
    by.post(&format!("{ME}/publish"), json!({})).await.expect(200);
    let house = house_of(developer, serve.caller(&holder(Some(developer), &[MANAGE]))).await;
    house.grid(&flats(3 * BATCH - 1)).await;
    let objects: Vec<_> = house.objects().await.iter().map(|object| id_of(&object["Id"])).collect();

    let mut is_public = vec![false];
    for (path, then_public, lock, kept) in [
        (house.project_path("/publish"), true, BEFORE_WRITING, BATCH),
        (format!("{ME}/hide"), false, BEFORE_COMMIT, 0),
        (format!("{ME}/publish"), true, BEFORE_COMMIT, 0),
        (house.project_path("/hide"), false, BEFORE_WRITING, BATCH),
    ] {
        let change = async {
            by.post(&path, json!({})).await.expect(200);
        };
        let told_before = deployment.cut_off(lock, change, then_public).await;
        assert_eq!(told_before, i64::try_from(kept).unwrap(), "{path}");
        deployment.worker = Deployment::deploy(&deployment.settings, "work").await;
        is_public.push(then_public);
        let left = "select 1 from propagation limit 1";
        eventually("the end of the job", async || {
            deployment.sql.query_opt(left, &[]).await.unwrap().is_none().then_some(())
        })
        .await;
        for object in &objects {
            let events = published(&deployment.sql, broker.bus(), &object.to_string()).await;
            let events = payloads(events, OBJECT_UPSERTED);
            let said: Vec<Value> =
                events.iter().map(|event| json!([event["Version"], event["IsPublic"]])).collect();
            let expected: Vec<_> =
                is_public.iter().enumerate().map(|(at, is_public)| json!([at + 1, is_public])).collect();
            assert_eq!(said, expected, "{path}");
        }
    }
}
