//! The facts `file.*`.

use std::path::Path;
use std::time::{Duration, SystemTime};

use engine::testing::{Bench, show};
use tokio::net::UdpSocket;
use wire::{Flags, Name, opcode};

use super::setup::source;
use crate::CHAIN;
use crate::shared::testing::{ANSWERS, Folder, logged};
use crate::shared::zone::Source;

/// A zone with this serial, and these lines.
fn zone(serial: u32, lines: &str) -> String {
    format!("$TTL 60\n@ SOA ns1 hostmaster {serial} 7200 3600 1209600 30\n@ NS ns1\n{lines}\n")
}

/// A reply with the zone's own records made short.
fn shorten(reply: &str) -> String {
    let mut out = reply.to_owned();
    for zone in ["example.org.", "example.net."] {
        let at = if zone == "example.org." { "o." } else { "n." };
        for serial in [1, 2] {
            let soa =
                format!("{zone} 60 SOA ns1.{zone} hostmaster.{zone} {serial} 7200 3600 1209600 30");
            out = out.replace(&soa, &format!("SOA({at} {serial})"));
        }
        out = out.replace(&format!("{zone} 60 NS ns1.{zone}"), &format!("NS({at})"));
        out = out.replace(zone, at);
    }
    out.replace(" 60 ", " ")
}

/// The facts `file.form`, `.case`, `.lookup.exact`, `.lookup.ent`, `.ttl0`, `.dup`, `.any`, `.nomatch`, `.axfr`.
#[test]
fn one_file_is_the_zone_of_several_names() {
    let folder = Folder::new(&zone(
        1,
        "www A 198.51.100.1\nMixed A 198.51.100.2\na.ent TXT x\n*.w A 198.51.100.3\nttl0 0 A 198.51.100.4
dup A 198.51.100.5\ndup A 198.51.100.5\nsrv SRV 1 2 3 Host\nhost A 198.51.100.6\nx.elsewhere.test. A 198.51.100.7",
    ));
    let bench = folder.bench(".:53 {\n file DB example.org EXAMPLE.net\n}\n");
    for (line, want) in [
        ("www.example.org", "NOERROR aa rd | www.o. A 198.51.100.1 | NS(o.)"),
        ("www.example.net", "NOERROR aa rd | www.n. A 198.51.100.1 | NS(n.)"),
        // file.case: owners are lower case, but what a query spells is echoed.
        ("mixed.example.org", "NOERROR aa rd | mixed.o. A 198.51.100.2 | NS(o.)"),
        (
            "srv.example.org SRV",
            "NOERROR aa rd | srv.o. SRV 1 2 3 Host.o. | NS(o.) | host.o. A 198.51.100.6",
        ),
        // file.lookup.exact, file.lookup.ent, file.lookup.wild; file.flags.
        ("example.org SOA +cd", "NOERROR aa rd cd | SOA(o. 1) | NS(o.)"),
        ("example.org NS +norec", "NOERROR aa | NS(o.)"),
        ("ent.example.org", "NOERROR aa rd |  | SOA(o. 1)"),
        ("www.example.org MX", "NOERROR aa rd |  | SOA(o. 1)"),
        ("nope.example.org", "NXDOMAIN aa rd |  | SOA(o. 1)"),
        ("a.b.w.example.org", "NOERROR aa rd | a.b.w.o. A 198.51.100.3 | NS(o.)"),
        ("ttl0.example.org", "NOERROR aa rd | ttl0.o. 0 A 198.51.100.4 | NS(o.)"),
        ("dup.example.org", "NOERROR aa rd | dup.o. A 198.51.100.5 | NS(o.)"),
        ("www.example.org ANY", "NOERROR aa rd | www.o. A 198.51.100.1"),
        // file.nomatch, file.outzone.
        ("x.elsewhere.test +edns", "REFUSED rd | EDE 20 no server block for the name"),
        // file.axfr.
        ("example.org AXFR +edns", "REFUSED rd | EDE 18 zone transfers are not offered here"),
    ] {
        assert_eq!(shorten(&bench.now(line)), want, "{line}");
    }
    assert!(bench.now("www.example.org CH").starts_with("REFUSED"));
}

