//! A proxy in front of a real service that records calls, forwards them, and injects faults.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::Context;
use reqwest::Method;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use crate::TIMEOUT;

/// The fault of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The proxy responds with this status and body as `application/problem+json`. The service does
    /// not receive the call.
    Respond(u16, String),
    /// The proxy forwards the call after a delay.
    Delay(Duration),
    /// The client receives status and headers, and never a body.
    HangAfterHeaders,
    /// The response ends in the middle of its body.
    Truncate,
    /// The connection is closed without a response.
    Drop,
    /// The client receives bytes that are not HTTP.
    Garbage,
    /// A success with a body of this length in bytes.
    Huge(usize),
    /// The service processes the call, and its response is lost.
    LoseResponse,
    /// The call waits at the gate before the service receives it.
    Hold(Gate),
    /// The service processes the call, and its response waits at the gate.
    HoldResponse(Gate),
}

impl Fault {
    /// Returns the fault that responds with a problem.
    pub fn problem(status: u16, code: &str) -> Self {
        Self::Respond(status, format!(r#"{{"status":{status},"code":"{code}"}}"#))
    }
}

/// The gate where a held call waits for the test.
#[derive(Clone, Debug)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until the call is at the gate.
    ///
    /// # Panics
    /// If the call does not arrive.
    pub async fn arrived(&self) {
        let arrived = tokio::time::timeout(*TIMEOUT, self.arrived.acquire()).await;
        arrived.expect("the call to hold did not arrive").expect("never closed").forget();
    }

    /// Releases the call.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.opened.acquire().await.expect("never closed").forget();
    }
}

/// A call that the proxy has received.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub path: String,
    /// Names are in lower case.
    pub headers: HashMap<String, String>,
    /// `null` if the body is not JSON.
    pub body: Value,
    pub raw: Vec<u8>,
}

struct Rule {
    path: String,
    fault: Fault,
    /// Number of further calls with this fault. `None` means all.
    left: Option<usize>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    calls: Vec<Call>,
    /// The proxy refuses connections.
    is_refusing: bool,
}

impl State {
    fn fault(&mut self, path: &str) -> Option<Fault> {
        let at = self.rules.iter().rposition(|rule| path.contains(&rule.path) && rule.left != Some(0))?;
        let rule = &mut self.rules[at];
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.fault.clone())
    }
}

/// A running proxy. Dropping it stops the proxy.
pub struct FaultProxy {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    listening: watch::Sender<bool>,
}

