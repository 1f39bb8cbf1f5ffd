//! Values, in tables. Each row names the rule that it shows.

use super::*;
use crate::corefile::directive;
use crate::{Directive, Key, Scheme};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Reads one directive.
fn line(text: &str) -> Directive {
    directive(text).expect(text)
}

#[test]
fn durations_are_those_of_go() {
    // xc.duration
    for (text, expected) in [
        ("0", Ok(0)),
        ("-0", Ok(0)),
        ("+0", Ok(0)),
        ("5s", Ok(5_000_000_000)),
        ("1h30m", Ok(5_400_000_000_000)),
        ("1m1s1ms1us1ns", Ok(61_001_001_001)),
        ("1\u{b5}s", Ok(1_000)),
        ("1\u{3bc}s", Ok(1_000)),
        ("1.5s", Ok(1_500_000_000)),
        (".5s", Ok(500_000_000)),
        ("1.s", Ok(1_000_000_000)),
        ("0.3333333333333333333h", Ok(1_199_999_999_999)),
        ("-1m", Ok(-60_000_000_000)),
        ("+1m", Ok(60_000_000_000)),
        ("9223372036854775807ns", Ok(i64::MAX)),
        ("-9223372036854775808ns", Ok(i64::MIN)),
        ("9223372036854775808ns", Err(NotDuration::Long)),
        ("3000000h", Err(NotDuration::Long)),
        ("99999999999999999999s", Err(NotDuration::Long)),
        ("30", Err(NotDuration::Bare)),
        ("1h30", Err(NotDuration::Bare)),
        ("", Err(NotDuration::Form)),
        ("-", Err(NotDuration::Form)),
        (".s", Err(NotDuration::Form)),
        ("s", Err(NotDuration::Form)),
        ("1d", Err(NotDuration::Form)),
        ("1 s", Err(NotDuration::Form)),
        ("1S", Err(NotDuration::Form)),
        ("soon", Err(NotDuration::Form)),
        ("1\u{e9}", Err(NotDuration::Form)),
    ] {
        assert_eq!(nanoseconds(text), expected, "xc.duration: {text}");
    }
    assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1_500)));
    assert_eq!(duration("-1s"), Err(NotDuration::Negative));
    assert_eq!(seconds("90"), Ok(Duration::from_secs(90)));
    assert_eq!(seconds("90s"), Err(NotDuration::Seconds));
    assert_eq!(seconds("-1"), Err(NotDuration::Seconds));
    assert_eq!(seconds("18446744073709551615"), Err(NotDuration::Long));
}

#[test]
fn numbers_have_signs_or_bases() {
    for (text, expected) in [
        ("0", Ok(0)),
        ("-12", Ok(-12)),
        ("+12", Ok(12)),
        ("007", Ok(7)),
        ("1_000", Err(NotNumber::Form)),
        ("", Err(NotNumber::Form)),
        ("+-1", Err(NotNumber::Form)),
        ("0x10", Err(NotNumber::Form)),
        ("9223372036854775808", Err(NotNumber::Large)),
    ] {
        assert_eq!(integer(text), expected, "xc.int: {text}");
    }
    for (text, expected) in [
        ("0", Ok(0)),
        ("10", Ok(10)),
        ("0xFFee", Ok(0xffee)),
        ("0o17", Ok(15)),
        ("017", Ok(15)),
        ("0b101", Ok(5)),
        ("09", Err(NotNumber::Form)),
        ("0x", Err(NotNumber::Form)),
        ("zz", Err(NotNumber::Form)),
        ("-1", Err(NotNumber::Form)),
        ("\u{e9}0", Err(NotNumber::Form)),
        ("0\u{e9}", Err(NotNumber::Form)),
        ("0xfffffffffffffffff", Err(NotNumber::Large)),
    ] {
        assert_eq!(based_integer(text), expected, "xc.int: {text}");
    }
    for (text, expected) in [
        ("512", Ok(512)),
        ("64KiB", Ok(65_536)),
        ("64k", Ok(65_536)),
        ("10 MB", Ok(10_000_000)),
        ("2G", Ok(2 << 30)),
        ("MB", Err(NotNumber::Form)),
        ("1 parsec", Err(NotNumber::Form)),
        ("99999999999999G", Err(NotNumber::Large)),
    ] {
        assert_eq!(size(text), expected, "{text}");
    }
}

