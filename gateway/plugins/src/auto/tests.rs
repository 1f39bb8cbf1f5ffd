//! The facts `auto.*`.

use std::time::Duration;

use engine::testing::Bench;
use tokio::net::UdpSocket;

use crate::CHAIN;
use crate::shared::testing::{ANSWERS, Folder, logged};

/// A zone file with this serial and address of `www`.
fn zone(serial: u32, address: &str) -> String {
    format!(
        "$TTL 60\n@ SOA ns1 hostmaster {serial} 7200 3600 1209600 30\n@ NS ns1\nwww A {address}\n*.w A {address}\n"
    )
}

/// A folder with two zones, and files that are none.
fn folder() -> Folder {
    let folder = Folder::new("");
    folder.write("zones/db.example.org", &zone(1, "198.51.100.1"));
    folder.write("zones/db.sub.example.org", &zone(1, "198.51.100.2"));
    folder.write("zones/below/db.nested.org", &zone(1, "198.51.100.3"));
    folder.write("zones/db.example.net", &zone(1, "198.51.100.4"));
    folder.write("zones/db.broken.org", "this is no zone file\n");
    folder.write("zones/README", "no zone\n");
    folder
}

/// The address of a name, or its code.
fn address(bench: &Bench, line: &str) -> String {
    let reply = bench.now(line);
    match reply.split(" A ").nth(1) {
        Some(rest) => rest.split(' ').next().unwrap_or_default().to_owned(),
        None => reply.split(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Waits until the address of a name is this.
async fn until(bench: &Bench, name: &str, want: &str) {
    for _ in 0..500 {
        if address(bench, name) == want {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} is not {want}: {}", bench.now(name));
}

#[test]
fn files_of_a_folder_are_zones() {
    let folder = folder();
    logged();
    let bench = folder.bench("org {\n auto {\n  directory DIR/zones\n }\n}\n");
    let log = logged().join("\n");
    for (line, want) in [
        ("www.example.org", "198.51.100.1"),
        ("a.w.example.org", "198.51.100.1"),
        ("www.sub.example.org", "198.51.100.2"),
        // auto.subdirs.
        ("www.nested.org", "198.51.100.3"),
        // auto.answer: a denial stands. auto.miss: no zone, and nobody behind.
        ("nope.example.org", "NXDOMAIN"),
        ("www.unknown.org", "REFUSED"),
        ("www.broken.org", "REFUSED"),
        ("www.example.org CH", "REFUSED"),
        ("example.org AXFR +tcp", "REFUSED"),
    ] {
        assert_eq!(address(&bench, line), want, "{line}");
    }
    // The DS records of a zone stand above it.
    assert!(bench.now("sub.example.org DS").contains(" example.org. 60 SOA "));
    assert!(log.contains("[INFO] plugin/auto: Inserting zone `example.org.' from: "), "{log}");
    let wrong = "db.broken.org:1: ";
    assert!(
        log.contains("plugin/auto: Parse zone `broken.org.': ") && log.contains(wrong),
        "{log}"
    );
    let text = engine::metrics::render();
    let place = folder.path("zones");
    let metric = |name, value| format!("{name}{{directory=\"{}\"}} {value}", place.display());
    assert!(text.contains(&metric("causeway_auto_zones", 4)), "{text}");
    assert!(text.contains(&metric("causeway_auto_broken", 1)), "{text}");
}

/// The facts `auto.origin` and `auto.miss`.
#[test]
fn names_outside_of_its_zones_go_on() {
    let folder = folder();
    static PLUGINS: &[&engine::Descriptor] = &[&super::PLUGIN, &ANSWERS];
    let text = ". {\n auto example.org {\n  directory DIR/zones\n  reload 0\n }\n answers\n}\n";
    let bench = Bench::new(PLUGINS, &folder.corefile(text));
    for (line, want) in [
        ("www.example.org", "198.51.100.1"),
        ("nope.example.org", "NXDOMAIN"),
        ("www.nested.org", "30"),
        ("www.example.net", "30"),
    ] {
        let reply = bench.now(line);
        let passed = reply.contains(" 30 A 198.51.100.1");
        assert_eq!(if passed { "30".to_owned() } else { address(&bench, line) }, want, "{line}");
    }
    let text = ". {\n auto example.org org {\n  directory DIR/zones\n  reload 0\n }\n answers\n}\n";
    let bench = Bench::new(PLUGINS, &folder.corefile(text));
    assert!(bench.now("www.unknown.org").contains(" 30 A "), "no zone of the folder");
}

#[test]
fn zones_are_named_by_a_pattern() {
    let folder = Folder::new("");
    folder.write("z/one.zone", &zone(1, "198.51.100.1"));
    folder.write("z/two.zone.txt", &zone(1, "198.51.100.2"));
    folder.write("z/three-test", &zone(1, "198.51.100.3"));
    let bench = folder.bench(
        ".:53 {\n root DIR\n auto {\n  directory z ^(.*)\\.zone$ {1}.test\n  reload 0\n }\n auto {\n  directory z (\\w+)-(\\w+) x.{2}.{1}\n }\n}\n",
    );
    for (line, want) in [
        ("www.one.test", "198.51.100.1"),
        ("www.two.test", "REFUSED"),
        ("www.x.test.three", "198.51.100.3"),
    ] {
        assert_eq!(address(&bench, line), want, "{line}");
    }
}

/// The facts `auto.reload`, `auto.serial`, and of `auto.walk` what comes and goes.
#[tokio::test]
async fn what_comes_and_goes_is_taken_up() {
    let folder = folder();
    let bench = folder.bench("org {\n auto {\n  directory DIR/zones\n  reload 10ms\n }\n}\n");
    let file = |name: &str| folder.path(&format!("zones/{name}"));
    folder.write("zones/db.fresh.org", &zone(1, "198.51.100.5"));
    folder.write("zones/db.broken.org", &zone(1, "198.51.100.6"));
    folder.write("zones/db.example.org", &zone(2, "198.51.100.7"));
    std::fs::remove_file(file("db.sub.example.org")).unwrap();
    until(&bench, "www.fresh.org", "198.51.100.5").await;
    until(&bench, "www.broken.org", "198.51.100.6").await;
    until(&bench, "www.example.org", "198.51.100.7").await;
    until(&bench, "www.sub.example.org", "NXDOMAIN").await;
    // A file that moves is the same zone; one that breaks leaves it.
    std::fs::rename(file("db.example.org"), file("below/db.example.org")).unwrap();
    folder.write("zones/below/db.nested.org", "broken (");
    folder.write("zones/below/db.example.org", &zone(3, "198.51.100.8"));
    until(&bench, "www.example.org", "198.51.100.8").await;
    assert_eq!(address(&bench, "www.nested.org"), "198.51.100.3");
    // The same serial is the same zone.
    folder.write("zones/db.fresh.org", &zone(1, "198.51.100.9"));
    folder.write("zones/db.last.org", &zone(1, "198.51.100.9"));
    until(&bench, "www.last.org", "198.51.100.9").await;
    assert_eq!(address(&bench, "www.fresh.org"), "198.51.100.5");
    // A folder that is gone leaves its zones.
    std::fs::rename(folder.path("zones"), folder.path("away")).unwrap();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(address(&bench, "www.last.org"), "198.51.100.9");
}

#[test]
fn never_looking_again_is_possible() {
    let folder = folder();
    let corefile = folder.corefile("org {\n auto {\n  directory DIR/zones\n  reload 0\n }\n}\n");
    let mut bench = Bench::new(CHAIN, &corefile);
    folder.write("zones/db.fresh.org", &zone(1, "198.51.100.5"));
    assert_eq!(address(&bench, "www.fresh.org"), "REFUSED");
    // A new configuration looks.
    bench.reload(&corefile).unwrap();
    assert_eq!(address(&bench, "www.fresh.org"), "198.51.100.5");
}

/// Of `auto.walk`: the first of two files, and what is told of it once.
#[tokio::test]
async fn the_first_file_of_a_zone_counts() {
    let folder = folder();
    folder.write("zones/z/db.example.org", &zone(9, "198.51.100.9"));
    logged();
    let bench = folder.bench("org {\n auto {\n  directory DIR/zones\n  reload 10ms\n }\n}\n");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(address(&bench, "www.example.org"), "198.51.100.1");
    let log = logged();
    let told = log.iter().filter(|line| line.contains("is the file of `example.org.' already"));
    assert_eq!(told.count(), 1, "{log:?}");
}

#[cfg(unix)]
#[test]
fn a_volume_of_kubernetes_is_a_folder() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("");
    folder.write("v/..2026_01/db.example.org", &zone(1, "198.51.100.1"));
    symlink("..2026_01", folder.path("v/..data")).unwrap();
    symlink("..data/db.example.org", folder.path("v/db.example.org")).unwrap();
    symlink("v", folder.path("link")).unwrap();
    logged();
    let corefile = folder.corefile("org {\n auto {\n  directory DIR/link\n }\n}\n");
    let mut bench = Bench::new(CHAIN, &corefile);
    assert_eq!(address(&bench, "www.example.org"), "198.51.100.1");
    assert_eq!(logged().iter().filter(|line| line.contains("WARN")).count(), 0);
    folder.write("v/..2026_02/db.example.org", &zone(2, "198.51.100.2"));
    std::fs::remove_file(folder.path("v/..data")).unwrap();
    symlink("..2026_02", folder.path("v/..data")).unwrap();
    std::fs::remove_dir_all(folder.path("v/..2026_01")).unwrap();
    bench.reload(&corefile).unwrap();
    assert_eq!(address(&bench, "www.example.org"), "198.51.100.2");
}

/// The facts `auto.notify` and of `auto.answer` the transfers.
#[tokio::test]
async fn zones_are_handed_out_and_their_changes_told() {
    let folder = folder();
    let server = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let to = server.local_addr().unwrap();
    let bench = folder.bench(&format!(
        "org {{\n transfer {{\n  to * {to}\n }}\n auto {{\n  directory DIR/zones\n  reload 10ms\n }}\n}}\n"
    ));
    let whole = bench.ask("example.org AXFR +tcp").await;
    assert_eq!(whole.matches(" SOA ").count(), 2, "{whole}");
    assert!(bench.ask("unknown.org AXFR +tcp").await.starts_with("REFUSED"));
    assert!(bench.ask("example.net AXFR +tcp").await.starts_with("REFUSED"));
    let mut told = Vec::new();
    let mut message = [0; 512];
    while told.len() < 3 {
        let come = tokio::time::timeout(Duration::from_secs(5), server.recv_from(&mut message));
        let (len, from) = come.await.unwrap().unwrap();
        let zone = wire::Name::read(&message[12..len]).unwrap().0.to_string();
        if !told.contains(&zone) {
            told.push(zone);
        }
        message[2] |= 0x80;
        server.send_to(&message[..len], from).await.unwrap();
    }
    told.sort();
    assert_eq!(told, ["example.org.", "nested.org.", "sub.example.org."]);
}

/// The facts `auto.err`, `auto.err.reload`, and of `auto.directory` a folder that is not there.
#[test]
fn wrong_words_are_refused_with_a_remedy() {
    for (block, want) in [
        ("auto", "says no folder"),
        ("auto {\n reload 10s\n }", "says no folder"),
        ("auto {\n directory\n }", "directory DIR [REGEXP TEMPLATE]"),
        ("auto {\n directory . db\n }", "directory DIR [REGEXP TEMPLATE]"),
        ("auto {\n directory . db.(.*) {1} more\n }", "one too many"),
        ("auto {\n directory . db.* {1}\n }", "has no group"),
        ("auto {\n directory . (db.* {1}\n }", "is no regular expression"),
        ("auto {\n directory . db.(.*) {2}\n }", "number of a group"),
        ("auto {\n directory . db.(.*) {x}\n }", "number of a group"),
        ("auto {\n directory .\n reload\n }", "reload DURATION"),
        ("auto {\n directory .\n reload -1s\n }", "is wrong"),
        ("auto {\n directory .\n upstream\n }", "'upstream' is not a property"),
    ] {
        let refused = Bench::refused(CHAIN, &format!("org {{\n {block}\n}}\n"));
        assert!(refused.contains(want), "{block}: {refused}");
    }
    let bench = Bench::new(CHAIN, "org {\n auto {\n  directory ./nodir\n }\n}\n");
    assert!(bench.built.warnings[0].what.contains("the folder cannot be read"));
    assert_eq!(bench.now("www.example.org"), "REFUSED rd");
}
