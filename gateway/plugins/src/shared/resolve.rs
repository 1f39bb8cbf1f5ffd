//! Host names, looked up where a Corefile says, or by the system. This waits, so it is for set-up and tasks.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs, UdpSocket};
use std::time::{Duration, SystemTime};

use wire::{Answer, Flags, Name, Request, Section, rtype, scan};

/// How long a resolver may take for one question.
const PATIENCE: Duration = Duration::from_secs(2);

/// The addresses of `HOST[:PORT]`, with the port `port` if none is written, asked of `resolvers`, or of the system without any.
pub(crate) fn host(
    text: &str,
    port: u16,
    resolvers: &[SocketAddr],
) -> Result<Vec<SocketAddr>, String> {
    let (name, port) = match text.rsplit_once(':') {
        None => (text, port),
        Some((name, port)) => (name, port.parse().map_err(|_| "its port is none".to_owned())?),
    };
    let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_number = |label: &str| label.bytes().all(|b| b.is_ascii_digit());
    // A name whose last label is a number is a mistyped address (RFC 3696 §2).
    let last = name.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if name.is_empty() || !name.chars().all(is_host) || is_number(last) {
        return Err("it is no host name".to_owned());
    }
    let found = if resolvers.is_empty() {
        let found = (name, port).to_socket_addrs();
        found.map_err(|error| error.to_string())?.map(|addr| addr.ip()).collect()
    } else {
        ask_each(name, resolvers)?
    };
    let mut ips: Vec<IpAddr> = Vec::new();
    for ip in found {
        if !ips.contains(&ip) {
            ips.push(ip);
        }
    }
    if ips.is_empty() {
        return Err("it has no address".to_owned());
    }
    Ok(ips.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())
}

/// The addresses of a host, asked of one resolver after the other.
pub(crate) fn ask_each(name: &str, resolvers: &[SocketAddr]) -> Result<Vec<IpAddr>, String> {
    let name = Name::parse(name).ok_or("it is no host name")?;
    let mut why = String::new();
    for resolver in resolvers {
        let both = [rtype::A, rtype::AAAA].map(|kind| ask(&name, kind, *resolver));
        let mut found = Vec::new();
        for answer in both {
            match answer {
                Ok(ips) => found.extend(ips),
                Err(error) => why = format!("{resolver}: {error}"),
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
    }
    if why.is_empty() { Ok(Vec::new()) } else { Err(why) }
}

/// Asks a resolver for the addresses of one kind.
fn ask(name: &Name, kind: u16, resolver: SocketAddr) -> std::io::Result<Vec<IpAddr>> {
    use std::hash::{BuildHasher, RandomState};
    let any: IpAddr = if resolver.is_ipv4() { [0; 4].into() } else { [0; 16].into() };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(resolver)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let request =
        Request { name: name.clone(), rtype: kind, flags: Flags::RD, ..Request::default() };
    let id = (RandomState::new().hash_one(SystemTime::now()) >> 48) as u16;
    let mut query = Vec::with_capacity(64);
    wire::encode_query(&request, id, &mut query);
    socket.send(&query)?;
    let mut buffer = [0; 4096];
    let mut answer = Answer::default();
    // What is no reply to this is passed over, a few times.
    for _ in 0..8 {
        let len = socket.recv(&mut buffer)?;
        let Ok(head) = scan::read(&buffer[..len], &mut answer) else { continue };
        let is_ours = head.id == id
            && head.flags.has(Flags::QR)
            && head.question.as_ref().is_some_and(|(own, of, _)| own == name && *of == kind);
        if !is_ours {
            continue;
        }
        let ips = answer.section(Section::Answer).filter(|rr| rr.rtype == kind);
        return Ok(ips.filter_map(|rr| ip_of(answer.data(rr))).collect());
    }
    Err(std::io::ErrorKind::TimedOut.into())
}

/// The address in a record's data.
fn ip_of(data: &[u8]) -> Option<IpAddr> {
    if let Ok(four) = <[u8; 4]>::try_from(data) {
        return Some(four.into());
    }
    <[u8; 16]>::try_from(data).ok().map(IpAddr::from)
}
