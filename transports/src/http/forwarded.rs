//! Which client a request is of, where proxies stand between.

use std::net::{IpAddr, SocketAddr};

use http::header::{FORWARDED, HeaderMap};
use ipnet::IpNet;

/// What most proxies write.
const X_FORWARDED_FOR: &str = "x-forwarded-for";

/// The client of a request that came from `peer`: what the headers `Forwarded` (RFC 7239) and `X-Forwarded-For` say, read from
/// the right as far as those that say it are trusted. What a client itself writes there stands to the left of what the first
/// trusted proxy adds, and is never believed.
///
/// # Errors
/// If the two headers name different clients: one of them is then not written by the proxy.
pub(super) fn client(
    headers: &HeaderMap,
    peer: IpAddr,
    trusted: &[IpNet],
) -> Result<IpAddr, &'static str> {
    if !is_trusted(peer, trusted) {
        return Ok(peer);
    }
    let forwarded = walk(peer, trusted, values(headers, FORWARDED.as_str()).map(node));
    let plain = walk(peer, trusted, values(headers, X_FORWARDED_FOR).map(address));
    match (headers.contains_key(FORWARDED), headers.contains_key(X_FORWARDED_FOR)) {
        (true, true) if forwarded != plain => {
            Err("Forwarded and X-Forwarded-For name different clients")
        }
        (true, _) => Ok(forwarded),
        _ => Ok(plain),
    }
}

/// Whether one is a proxy that is believed.
fn is_trusted(addr: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&addr))
}

/// The elements of a header, the last one first.
fn values<'a>(headers: &'a HeaderMap, name: &'static str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(name).iter().rev();
    // What is no text names nobody, and ends the walk.
    lines.flat_map(|line| line.to_str().unwrap_or("-").rsplit(','))
}

/// The first, from the right, that is not trusted; where one names nobody, who said so.
fn walk(peer: IpAddr, trusted: &[IpNet], elements: impl Iterator<Item = Option<IpAddr>>) -> IpAddr {
    let mut last = peer;
    for element in elements {
        let Some(addr) = element else { break };
        last = addr;
        if !is_trusted(addr, trusted) {
            break;
        }
    }
    last
}

/// The `for` of one element of `Forwarded`: `for="[2001:db8::1]:4711";proto=https`.
fn node(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let value = value.trim();
    address(value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value))
}

/// An address, also with a port or in brackets.
fn address(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = || text.strip_prefix('[')?.strip_suffix(']');
    let addr = text.parse::<IpAddr>().ok();
    let addr = addr.or_else(|| text.parse::<SocketAddr>().ok().map(|addr| addr.ip()));
    addr.or_else(|| bare()?.parse().ok()).map(|addr| addr.to_canonical())
}