/// The facts `file.fallthrough`, `file.upstream` and `file.reload.block`.
#[test]
fn names_go_on_by_their_zone() {
    let folder = Folder::new(&zone(
        1,
        "www A 198.51.100.1\na.ent TXT x\ncn CNAME gone\n*.w TXT x\nchild NS ns",
    ));
    static PLUGINS: &[&engine::Descriptor] = &[&super::PLUGIN, &ANSWERS];
    let bench = Bench::new(
        PLUGINS,
        &folder.corefile(
            "example.org {\n file DB {\n  fallthrough\n  upstream\n }\n file DB x.example.org\n answers\n}
example.net {\n file DB {\n  fallthrough sub.example.net\n }\n answers\n}\n",
        ),
    );
    let passed = |name: &str| format!("NOERROR aa rd | {name} 30 A 198.51.100.1");
    for (line, want) in [
        ("nope.example.org", passed("nope.o.")),
        ("ent.example.org", passed("ent.o.")),
        ("www.example.org MX", "NOERROR aa rd |  | SOA(o. 1)".to_owned()),
        ("a.w.example.org", "NOERROR aa rd |  | SOA(o. 1)".to_owned()),
        (
            "cn.example.org",
            "NOERROR aa rd | cn.o. CNAME gone.o.; gone.o. 30 A 198.51.100.1".to_owned(),
        ),
        ("cn.example.net", "NXDOMAIN aa rd | cn.n. CNAME gone.n. | SOA(n. 1)".to_owned()),
        ("nope.example.net", "NXDOMAIN aa rd |  | SOA(n. 1)".to_owned()),
        ("nope.sub.example.net", passed("nope.sub.n.")),
        // RFC 4035 §3.1.4.1: the DS records of a zone stand above it.
        ("x.example.org DS", passed("x.o.")),
    ] {
        assert_eq!(shorten(&bench.now(line)), want, "{line}");
    }
    // file.reload.block: each directive has its own properties.
    assert!(bench.now("nope.x.example.org").starts_with("NXDOMAIN"), "no fallthrough there");
}

#[test]
fn names_outside_are_asked_for() {
    let folder = Folder::new(&zone(
        1,
        "a CNAME www.example.net.\nnx CNAME nx.example.net.\nnodata CNAME nodata.test.\nempty CNAME quiet.fail.test.
far CNAME www.nobody.invalid.\nref CNAME www.sub.example.net.\nback CNAME back.example.net.\nd DNAME example.net.",
    ));
    folder.write(
        "net",
        &zone(2, "www A 198.51.100.9\nsub NS ns.sub\nns.sub A 198.51.100.8\nback CNAME back.example.org."),
    );
    static PLUGINS: &[&engine::Descriptor] = &[&super::PLUGIN, &ANSWERS];
    let net = folder.path("net").to_string_lossy().into_owned();
    let bench = Bench::new(
        PLUGINS,
        &folder.corefile(&format!(
            "example.org {{\n file DB\n}}\nexample.net {{\n file {net}\n}}\ntest {{\n answers\n}}\n"
        )),
    );
    for (line, want) in [
        ("a.example.org", "NOERROR aa rd | a.o. CNAME www.n.; www.n. A 198.51.100.9 | NS(o.)"),
        ("a.example.org CNAME", "NOERROR aa rd | a.o. CNAME www.n. | NS(o.)"),
        // The denial is of the zone of the last name (RFC 2308 §2.1), the code too (RFC 6604 §2.1).
        ("nx.example.org", "NXDOMAIN aa rd | nx.o. CNAME nx.n. | SOA(n. 2)"),
        ("a.example.org MX", "NOERROR aa rd | a.o. CNAME www.n. | SOA(n. 2)"),
        ("empty.example.org", "SERVFAIL aa rd | empty.o. CNAME quiet.fail.test. | NS(o.)"),
        ("far.example.org", "NOERROR aa rd | far.o. CNAME www.nobody.invalid. | NS(o.)"),
        (
            "ref.example.org",
            "NOERROR aa rd | ref.o. CNAME www.sub.n. | sub.n. NS ns.sub.n. | ns.sub.n. A 198.51.100.8",
        ),
        (
            "www.d.example.org",
            "NOERROR aa rd | d.o. DNAME n.; www.d.o. CNAME www.n.; www.n. A 198.51.100.9 | NS(o.)",
        ),
    ] {
        let got = shorten(&bench.now(line));
        assert_eq!(got, want, "{line}");
    }
    // file.loop: zones that lead to one another end in SERVFAIL.
    assert!(bench.now("back.example.org").starts_with("SERVFAIL aa rd | back.example.org."));
}

