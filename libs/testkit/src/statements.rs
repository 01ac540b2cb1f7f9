//! A proxy in front of PostgreSQL that counts the statements of a service and drops responses.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// A counting proxy. It runs until the runtime that started it ends.
pub struct StatementCounter {
    url: String,
    counters: Arc<Counters>,
}

#[derive(Default)]
struct Counters {
    executed: AtomicUsize,
    prepared: AtomicUsize,
    /// The proxy drops the response to the next `COMMIT` of the connection that sends this text.
    losing: Mutex<Option<String>>,
}

impl Counters {
    /// Returns true for the first message with the text that selects the connection.
    fn selects(&self, message: &[u8]) -> bool {
        let mut losing = self.losing.lock().expect("no test panics here");
        let has_text = losing.as_ref().is_some_and(|text| contains(message, text.as_bytes()));
        losing.take_if(|_| has_text).is_some()
    }
}

impl StatementCounter {
    /// Starts a proxy in front of the database at `url`.
    ///
    /// # Panics
    /// If the proxy does not start, or the URL has no host and port.
    pub async fn start(url: &str) -> Self {
        let config: Config = url.parse().expect("a URL");
        let (Some(Host::Tcp(host)), Some(port)) = (config.get_hosts().first(), config.get_ports().first())
        else {
            panic!("a URL with a host and a port");
        };
        let (server, counters) = (format!("{host}:{port}"), Arc::new(Counters::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (url, shared) = (url.replacen(&server, &address, 1), Arc::clone(&counters));
        tokio::task::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, counters) = (server.clone(), Arc::clone(&shared));
                // If one side disconnects, the proxy closes the connection to the other.
                tokio::task::spawn(async move { forward(client, &server, &counters).await });
            }
        });
        Self { url, counters }
    }

    /// Returns the database URL for the service.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Drops the response to the commit of the transaction that sends `text`. PostgreSQL commits,
    /// and the service loses the connection.
    ///
    /// # Panics
    /// If another test has panicked.
    pub fn lose_commit_response(&self, text: &str) {
        *self.counters.losing.lock().expect("no test panics here") = Some(text.to_owned());
    }

    /// Returns the number of executed statements.
    pub fn executed(&self) -> usize {
        self.counters.executed.load(Ordering::Relaxed)
    }

    /// Returns the number of parsed statements, without the poll for revocations of access. A
    /// reused prepared statement is not parsed.
    pub fn prepared(&self) -> usize {
        self.counters.prepared.load(Ordering::Relaxed)
    }
}

async fn forward(client: TcpStream, server: &str, counters: &Counters) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((requests, mut to_client), (mut responses, to_server)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = copy(&mut responses, &mut to_client) => ended.map(drop),
        ended = forward_requests(BufReader::new(requests), to_server, counters) => ended,
    }
}

/// Forwards the messages of a client and counts them by type. The first message has no type.
///
/// `Execute` and `Query` execute a statement, `Parse` prepares one.
async fn forward_requests(
    mut requests: BufReader<OwnedReadHalf>,
    mut to_server: OwnedWriteHalf,
    counters: &Counters,
) -> std::io::Result<()> {
    let (mut kind, mut loses_response) = (None, false);
    loop {
        let length = requests.read_u32().await?;
        let mut message: Vec<u8> = kind.into_iter().chain(length.to_be_bytes()).collect();
        // The length includes its own four bytes.
        (&mut requests).take(u64::from(length).saturating_sub(4)).read_to_end(&mut message).await?;
        match kind {
            Some(b'E' | b'Q') => counters.executed.fetch_add(1, Ordering::Relaxed),
            Some(b'P') if !is_poll(&message) => counters.prepared.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        to_server.write_all(&message).await?;
        loses_response |= counters.selects(&message);
        if loses_response && kind == Some(b'Q') && contains(&message, b"COMMIT") {
            return Ok(());
        }
        kind = Some(requests.read_u8().await?);
    }
}

/// Returns true for the poll for revocations of access, which every serving replica repeats.
fn is_poll(message: &[u8]) -> bool {
    contains(message, b"access_revocation")
}

fn contains(message: &[u8], text: &[u8]) -> bool {
    message.windows(text.len()).any(|part| part == text)
}
