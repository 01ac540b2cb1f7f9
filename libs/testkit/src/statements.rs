//! A relay before PostgreSQL that counts what a service asks.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader, copy};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// The relay. It passes everything on as long as the runtime that it was started on.
pub struct Statements {
    url: String,
    executed: Arc<AtomicUsize>,
}

impl Statements {
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
        let (server, executed) = (format!("{host}:{port}"), Arc::new(AtomicUsize::new(0)));
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let (url, counted) = (url.replacen(&server, &address, 1), Arc::clone(&executed));
        tokio::task::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let (server, counted) = (server.clone(), Arc::clone(&counted));
                // Whoever hangs up ends it for the other.
                tokio::task::spawn(async move { relay(client, &server, &counted).await });
            }
        });
        Self { url, executed }
    }

    /// Where a service finds it.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// How many statements have been executed so far.
    pub fn executed(&self) -> usize {
        self.executed.load(Ordering::Relaxed)
    }
}

async fn relay(client: TcpStream, server: &str, executed: &AtomicUsize) -> std::io::Result<()> {
    let server = TcpStream::connect(server).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let ((asking, mut answered), (mut answering, asked)) = (client.into_split(), server.into_split());
    tokio::select! {
        ended = copy(&mut answering, &mut answered) => ended.map(drop),
        ended = pass_on(BufReader::new(asking), asked, executed) => ended,
    }
}

/// Passes on what a client says, message by message: the first has no type. Statements are executed by `Execute` and by `Query`.
async fn pass_on(
    mut asking: BufReader<OwnedReadHalf>,
    mut asked: OwnedWriteHalf,
    executed: &AtomicUsize,
) -> std::io::Result<()> {
    let mut kind = None;
    loop {
        let length = asking.read_u32().await?;
        let mut message: Vec<u8> = kind.into_iter().chain(length.to_be_bytes()).collect();
        // The length is counted in.
        (&mut asking).take(u64::from(length).saturating_sub(4)).read_to_end(&mut message).await?;
        if matches!(kind, Some(b'E' | b'Q')) {
            executed.fetch_add(1, Ordering::Relaxed);
        }
        asked.write_all(&message).await?;
        kind = Some(asking.read_u8().await?);
    }
}
