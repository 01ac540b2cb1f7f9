//! An HTTP fault injector: it stands before a real service, passes calls on, counts them, and makes
//! those that a test names fail, wait, or answer nonsense.

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

/// What becomes of a call.
#[derive(Clone, Debug)]
pub enum Fault {
    /// The service does not see it; this is answered instead, as `application/problem+json`.
    Answer(u16, String),
    /// The service sees it after so long, and its answer is passed on.
    Slow(Duration),
    /// Status and headers come, the body never does.
    HangAfterHeaders,
    /// The answer breaks off in the middle of its body.
    BreakOff,
    /// The connection is closed without an answer.
    Drop,
    /// What comes is not HTTP.
    Garbage,
    /// A success whose body is so many bytes long.
    Huge(usize),
    /// The service acts, but its answer is lost.
    LoseAnswer,
    /// It waits for the test, and then goes to the service.
    Hold(Gate),
    /// It goes to the service, and the answer waits for the test.
    HoldAnswer(Gate),
}

impl Fault {
    /// A problem with this code.
    pub fn problem(status: u16, code: &str) -> Self {
        Self::Answer(status, format!(r#"{{"status":{status},"code":"{code}"}}"#))
    }
}

/// Where a held call waits.
#[derive(Clone, Debug)]
pub struct Gate {
    arrived: Arc<Semaphore>,
    opened: Arc<Semaphore>,
}

impl Gate {
    fn new() -> Self {
        Self { arrived: Arc::new(Semaphore::new(0)), opened: Arc::new(Semaphore::new(0)) }
    }

    /// Waits until the call is here.
    ///
    /// # Panics
    /// When it does not come.
    pub async fn arrived(&self) {
        let arrived = tokio::time::timeout(*TIMEOUT, self.arrived.acquire()).await;
        arrived.expect("the call that is to be held does not come").expect("never closed").forget();
    }

    /// Lets the call go on.
    pub fn open(&self) {
        self.opened.add_permits(1);
    }

    async fn pass(&self) {
        self.arrived.add_permits(1);
        self.opened.acquire().await.expect("never closed").forget();
    }
}

/// A call as it came.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub path: String,
    /// Names in lower case.
    pub headers: HashMap<String, String>,
    /// `null` when it is not JSON.
    pub body: Value,
    pub raw: Vec<u8>,
}

struct Rule {
    path: String,
    fault: Fault,
    /// Calls that it is still for; `None`: all.
    left: Option<usize>,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    calls: Vec<Call>,
    /// It refuses connections.
    is_deaf: bool,
}

impl State {
    fn fault(&mut self, path: &str) -> Option<Fault> {
        let at = self.rules.iter().rposition(|rule| path.contains(&rule.path) && rule.left != Some(0))?;
        let rule = &mut self.rules[at];
        rule.left = rule.left.map(|left| left - 1);
        Some(rule.fault.clone())
    }
}

/// The injector. It stops when dropped.
pub struct Faults {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
    listening: watch::Sender<bool>,
}

impl Faults {
    /// Starts one that passes everything on to the service at `target`, on a thread of its own.
    ///
    /// # Panics
    /// When it does not start.
    pub fn before(target: impl Into<String>) -> Self {
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
                    eprintln!("the fault injector ended: {error:#}");
                }
            });
        });
        Self { address, state, listening }
    }

    /// Where callers find it.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// From now on calls whose path contains `path` get `fault`. A later rule goes before an earlier one.
    pub fn on(&self, path: impl Into<String>, fault: Fault) {
        self.add(path.into(), fault, None);
    }

    /// The next `count` calls whose path contains `path` get `fault`.
    pub fn next(&self, count: usize, path: impl Into<String>, fault: Fault) {
        self.add(path.into(), fault, Some(count));
    }

    /// Holds the next call whose path contains `path` before the service sees it.
    pub fn hold(&self, path: impl Into<String>) -> Gate {
        let gate = Gate::new();
        self.next(1, path, Fault::Hold(gate.clone()));
        gate
    }

    /// Holds the answer to the next call whose path contains `path`; the service has acted by then.
    pub fn hold_answer(&self, path: impl Into<String>) -> Gate {
        let gate = Gate::new();
        self.next(1, path, Fault::HoldAnswer(gate.clone()));
        gate
    }

    /// Passes everything on again.
    pub fn heal(&self) {
        self.state().rules.clear();
    }

    /// Refuses connections until [`Faults::listen`].
    pub fn refuse(&self) {
        self.set_listening(false);
    }

    /// Accepts connections again.
    pub fn listen(&self) {
        self.set_listening(true);
    }

    /// Answers when it is so: the injector's thread may have to wait for a processor.
    fn set_listening(&self, listens: bool) {
        self.listening.send_replace(listens);
        while self.state().is_deaf == listens {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Every call so far whose path contains `path`, in order of arrival.
    pub fn calls(&self, path: impl AsRef<str>) -> Vec<Call> {
        self.state().calls.iter().filter(|call| call.path.contains(path.as_ref())).cloned().collect()
    }

    fn add(&self, path: String, fault: Fault, left: Option<usize>) {
        self.state().rules.push(Rule { path, fault, left });
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().expect("nobody panics in here")
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
                    // A caller that gives up is no failure of the injector.
                    let _ = answer(stream, &http, &target, &state).await;
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
                state.lock().expect("nobody panics in here").is_deaf = !accepts;
            }
        }
    }
}

/// One call, one connection.
async fn answer(
    stream: TcpStream,
    http: &reqwest::Client,
    target: &str,
    state: &Mutex<State>,
) -> anyhow::Result<()> {
    let mut stream = BufReader::new(stream);
    let call = read(&mut stream).await?;
    let fault = {
        let mut state = state.lock().expect("nobody panics in here");
        state.calls.push(call.clone());
        state.fault(&call.path)
    };
    let ok = |length: usize| head(200, "application/json", length);
    let bytes = match fault {
        None => forward(http, target, &call).await?,
        Some(Fault::Answer(status, text)) => {
            [head(status, "application/problem+json", text.len()).as_bytes(), text.as_bytes()].concat()
        }
        Some(Fault::Slow(pause)) => {
            tokio::time::sleep(pause).await;
            forward(http, target, &call).await?
        }
        Some(Fault::HangAfterHeaders) => {
            stream.write_all(ok(100).as_bytes()).await?;
            return std::future::pending().await;
        }
        Some(Fault::BreakOff) => [ok(100).as_bytes(), b"{\"SnapshotId\":"].concat(),
        Some(Fault::Drop) => Vec::new(),
        Some(Fault::Garbage) => b"\x16\x03\x01 this is not HTTP\r\n\r\n".to_vec(),
        Some(Fault::Huge(length)) => [ok(length).as_bytes(), &vec![b' '; length]].concat(),
        Some(Fault::LoseAnswer) => {
            forward(http, target, &call).await?;
            Vec::new()
        }
        Some(Fault::Hold(gate)) => {
            gate.pass().await;
            forward(http, target, &call).await?
        }
        Some(Fault::HoldAnswer(gate)) => {
            let answer = forward(http, target, &call).await?;
            gate.pass().await;
            answer
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
        anyhow::ensure!(stream.read_line(&mut line).await? > 0, "the caller hung up");
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
