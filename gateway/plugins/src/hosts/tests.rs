//! The facts `hosts.*`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::testing::Bench;
use wire::Name;

use super::table::Builder;

/// A file of its own for a test, gone afterwards.
struct TestFile(PathBuf);

impl TestFile {
    /// With this text.
    fn new(text: &str) -> Self {
        static COUNT: AtomicUsize = AtomicUsize::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("hosts-{}-{number}", std::process::id());
        let file = Self(std::env::temp_dir().join(name));
        file.write(text);
        file
    }

    /// Replaces the text.
    fn write(&self, text: &str) {
        std::fs::write(&self.0, text).unwrap();
    }

    /// Its path.
    fn path(&self) -> std::path::Display<'_> {
        self.0.display()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        drop(std::fs::remove_file(&self.0));
    }
}

/// The file of most tests.
const TEXT: &str = "# comment\n127.0.0.1 localhost localhost.localdomain\n\
203.0.113.10 example.org www.example.org  # trailing comment\n203.0.113.11 www.example.org\n\
203.0.113.11 dup.example.org\n203.0.113.11 dup.example.org\n2001:db8::10 example.org www.example.org\n\
203.0.113.12 UPPER.Example.Org\n203.0.113.20 *.wild.example.org\n2001:db8::20 *.wild.example.org\n\
203.0.113.21 a.wild.example.org\n::ffff:203.0.113.30 mapped.example.org\nfe80::1%lo scoped.example.org\n\
203.0.113.300 broken.example.org\n203.0.113.31\n203.0.113.32\ttab.example.org\ttab2.example.org\r\n\
203.0.113.33 trailingdot.example.org.\n203.0.113.40 other.test\n010.001.002.003 octal.example.org";

#[test]
fn names_and_addresses_are_answered_from_the_file() {
    let file = TestFile::new(TEXT);
    let corefile = format!("example.org in-addr.arpa ip6.arpa {{\n hosts {}\n}}\n", file.path());
    let bench = Bench::new(crate::CHAIN, &corefile);
    let six = "0.1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.8.b.d.0.1.0.0.2.ip6.arpa";
    let nodata = "NOERROR aa";
    for (line, want) in [
        ("example.org", "NOERROR aa | example.org. 3600 A 203.0.113.10"),
        ("example.org AAAA", "NOERROR aa | example.org. 3600 AAAA 2001:db8::10"),
        ("example.org SOA", nodata),
        ("example.org ANY", nodata),
        ("example.org PTR", nodata),
        (
            "WWW.Example.ORG",
            "NOERROR aa | www.example.org. 3600 A 203.0.113.10; www.example.org. 3600 A 203.0.113.11",
        ),
        ("dup.example.org", "NOERROR aa | dup.example.org. 3600 A 203.0.113.11"),
        ("upper.example.org", "NOERROR aa | upper.example.org. 3600 A 203.0.113.12"),
        ("upper.example.org AAAA", nodata),
        ("nope.example.org", "SERVFAIL"),
        ("q.wild.example.org", "NOERROR aa | q.wild.example.org. 3600 A 203.0.113.20"),
        ("q.wild.example.org AAAA", "NOERROR aa | q.wild.example.org. 3600 AAAA 2001:db8::20"),
        ("q.q.wild.example.org", "SERVFAIL"),
        ("a.wild.example.org", "NOERROR aa | a.wild.example.org. 3600 A 203.0.113.21"),
        ("a.wild.example.org AAAA", nodata),
        ("wild.example.org", "SERVFAIL"),
        ("*.wild.example.org", "NOERROR aa | *.wild.example.org. 3600 A 203.0.113.20"),
        ("mapped.example.org", "NOERROR aa | mapped.example.org. 3600 A 203.0.113.30"),
        ("mapped.example.org AAAA", nodata),
        ("scoped.example.org AAAA", "NOERROR aa | scoped.example.org. 3600 AAAA fe80::1"),
        ("tab2.example.org", "NOERROR aa | tab2.example.org. 3600 A 203.0.113.32"),
        ("trailingdot.example.org", "NOERROR aa | trailingdot.example.org. 3600 A 203.0.113.33"),
        ("octal.example.org", "SERVFAIL"),
        ("broken.example.org", "SERVFAIL"),
        ("other.test", "REFUSED"),
        (
            "11.113.0.203.in-addr.arpa PTR",
            "NOERROR aa | 11.113.0.203.in-addr.arpa. 3600 PTR www.example.org.; 11.113.0.203.in-addr.arpa. 3600 PTR dup.example.org.",
        ),
        ("20.113.0.203.in-addr.arpa PTR", "SERVFAIL"),
        ("40.113.0.203.in-addr.arpa PTR", "SERVFAIL"),
        ("10.113.0.203.in-addr.arpa", "SERVFAIL"),
        ("bogus.in-addr.arpa PTR", "SERVFAIL"),
    ] {
        assert_eq!(bench.now(&format!("{line} +norec")), want, "{line}");
    }
    let want =
        format!("NOERROR aa | {six}. 3600 PTR example.org.; {six}. 3600 PTR www.example.org.");
    assert_eq!(bench.now(&format!("{six} PTR +norec")), want);
}

