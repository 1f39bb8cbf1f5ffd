//! What clients are told, by RFC 9460 to 9462 and RFC 9606.
#![allow(clippy::unwrap_used)]

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use engine::testing::Bench;
use engine::{Admission, Descriptor, Door, Exchange, Http, ProxySpec, Session, Transport};
use rcgen::{CertificateParams, KeyPair};
use wire::{Answer, Section, rtype, scan, text};

use crate::shared::testing::{ANSWERS, logged};

/// The end of an answer without records.
const NODATA: &str = "NOERROR aa rd |  | resolver.arpa. 10800 SOA resolver.arpa. nobody.invalid. 1 3600 1200 604800 10800";

/// A folder with certificates, each `NAME.pem` and `NAME.key`; gone afterwards.
struct Folder(PathBuf);

impl Folder {
    /// With `right` (dns.example.org, 127.0.0.1, ::1, 198.51.100.1), `nameless` (the addresses alone), `other` (another name and 127.0.0.1)
    /// and `bare` (dns.example.org alone).
    fn new() -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = Self(
            std::env::temp_dir().join(format!("causeway-ddr-{}-{number}", std::process::id())),
        );
        std::fs::create_dir_all(&folder.0).unwrap();
        for (file, names) in [
            ("right", &["dns.example.org", "127.0.0.1", "::1", "198.51.100.1"][..]),
            ("nameless", &["127.0.0.1"]),
            ("other", &["other.example.org", "127.0.0.1"]),
            ("bare", &["dns.example.org"]),
        ] {
            let key = KeyPair::generate().unwrap();
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let chain = CertificateParams::new(names).unwrap().self_signed(&key).unwrap().pem();
            folder.write(&format!("{file}.pem"), &chain);
            folder.write(&format!("{file}.key"), &key.serialize_pem());
        }
        folder
    }

    /// Writes a file for its owner alone.
    fn write(&self, name: &str, text: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// A gateway; `@NAME` in the Corefile is a `tls` line with that certificate.
    fn bench(&self, corefile: &str) -> Bench {
        let mut text = corefile.to_owned();
        for file in ["right", "nameless", "other", "bare"] {
            let path = self.0.join(file);
            let line = format!("tls {0}.pem {0}.key", path.display());
            text = text.replace(&format!("@{file}"), &line);
        }
        Bench::new(PLUGINS, &text)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// A door that is open to anybody, or is not.
#[derive(Debug)]
struct Fixed(bool);

impl Door for Fixed {
    fn name(&self, _: Option<&str>) -> bool {
        true
    }

    fn connection(&self, _: &Session) -> bool {
        true
    }

    fn request(&self, _: Option<&Session>, _: &Http) -> bool {
        true
    }

    fn admit(&self, _: &mut Exchange) -> Admission {
        Admission::Open
    }

    fn is_open(&self) -> bool {
        self.0
    }

    fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        tokio::sync::watch::channel(0).1
    }
}

/// States what the tests need of a listener: `spec path /a /b`, `spec door open`, `spec door closed`, `spec proxy`.
static SPEC: Descriptor = Descriptor {
    name: "spec",
    readme: "",
    setup: |setup| {
        for directive in setup.directives() {
            let words: Vec<String> = directive.args.iter().map(|word| word.text.clone()).collect();
            match &*words[0] {
                "path" => setup.listener().https.paths.extend_from_slice(&words[1..]),
                "door" => setup.door(Arc::new(Fixed(words[1] == "open"))),
                "proxy" => setup.listener().proxy = Some(ProxySpec::default()),
                other => panic!("{other}"),
            }
        }
        Ok(())
    },
};

/// The plugins that take part.
static PLUGINS: &[&Descriptor] = &[
    &crate::tls::PLUGIN,
    &crate::bind::PLUGIN,
    &crate::identity::PLUGIN,
    &SPEC,
    &super::PLUGIN,
    &ANSWERS,
];

/// The data of an SVCB record in words; checks that its keys rise (RFC 9460 §2.2).
fn shown(data: &[u8]) -> String {
    let u16_at = |at: usize| u16::from_be_bytes([data[at], data[at + 1]]);
    let len = wire::Name::span(&data[2..]).unwrap();
    let mut out = format!("{} {}", u16_at(0), text::name_text(&data[2..2 + len]));
    let (mut at, mut last) = (2 + len, None);
    while at < data.len() {
        let (key, len) = (u16_at(at), usize::from(u16_at(at + 2)));
        assert!(last < Some(key), "{key} behind {last:?}");
        last = Some(key);
        let value = &data[at + 4..at + 4 + len];
        at += 4 + len;
        out += &match key {
            1 => {
                assert_eq!(usize::from(value[0]), value.len() - 1);
                format!(" alpn={}", String::from_utf8_lossy(&value[1..]))
            }
            3 => format!(" port={}", u16::from_be_bytes([value[0], value[1]])),
            4 => value
                .as_chunks::<4>()
                .0
                .iter()
                .map(|four| format!(" {}", Ipv4Addr::from(*four)))
                .collect(),
            6 => value
                .as_chunks::<16>()
                .0
                .iter()
                .map(|own| format!(" {}", Ipv6Addr::from(*own)))
                .collect(),
            7 => format!(" {}", String::from_utf8_lossy(value)),
            other => panic!("key {other}"),
        };
    }
    assert_eq!(at, data.len());
    out
}

/// What an answer tells: its SVCB records in order, then the addresses beside them.
fn told(bench: &Bench, line: &str) -> Vec<String> {
    let message = bench.serve(&mut bench.exchange(line));
    let mut answer = Answer::default();
    scan::read(&message, &mut answer).unwrap();
    assert_eq!(answer.rcode, 0);
    assert!(answer.is_authoritative());
    let ways = answer.section(Section::Answer).map(|rr| {
        assert_eq!((rr.rtype, rr.ttl), (rtype::SVCB, 300));
        shown(answer.data(rr))
    });
    let beside = answer.section(Section::Additional).map(|rr| {
        let data = engine::testing::show_data(rr.rtype, answer.data(rr));
        format!("{} {data}", text::name_text(answer.owner(rr)))
    });
    ways.chain(beside).collect()
}

/// What is asked most.
const ASK: &str = "_dns.resolver.arpa SVCB +port=53 +edns";

#[test]
fn ddr_01_every_transport_is_told_with_its_parameters() {
    let folder = Folder::new();
    let bench = folder.bench(
        ".:53 {\n ddr dns.example.org\n}\ntls://. https://. quic://. https3://.:8443 {\n @right\n answers\n}",
    );
    assert_eq!(
        told(&bench, ASK),
        [
            "1 dns.example.org. alpn=dot 127.0.0.1",
            "2 dns.example.org. alpn=h2 127.0.0.1 /dns-query{?dns}",
            "3 dns.example.org. alpn=doq 127.0.0.1",
            "4 dns.example.org. alpn=h3 port=8443 127.0.0.1 /dns-query{?dns}",
            "dns.example.org. 127.0.0.1",
        ]
    );
    // In the order that is asked for, with the addresses that are told.
    let bench = folder.bench(
        ".:53 {\n ddr dns.example.org {\n  transports quic tls\n  address 198.51.100.1 ::1\n  ttl 300\n }\n}\ntls://. https://. quic://.:8853 {\n @right\n answers\n}",
    );
    assert_eq!(
        told(&bench, ASK),
        [
            "1 dns.example.org. alpn=doq port=8853 198.51.100.1 ::1",
            "2 dns.example.org. alpn=dot 198.51.100.1 ::1",
            "dns.example.org. 198.51.100.1",
            "dns.example.org. ::1",
        ]
    );
    // The name may be the certificate's.
    let bench = folder.bench(".:53 {\n ddr\n}\ntls://. {\n @right\n answers\n}");
    assert_eq!(told(&bench, ASK)[0], "1 dns.example.org. alpn=dot 127.0.0.1");
}

#[test]
fn ddr_02_resolver_arpa_is_served_here_whatever_the_zones_are() {
    let folder = Folder::new();
    let bench = folder.bench(
        "example.org:53 {\n ddr dns.example.org\n answers\n}\n.:53 {\n answers\n}\ntls://. {\n @right\n answers\n}",
    );
    assert_eq!(told(&bench, ASK).len(), 2);
    for line in [
        "_dns.resolver.arpa A",
        "_dns.resolver.arpa HTTPS",
        "_dns.resolver.arpa TXT",
        "resolver.arpa",
        "resolver.arpa SVCB",
        "resolver.arpa TYPE261",
        "RESOLVER.arpa DS",
        "a._dns.resolver.arpa SVCB",
        "x.resolver.arpa AAAA",
    ] {
        assert_eq!(bench.now(&format!("{line} +port=53")), NODATA, "{line}");
    }
    assert_eq!(
        bench.now("resolver.arpa SOA +port=53"),
        "NOERROR aa rd | resolver.arpa. 10800 SOA resolver.arpa. nobody.invalid. 1 3600 1200 604800 10800"
    );
    for line in ["xresolver.arpa", "arpa", "www.example.org"] {
        let got = bench.now(&format!("{line} +port=53"));
        assert!(got.contains("A 198.51.100.1"), "{line}: {got}");
    }
    // The other listener has no such block.
    assert!(bench.now("_dns.resolver.arpa SVCB +port=853").contains("A 198.51.100.1"));
}

#[test]
fn ddr_03_only_what_runs_and_has_the_right_certificate_is_told() {
    let folder = Folder::new();
    let ddr = ".:53 {\n ddr dns.example.org\n}\n";
    let opportunistic = ".:53 {\n ddr dns.example.org {\n  opportunistic\n }\n}\n";
    let elsewhere = ".:53 {\n ddr dns.example.org {\n  address 198.51.100.1\n }\n}\n";
    let both = ".:53 {\n ddr nobody.example.org dns.example.org other.example.org\n}\n";
    let right = "1 dns.example.org. alpn=dot 127.0.0.1";
    for (head, rest, asked, want) in [
        (ddr, "", "127.0.0.1", None),
        (ddr, "tls://. {\n @right\n answers\n}", "127.0.0.1", Some(right)),
        (ddr, "tls://. {\n @right\n answers\n}", "::ffff:127.0.0.1", Some(right)),
        (ddr, "tls://. {\n @right\n answers\n}", "::1", Some("1 dns.example.org. alpn=dot ::1")),
        // The certificate is not for the address, or not for the name.
        (ddr, "tls://. {\n @right\n answers\n}", "127.0.0.2", None),
        (ddr, "tls://. {\n @bare\n answers\n}", "127.0.0.1", None),
        (ddr, "tls://. {\n @nameless\n answers\n}", "127.0.0.1", None),
        (ddr, "tls://. {\n @other\n answers\n}", "127.0.0.1", None),
        (
            both,
            "tls://. {\n @other\n answers\n}",
            "127.0.0.1",
            Some("1 other.example.org. alpn=dot 127.0.0.1"),
        ),
        (
            both,
            "tls://. {\n @other\n answers\n}\ntls://example.net {\n @bare\n answers\n}",
            "127.0.0.1",
            Some("1 other.example.org. alpn=dot 127.0.0.1"),
        ),
        // Clients that send no name get the first certificate.
        (
            ddr,
            "tls://. {\n @bare\n answers\n}\ntls://example.net {\n @right\n answers\n}",
            "127.0.0.1",
            None,
        ),
        (
            ddr,
            "tls://. {\n @right\n answers\n}\ntls://example.net {\n @bare\n answers\n}",
            "127.0.0.1",
            Some(right),
        ),
        // There is none at all.
        (ddr, "tls://. {\n answers\n}", "127.0.0.1", None),
        // Private addresses may do without.
        (
            opportunistic,
            "tls://. {\n @bare\n answers\n}",
            "10.0.0.1",
            Some("1 dns.example.org. alpn=dot 10.0.0.1"),
        ),
        (opportunistic, "tls://. {\n @other\n answers\n}", "10.0.0.1", None),
        (opportunistic, "tls://. {\n @bare\n answers\n}", "198.51.100.1", None),
        (opportunistic, "tls://. {\n @bare\n bind 127.0.0.9\n answers\n}", "127.0.0.1", None),
        // What is bound to one address is told with it, for clients that reach it.
        (
            ddr,
            "tls://. {\n @right\n bind 127.0.0.9\n answers\n}",
            "127.0.0.1",
            Some("1 dns.example.org. alpn=dot 127.0.0.9"),
        ),
        (ddr, "tls://. {\n @right\n bind 127.0.0.9\n answers\n}", "198.51.100.1", None),
        (ddr, "tls://. {\n @right\n bind 0.0.0.0\n answers\n}", "::1", None),
        // Behind a translation of addresses, all that are told count.
        (
            elsewhere,
            "tls://. {\n @right\n answers\n}",
            "10.244.0.7",
            Some("1 dns.example.org. alpn=dot 198.51.100.1"),
        ),
        (elsewhere, "tls://. {\n @bare\n answers\n}", "10.244.0.7", None),
        // Nobody in particular is asked.
        (ddr, "grpc://. {\n @right\n answers\n}", "127.0.0.1", None),
        (ddr, "tls://. {\n @right\n spec proxy\n answers\n}", "127.0.0.1", None),
        (
            elsewhere,
            "tls://. {\n @right\n spec proxy\n answers\n}",
            "10.244.0.7",
            Some("1 dns.example.org. alpn=dot 198.51.100.1"),
        ),
    ] {
        let mut bench = folder.bench(&format!("{head}{rest}"));
        bench.local.set_ip(asked.parse::<IpAddr>().unwrap());
        let ways = told(&bench, ASK);
        assert_eq!(ways.first().map(|way| &**way), want, "{head}{rest} at {asked}");
        if want.is_none() {
            assert_eq!(bench.now("_dns.resolver.arpa SVCB +port=53"), NODATA);
        }
    }
}

#[test]
fn ddr_03_a_reload_counts_at_once() {
    let folder = Folder::new();
    let mut bench =
        folder.bench(".:53 {\n ddr dns.example.org\n}\ntls://. {\n @right\n answers\n}");
    assert_eq!(told(&bench, ASK).len(), 2);
    bench.reload(".:53 {\n ddr dns.example.org\n}").unwrap();
    assert_eq!(bench.now(&ASK.replace(" +edns", "")), NODATA);
}

#[test]
fn ddr_04_clients_that_know_the_name_are_told_too() {
    let folder = Folder::new();
    // For them the address does not have to be in the certificate.
    let bench = folder.bench(
        "example.net:53 {\n ddr dns.example.org other.example.org\n}\ntls://. {\n @bare\n answers\n}\nquic://. {\n @other\n answers\n}",
    );
    assert_eq!(
        told(&bench, "_dns.dns.example.org SVCB +port=53"),
        ["1 dns.example.org. alpn=dot 127.0.0.1", "dns.example.org. 127.0.0.1"]
    );
    assert_eq!(
        told(&bench, "_DNS.other.example.org SVCB +port=53"),
        ["1 other.example.org. alpn=doq 127.0.0.1", "other.example.org. 127.0.0.1"]
    );
    for (line, want) in [
        ("_dns.dns.example.org A", "NOERROR aa rd |  | _dns.dns.example.org. 10800 SOA"),
        ("a._dns.dns.example.org SVCB", "NXDOMAIN aa rd |  | _dns.dns.example.org. 10800 SOA"),
        // The name itself is its zone's.
        ("dns.example.org", "REFUSED rd"),
        ("_dns.third.example.org SVCB", "REFUSED rd"),
    ] {
        let got = bench.now(&format!("{line} +port=53"));
        assert!(got.starts_with(want), "{line}: {got}");
    }
}

#[test]
fn ddr_05_records_are_sound_on_the_wire() {
    use hickory_proto::op::Message;
    use hickory_proto::rr::RData;
    let folder = Folder::new();
    let bench = folder.bench(
        ".:53 {\n ddr dns.example.org {\n  address 127.0.0.1 ::1 198.51.100.1\n }\n}\ntls://.:8853 https://.:8443 quic://.:8853 https3://.:8443 {\n @right\n answers\n}",
    );
    let message = bench.serve(&mut bench.exchange("_dns.resolver.arpa SVCB +port=53 +edns"));
    // Another reader finds the same; keys that do not rise are an error to it.
    let read = Message::from_vec(&message).unwrap();
    assert_eq!(read.answers.len(), 4);
    for (at, record) in read.answers.iter().enumerate() {
        let RData::SVCB(binding) = &record.data else { panic!("{record}") };
        assert_eq!(usize::from(binding.svc_priority), at + 1, "no alias, and an order");
        assert_eq!(binding.target_name.to_string(), "dns.example.org.");
        let text = binding.to_string();
        assert!(text.contains("port=8853") || text.contains("port=8443"), "{text}");
    }
    // The target stands there whole each time: compressed, it would be a pointer of two octets.
    let target = b"\x03dns\x07example\x03org\0";
    let whole = message.windows(target.len()).filter(|part| part == target).count();
    assert!(whole >= 4, "{whole}");
}

#[test]
fn ddr_06_the_path_is_the_listeners_own_and_no_secret() {
    let folder = Folder::new();
    let ddr = ".:53 {\n ddr dns.example.org\n}\n";
    for (block, want) in [
        ("", Some("/dns-query{?dns}")),
        ("spec path /q /dns-query", Some("/q{?dns}")),
        ("spec path /a/b-c_d~e.f", Some("/a/b-c_d~e.f{?dns}")),
        // What no template can hold.
        ("spec path /{x}", None),
        ("spec path /%41", None),
        // Whoever is told of a listener must be served there as anybody is.
        ("spec door open", Some("/dns-query{?dns}")),
        ("spec door closed", None),
        (
            "identity {\n networks office 10.0.0.0/8\n default anonymous\n }",
            Some("/dns-query{?dns}"),
        ),
        ("identity {\n networks office 10.0.0.0/8\n default none\n }", None),
    ] {
        let bench = folder.bench(&format!("{ddr}https://. {{\n @right\n {block}\n answers\n}}"));
        let want = want.map(|path| format!("1 dns.example.org. alpn=h2 127.0.0.1 {path}"));
        assert_eq!(told(&bench, ASK).first().cloned(), want, "{block}");
    }
    // Nor is one told that demands a certificate.
    let ca = folder.0.join("right.pem");
    for (mode, count) in
        [("request", 2), ("verify_if_given", 2), ("require", 0), ("require_and_verify", 0)]
    {
        let path = folder.0.join("right");
        let tls = format!(
            "tls {0}.pem {0}.key {1} {{\n client_auth {mode}\n }}",
            path.display(),
            ca.display()
        );
        let bench = folder.bench(&format!("{ddr}tls://. {{\n {tls}\n answers\n}}"));
        assert_eq!(told(&bench, ASK).len(), count, "{mode}");
    }
}

#[test]
fn rinf_01_the_resolver_tells_of_itself() {
    let folder = Folder::new();
    let bench =
        folder.bench(".:53 {\n ddr dns.example.org {\n  info https://dns.example.org/help\n }\n}");
    for name in ["resolver.arpa", "dns.example.org"] {
        let message = bench.serve(&mut bench.exchange(&format!("{name} TYPE261 +port=53")));
        let mut answer = Answer::default();
        scan::read(&message, &mut answer).unwrap();
        assert!(answer.is_authoritative());
        let all: Vec<_> = answer.section(Section::Answer).collect();
        assert_eq!((all.len(), all[0].rtype), (1, 261));
        assert_eq!(
            engine::testing::show_data(rtype::TXT, answer.data(all[0])),
            "\"exterr=0,3,13-15,17-24\" \"infourl=https://dns.example.org/help\""
        );
    }
    let bench = folder.bench(".:53 {\n ddr dns.example.org {\n  info\n }\n}");
    assert!(
        bench.now("resolver.arpa TYPE261 +port=53").starts_with("NOERROR aa rd | resolver.arpa.")
    );
}

#[test]
fn can_01_firefox_is_asked_to_stay_in_clear_text_alone() {
    let folder = Folder::new();
    let canary = "use-application-dns.net A";
    for (block, transport, stays) in [
        ("", Transport::Udp, false),
        ("{\n canary\n }", Transport::Udp, true),
        ("{\n canary\n }", Transport::Tcp, true),
        ("{\n canary\n }", Transport::Tls, false),
        ("{\n canary\n }", Transport::Https, false),
    ] {
        let bench = folder.bench(&format!(".:53 {{\n ddr dns.example.org {block}\n answers\n}}"));
        let mut x = bench.exchange(canary);
        x.query.transport = transport;
        let got = engine::testing::show(&bench.serve(&mut x));
        assert_eq!(got.starts_with("NXDOMAIN"), stays, "{block} {transport:?}: {got}");
    }
}

#[tokio::test]
async fn what_is_told_is_logged() {
    let folder = Folder::new();
    logged();
    let _bench = folder.bench(
        ".:53 {\n ddr dns.example.org\n}\ntls://. {\n @right\n answers\n}\nhttps://. {\n answers\n}\nquic://. {\n @other\n answers\n}\n\
         https3://. {\n @right\n spec door closed\n answers\n}",
    );
    tokio::task::yield_now().await;
    let lines: Vec<String> =
        logged().into_iter().filter(|line| line.contains("plugin/ddr")).collect();
    assert_eq!(
        lines,
        [
            "[INFO] plugin/ddr: tls://:853 is told to clients as dns.example.org.",
            "[WARNING] plugin/ddr: https://:443 is not told to clients: it has no certificate",
            "[WARNING] plugin/ddr: quic://:853 is not told to clients: its certificate is not for this name",
            "[INFO] plugin/ddr: https3://:443 is not told to clients: it demands that clients say who they are",
        ]
    );
    let _bench = folder.bench(".:53 {\n ddr dns.example.org\n}");
    tokio::task::yield_now().await;
    assert!(logged().iter().any(|line| line.contains("there is no encrypted listener to tell of")));
}

#[test]
fn bad_words_are_refused() {
    for (block, want) in [
        ("ddr .", "'.' is not the name of a server (write a name that the certificate has)"),
        ("ddr https://dns.example.org", "'https://dns.example.org' is not the name of a server"),
        ("ddr {\n address\n}", "Wrong argument count"),
        ("ddr {\n address dns.example.org\n}", "'dns.example.org' is wrong"),
        ("ddr {\n transports grpc\n}", "'grpc' is not known here"),
        ("ddr {\n ttl 2147483648\n}", "'2147483648' is more than a time to live can be"),
        ("ddr {\n info http://example.org\n}", "is no URL that begins with https://"),
        ("ddr {\n canary on\n}", "Wrong argument count"),
        ("ddr\nddr", "this plugin can only be used once per Server Block"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!(". {{\n{block}\n}}"));
        assert!(wrong.contains(want), "{block}: {wrong}");
    }
}
