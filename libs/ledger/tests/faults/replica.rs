//! A process of the service `ledger`.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use testkit::signals::{self, Signal};

use crate::rig::eventually;

/// A running process. Dropping it kills the process.
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
        eventually("a start", async || replica.find_log_line("\"started\"").is_some()).await;
        replica
    }

    /// Returns the first log line that contains `text`.
    pub fn find_log_line(&self, text: &str) -> Option<String> {
        self.lines.lock().unwrap().iter().find(|line| line.contains(text)).cloned()
    }

    /// Returns true if this process is or was the relay of `epoch`.
    pub fn has_relayed(&self, epoch: i64) -> bool {
        let epoch = format!("\"epoch\":{epoch}");
        let lines = self.lines.lock().unwrap();
        lines.iter().any(|line| line.contains("\"relay session started\"") && line.contains(&epoch))
    }

    /// Returns the readiness of the process.
    pub async fn is_ready(&self) -> bool {
        self.get("/health/ready").await.status() == 204
    }

    /// Sends a request to the admin port.
    async fn get(&self, path: &str) -> reqwest::Response {
        let started = self.find_log_line("\"started\"").unwrap();
        let (_, address) = started.split_once("admin: ").unwrap();
        let address = address.split_once(' ').unwrap().0;
        reqwest::get(format!("http://{address}{path}")).await.unwrap()
    }

    /// Returns a metric of the admin port: the sum over all labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await.text().await.unwrap();
        let lines = text.lines().filter(|line| line.starts_with(name));
        lines.map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()).sum()
    }

    /// Kills the process with SIGKILL: no destructor runs, and no buffer is flushed.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stops the process as Kubernetes does, with SIGTERM, and waits for its end.
    pub async fn terminate(mut self) -> ExitStatus {
        self.signal(Signal::SIGTERM);
        let mut ended = None;
        eventually("the end of the process", async || {
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