impl FaultProxy {
    /// Starts a proxy in front of the service at `target`, on a separate thread.
    ///
    /// Tests that inject every response use a target without a listener: `http://127.0.0.1:1`.
    ///
    /// # Panics
    /// If the proxy does not start.
    pub fn start(target: impl Into<String>) -> Self {
        let (target, state) = (target.into(), Arc::new(Mutex::new(State::default())));
        let (listening, is_listening) = watch::channel(true);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        listener.set_nonblocking(true).expect("a socket");
        let address = listener.local_addr().expect("an address");
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let tokio =
                tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
            tokio.block_on(async {
                let listener = TcpListener::from_std(listener).expect("a listener");
                if let Err(error) = serve(listener, address, &target, shared, is_listening).await {
                    eprintln!("fault proxy stopped: {error:#}");
                }
            });
        });
        Self { address, state, listening }
    }

    /// Returns the address for callers.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Injects `fault` into all further calls whose path contains `path`. The rule added last has
    /// precedence.
    pub fn inject(&self, path: impl Into<String>, fault: Fault) {
        self.add(path.into(), fault, None);
    }

    /// Injects `fault` into the next `count` calls whose path contains `path`.
    pub fn inject_next(&self, count: usize, path: impl Into<String>, fault: Fault) {
        self.add(path.into(), fault, Some(count));
    }

    /// Holds the next call whose path contains `path` before the service receives it.
    pub fn hold(&self, path: impl Into<String>) -> Gate {
        let gate = Gate::new();
        self.inject_next(1, path, Fault::Hold(gate.clone()));
        gate
    }

    /// Holds the response to the next call whose path contains `path`. The service has then
    /// processed the call.
    pub fn hold_response(&self, path: impl Into<String>) -> Gate {
        let gate = Gate::new();
        self.inject_next(1, path, Fault::HoldResponse(gate.clone()));
        gate
    }

    /// Removes all rules.
    pub fn remove_faults(&self) {
        self.state().rules.clear();
    }

    /// Refuses connections until [`FaultProxy::listen`] is called.
    pub fn refuse(&self) {
        self.set_listening(false);
    }

    /// Accepts connections again.
    pub fn listen(&self) {
        self.set_listening(true);
    }

    /// Returns after the proxy's thread has applied the change.
    fn set_listening(&self, listens: bool) {
        self.listening.send_replace(listens);
        while self.state().is_refusing == listens {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns all calls so far whose path contains `path`, in the order of arrival.
    pub fn calls(&self, path: impl AsRef<str>) -> Vec<Call> {
        self.state().calls.iter().filter(|call| call.path.contains(path.as_ref())).cloned().collect()
    }

    fn add(&self, path: String, fault: Fault, left: Option<usize>) {
        self.state().rules.push(Rule { path, fault, left });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

async fn serve(
    listener: TcpListener,
    address: SocketAddr,
    target: &str,
    state: Arc<Mutex<State>>,
    mut listening: watch::Receiver<bool>,
) -> anyhow::Result<()> {
    let http = reqwest::ClientBuilder::new().tls_certs_only([]).build()?;
    let mut listener = Some(listener);
    loop {
        let accepted = async {
            match &listener {
                Some(listener) => listener.accept().await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            accepted = accepted => {
                let (stream, _) = accepted?;
                let (http, target, state) = (http.clone(), target.to_owned(), Arc::clone(&state));
                tokio::task::spawn(async move {
                    // A caller that disconnects is not a failure of the proxy.
                    let _ = respond(stream, &http, &target, &state).await;
                });
            }
            changed = listening.changed() => {
                if changed.is_err() {
                    return Ok(());
                }
                let accepts = *listening.borrow_and_update();
                listener = if accepts {
                    Some(TcpListener::bind(address).await.context("the port is taken")?)
                } else {
                    None
                };
                state.lock().expect("no holder of this lock panics").is_refusing = !accepts;
            }
        }
    }
}

/// Serves one call. Each call has its own connection.
async fn respond(
    stream: TcpStream,
    http: &reqwest::Client,
    target: &str,
    state: &Mutex<State>,
) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let call = read(&mut stream).await?;
    let fault = {
        let mut state = state.lock().expect("no holder of this lock panics");
        state.calls.push(call.clone());
        state.fault(&call.path)
    };
    let ok = |length: usize| head(200, "application/json", length);
    let bytes = match fault {
        None => forward(http, target, &call).await?,
        Some(Fault::Respond(status, text)) => {
            [head(status, "application/problem+json", text.len()).as_bytes(), text.as_bytes()].concat()
        }
        Some(Fault::Delay(delay)) => {
            tokio::time::sleep(delay).await;
            forward(http, target, &call).await?
        }
        Some(Fault::HangAfterHeaders) => {
            stream.write_all(ok(100).as_bytes()).await?;
            return std::future::pending().await;
        }
        Some(Fault::Truncate) => [ok(100).as_bytes(), b"{\"SnapshotId\":"].concat(),
        Some(Fault::Drop) => Vec::new(),
        Some(Fault::Garbage) => b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec(),
        Some(Fault::Huge(length)) => [ok(length).as_bytes(), &vec![b' '; length]].concat(),
        Some(Fault::LoseResponse) => {
            forward(http, target, &call).await?;
            Vec::new()
        }
        Some(Fault::Hold(gate)) => {
            gate.pass().await;
            forward(http, target, &call).await?
        }
        Some(Fault::HoldResponse(gate)) => {
            let response = forward(http, target, &call).await?;
            gate.pass().await;
            response
        }
    };
    stream.write_all(&bytes).await?;
    stream.shutdown().await?;
    Ok(())
}

async fn read(stream: &mut BufReader<TcpStream>) -> anyhow::Result<Call> {
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        anyhow::ensure!(stream.read_line(&mut line).await? > 0, "the caller has disconnected");
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let mut words = lines.first().context("no request line")?.split(' ');
    let (method, path) = words.next().zip(words.next()).context("no request line")?;
    let headers: HashMap<String, String> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let length = headers.get("content-length").map_or(Ok(0), |length| length.parse())?;
    let mut raw = vec![0; length];
    stream.read_exact(&mut raw).await?;
    let body = serde_json::from_slice(&raw).unwrap_or(Value::Null);
    Ok(Call { method: method.to_owned(), path: path.to_owned(), headers, body, raw })
}

async fn forward(http: &reqwest::Client, target: &str, call: &Call) -> anyhow::Result<Vec<u8>> {
    let method = Method::from_bytes(call.method.as_bytes())?;
    let mut request = http.request(method, format!("{target}{}", call.path)).body(call.raw.clone());
    for (name, value) in
        call.headers.iter().filter(|(name, _)| !["host", "content-length"].contains(&name.as_str()))
    {
        request = request.header(name, value);
    }
    let response = request.send().await?;
    let status = response.status().as_u16();
    let kind = response.headers().get("content-type").and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let kind = kind.to_owned();
    let body = response.bytes().await?;
    Ok([head(status, &kind, body.len()).as_bytes(), &body].concat())
}

fn head(status: u16, kind: &str, length: usize) -> String {
    format!(
        "HTTP/1.1 {status} x\r\ncontent-type: {kind}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    )
}
