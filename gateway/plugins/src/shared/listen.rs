//! Addresses that a directive has an HTTP listener on: `:8080`, `localhost:9153`, `[::1]:8181`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use config::{Diagnostic, Word};

/// Reads `HOST:PORT`. Without a host all addresses of both families are meant; `localhost` is 127.0.0.1; another name is
/// looked up once, and its first IPv4 address taken before an IPv6 one.
///
/// # Errors
/// If there is no port, or the host is neither an address nor a name with one.
pub fn read(word: &Word) -> Result<SocketAddr, Diagnostic> {
    let wrong = |why: String| {
        Err(word.wrong(why).help("write HOST:PORT, such as :8080, 127.0.0.1:8080 or [::1]:8080"))
    };
    let Some((host, port)) = word.text.rsplit_once(':') else {
        return wrong("has no port".to_owned());
    };
    let Ok(port) = port.parse::<u16>() else {
        return wrong("has no port between 0 and 65535".to_owned());
    };
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let ip = match (bare, host) {
        (Some(bare), _) => match bare.parse::<Ipv6Addr>() {
            Ok(ip) => ip.into(),
            Err(_) => return wrong("has no IPv6 address in its brackets".to_owned()),
        },
        (None, "") => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        (None, "localhost") => Ipv4Addr::LOCALHOST.into(),
        (None, host) => match host.parse::<Ipv4Addr>() {
            Ok(ip) => ip.into(),
            Err(_) if host.contains(':') => {
                return wrong("has an IPv6 address without brackets".to_owned());
            }
            Err(_) => match look_up(host, port) {
                Ok(ip) => ip,
                Err(why) => return wrong(format!("has a host that is not known: {why}")),
            },
        },
    };
    Ok(SocketAddr::new(ip, port))
}

/// The address of a host name, IPv4 first.
fn look_up(host: &str, port: u16) -> Result<IpAddr, String> {
    let found: Vec<SocketAddr> =
        (host, port).to_socket_addrs().map_err(|error| error.to_string())?.collect();
    let first = found.iter().find(|addr| addr.is_ipv4()).or_else(|| found.first());
    first.map(SocketAddr::ip).ok_or_else(|| "it has no address".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads `text` as a directive's word.
    fn read_text(text: &str) -> Result<SocketAddr, String> {
        let directive = config::corefile::directive(&format!("health {text}")).unwrap();
        read(&directive.args[0]).map_err(|wrong| wrong.what)
    }

    #[test]
    fn hosts_and_ports() {
        for (text, want) in [
            (":8080", "[::]:8080"),
            ("0.0.0.0:8080", "0.0.0.0:8080"),
            ("127.0.0.1:0", "127.0.0.1:0"),
            ("localhost:9153", "127.0.0.1:9153"),
            ("[::1]:8181", "[::1]:8181"),
        ] {
            assert_eq!(read_text(text), Ok(want.parse().unwrap()), "{text}");
        }
        for text in
            ["8080", "localhost", "127.0.0.1", "[::1]", "::1:80", ":http", ":70000", "[x]:1"]
        {
            let wrong = read_text(text).unwrap_err();
            assert!(wrong.starts_with(&format!("'{text}' has ")), "{wrong}");
        }
    }
}
