//! A process of the ledger.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use testkit::signals::{self, Signal};

use crate::rig::eventually;

/// A running process; it is killed when dropped.
pub struct Replica {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Replica {
    /// Runs `command` and waits until the service has started.
    pub async fn start(mut command: Command) -> Self {
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let (output, log) = (BufReader::new(child.stdout.take().unwrap()), Arc::clone(&lines));
        std::thread::spawn(move || {
            output.lines().map_while(Result::ok).for_each(|line| log.lock().unwrap().push(line));
        });
        let replica = Self { child, lines };
        eventually("a start", async || replica.logged("\"started\"").is_some()).await;
        replica
    }

    /// The first line of its log that has `text` in it.
    pub fn logged(&self, text: &str) -> Option<String> {
        self.lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
    }

    /// Whether it is, or was, the relay of `epoch`.
    pub fn relayed(&self, epoch: i64) -> bool {
        let epoch = format!("\"epoch\":{epoch}");
        let lines = self.lines.lock().unwrap();
        lines.iter().any(|line| line.contains("\"relay session started\"") && line.contains(&epoch))
    }

    /// Whether it says that it is ready.
    pub async fn is_ready(&self) -> bool {
        self.ask("/health/ready").await.status() == 204
    }

    /// What the admin port answers.
    async fn ask(&self, path: &str) -> reqwest::Response {
        let started = self.logged("\"started\"").unwrap();
        let (_, address) = started.split_once("admin: ").unwrap();
        let address = address.split_once(' ').unwrap().0;
        reqwest::get(format!("http://{address}{path}")).await.unwrap()
    }

    /// A metric as the admin port tells it; several of one name are added up.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.ask("/metrics").await.text().await.unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }

    /// As nobody can prevent: no destructor, no flush.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops it as Kubernetes does, and waits.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        let mut ended = None;
        eventually("its end", async || {
            ended = self.child.try_wait().unwrap();
            ended.is_some()
        })
        .await;
        ended.unwrap()
    }

    pub fn freeze(&self) {
        self.signal(Signal::SIGSTOP);
    }

    pub fn thaw(&self) {
        self.signal(Signal::SIGCONT);
    }

    fn signal(&self, signal: Signal) {
        signals::send(self.child.id(), signal).unwrap();
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            let lines = self.lines.lock().unwrap();
            lines.iter().rev().take(20).rev().for_each(|line| eprintln!("{line}"));
        }
    }
}
