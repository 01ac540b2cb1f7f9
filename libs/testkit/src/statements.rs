//! A relay before PostgreSQL that counts what a service asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The relay. It passes everything on as long as the runtime that it was started on.
pub struct StatementCounter {
    url: String,
    counted: Arc<Counted>,
}

#[derive(Default)]
struct Counted {
    executed: AtomicUsize,
    prepared: AtomicUsize,
}

impl StatementCounter {
    /// Starts one before the database at `url`.
    ///
    /// # Panics
    /// When it does not start, or the URL names no host and port.
    pub async fn before(url: &str) -> Self {
        let config: Config = url.parse().expect("a URL");
        let (Some(Host::Tcp(host)), Some(port)) = (config.get_hosts().first(), config.get_ports().first())
        else {
            panic!("a URL with a host and a port");
        };
        let (server, counted) = (format!("{host}:{port}"), Arc::new(Counted::default()));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (url, counting) = (url.replacen(&server, &address, 1), Arc::clone(&counted));
        tokio::task::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, counted) = (server.clone(), Arc::clone(&counting));
                // Whoever hangs up ends it for the other.
                tokio::task::spawn(async move { relay(client, &server, &counted).await });
            }
        });
        Self { url, counted }
    }

    /// Where a service finds it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many statements have been executed so far.
    pub fn executed(&self) -> usize {
        self.counted.executed.load(Ordering::Relaxed)
    }

    /// How many were parsed anew: what a connection has prepared before is none.
    pub fn prepared(&self) -> usize {
        self.counted.prepared.load(Ordering::Relaxed)
    }
}

async fn relay(client: TcpStream, server: &str, counted: &Counted) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((asking, mut answered), (mut answering, asked)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = copy(&mut answering, &mut answered) => ended.map(drop),
        ended = pass_on(BufReader::new(asking), asked, counted) => ended,
    }
}

/// Passes on what a client says, message by message: the first has no type. StatementCounter are executed by `Execute` and by `Query`, and
/// prepared by `Parse`.
async fn pass_on(
    mut asking: BufReader<OwnedReadHalf>,
    mut asked: OwnedWriteHalf,
    counted: &Counted,
) -> std::io::Result<()> {
    let mut kind = None;
    loop {
        let length = asking.read_u32().await?;
        let mut message: Vec<u8> = kind.into_iter().chain(length.to_be_bytes()).collect();
        // The length is counted in.
        (&mut asking).take(u64::from(length).saturating_sub(4)).read_to_end(&mut message).await?;
        match kind {
            Some(b'E' | b'Q') => counted.executed.fetch_add(1, Ordering::Relaxed),
            Some(b'P') => counted.prepared.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
        asked.write_all(&message).await?;
        kind = Some(asking.read_u8().await?);
    }
}
