//! Catalog zones (RFC 9432).

use super::*;
use crate::CHAIN;
use crate::shared::testing::logged;

/// A primary with a catalog and zones of the given names, each with an address of `www`.
async fn primary(list: &str, zones: &[&str]) -> Primary {
    let primary = Primary::start().await;
    primary.put(catalog("cat.test", 1, list));
    for (number, name) in zones.iter().enumerate() {
        primary.put(zone(name, 1, &format!("www A 198.51.100.{}", number + 1)));
    }
    primary
}

/// A catalog with these lines.
fn catalog(name: &str, serial: u32, list: &str) -> Zone {
    zone(name, serial, &format!("version TXT 2\n{list}"))
}

/// A gateway for it.
fn bench(primary: &Primary, lines: &str) -> Bench {
    let addr = primary.scripted.addr;
    let lines = lines.replace("FROM", &format!("transfer from {addr}"));
    Bench::new(CHAIN, &format!(".:53 {{\n {lines}\n}}\n"))
}

/// The facts `secondary.catalog`, `.catalog.query` and of `.catalog.life` what comes, goes and begins anew.
#[tokio::test]
async fn members_come_and_go() {
    let primary = primary(
        "a.zones PTR one.org.\nb.zones PTR two.org.\ngroup.b.zones TXT x\nx.ext TXT y",
        &["one.org", "two.org"],
    )
    .await;
    logged();
    let bench = bench(&primary, "secondary cat.test {\n  FROM\n  catalog\n }");
    until(&bench, "www.one.org", "198.51.100.1").await;
    until(&bench, "www.two.org", "198.51.100.2").await;
    assert_eq!(address(&bench, "www.three.org"), "REFUSED");
    assert!(bench.now("version.cat.test TXT").contains("TXT \"2\""));
    let log = logged().join("\n");
    for want in
        ["Parsed catalog zone cat.test. with 2 member zones", "Added catalog member zone one.org."]
    {
        assert!(log.contains(want), "{log}");
    }
    primary.put(zone("three.org", 1, "www A 198.51.100.3"));
    primary.put(catalog("cat.test", 2, "b.zones PTR two.org.\nc.zones PTR three.org."));
    assert_eq!(notify(&bench, "cat.test"), "NOERROR aa");
    until(&bench, "www.three.org", "198.51.100.3").await;
    until(&bench, "www.one.org", "REFUSED").await;
    assert!(logged().join("\n").contains("Removed catalog member zone one.org."));
    // Members are told of changes as other zones are.
    primary.put(zone("two.org", 2, "www A 198.51.100.9"));
    assert_eq!(notify(&bench, "two.org"), "NOERROR aa");
    until(&bench, "www.two.org", "198.51.100.9").await;
    // With another label it is another zone, of any serial.
    primary.put(zone("two.org", 1, "www A 198.51.100.8"));
    primary.put(catalog("cat.test", 3, "z.zones PTR two.org.\nc.zones PTR three.org."));
    tokio::time::sleep(Duration::from_millis(1000)).await;
    assert_eq!(notify(&bench, "cat.test"), "NOERROR aa");
    until(&bench, "www.two.org", "198.51.100.8").await;
    assert!(logged().join("\n").contains("Reset catalog member zone two.org."));
}

