//! Ports for servers that come back to them.

use std::net::{TcpListener, UdpSocket};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

/// Below what Linux and macOS give to connections. While a server is away everybody tries to reach it, and at a port that
/// connections are given some would sooner or later reach themselves, and keep the server from coming back.
const PORTS: std::ops::Range<u16> = 20_000..32_000;

/// A loopback port that nobody listens on at this moment, and that no process here was given before and still lives.
///
/// # Errors
/// When none is found.
pub fn free() -> anyhow::Result<u16> {
    /// A server that is away does not hold its port. What does is a socket of the same number for datagrams, which
    /// nobody here needs, and which is let go of with this process.
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
    fn no_port_is_given_twice_and_none_that_connections_are_given() {
        let ports: Vec<_> = (0..200).map(|_| super::free().unwrap()).collect();
        assert_eq!(ports.iter().collect::<BTreeSet<_>>().len(), ports.len());
        assert!(ports.iter().all(|port| *port < 32_768), "{ports:?}");
    }

    #[test]
    fn another_process_is_not_given_a_port_while_its_server_is_away() {
        let port = super::free().unwrap();
        assert!(UdpSocket::bind(("127.0.0.1", port)).is_err());
    }
}
