//! Who a caller is: the bearer of a verified token, else the address that the trusted proxies vouch for.

use std::future::{Ready, ready};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use actix_web::dev::Payload;
use actix_web::{FromRequest, HttpMessage, HttpRequest, web};
use ipnet::IpNet;

use crate::listener::Callers;
use crate::response::problem::Problem;

/// Where a request comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddress(IpAddr);

impl ClientAddress {
    /// Walks `X-Forwarded-For` from our side outwards, as far as each hop is trusted.
    fn new(peer: IpAddr, forwarded_for: &str, trusted: &TrustedProxies) -> Self {
        let mut address = peer;
        for hop in forwarded_for.rsplit(',') {
            if !trusted.contain(address) {
                break;
            }
            let Some(next) = parse_hop(hop.trim()) else { break };
            address = next;
        }
        Self(address)
    }

    fn of(request: &HttpRequest) -> Self {
        let peer = peer(request);
        let Some(trusted) = request.app_data::<web::Data<TrustedProxies>>() else { return Self(peer) };
        let headers = request.headers().get_all("x-forwarded-for").filter_map(|value| value.to_str().ok());
        let forwarded_for = headers.collect::<Vec<_>>().join(",");
        Self::new(peer, &forwarded_for, trusted)
    }
}

/// Who is at the other end of the connection. An IPv4 address is one, also where a listener for IPv6 writes it as
/// `::ffff:192.0.2.1`.
fn peer(request: &HttpRequest) -> IpAddr {
    request.peer_addr().map_or(IpAddr::V6(Ipv6Addr::UNSPECIFIED), |peer| peer.ip().to_canonical())
}

/// A hop as proxies write it: `192.0.2.1`, `192.0.2.1:5`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:5`.
fn parse_hop(hop: &str) -> Option<IpAddr> {
    let bracketed = || hop.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || hop.parse().ok().map(|socket: SocketAddr| socket.ip());
    let address: Option<IpAddr> = hop.parse().ok().or_else(with_port).or_else(bracketed);
    address.map(|address| address.to_canonical())
}

/// An IPv6 caller commands a /64; its addresses count as one.
impl From<ClientAddress> for IpAddr {
    fn from(ClientAddress(address): ClientAddress) -> Self {
        match address {
            Self::V6(address) => Self::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
            Self::V4(_) => address,
        }
    }
}

/// Who sends a request, where it is known; left with the request by who has verified its token.
#[derive(Clone)]
pub struct KnownCaller(pub String);

/// Who is counted as one: the known caller, else the address. Nobody where services call, which are few and ours.
pub(crate) fn caller(request: &HttpRequest) -> Option<String> {
    if is_called_by_services(request) {
        return None;
    }
    if let Some(KnownCaller(id)) = request.extensions().get() {
        return Some(id.clone());
    }
    Some(IpAddr::from(ClientAddress::of(request)).to_string())
}

/// Whether what a request says of its trace is believed: it comes from a service, or by a trusted proxy.
pub(crate) fn is_believed(request: &HttpRequest) -> bool {
    let trusted = request.app_data::<web::Data<TrustedProxies>>();
    is_called_by_services(request) || trusted.is_some_and(|trusted| trusted.contain(peer(request)))
}

fn is_called_by_services(request: &HttpRequest) -> bool {
    request.app_data::<Callers>() == Some(&Callers::Services)
}

/// The networks whose word is believed; app data of every listener.
#[derive(Clone)]
pub(crate) struct TrustedProxies(pub(crate) Vec<IpNet>);

impl TrustedProxies {
    fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }
}

impl FromRequest for ClientAddress {
    type Error = Problem;
    type Future = Ready<Result<Self, Problem>>;

    fn from_request(request: &HttpRequest, _: &mut Payload) -> Self::Future {
        ready(Ok(Self::of(request)))
    }
}

#[cfg(test)]
mod tests {
    use super::{ClientAddress, TrustedProxies};

    fn address(peer: &str, forwarded_for: &str) -> String {
        let trusted = TrustedProxies(vec!["10.0.0.0/8".parse().unwrap()]);
        ClientAddress::new(peer.parse().unwrap(), forwarded_for, &trusted).0.to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        assert_eq!(address("203.0.113.9", "1.1.1.1"), "203.0.113.9");
        assert_eq!(address("10.0.0.1", "1.1.1.1, 203.0.113.9"), "203.0.113.9");
        assert_eq!(address("10.0.0.1", "1.1.1.1, 203.0.113.9, 10.0.0.2"), "203.0.113.9");
        assert_eq!(address("10.0.0.1", "nonsense"), "10.0.0.1");
        assert_eq!(address("10.0.0.1", ""), "10.0.0.1");
    }

    #[test]
    fn hops_are_read_however_they_are_written() {
        for (hop, read) in [
            ("203.0.113.9:4711", "203.0.113.9"),
            ("::ffff:203.0.113.9", "203.0.113.9"),
            ("[::ffff:203.0.113.9]:4711", "203.0.113.9"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]", "2001:db8::1"),
            ("[2001:db8::1]:4711", "2001:db8::1"),
            ("203.0.113.9, 10.0.0.2:80, ::ffff:10.0.0.3", "203.0.113.9"),
        ] {
            assert_eq!(address("10.0.0.1", hop), read, "{hop}");
        }
        for nonsense in ["203.0.113.9:", "[203.0.113.9", "unknown", "_hidden", ":80"] {
            assert_eq!(address("10.0.0.1", nonsense), "10.0.0.1", "{nonsense}");
        }
    }
}