#[test]
fn networks_become_reverse_zones() {
    for (rule, text, expected) in [
        ("xc.cidr", "10.0.0.0/8", "10.in-addr.arpa."),
        ("xc.cidr", "10.0.0.0/15", "0.10.in-addr.arpa. 1.10.in-addr.arpa."),
        ("xc.cidr: host bits", "192.168.1.1/23", "0.168.192.in-addr.arpa. 1.168.192.in-addr.arpa."),
        ("xc.cidr", "198.51.100.4/32", "4.100.51.198.in-addr.arpa."),
        ("xc.cidr", "2001:db8::/32", "8.b.d.0.1.0.0.2.ip6.arpa."),
        (
            "xc.cidr",
            "2001:DB8:8000::/33",
            "8.8.b.d.0.1.0.0.2.ip6.arpa. 9.8.b.d.0.1.0.0.2.ip6.arpa. a.8.b.d.0.1.0.0.2.ip6.arpa. \
          b.8.b.d.0.1.0.0.2.ip6.arpa. c.8.b.d.0.1.0.0.2.ip6.arpa. d.8.b.d.0.1.0.0.2.ip6.arpa. e.8.b.d.0.1.0.0.2.ip6.arpa. f.8.b.d.0.1.0.0.2.ip6.arpa.",
        ),
        (
            "cf.reverse.examples",
            "10.0.0.0/22",
            "0.0.10.in-addr.arpa. 1.0.10.in-addr.arpa. 2.0.10.in-addr.arpa. 3.0.10.in-addr.arpa.",
        ),
        (
            "cf.reverse.examples",
            "2001:db8::/31",
            "8.b.d.0.1.0.0.2.ip6.arpa. 9.b.d.0.1.0.0.2.ip6.arpa.",
        ),
        (
            "xc.cidr",
            "fe80::1/128",
            "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.e.f.ip6.arpa.",
        ),
        ("xc.cidr", "f000::/4", "f.ip6.arpa."),
        (
            "xc.cidr",
            "255.255.255.254/31",
            "254.255.255.255.in-addr.arpa. 255.255.255.255.in-addr.arpa.",
        ),
    ] {
        let zones = cidr_zones(text).map(|zones| zones.join(" "));
        assert_eq!(zones.as_deref(), Ok(expected), "{rule}: {text}");
    }
    assert_eq!(cidr_zones("10.0.0.0/27").map(|zones| zones.len()), Ok(32), "cf.reverse.examples");
    assert_eq!(cidr_zones("10.0.0.0/1").map(|zones| zones.len()), Ok(128), "xc.cidr");
    for text in ["0.0.0.0/0", "2001:db8::/0", "::/8", "::1/128", "0:1::/32", "0064::/16"] {
        assert_eq!(cidr_zones(text), Err(CidrError::Zone), "xc.cidr: {text}");
    }
    for text in [
        "10.0.0.0",
        "10.0.0.0/33",
        "10.0.0/8",
        "10.0.0.0/",
        "10.0.0.0/+8",
        "2001:db8::/129",
        "a/8",
        "/0",
        "10.0.0.0/8/8",
        "010.0.0.0/8",
    ] {
        assert_eq!(cidr_zones(text), Err(CidrError::Form), "xc.cidr: {text}");
    }
    let network: Network = "198.51.100.77/24".parse().expect("a network");
    assert_eq!(network.to_string(), "198.51.100.0/24");
    assert!(
        network.contains([198, 51, 100, 255].into()) && !network.contains([198, 51, 101, 0].into())
    );
    assert!(!network.contains("::".parse().expect("an address")));
    let all: Network = "::/0".parse().expect("a network");
    assert!(all.contains("2001:db8::1".parse().expect("an address")));
}

#[test]
fn names_are_checked_and_made_whole() {
    for (text, expected) in [
        ("", Ok(".")),
        (".", Ok(".")),
        ("Example.ORG", Ok("example.org.")),
        ("example.org.", Ok("example.org.")),
        ("a\\.B.test", Ok("a\\.b.test.")),
        ("\\065.test", Ok("\\065.test.")),
        ("\u{fc}.test", Ok("\\195\\188.test.")),
        ("a..b", Err(NameError::Empty)),
        (".a", Err(NameError::Empty)),
        ("..", Err(NameError::Empty)),
        ("a\\", Err(NameError::Escape)),
        ("a\\256", Err(NameError::Escape)),
        ("a\\12", Err(NameError::Escape)),
        ("a\\\u{fc}", Err(NameError::Escape)),
    ] {
        assert_eq!(fqdn(text).as_deref(), expected.as_ref().copied(), "{text:?}");
    }
    assert!(fqdn(&"a".repeat(63)).is_ok());
    assert_eq!(fqdn(&"a".repeat(64)), Err(NameError::Label));
    assert!(fqdn(&"\\000".repeat(63)).is_ok());
    assert!(fqdn(&"a.".repeat(127)).is_ok());
    assert_eq!(fqdn(&"a.".repeat(128)), Err(NameError::Long));
}