#[test]
fn options_say_what_goes_on_and_how_long_answers_hold() {
    let file = TestFile::new("203.0.113.10 www.example.org\n203.0.113.9 a.test\n");
    let entry = "203.0.113.11 www.example.org inline.example.org";
    for (words, block, line, want) in [
        ("", "ttl 7", "www.example.org", "NOERROR aa | www.example.org. 7 A 203.0.113.10"),
        (
            "",
            &format!("{entry}\n fallthrough"),
            "www.example.org",
            "NOERROR aa | www.example.org. 3600 A 203.0.113.10; www.example.org. 3600 A 203.0.113.11",
        ),
        ("", entry, "inline.example.org", "NOERROR aa | inline.example.org. 3600 A 203.0.113.11"),
        ("", "fallthrough", "nope.example.org", "NXDOMAIN"),
        ("", "fallthrough example.org", "nope.example.org", "NXDOMAIN"),
        ("", "fallthrough example.org", "nope.test", "SERVFAIL"),
        ("", "fallthrough", "www.example.org AAAA", "NOERROR aa"),
        ("", "fallthrough", "www.example.org TXT", "NOERROR aa"),
        ("", "fallthrough\n fallthrough_unsupported", "www.example.org TXT", "NXDOMAIN"),
        ("", "fallthrough_unsupported\n fallthrough", "www.example.org TXT", "NXDOMAIN"),
        ("", "fallthrough\n fallthrough_unsupported", "www.example.org AAAA", "NOERROR aa"),
        ("", "fallthrough test\n fallthrough_unsupported", "www.example.org TXT", "NOERROR aa"),
        ("", "no_reverse", "10.113.0.203.in-addr.arpa PTR", "NXDOMAIN"),
        ("", "", "99.113.0.203.in-addr.arpa PTR", "NXDOMAIN"),
        ("example.org", "", "a.test", "NXDOMAIN"),
        ("example.org", "", "9.113.0.203.in-addr.arpa PTR", "NXDOMAIN"),
        (
            "example.org",
            "",
            "10.113.0.203.in-addr.arpa PTR",
            "NOERROR aa | 10.113.0.203.in-addr.arpa. 3600 PTR www.example.org.",
        ),
        ("example.org 203.0.113.0/24", "", "10.113.0.203.in-addr.arpa", "SERVFAIL"),
        ("", "", "www.example.org CH A", "NXDOMAIN"),
    ] {
        let corefile = format!(
            ". {{\n chaos\n hosts {} {words} {{\n  {block}\n }}\n denies\n}}\n",
            file.path()
        );
        let bench = Bench::new(CHAIN, &corefile);
        assert_eq!(bench.now(&format!("{line} +norec")), want, "{words}, {block}, {line}");
    }
}

/// Denies everything, to tell what went on.
static DENIES: engine::Descriptor = engine::Descriptor {
    name: "denies",
    readme: "",
    setup: |setup| {
        setup.install(Denies);
        Ok(())
    },
};

