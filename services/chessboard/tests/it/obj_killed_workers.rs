//! Workers that are killed while they publish the objects of a changed ancestor.

use chessboard::Service;
use serde_json::{Value, json};
use testkit::bus::payloads;
use testkit::dedicated::DedicatedBroker;
use testkit::deployed::Deployed;
use testkit::service::published;
use testkit::{database, eventually, guid};
use tokio_postgres::Client;

use crate::objects::{OBJECT_UPSERTED, create_house, flats};
use crate::{COMPANY_UPSERTED, MANAGE, ME, company_event, id_of, next_sequence, profile, user_claims};

const BATCH: usize = 4;

/// Locks the first object after [`BATCH`] others, so that the second batch waits before it writes.
const BEFORE_WRITING: &str = "select from property_object where id in \
    (select id from property_object order by id offset 4 limit 1) for update";
/// Locks the queue, so that the first batch waits after it has written its objects.
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

    /// Kills the worker when the propagation of `change` waits for `lock`. Returns the number of
    /// objects that are published with this `is_public`.
    async fn kill_worker_at(&mut self, lock: &str, change: impl Future<Output = ()>, is_public: bool) -> i64 {
        let (job_lock, batch_lock) = (self.connect().await, self.connect().await);
        job_lock.batch_execute("begin").await.unwrap();
        // The query locks the row of the job while the job does not run. The worker then cannot
        // start the job.
        let job = "select 1 from job where kind = 'object-propagation' and run is null for update";
        eventually("the job", async || job_lock.query_opt(job, &[]).await.unwrap()).await;
        change.await;
        batch_lock.batch_execute(&format!("begin; {lock}")).await.unwrap();
        let holder: i32 = batch_lock.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        job_lock.batch_execute("rollback").await.unwrap();
        let waiting = "select pid from pg_stat_activity where $1 = any (pg_blocking_pids(pid))";
        let find = async || self.sql.query_opt(waiting, &[&holder]).await.unwrap();
        let waiting: i32 = eventually("the batch to wait", find).await.get(0);
        self.worker.process.kill().await.unwrap();
        batch_lock.batch_execute("rollback").await.unwrap();
        let exists = "select 1 from pg_stat_activity where pid = $1";
        eventually("the end of the batch", async || {
            self.sql.query_opt(exists, &[&waiting]).await.unwrap().is_none().then_some(())
        })
        .await;
        let count = "select count(*) from property_object where published_is_public = $1";
        self.sql.query_one(count, &[&is_public]).await.unwrap().get(0)
    }
}

/// RULE-CHS-029: the next worker publishes the objects that the killed worker has not committed,
/// and no object twice.
#[tokio::test]
async fn killed_worker_leaves_each_object_published_once() {
    let suffix = format!(".{}", guid().simple());
    let broker = DedicatedBroker::start::<Service>();
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
    broker
        .bus()
        .publish(COMPANY_UPSERTED, developer, next_sequence(), &company_event(developer, "Active", 1))
        .await;
    let by = serve.caller(&user_claims(Some(developer), &[MANAGE]));
    eventually("the developer", async || (by.get(ME).await.status == 200).then_some(())).await;
    by.put(ME, profile()).await.expect(200);
    by.post(&format!("{ME}/publish"), json!({})).await.expect(200);
    let house = create_house(developer, serve.caller(&user_claims(Some(developer), &[MANAGE]))).await;
    house.grid(&flats(3 * BATCH - 1)).await;
    let objects: Vec<_> = house.objects().await.iter().map(|object| id_of(&object["Id"])).collect();

    let mut is_public = vec![false];
    for (path, then_public, lock, committed) in [
        (house.project_path("/publish"), true, BEFORE_WRITING, BATCH),
        (format!("{ME}/hide"), false, BEFORE_COMMIT, 0),
        (format!("{ME}/publish"), true, BEFORE_COMMIT, 0),
        (house.project_path("/hide"), false, BEFORE_WRITING, BATCH),
    ] {
        let change = async {
            by.post(&path, json!({})).await.expect(200);
        };
        let published_before = deployment.kill_worker_at(lock, change, then_public).await;
        assert_eq!(published_before, i64::try_from(committed).unwrap(), "{path}");
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
            let published: Vec<Value> =
                events.iter().map(|event| json!([event["Version"], event["IsPublic"]])).collect();
            let expected: Vec<_> =
                is_public.iter().enumerate().map(|(at, is_public)| json!([at + 1, is_public])).collect();
            assert_eq!(published, expected, "{path}");
        }
    }
}
