//! Log lines about jobs.

use std::io;
use std::sync::{Arc, Mutex};

use diesel_async::RunQueryDsl;
use jobs::{AlreadyLogged, Jobs};
use runtime::Process;
use tracing_subscriber::fmt;

use crate::{KIND, Shop, now, run_once};

/// The log of a test, with the fields of spans.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// RULE-ALL-037: log lines and spans never contain the key of a job, since the key may be the id of
/// a user. All lines of a job have the same short hash instead.
#[tokio::test]
async fn log_has_a_hash_instead_of_the_key() {
    const USER: &str = "5b0c1a52-4c1e-4d43-9d6e-0f6a1c1d2e3f";
    let log = Log::default();
    let writer = log.clone();
    let subscriber = fmt().with_ansi(false).with_max_level(tracing::Level::DEBUG);
    let _guard = tracing::subscriber::set_default(subscriber.with_writer(move || writer.clone()).finish());
    let shop = Shop::new().await;
    let (db, process) = (shop.db(), Process::new());
    let jobs = Jobs::new(db.clone()).due(KIND, move |job| {
        let db = db.clone();
        async move {
            match job.attempts {
                1 => anyhow::bail!("not yet"),
                2 => Err(AlreadyLogged::wrap(anyhow::anyhow!("not yet"))),
                3 => {
                    let lost = diesel::sql_query("update job set run = null");
                    lost.execute(&mut db.conn().await?).await?;
                    run_once(&db, &job).await
                }
                _ => run_once(&db, &job).await,
            }
        }
    });
    jobs.start(&process);
    shop.schedule(&[USER], now()).await;
    shop.wait_for_number("select count(*) from done", 1).await;
    let text = log.text();
    assert!(!text.contains(USER), "{text}");
    let hash: String = shop
        .sql
        .query_one("select left(encode(sha256(convert_to($1, 'UTF8')), 'hex'), 16)", &[&USER])
        .await
        .unwrap()
        .get(0);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("job failed, retrying")).collect();
    assert!(lines.len() >= 3 && lines.iter().all(|line| line.contains(&hash)), "{text}");
    assert!(text.contains("belongs to another run"), "{text}");
}