/// The fact `file.lookup.deleg`.
#[test]
fn names_below_a_cut_are_referred() {
    let folder = Folder::new(&zone(
        1,
        "sub NS ns.sub\nsub NS ns.test.\nns.sub A 198.51.100.2\nsub DS 1 13 2 abcd\nto CNAME www.sub",
    ));
    let bench = folder.bench("example.org {\n file DB\n}\n");
    let servers = "sub.o. NS ns.sub.o.; sub.o. NS ns.test. | ns.sub.o. A 198.51.100.2";
    for (line, want) in [
        ("sub.example.org NS", format!("NOERROR rd |  | {servers}")),
        ("www.sub.example.org", format!("NOERROR rd |  | {servers}")),
        ("ns.sub.example.org AAAA", format!("NOERROR rd |  | {servers}")),
        ("sub.example.org DS", "NOERROR aa rd | sub.o. DS 00010d02abcd | NS(o.)".to_owned()),
        ("to.example.org", format!("NOERROR aa rd | to.o. CNAME www.sub.o. | {servers}")),
    ] {
        assert_eq!(shorten(&bench.now(line)), want, "{line}");
    }
}

/// The fact `file.dnssec`.
#[test]
fn signatures_and_proofs_are_for_those_that_ask() {
    let signature = |owner: &str, kind: &str| {
        format!("{owner} RRSIG {kind} 13 2 60 20300101000000 20200101000000 1 @ AAAA\n")
    };
    let folder = Folder::new(&zone(
        1,
        &format!(
            "www A 198.51.100.1\n@ NSEC www NS SOA\nwww NSEC @ A\n{}{}",
            signature("www", "A"),
            signature("@", "NSEC")
        ),
    ));
    let bench = folder.bench("example.org {\n file DB\n}\n");
    let kinds = |line: &str| {
        let mut answer = wire::Answer::default();
        wire::scan::read(&bench.serve(&mut bench.exchange(line)), &mut answer).unwrap();
        let kinds = answer.records().iter().map(|rr| wire::text::type_name(rr.rtype));
        kinds.collect::<Vec<_>>().join(" ")
    };
    assert_eq!(kinds("www.example.org"), "A NS");
    assert_eq!(kinds("www.example.org +do"), "A RRSIG NS");
    assert_eq!(kinds("no.example.org"), "SOA");
    assert_eq!(kinds("no.example.org +do"), "SOA NSEC RRSIG");
}

/// The facts `file.soa.mixed` and `file.dup`: names in lower case, and the last SOA record.
#[test]
fn the_last_soa_record_counts() {
    let folder = Folder::new(
        "@ 60 SOA a b 9 2 3 4 5\n@ 60 SOA NS1 HostMaster 1 7200 3600 1209600 30\n@ NS NS1\n",
    );
    let bench = folder.bench("example.org {\n file DB\n}\n");
    assert_eq!(shorten(&bench.now("example.org SOA")), "NOERROR aa rd | SOA(o. 1) | NS(o.)");
}

/// The fact `file.notifyout`.
#[tokio::test]
async fn secondaries_are_told_of_a_zone() {
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let folder = Folder::new(&zone(1, ""));
    let to = server.local_addr().unwrap();
    let _bench =
        folder.bench(&format!("example.org {{\n transfer {{\n  to {to}\n }}\n file DB\n}}\n"));
    let mut message = [0u8; 512];
    let told = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
    let (len, _) = told.await.unwrap().unwrap();
    assert_eq!(&message[12..len], b"\x07example\x03org\0\0\x06\0\x01");
}

