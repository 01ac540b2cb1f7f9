//! The identity of a caller for limits: its verified id, or else its address.

use std::future::{Ready, ready};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use ipnet::IpNet;

use crate::listener::Callers;
use crate::response::problem::Problem;

/// The address of the client that sent a request, as far as trusted proxies report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(pub(crate) IpAddr);

impl ClientAddress {
    /// Follows `X-Forwarded-For` from the last hop to the first, as long as each hop is trusted.
    fn new(peer: IpAddr, forwarded_for: &str, proxies: &TrustedProxies) -> Self {
        let mut address = peer;
        for hop in forwarded_for.rsplit(',') {
            if !proxies.contains(address) {
                break;
            }
            let Some(next) = parse_hop(hop.trim()) else { break };
            address = next;
        }
        Self(address)
    }

    fn resolve(request: &HttpRequest) -> Self {
        let peer = peer(request);
        let Some(trusted) = request.app_data::<web::Data<TrustedProxies>>() else { return Self(peer) };
        let headers = request.headers().get_all("x-forwarded-for");
        // Only the hop that is not text is lost, not the hops that proxies have appended to it.
        let forwarded_for: Vec<_> = headers.map(|value| String::from_utf8_lossy(value.as_bytes())).collect();
        let forwarded_for = forwarded_for.join(",");
        Self::new(peer, &forwarded_for, trusted)
    }
}

/// Returns the address of the other end of the connection.
///
/// A socket for IPv6 reports IPv4 peers as `::ffff:192.0.2.1`, which becomes `192.0.2.1`.
fn peer(request: &HttpRequest) -> IpAddr {
    request.peer_addr().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.ip().to_canonical())
}

/// Parses a hop in any notation that proxies use:
/// `192.0.2.1`, `192.0.2.1:5`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:5`.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || hop.parse().ok().map(|socket: SocketAddr| socket.ip());
    let address: Option<IpAddr> = hop.parse().ok().or_else(with_port).or_else(bracketed);
    address.map(|address| address.to_canonical())
}

/// Maps IPv6 addresses of one /64 to one key, because a caller usually has a whole /64.
impl From<ClientAddress> for IpAddr {
    fn from(ClientAddress(address): ClientAddress) -> Self {
        match address {
            Self::V6(address) => Self::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
            Self::V4(_) => address,
        }
    }
}

/// The id of an authenticated caller. The middleware that verifies tokens adds it to the request.
#[derive(Clone)]
pub struct AuthenticatedCaller(pub String);

/// Returns the key of a caller's limits: its id, else its address.
///
/// Returns `None` on a listener for services, because services have no limits per caller.
pub(crate) fn caller_key(request: &HttpRequest) -> Option<String> {
    if is_from_services(request) {
        return None;
    }
    if let Some(AuthenticatedCaller(id)) = request.extensions().get() {
        return Some(id.clone());
    }
    Some(IpAddr::from(ClientAddress::resolve(request)).to_string())
}

/// Returns true if the trace headers are trusted: a service or a trusted proxy sent the request.
pub(crate) fn is_trusted(request: &HttpRequest) -> bool {
    let trusted = request.app_data::<web::Data<TrustedProxies>>();
    is_from_services(request) || trusted.is_some_and(|trusted| trusted.contains(peer(request)))
}

fn is_from_services(request: &HttpRequest) -> bool {
    request.app_data::<Callers>() == Some(&Callers::Services)
}

/// The networks whose `X-Forwarded-For` and trace headers are trusted.
#[derive(Clone)]
pub(crate) struct TrustedProxies(pub(crate) Vec<IpNet>);

impl TrustedProxies {
    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl FromRequest for ClientAddress {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self::resolve(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientAddress, TrustedProxies};

    fn address(peer: &str, forwarded_for: &str) -> String {
        let trusted = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
        ClientAddress::new(peer.parse().unwrap(), forwarded_for, &trusted).0.to_string()
    }

    /// RULE-ALL-027: guests are limited by the address that a trusted proxy forwards.
    #[test]
    fn forwarded_address_counts_only_from_trusted_proxies() {
        assert_eq!(address("203.0.113.9", "1.1.1.1"), "203.0.113.9");
        assert_eq!(address("10.0.0.1", "1.1.1.1, 203.0.113.9"), "203.0.113.9");
        assert_eq!(address("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.2"), "203.0.113.9");
        assert_eq!(address("10.0.0.1", "nonsense"), "10.0.0.1");
        assert_eq!(address("10.0.0.1", ""), "10.0.0.1");
    }

    #[test]
    fn forwarded_hop_in_any_notation_is_parsed() {
        for (hop, parsed) in [
            ("203.0.113.9:4711", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:4711", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("203.0.113.9, 10.0.0.2:80, ::ffff:10.0.0.3", "203.0.113.9"),
        ] {
            assert_eq!(address("10.0.0.1", hop), parsed, "{hop}");
        }
        for malformed in ["203.0.113.9:", "[203.0.113.9", "unknown", "_hidden", ":80"] {
            assert_eq!(address("10.0.0.1", malformed), "10.0.0.1", "{malformed}");
        }
    }
}
