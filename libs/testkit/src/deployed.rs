//! A service as it is deployed: its binary in a separate process, with a database and a collector.

use std::collections::HashMap;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use uuid::Uuid;

use crate::client::Client;
use crate::collector::Collector;
use crate::issuer::Claims;
use crate::service::issuer;
use crate::{TIMEOUT, database, ports, required};

/// A running process. Dropping it kills the process.
pub struct Deployed {
    pub collector: Collector,
    pub process: Child,
    public: String,
    admin: String,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Deployed {
    /// Migrates a database and starts `binary` in `roles`, or in all roles if there are none.
    ///
    /// `settings` override the defaults.
    ///
    /// # Panics
    /// If the process does not become ready.
    pub async fn start(binary: &str, roles: &[&str], settings: &[(&str, &str)]) -> Self {
        let collector = Collector::start();
        let [public, internal, admin] =
            std::array::from_fn(|_| format!("127.0.0.1:{}", ports::free().expect("a port")));
        let mut environment = HashMap::from([
            ("DATABASE_URL", database::create().await.expect("a database")),
            // Long timeouts, since a busy test machine may stall for seconds.
            ("DATABASE_WAIT_MS", "20000".to_owned()),
            ("DATABASE_STATEMENT_TIMEOUT_MS", "30000".to_owned()),
            ("KAFKA_BROKERS", required("KAFKA_BROKERS").expect("a broker")),
            ("KAFKA_FETCH_WAIT_MS", "50".to_owned()),
            ("KAFKA_GROUP_SUFFIX", format!(".{}", Uuid::from_u128(rand::random()).simple())),
            ("AUTH_ISSUER", issuer().url().to_owned()),
            ("PUBLIC_LISTEN", public.clone()),
            ("INTERNAL_LISTEN", internal),
            ("ADMIN_LISTEN", admin.clone()),
            ("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url()),
            ("OTEL_BSP_SCHEDULE_DELAY", "100".to_owned()),
        ]);
        environment.extend(settings.iter().map(|(name, value)| (*name, (*value).to_owned())));
        let command = |roles: &[&str]| {
            let mut command = Command::new(binary);
            command.args(roles).envs(&environment).kill_on_drop(true);
            command
        };
        let migrated = command(&["migrate"]).stdout(Stdio::null()).status().await;
        assert!(migrated.expect("the binary").success(), "migrate");
        let mut process = command(roles).stdout(Stdio::piped()).spawn().expect("the binary");
        let mut output = BufReader::new(process.stdout.take().expect("its output")).lines();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&lines);
        tokio::spawn(async move {
            while let Ok(Some(line)) = output.next_line().await {
                log.lock().expect("no test panics here").push(line);
            }
        });
        let operator = reqwest::ClientBuilder::new().tls_certs_only([]).build().expect("a client");
        let ready = async {
            let health = || operator.get(format!("http://{admin}/health/ready")).send();
            while !health().await.is_ok_and(|health| health.status().is_success()) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        assert!(tokio::time::timeout(*TIMEOUT, ready).await.is_ok(), "{binary} did not become ready");
        let [public, admin] = [public, admin].map(|address| format!("http://{address}"));
        Self { collector, process, public, admin, lines }
    }

    /// Returns the log lines so far.
    ///
    /// # Panics
    /// If a line is not JSON.
    pub fn log(&self) -> Vec<Value> {
        let lines = self.lines.lock().expect("no test panics here");
        lines.iter().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// Returns the memory of the process in bytes: `VmRSS` is the current size, `VmHWM` the peak.
    ///
    /// # Panics
    /// If the process has ended.
    pub fn memory(&self, which: &str) -> usize {
        let process = self.process.id().expect("a running process");
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("a running process");
        let line = status.lines().find_map(|line| line.strip_prefix(which)?.strip_prefix(':'));
        let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<usize>().ok());
        kib.expect("a size in KiB") * 1024
    }

    /// Resets `VmHWM` to the current memory (proc(5)).
    ///
    /// # Panics
    /// If the process has ended.
    pub fn reset_peak_memory(&self) {
        let process = self.process.id().expect("a running process");
        std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("a running process");
    }

    /// Returns, for each connection of the public port, the bytes of responses in the kernel that
    /// the client has not read.
    ///
    /// # Panics
    /// If `/proc/net/tcp` cannot be read.
    pub fn unread_response_bytes(&self) -> Vec<usize> {
        let (_, port) = self.public.rsplit_once(':').expect("a port");
        let port = format!(":{:04X}", port.parse::<u16>().expect("a port"));
        let table = std::fs::read_to_string("/proc/net/tcp").expect("its connections");
        let rows = table.lines().skip(1).map(|row| row.split_whitespace().collect::<Vec<_>>());
        // Columns: local address, state (01 is established), and `tx_queue:rx_queue` (proc(5)).
        let established = rows.filter(|row| row[1].ends_with(&port) && row[3] == "01");
        let queued = established.map(|row| usize::from_str_radix(&row[4][..8], 16).expect("hexadecimal"));
        queued.collect()
    }

    /// Returns a client of the public port with a token of these claims.
    ///
    /// # Panics
    /// If the token cannot be signed.
    pub fn caller(&self, claims: &Claims) -> Client {
        Client::new(self.public.clone(), Some(issuer().token(claims).expect("a token")))
    }

    /// Returns a client of the admin port.
    pub fn operator(&self) -> Client {
        Client::new(self.admin.clone(), None)
    }

    /// Returns a client of the public port without a token.
    pub fn guest(&self) -> Client {
        Client::new(self.public.clone(), None)
    }
}