/// The fact `secondary.catalog.rules`: a broken catalog leaves all as it is.
#[test]
fn a_broken_catalog_changes_nothing() {
    let catalogs = [
        ("b.zones PTR two.org.\nversion TXT 1", "it has not the one TXT record \"2\""),
        ("b.zones PTR two.org.", "it has not the one TXT record \"2\""),
        ("version TXT 2\nversion TXT 3", "it has not the one TXT record \"2\""),
        ("version TXT 2\nb.zones PTR two.org.\nb.zones PTR three.org.", "more than one PTR record"),
        ("version TXT 2\nb.zones PTR two.org.\nc.zones PTR two.org.", "is listed twice"),
        (
            "version TXT 2\nb.zones PTR two.org.\ncoo.b.zones PTR x.\ncoo.b.zones PTR y.",
            "more than one PTR record",
        ),
    ];
    each(catalogs, |(text, want)| {
        Box::pin(async move {
            let primary = primary("a.zones PTR one.org.", &["one.org", "two.org"]).await;
            let bench = bench(&primary, "secondary cat.test {\n  FROM\n  catalog\n }");
            until(&bench, "www.one.org", "198.51.100.1").await;
            primary.put(zone("cat.test", 2, text));
            logged();
            assert_eq!(notify(&bench, "cat.test"), "NOERROR aa");
            let mut log = String::new();
            for _ in 0..500 {
                log.push_str(&logged().join("\n"));
                if log.contains("masters failed") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(log.contains("the catalog is broken: ") && log.contains(want), "{text}: {log}");
            assert_eq!(address(&bench, "www.one.org"), "198.51.100.1", "{text}");
            assert_eq!(address(&bench, "www.two.org"), "REFUSED", "{text}");
            assert!(bench.now("cat.test SOA").contains(" 1 3600 1 3600 30"), "{text}");
        })
    });
}

/// Of `secondary.catalog` the list of zones, and of `.catalog.life` that the Corefile's own zones win.
#[tokio::test]
async fn a_catalog_is_kept_within_bounds() {
    let list = "a.zones PTR one.org.\nb.zones PTR sub.two.org.\nc.zones PTR three.net.";
    let (primary, own) =
        (primary(list, &["one.org", "sub.two.org", "three.net"]).await, Primary::start().await);
    own.put(zone("one.org", 1, "www A 198.51.100.77"));
    let bench = bench(
        &primary,
        &format!(
            "secondary cat.test {{\n  FROM\n  catalog TWO.org one.org\n }}\n secondary one.org {{\n  transfer from {}\n }}",
            own.scripted.addr
        ),
    );
    until(&bench, "www.sub.two.org", "198.51.100.2").await;
    until(&bench, "www.one.org", "198.51.100.77").await;
    assert_eq!(address(&bench, "www.three.net"), "REFUSED");
}

/// Of `secondary.catalog.life` the change of ownership.
#[test]
fn a_member_moves_to_another_catalog() {
    each([("a", true), ("b", false)], |(id, is_kept)| {
        Box::pin(async move {
            let primary = primary("a.zones PTR one.org.", &["one.org"]).await;
            primary.put(catalog("dog.test", 1, &format!("{id}.zones PTR one.org.")));
            logged();
            let bench = bench(&primary, "secondary cat.test dog.test {\n  FROM\n  catalog\n }");
            until(&bench, "www.one.org", "198.51.100.1").await;
            until(&bench, "www.dog.test", "NXDOMAIN").await;
            let (one, other) =
                ("cat.test. lists one.org., which", "dog.test. lists one.org., which");
            let mut log = String::new();
            for _ in 0..500 {
                log.push_str(&logged().join("\n"));
                if log.contains(one) || log.contains(other) {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            assert!(log.contains(one) || log.contains(other), "{log}");
            let (from, to) = if log.contains(other) {
                ("cat.test", "dog.test")
            } else {
                ("dog.test", "cat.test")
            };
            let own = if from == "cat.test" { "a" } else { id };
            // The zone is of an older serial, which is only taken if it begins anew.
            primary.put(zone("one.org", 0, "www A 198.51.100.9"));
            let list = format!("{own}.zones PTR one.org.\ncoo.{own}.zones PTR {to}.");
            primary.put(catalog(from, 2, &list));
            tokio::time::sleep(Duration::from_millis(1000)).await;
            assert_eq!(notify(&bench, from), "NOERROR aa");
            until(&bench, "www.one.org", if is_kept { "198.51.100.1" } else { "198.51.100.9" })
                .await;
            let mut log = String::new();
            for _ in 0..500 {
                log.push_str(&logged().join("\n"));
                if log.contains("Migrated") {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            let want = format!("Migrated catalog member zone one.org. from {from}. to {to}.");
            assert!(log.contains(&want), "{log}");
            // It stays when the old catalog no longer has it.
            primary.put(catalog(from, 3, ""));
            tokio::time::sleep(Duration::from_millis(1000)).await;
            assert_eq!(notify(&bench, from), "NOERROR aa");
            tokio::time::sleep(Duration::from_millis(200)).await;
            assert_ne!(address(&bench, "www.one.org"), "REFUSED");
        })
    });
}

/// Blocks that say different things of one catalog each have its members.
#[tokio::test]
async fn a_catalog_of_two_blocks_has_members_in_both() {
    let primary = primary("a.zones PTR one.org.", &["one.org"]).await;
    let addr = primary.scripted.addr;
    let bench = Bench::new(
        CHAIN,
        &format!(
            ".:53 {{\n secondary cat.test {{\n  transfer from {addr}\n  catalog\n }}\n}}
.:54 {{\n secondary cat.test {{\n  transfer from {addr}\n  catalog org\n  fallthrough\n }}\n}}\n"
        ),
    );
    until(&bench, "www.one.org", "198.51.100.1").await;
    until(&bench, "www.one.org +port=54", "198.51.100.1").await;
}

/// A catalog that is there already lists its members when the configuration changes.
#[tokio::test]
async fn members_come_back_with_a_new_configuration() {
    let primary = primary("a.zones PTR one.org.", &["one.org"]).await;
    let mut bench = bench(&primary, "secondary cat.test {\n  FROM\n  catalog\n }");
    until(&bench, "www.one.org", "198.51.100.1").await;
    let addr = primary.scripted.addr;
    bench
        .reload(&format!(
            ".:53 {{\n secondary cat.test {{\n  transfer from {addr}\n  catalog org\n }}\n}}\n"
        ))
        .unwrap();
    until(&bench, "www.one.org", "198.51.100.1").await;
}
