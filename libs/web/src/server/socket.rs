//! Listening sockets.

use std::net::{SocketAddr, TcpListener};
#[cfg(target_os = "linux")]
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpSocket;

/// A caller that for so long acknowledges nothing of what is on its way to it, or has no room for it, is given up.
#[cfg(target_os = "linux")]
const UNREAD: Duration = Duration::from_secs(20);

/// What the kernel takes of an answer before its reader has taken any of it (it counts twice as much, with its own
/// overhead). Left to itself it takes 4 MiB a connection, and a container pays for them. 2 MiB over the loopback come
/// at 2 GB/s, as without; a buffer of half the size has them wait for half a second.
const SEND_BUFFER: u32 = 64 * 1024;

/// Connections that wait to be taken in; one that finds no room tries again after a second. The 128 that are usual
/// come in a few milliseconds when many callers connect anew.
const BACKLOG: u32 = 1024;

pub(super) fn bind(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let socket = open(address).with_context(|| format!("cannot listen on {address}"))?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn open(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart need not wait for what is left of the connections of before.
    socket.set_reuseaddr(true)?;
    // Accepted connections have both from their listener.
    socket.set_send_buffer_size(SEND_BUFFER)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(UNREAD))?;
    socket.bind(address)?;
    socket.listen(BACKLOG)?.into_std()
}