#[test]
fn zones_are_named_or_those_of_the_block() {
    let none = line("plugin");
    let word = &none.name;
    let key = |zone: &str| Key {
        word: word.clone(),
        scheme: Scheme::Tls,
        zone: zone.to_owned(),
        port: Some(1),
        scheme_given: true,
    };
    let keys = [key("a.test."), key("0.10.in-addr.arpa.")];
    for (text, expected) in [
        ("plugin", "a.test. 0.10.in-addr.arpa."),
        ("plugin B.test c.test.:53 tls://d.test:1", "b.test. c.test. d.test."),
        ("plugin 10.0.0.0/15", "0.10.in-addr.arpa. 1.10.in-addr.arpa."),
        ("plugin .", "."),
        ("plugin a..b b.test a: \"\" ::/8", "b.test."),
        ("plugin a..b", ""),
        ("plugin a.test:x", "a.test:x."),
    ] {
        assert_eq!(zones_of(&line(text).args, &keys).join(" "), expected, "xc.zone.args: {text}");
    }
}

#[test]
fn endpoints_are_addresses_or_files() {
    for (text, expected) in [
        ("127.0.0.1", Ok("127.0.0.1:53")),
        ("127.0.0.1:5353", Ok("127.0.0.1:5353")),
        ("dns://127.0.0.1", Ok("127.0.0.1:53")),
        ("tls://127.0.0.1", Ok("tls://127.0.0.1:853")),
        ("https://127.0.0.1", Ok("https://127.0.0.1:443")),
        ("grpc://127.0.0.1", Ok("grpc://127.0.0.1:443")),
        ("quic://127.0.0.1:1", Ok("quic://127.0.0.1:1")),
        ("2001:db8::1", Ok("[2001:db8::1]:53")),
        ("[2001:db8::1]", Ok("[2001:db8::1]:53")),
        ("[2001:db8::1]:54", Ok("[2001:db8::1]:54")),
        ("fe80::1%eth0", Ok("[fe80::1%eth0]:53")),
        ("[fe80::1%eth0]:54", Ok("[fe80::1%eth0]:54")),
        ("tls://198.51.100.9%dns.example.org", Ok("tls://198.51.100.9%dns.example.org:853")),
        ("tls://198.51.100.9%dns.example.org:8853", Ok("tls://198.51.100.9%dns.example.org:8853")),
        ("tls://198.51.100.9:8853%dns.example.org", Ok("tls://198.51.100.9%dns.example.org:8853")),
        (
            "tls://[2001:db8::1]%dns.example.org:8853",
            Ok("tls://[2001:db8::1%dns.example.org]:8853"),
        ),
        ("127.0.0.1:99999", Err(EndpointError::Port)),
        ("127.0.0.1:", Err(EndpointError::Port)),
        ("127.0.0.1:0", Err(EndpointError::Port)),
        ("[2001:db8::1]x", Err(EndpointError::Address)),
        ("[127.0.0.1]:53", Err(EndpointError::Address)),
        ("[2001:db8::1", Err(EndpointError::Address)),
        ("https://127.0.0.1/dns-query", Err(EndpointError::Address)),
        ("ftp://127.0.0.1", Err(EndpointError::Address)),
        ("unix:///run/x", Err(EndpointError::Address)),
        ("example.org", Err(EndpointError::Address)),
        ("example.org:53", Err(EndpointError::Address)),
        ("999.1.1.1", Err(EndpointError::Address)),
        ("", Err(EndpointError::Address)),
        ("%", Err(EndpointError::Address)),
    ] {
        let read = text.parse::<Endpoint>().map(|endpoint| endpoint.to_string());
        assert_eq!(read.as_deref(), expected.as_ref().copied(), "xc.addr: {text}");
    }
    let files = |path: &Path| match path.to_str() {
        Some("resolv.conf") => Ok("nameserver 127.0.0.1\nnameserver ::1\n".to_owned()),
        Some("empty.conf") => Ok(String::new()),
        _ => Err(io::ErrorKind::NotFound.into()),
    };
    let forward =
        line("forward . resolv.conf dns://resolv.conf empty.conf nofile 127.0.0.1:99999 127.0.0.9");
    let read: Vec<_> = forward.args[1..]
        .iter()
        .map(|word| {
            endpoints(word, &files)
                .map(|all| all.iter().map(Endpoint::to_string).collect::<Vec<_>>().join(" "))
        })
        .collect();
    assert_eq!(read[0].as_deref(), Ok("127.0.0.1:53 [::1]:53"), "xc.addr: file");
    assert_eq!(read[1], read[0], "xc.addr: a file with a scheme");
    assert_eq!(read[2].as_deref(), Ok(""), "xc.addr: empty file");
    assert!(
        read[3].as_ref().is_err_and(|wrong| wrong
            .what
            .starts_with("'nofile' is neither an address nor a file"))
    );
    assert!(read[4].as_ref().is_err_and(|wrong| wrong.what.contains("has no port")));
    assert_eq!(read[5].as_deref(), Ok("127.0.0.9:53"));
}

