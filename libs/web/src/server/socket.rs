//! Listening sockets and their options.

use std::net::{SocketAddr, TcpListener};
#[cfg(target_os = "linux")]
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpSocket;

/// The time after which the kernel drops a connection whose caller neither acknowledges data nor
/// opens its receive window.
#[cfg(target_os = "linux")]
const SEND_TIMEOUT: Duration = Duration::from_secs(20);

/// The size of the kernel's send buffer of a connection. The kernel doubles it for overhead.
///
/// The kernel's default limit is 4 MiB per connection, and buffers count as the container's memory.
/// This size costs no throughput. Half of this size would delay a response of 2 MiB by 0.5 s.
const SEND_BUFFER_BYTES: u32 = 64 * 1024;

/// The number of connections that may wait to be accepted. Above it a caller retries after 1 s.
///
/// Many callers that reconnect exhaust the usual 128 within milliseconds.
const ACCEPT_BACKLOG: u32 = 1024;

/// Returns a listening socket with its bound address.
pub(super) fn bind(address: SocketAddr) -> anyhow::Result<(TcpListener, SocketAddr)> {
    let socket = open_socket(address).with_context(|| format!("failed to listen on {address}"))?;
    let address = socket.local_addr()?;
    Ok((socket, address))
}

fn open_socket(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // A restart can bind while connections of the previous process are in TIME_WAIT.
    socket.set_reuseaddr(true)?;
    // Accepted connections inherit both options from the listening socket.
    socket.set_send_buffer_size(SEND_BUFFER_BYTES)?;
    #[cfg(target_os = "linux")]
    socket2::SockRef::from(&socket).set_tcp_user_timeout(Some(SEND_TIMEOUT))?;
    socket.bind(address)?;
    socket.listen(ACCEPT_BACKLOG)?.into_std()
}