/// The registry of the tests with what comes behind.
static CHAIN: &[&engine::Descriptor] = &[&crate::chaos::PLUGIN, &super::PLUGIN, &DENIES];

/// Denies everything.
#[derive(Debug)]
struct Denies;

impl engine::Plugin for Denies {
    fn query(&self, x: &mut engine::Exchange) -> engine::Step {
        x.answer_mut().rcode = wire::rcode::NXDOMAIN;
        engine::Step::Done
    }
}

/// Waits until `line` is answered with `want`.
async fn until(bench: &Bench, line: &str, want: &str) {
    for _ in 0..500 {
        if bench.now(line) == want {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{line} is still {}", bench.now(line));
}

#[tokio::test]
async fn a_changed_file_is_read_again_and_a_deleted_one_stays() {
    let file = TestFile::new("203.0.113.1 a.test\n203.0.113.2 b.test\n");
    let corefile = format!(
        "test {{\n hosts {} {{\n  203.0.113.9 i.test\n  reload 10ms\n }}\n}}\n",
        file.path()
    );
    let bench = Bench::new(crate::CHAIN, &corefile);
    assert_eq!(bench.now("a.test"), "NOERROR aa rd | a.test. 3600 A 203.0.113.1");
    file.write("203.0.113.77 a.test\n");
    until(&bench, "a.test", "NOERROR aa rd | a.test. 3600 A 203.0.113.77").await;
    assert_eq!(bench.now("b.test"), "SERVFAIL rd", "old lines are gone");
    std::fs::remove_file(&file.0).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.now("a.test"), "NOERROR aa rd | a.test. 3600 A 203.0.113.77");
    assert_eq!(bench.now("i.test"), "NOERROR aa rd | i.test. 3600 A 203.0.113.9");
    file.write("203.0.113.3 b.test\n");
    until(&bench, "b.test", "NOERROR aa rd | b.test. 3600 A 203.0.113.3").await;
    let text = engine::metrics::render();
    let line = format!("coredns_hosts_entries{{hostsfile=\"{}\"}} 4", file.path());
    assert!(text.contains(&line), "{line}\n{text}");
    assert!(text.contains("coredns_hosts_reload_timestamp_seconds 1"), "{text}");
}

#[tokio::test]
async fn a_missing_file_only_warns_and_without_reload_nothing_is_looked_at() {
    let file = TestFile::new("");
    std::fs::remove_file(&file.0).unwrap();
    let corefile =
        |reload: &str| format!("test {{\n hosts {} {{\n  reload {reload}\n }}\n}}\n", file.path());
    let mut bench = Bench::new(crate::CHAIN, &corefile("0"));
    let warning = format!("plugin/hosts: File does not exist: {}", file.path());
    assert_eq!(bench.built.warnings[0].what, warning);
    file.write("203.0.113.1 a.test\n");
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(bench.now("a.test"), "SERVFAIL rd");
    // A reload of the configuration looks, whatever the interval.
    bench.reload(&corefile("0s")).unwrap();
    assert_eq!(bench.now("a.test"), "NOERROR aa rd | a.test. 3600 A 203.0.113.1");
    let folder = std::env::temp_dir();
    let bench = Bench::new(crate::CHAIN, &format!("test {{\n hosts {}\n}}\n", folder.display()));
    assert!(bench.built.warnings[0].what.ends_with("is a directory"));
    assert_eq!(bench.now("a.test"), "SERVFAIL rd");
}

#[test]
fn wrong_lines_are_refused() {
    for (block, want) in [
        ("ttl 0", "write 1 to 65535 seconds"),
        ("ttl 70000", "is no time to live"),
        ("ttl -1", "is no time to live"),
        ("ttl", "Wrong argument count"),
        ("reload often", "not a duration"),
        ("reload -1s", "cannot be negative"),
        ("no_reverse x", "Wrong argument count"),
        ("fallthrough_unsupported", "needs fallthrough as well"),
        ("fallthrough\n fallthrough_unsupported x", "Wrong argument count"),
        ("fallthrough\n 203.0.113.1 a.test", "stands behind fallthrough"),
        ("999.1.1.1 a.test", "is no address and no property"),
        ("foo bar", "is no address and no property"),
        ("relaod 5s", "did you mean 'reload'?"),
        ("203.0.113.1", "has no name behind it"),
        ("203.0.113.1 a..test", "is no domain name"),
    ] {
        let corefile = format!("test {{\n hosts {{\n {block}\n }}\n}}\n");
        let text = Bench::refused(crate::CHAIN, &corefile);
        assert!(text.contains(want), "{block}: {text}");
    }
    let text = Bench::refused(crate::CHAIN, "test {\n hosts\n hosts\n}\n");
    assert!(text.contains("can only be used once"), "{text}");
    let corefile = "test {\n hosts /dev/null {\n 203.0.113.1 a.example.org b.test\n }\n}\n";
    let bench = Bench::new(crate::CHAIN, corefile);
    assert!(bench.built.warnings[0].what.contains("'a.example.org' is in none of the zones"));
}

#[test]
fn a_table_keeps_order_and_drops_duplicates() {
    let mut builder = Builder::new();
    let name = |text: &str| Name::parse(text).unwrap();
    let addr = |text: &str| text.parse().unwrap();
    for (owner, ip) in [
        ("a.test", "203.0.113.9"),
        ("b.test", "203.0.113.9"),
        ("a.test", "203.0.113.1"),
        ("a.test", "203.0.113.9"),
        ("a.test", "2001:db8::1"),
        ("*.test", "203.0.113.1"),
    ] {
        builder.add(&name(owner), addr(ip));
    }
    let table = builder.finish(true);
    let id = table.find(name("a.test").wire()).unwrap();
    assert_eq!(
        table.four(id),
        [[203, 0, 113, 9], [203, 0, 113, 1]].map(std::net::Ipv4Addr::from_octets)
    );
    assert_eq!(table.six(id).len(), 1);
    let names = |ip: &str| table.names(addr(ip)).map(wire::text::name_text).collect::<Vec<_>>();
    assert_eq!(names("203.0.113.9"), ["a.test.", "b.test."]);
    assert_eq!(names("203.0.113.1"), ["a.test."], "a wildcard is no name of an address");
    assert_eq!(names("203.0.113.2"), [""; 0]);
    assert_eq!(table.find(name("c.test").wire()), None);
    assert_eq!(table.entries(), 9);
}

#[test]
fn a_hundred_thousand_names_are_found_again() {
    let mut builder = Builder::new();
    let name = |n: u32| Name::parse(&format!("host-{n}.example.org")).unwrap();
    let count = 100_000u32;
    (0..count).for_each(|n| builder.add(&name(n), std::net::Ipv4Addr::from(n).into()));
    let table = builder.finish(true);
    for n in 0..count {
        let id = table.find(name(n).wire()).unwrap();
        assert_eq!(table.four(id), [std::net::Ipv4Addr::from(n)]);
    }
    assert_eq!(table.find(name(count).wire()), None);
    assert_eq!(table.names(std::net::Ipv4Addr::from(7).into()).next(), Some(name(7).wire()));
}

#[test]
fn long_lines_and_odd_octets_do_no_harm() {
    let long = format!("203.0.113.1 {}\n", "x.test ".repeat(200_000));
    let file = TestFile::new(&long);
    let mut text = std::fs::read(&file.0).unwrap();
    text.extend_from_slice(b"\xff\xfe\n203.0.113.2 \xff.test ok.test\n\0\n203.0.113.3 last.test");
    std::fs::write(&file.0, text).unwrap();
    let bench = Bench::new(crate::CHAIN, &format!("test {{\n hosts {}\n}}\n", file.path()));
    for (line, want) in
        [("x.test", "203.0.113.1"), ("ok.test", "203.0.113.2"), ("last.test", "203.0.113.3")]
    {
        assert_eq!(bench.now(line), format!("NOERROR aa rd | {line}. 3600 A {want}"));
    }
}