#[test]
fn resolv_conf_is_read_leniently() {
    let text = "# nameserver 127.0.0.9\n; x\nnameserver 127.0.0.1\n nameserver fe80::1%eth0 more\nnameserver\nnameserver none\n\
        domain old.test\nsearch a.test  b.test\noptions ndots:20 timeout:0 attempts:3 rotate edns0\nsortlist x\nunknown";
    let conf = ResolvConf::read(text);
    let servers: Vec<_> = conf.nameservers.iter().map(Endpoint::to_string).collect();
    assert_eq!(servers, ["127.0.0.1:53", "[fe80::1%eth0]:53"], "xc.resolvconf");
    assert_eq!(conf.search, ["a.test", "b.test"], "xc.resolvconf");
    assert_eq!(
        (conf.ndots, conf.timeout, conf.attempts),
        (15, Duration::from_secs(1), 3),
        "xc.resolvconf"
    );
    assert_eq!(
        ResolvConf::read("search a b\ndomain c d").search,
        ["c"],
        "xc.resolvconf: the last counts"
    );
    assert_eq!(ResolvConf::read("options ndots:x attempts:").ndots, 0, "xc.resolvconf");
    assert_eq!(ResolvConf::read(""), ResolvConf::default());
}

#[test]
fn tls_clients_name_their_files() {
    let root = Path::new("/root");
    let read = |text: &str| tls_files(&mut line(text).words(), Some(root));
    let path = |name: &str| PathBuf::from(format!("/root/{name}"));
    assert_eq!(read("tls"), Ok(TlsFiles::default()), "xc.tlsargs");
    assert_eq!(read("tls ca"), Ok(TlsFiles { client: None, ca: Some(path("ca")) }), "xc.tlsargs");
    assert_eq!(
        read("tls c k"),
        Ok(TlsFiles { client: Some((path("c"), path("k"))), ca: None }),
        "xc.tlsargs"
    );
    let all = TlsFiles { client: Some(("/c".into(), path("k"))), ca: Some(path("ca")) };
    assert_eq!(read("tls /c k ca"), Ok(all), "xc.tlsargs");
    assert!(
        read("tls c k ca x").is_err_and(|wrong| wrong.what.contains("'x' is one too many")),
        "xc.tlsargs"
    );
    assert_eq!(below_root(None, "a/b"), PathBuf::from("a/b"));
}

#[test]
fn the_nearest_word_is_named_if_it_is_near() {
    let words = ["success", "denial", "prefetch", "servfail", "ttl"];
    for (word, expected) in [
        ("succes", Some("success")),
        ("Sucess", Some("success")),
        ("serfvail", Some("servfail")),
        ("prefech", Some("prefetch")),
        ("tll", Some("ttl")),
        ("t", None),
        ("nonsense", None),
        ("", None),
    ] {
        assert_eq!(nearest(word, words), expected, "{word}");
    }
    assert_eq!(nearest(&"x".repeat(100_000), words), None);
    assert_eq!(known("succes", &words[..2]), "did you mean 'success'? (known: success, denial)");
    assert_eq!(known("x", &words[..2]), "known: success, denial");
    assert_eq!(known("x", &[]), "nothing may stand here");
}
