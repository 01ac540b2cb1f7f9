//! Ports for servers that restart on the same port.

use std::net::{TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

/// Ports below the ephemeral ports of Linux and macOS.
///
/// Clients reconnect while a server is down. On an ephemeral port a connection may get the server's
/// port as its own, connect to itself, and prevent the restart.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// Returns a loopback port without a listener, which no running test process has claimed.
///
/// # Errors
/// If no free port is found.
pub fn free() -> anyhow::Result<u16> {
    /// UDP sockets that claim the ports until this process ends. A stopped server does not hold its
    /// TCP port, and no server here uses the UDP port.
    static CLAIMS: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let mut ports = (0..100).map(|_| rand::random_range(PORTS));
    let (port, claim) = ports
        .find_map(|port| {
            let claim = UdpSocket::bind(("127.0.0.1", port)).ok()?;
            TcpListener::bind(("127.0.0.1", port)).is_ok().then_some((port, claim))
        })
        .context("no free port")?;
    CLAIMS.lock().unwrap_or_else(PoisonError::into_inner).push(claim);
    Ok(port)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::net::UdpSocket;

    #[test]
    fn ports_are_distinct_and_not_ephemeral() {
        let ports: Vec<_> = (0..200).map(|_| super::free().unwrap()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| *port < 32_768), "{ports:?}");
    }

    #[test]
    fn port_stays_claimed_without_a_listener() {
        let port = super::free().unwrap();
        assert!(UdpSocket::bind(("127.0.0.1", port)).is_err());
    }
}