#[test]
fn wildcards_end_at_existing_names() {
    let folder = Folder::new(
        "@ 500 SOA ns h 3 3600 600 86400 300\n@ 500 NS ns\nns A 198.51.100.53\n*.d A 198.51.100.1\nr.c.d A 198.51.100.2
*.al CNAME t1\nt1 CNAME t2\nt2 A 198.51.100.9",
    );
    let bench = folder.bench("example.org {\n file DB\n}\n");
    for (line, want) in [
        ("x.d", "NOERROR aa rd | x.d.o. 500 A 198.51.100.1 "),
        ("x.r.c.d", "NXDOMAIN aa rd |  |"),
        ("x.c.d", "NXDOMAIN aa rd |  |"),
        ("c.d", "NOERROR aa rd |  |"),
        ("y.x.d", "NOERROR aa rd | y.x.d.o. 500 A 198.51.100.1 "),
        ("*.d", "NOERROR aa rd | *.d.o. 500 A 198.51.100.1 "),
        ("q.al CNAME", "NOERROR aa rd | q.al.o. 500 CNAME t1.o. |"),
        (
            "q.al A",
            "NOERROR aa rd | q.al.o. 500 CNAME t1.o.; t1.o. 500 CNAME t2.o.; t2.o. 500 A 198.51.100.9 ",
        ),
    ] {
        let (name, kind) = line.split_once(' ').unwrap_or((line, "A"));
        let got = shorten(&bench.now(&format!("{name}.example.org {kind}")));
        assert!(got.starts_with(want), "{line}: {got}");
    }
}

/// The fact `file.metadata`.
#[test]
fn the_wildcard_is_metadata() {
    let folder = Folder::new(&zone(1, "*.w A 198.51.100.3\nwww A 198.51.100.1"));
    let bench =
        folder.bench("example.org {\n metadata\n log . \"W={/zone/wildcard}\"\n file DB\n}\n");
    for (name, want) in [("a.w.example.org", "W=*.w.example.org."), ("www.example.org", "W=-")] {
        logged();
        bench.now(name);
        assert!(logged().iter().any(|line| line.ends_with(want)), "{name}");
    }
}

/// The facts `file.open` and `file.apexonly`.
#[test]
fn a_missing_file_is_waited_for() {
    let folder = Folder::new("");
    std::fs::remove_file(folder.path("db")).unwrap();
    let bench = folder.bench("example.org {\n file DB\n}\n");
    let warning = &bench.built.warnings[0].what;
    assert!(
        warning.contains("Failed to open") && warning.contains("trying again in 60s"),
        "{warning}"
    );
    assert_eq!(bench.now("www.example.org +edns"), "SERVFAIL rd | EDE 14 the zone is not loaded");
    let refused =
        Bench::refused(CHAIN, &folder.corefile("example.org {\n file DB {\n  reload 0\n }\n}\n"));
    assert!(refused.contains("cannot open"), "{refused}");
}

#[tokio::test]
async fn a_file_that_appears_is_served_and_reread() {
    let folder = Folder::new("");
    std::fs::remove_file(folder.path("db")).unwrap();
    let bench = folder.bench("example.org {\n file DB {\n  reload 10ms\n }\n}\n");
    let until = async |want: &str| {
        for _ in 0..500 {
            let got = bench.now("www.example.org");
            if got.contains(want) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("no {want}: {}", bench.now("www.example.org"));
    };
    folder.write("db", &zone(1, "www A 198.51.100.1"));
    until("A 198.51.100.1").await;
    folder.write("db", &zone(2, "www A 198.51.100.2"));
    until("A 198.51.100.2").await;
}

#[test]
fn what_is_wrong_with_a_zone_stops_the_start() {
    for (text, want) in [
        ("@ SOA this is not right", "db:1: SOA: 'not' is no number of 32 bits"),
        ("@ NS ns1\n", "db: zone example.org. has no SOA record for its own name"),
        ("@ SOA a b 1 2 3 4 5\n\nwww A 198.51.100\n", "db:3: A: '198.51.100' is no IPv4 address"),
        ("@ SOA a b 1 2 3 4 5\n@ NSEC3PARAM 1 0 0 -\n", "db:2: NSEC3 is not served"),
    ] {
        let folder = Folder::new(text);
        let refused = Bench::refused(CHAIN, &folder.corefile("example.org {\n file DB\n}\n"));
        assert!(refused.contains(want), "{text}: {refused}");
    }
    let folder = Folder::new(&zone(1, ""));
    for (block, want) in [
        ("file", "Wrong argument count"),
        ("file DB {\n foo\n }", "'foo' is not a property"),
        ("file DB {\n reload\n }", "reload DURATION"),
        ("file DB {\n reload 10\n }", "is wrong"),
        ("file DB {\n reload -1s\n }", "is wrong"),
        ("file DB {\n reload_by_mtime yes\n }", "reload_by_mtime"),
    ] {
        let corefile = folder.corefile(&format!("example.org {{\n {block}\n}}\n"));
        let refused = Bench::refused(CHAIN, &corefile);
        assert!(refused.contains(want), "{block}: {refused}");
    }
    // file.serial0: a serial of 0 is one.
    folder.write("db", &zone(0, ""));
    assert!(
        folder.bench("example.org {\n file DB\n}\n").now("example.org SOA").contains(" 0 7200")
    );
}

/// Sets when a file was changed last, so many seconds ago.
fn age(path: &Path, seconds: u64) {
    let file = std::fs::File::options().append(true).open(path).unwrap();
    file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
}

/// The serial that a source serves.
fn serial(source: &Source) -> Option<u32> {
    source.zones().next().unwrap().serial()
}

/// The facts `file.reload` and `file.reload.fail`.
#[test]
fn a_zone_is_replaced_when_its_serial_differs() {
    let folder = Folder::new(&zone(5, "www A 198.51.100.1"));
    let path = folder.path("db");
    let source = source(path.clone(), &["example.org".parse::<Name>().unwrap()]);
    logged();
    source.refresh(false).unwrap();
    assert_eq!((serial(&source), logged()), (Some(5), vec![]));
    // Another serial counts, a greater one or not.
    for (serial, ago) in [(6, 100), (4, 99)] {
        folder.write("db", &zone(serial, "www A 198.51.100.2"));
        age(&path, ago);
        source.refresh(false).unwrap();
        assert_eq!(
            logged(),
            [format!(
                "[INFO] plugin/file: Successfully reloaded zone \"example.org.\" in \"{}\" with {serial} SOA serial",
                path.display()
            )]
        );
    }
    // The same one does not.
    folder.write("db", &zone(4, "www A 198.51.100.3"));
    age(&path, 98);
    source.refresh(false).unwrap();
    assert_eq!((serial(&source), logged()), (Some(4), vec![]));
    // What is broken is said, and changes nothing.
    folder.write("db", &zone(9, "www A nonsense"));
    age(&path, 97);
    let trouble = source.refresh(false).unwrap_err();
    assert!(trouble.to_string().ends_with("db:4: A: 'nonsense' is no IPv4 address"), "{trouble}");
    assert_eq!(serial(&source), Some(4));
    let metric = |value| format!("causeway_file_broken{{file=\"{}\"}} {value}", path.display());
    assert!(engine::metrics::render().contains(&metric(1)));
    std::fs::remove_file(&path).unwrap();
    source.refresh(false).unwrap_err();
    assert_eq!(serial(&source), Some(4));
    folder.write("db", &zone(9, "www A 198.51.100.9"));
    source.refresh(false).unwrap();
    assert_eq!(serial(&source), Some(9));
    let text = engine::metrics::render();
    assert!(text.contains(&metric(0)) && text.contains("causeway_file_serial"), "{text}");
}

#[test]
fn by_its_time_a_zone_is_replaced_when_the_file_was_written() {
    let folder = Folder::new(&zone(5, "www A 198.51.100.1"));
    let path = folder.path("db");
    let source = source(path.clone(), &["example.org".parse::<Name>().unwrap()]);
    age(&path, 100);
    source.refresh(true).unwrap();
    logged();
    source.refresh(true).unwrap();
    assert_eq!(logged(), [""; 0]);
    age(&path, 50);
    source.refresh(true).unwrap();
    assert_eq!(logged().len(), 1);
    // A file that was just written is read again, but it is the same one.
    folder.write("db", &zone(5, "www A 198.51.100.2"));
    for replaced in [1, 0] {
        source.refresh(true).unwrap();
        assert_eq!(logged().len(), replaced);
    }
}

/// The fact `file.include`.
#[test]
fn files_that_are_included_count() {
    let folder = Folder::new(&zone(1, "$INCLUDE part\nwww A 198.51.100.1"));
    folder.write("part", "a A 198.51.100.2\n");
    let bench = folder.bench("example.org {\n file DB {\n  reload_by_mtime\n }\n}\n");
    assert_eq!(
        shorten(&bench.now("a.example.org")),
        "NOERROR aa rd | a.o. A 198.51.100.2 | NS(o.)"
    );
    let path = folder.path("db");
    let source = source(path.clone(), &["example.org".parse::<Name>().unwrap()]);
    age(&path, 100);
    age(&folder.path("part"), 100);
    source.refresh(true).unwrap();
    logged();
    age(&folder.path("part"), 50);
    source.refresh(true).unwrap();
    assert_eq!(logged().len(), 1);
    // Neither devices nor folders are included.
    for (name, want) in [("/dev/zero", "it is no regular file"), ("/", "Is a directory")] {
        folder.write("db", &zone(2, &format!("$INCLUDE {name}")));
        let trouble = source.refresh(false).unwrap_err().to_string();
        assert!(trouble.contains(want), "{trouble}");
    }
}

#[test]
fn what_was_passed_over_is_told() {
    let folder = Folder::new(&zone(1, "x.test. A 198.51.100.1\nb CNAME c\nb A 198.51.100.2"));
    logged();
    folder.bench("example.org {\n file DB\n}\n");
    let lines = logged().join("\n");
    assert!(lines.contains("db:4: the record of x.test. is passed over"), "{lines}");
    assert!(lines.contains("b.example.org. has a CNAME record"), "{lines}");
}

#[test]
fn a_notice_of_a_change_is_refused() {
    let folder = Folder::new(&zone(1, ""));
    let bench = folder.bench("example.org {\n file DB\n}\n");
    let mut x = bench.exchange("example.org SOA");
    let bits = Flags(u16::from(opcode::NOTIFY) << 11).0.to_be_bytes();
    x.query.wire[2..4].copy_from_slice(&bits);
    let reply = bench.serve(&mut x);
    assert_eq!(reply[3] & 0xf, 5, "{}", show(&reply));
}

#[tokio::test]
async fn zones_are_handed_out_by_transfer() {
    let lines: String = (0..5000).map(|n| format!("h{n} A 198.51.100.{}\n", n % 256)).collect();
    let folder = Folder::new(&zone(1, &lines));
    let bench = folder.bench("example.org {\n transfer {\n  to *\n }\n file DB\n}\n");
    let messages = bench.messages("example.org AXFR +tcp").await;
    assert!(messages.len() > 1 && messages.iter().all(|message| message.len() < 65_535));
    let all: Vec<String> = messages
        .iter()
        .flat_map(|message| {
            let shown = show(message);
            let records =
                shown.strip_prefix("NOERROR aa rd | ").unwrap_or_else(|| panic!("{shown}"));
            records.split("; ").map(str::to_owned).collect::<Vec<_>>()
        })
        .collect();
    assert_eq!(all.len(), 5003);
    assert!(all[0].contains(" SOA ") && all[0] == all[5002]);
    assert!(bench.ask("h1.example.org AXFR +tcp").await.starts_with("REFUSED"));
    // A small reply over UDP (RFC 5936 §4.2).
    assert!(bench.ask("example.org AXFR +edns").await.starts_with("REFUSED rd | EDE 18"));
}

#[test]
fn the_last_of_two_directives_of_a_zone_counts() {
    let folder = Folder::new(&zone(1, "www A 198.51.100.1"));
    folder.write("db2", &zone(2, "www A 198.51.100.2"));
    let bench =
        folder.bench("example.org {\n file DB\n file DB2\n}\n".replace("DB2", "DB").as_str());
    assert!(bench.now("www.example.org").contains("198.51.100.1"));
    let second = folder.path("db2").to_string_lossy().into_owned();
    let bench = folder.bench(&format!("example.org {{\n file DB\n file {second}\n}}\n"));
    assert!(bench.now("www.example.org").contains("198.51.100.2"));
}

#[test]
fn zones_are_kept_over_reloads_of_the_configuration() {
    let folder = Folder::new(&zone(1, "www A 198.51.100.1"));
    let corefile = folder.corefile("example.org {\n file DB\n}\n");
    let mut bench = Bench::new(CHAIN, &corefile);
    folder.write("db", "broken (");
    // A configuration with a broken file is refused, and the old one goes on.
    assert!(bench.reload(&corefile).is_err());
    assert!(bench.now("www.example.org").contains("198.51.100.1"));
    folder.write("db", &zone(2, "www A 198.51.100.2"));
    bench.reload(&corefile).unwrap();
    assert!(bench.now("www.example.org").contains("198.51.100.2"));
}
