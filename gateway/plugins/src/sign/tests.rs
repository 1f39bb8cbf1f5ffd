//! The facts `sign.*`.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use engine::testing::Bench;
use wire::Name;

use super::job::Job;
use crate::shared::dnssec::{KeyFiles, samples};
use crate::shared::testing::logged;

/// A folder of a test, which goes with it, and the test's turn: what one tells the metrics of the zone is not another's.
struct Place(PathBuf, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The moment of the tests.
const NOW: u64 = 1_800_000_000;
/// A day, in seconds.
const DAY: u64 = 86_400;

/// The zone that is signed.
const ZONE: &str = "$TTL 300
@ SOA ns1 hostmaster 1 7200 3600 1209600 60
@ NS ns1
@ DNSKEY 257 3 13 AAAA
@ CDS 1 13 2 ab
@ ZONEMD 1 1 1 abcd
@ NSEC . A
www A 203.0.113.80
www A 203.0.113.81
\\$x TXT \"a \\\"b\\\" \\000\"
*.w A 203.0.113.10
sub NS ns.sub
sub A 203.0.113.100
ns.sub A 203.0.113.101
a.ent A 203.0.113.9
sec NS ns1
sec DS 12345 13 2 0d6fcea5e0b2f4ca1bd1a4b5e8a0aa4bd7dbf0ad92e0ac29f9dd9b3a6a9f7b9a
dn DNAME w
below.dn A 203.0.113.11
";

impl Place {
    /// A folder with the zone and keys.
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("causeway-sign-{}-{number}", std::process::id());
        let place = Self(std::env::temp_dir().join(name), turn);
        std::fs::create_dir_all(&place.0).unwrap();
        for (name, [public, private]) in
            [("ksk", samples::KSK), ("zsk", samples::ZSK), ("rsa", samples::RSA256)]
        {
            place.write(&format!("{name}.key"), public);
            place.write(&format!("{name}.private"), private);
        }
        place.write("db", ZONE);
        place
    }

    /// Writes a file.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Reads the signed zone; empty if it is not there.
    fn signed(&self) -> String {
        std::fs::read_to_string(self.0.join("db.example.org.signed")).unwrap_or_default()
    }

    /// The job of these keys.
    fn job(&self, keys: &[&str]) -> Job {
        let files = KeyFiles::new(keys.iter().map(|key| self.0.join(key)));
        let zone = Name::parse("example.org").unwrap();
        Job::new(self.0.join("db"), zone, &self.0, files).unwrap()
    }

    /// Runs a job; why it has signed, or what it has said.
    fn run(&self, job: &Job, now: u64) -> String {
        logged();
        job.run(now);
        let lines = logged().join("\n").replace(&*self.0.to_string_lossy(), "DIR");
        match lines.split_once("because ") {
            Some((_, why)) => why.split('\n').next().unwrap_or_default().to_owned(),
            None => lines,
        }
    }
}

/// The lines of a zone that begin with a name and have a type.
fn lines(text: &str, name: &str, kind: &str) -> Vec<String> {
    let start = format!("{name}\t");
    let own = text.lines().filter(|line| line.starts_with(&start));
    own.filter(|line| line.split('\t').nth(3) == Some(kind)).map(str::to_owned).collect()
}

/// The facts `sign.what`, `sign.dir`, `sign.keys.owner`, `sign.log`.
#[test]
fn a_zone_is_signed() {
    let place = Place::new();
    let public = samples::RSA256[0].replace("example.org.", "other.example.");
    place.write("rsa.key", &public);
    let job = place.job(&["ksk", "rsa"]);
    logged();
    job.run(NOW);
    let log = logged();
    let dir = place.0.display().to_string();
    assert!(log[0].starts_with(&format!("[INFO] plugin/sign: Signing \"example.org.\" because open {dir}/db.example.org.signed: No such file")), "{log:?}");
    let done = format!(
        "[INFO] plugin/sign: Successfully signed zone \"example.org.\" in \"{dir}/db.example.org.signed\" with key tags \"17122,28591\" and 1800000000 SOA serial, elapsed "
    );
    assert!(
        log[1].starts_with(&done) && log[1].ends_with("s, next: 2027-01-15T13:00:00Z"),
        "{log:?}"
    );
    let text = place.signed();
    let all = |name: &str, kind: &str| lines(&text, name, kind);
    let soa = "example.org.\t300\tIN\tSOA\tns1.example.org. hostmaster.example.org. 1800000000 7200 3600 1209600 60";
    assert_eq!(all("example.org.", "SOA"), [soa]);
    // What the file has is replaced.
    let keys = all("example.org.", "DNSKEY");
    assert!(
        keys.len() == 2
            && keys.iter().all(|key| key.starts_with("example.org.\t300\t") && key.len() > 80),
        "{keys:?}"
    );
    let digests = all("example.org.", "CDS");
    assert_eq!(
        digests[..2],
        [
            "example.org.\t300\tIN\tCDS\t17122 13 1 ea8b143746c72f5ac3e93fd9b44fc88c7a8355c5",
            "example.org.\t300\tIN\tCDS\t17122 13 2 2e1b0a692c384d5ae9f97b508db10e60da9eb88f64f224bd9670fa74530efd72",
        ]
    );
    assert_eq!((digests.len(), all("example.org.", "CDNSKEY").len()), (4, 2));
    assert!(all("example.org.", "ZONEMD").is_empty());
    let chain: Vec<String> = text
        .lines()
        .filter(|line| line.contains("\tIN\tNSEC\t"))
        .map(|line| line.replace("\t60\tIN\tNSEC\t", " "))
        .collect();
    assert_eq!(
        chain,
        [
            "example.org. \\$x.example.org. NS SOA RRSIG NSEC DNSKEY CDS CDNSKEY"
                .replace("\\$", "$"),
            "\\$x.example.org. dn.example.org. TXT RRSIG NSEC".to_owned(),
            "dn.example.org. a.ent.example.org. DNAME RRSIG NSEC".to_owned(),
            "a.ent.example.org. sec.example.org. A RRSIG NSEC".to_owned(),
            "sec.example.org. sub.example.org. NS DS RRSIG NSEC".to_owned(),
            "sub.example.org. *.w.example.org. NS RRSIG NSEC".to_owned(),
            "*.w.example.org. www.example.org. A RRSIG NSEC".to_owned(),
            "www.example.org. example.org. A RRSIG NSEC".to_owned(),
        ]
    );
    // Every key signs; neither delegations nor what lies below them or below other names.
    for (name, covered, count) in [
        ("example.org.", "SOA", 2),
        ("example.org.", "DNSKEY", 2),
        ("www.example.org.", "A", 2),
        ("www.example.org.", "NSEC", 2),
        ("sec.example.org.", "DS", 2),
        ("sec.example.org.", "NS", 0),
        ("sub.example.org.", "NS", 0),
        ("sub.example.org.", "A", 0),
        ("sub.example.org.", "NSEC", 2),
        ("ns.sub.example.org.", "A", 0),
        ("below.dn.example.org.", "A", 0),
    ] {
        let signatures = all(name, "RRSIG");
        let start = format!("\tRRSIG\t{covered} ");
        let found = signatures.iter().filter(|line| line.contains(&start)).count();
        assert_eq!(found, count, "{name} {covered}");
    }
    let signature = all("www.example.org.", "RRSIG").remove(0);
    let words: Vec<&str> = signature.split_whitespace().collect();
    assert_eq!(words[4..8], ["A", "13", "3", "300"]);
    let (end, begin): (u64, u64) = (words[8].parse().unwrap(), words[9].parse().unwrap());
    assert!((NOW - 21 * 3600..=NOW - 3 * 3600).contains(&begin), "{begin}");
    assert!((NOW + 32 * DAY..NOW + 37 * DAY).contains(&end), "{end}");
    assert_eq!(words[10..12], ["17122", "example.org."]);
    // Nothing else is left in the folder.
    assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 8);
    let metrics = engine::metrics::render();
    let line = format!("causeway_sign_expiration_timestamp_seconds{{zone=\"example.org.\"}} {end}");
    assert!(metrics.lines().any(|own| own == line), "{line}");
}

/// The fact `sign.when`.
#[test]
fn a_zone_is_signed_when_it_is_due() {
    let place = Place::new();
    let job = place.job(&["ksk"]);
    assert!(place.run(&job, NOW).starts_with("open DIR/db.example.org.signed: "));
    let skipped = "[INFO] plugin/sign: Skipping signing zone \"example.org.\" in \"DIR/db.example.org.signed\": signatures are valid";
    assert_eq!(place.run(&job, NOW), skipped);
    assert_eq!(place.run(&job, NOW + 5 * DAY), skipped);
    assert!(
        place.run(&job, NOW + 6 * DAY).starts_with("the signatures are older than 6 days, of ")
    );
    let again = NOW + 6 * DAY;
    assert!(place.signed().contains(&format!(" {again} 7200")));
    assert!(place.run(&job, NOW - DAY).starts_with("the signatures begin in the future, at "));
    let expiry = |end: u64| {
        let text = place.signed();
        let own = lines(&text, "example.org.", "RRSIG").remove(0);
        let mut words: Vec<String> = own.split(' ').map(str::to_owned).collect();
        words[4] = end.to_string();
        place.write("db.example.org.signed", &text.replace(&own, &words.join(" ")));
    };
    expiry(NOW + 7 * DAY);
    assert_eq!(place.run(&job, NOW), skipped);
    expiry(NOW + 7 * DAY - 1);
    assert!(place.run(&job, NOW).starts_with("the signatures end within 7 days, at "));
    // A file that is none, and one without signatures.
    place.write("db.example.org.signed", "hello");
    assert!(place.run(&job, NOW).contains("db.example.org.signed:1: "));
    place.write(
        "db.example.org.signed",
        &format!("{ZONE}@ DNSKEY {}", samples::KSK[0].trim_end().rsplit_once("DNSKEY ").unwrap().1),
    );
    assert_eq!(place.run(&job, NOW), "the keys are others");
    // A second time within a second, the serial is another one all the same.
    let other = place.job(&["rsa"]);
    assert_eq!(place.run(&other, NOW), "the keys are others");
    assert!(place.signed().contains(" 1800000001 7200"));
    // The zone itself.
    place.write("db", &format!("{ZONE}new A 203.0.113.12\n"));
    let text = place.run(&other, NOW + 60);
    assert!(text == "DIR/db has changed" || text == "DIR/db is newer", "{text}");
    assert!(place.signed().contains("new.example.org."));
}

/// What breaks leaves the last signed zone, is said once, and a metric says it.
#[test]
fn the_last_signed_zone_stays() {
    let place = Place::new();
    let broken = || {
        let text = engine::metrics::render();
        text.lines().any(|line| line == "causeway_sign_broken{zone=\"broken.example.\"} 1")
    };
    let files = KeyFiles::new([place.0.join("ksk")]);
    let zone = Name::parse("broken.example").unwrap();
    let job = Job::new(place.0.join("db"), zone, &place.0, files).unwrap();
    job.run(NOW);
    let target = place.0.join("db.broken.example.signed");
    let before = std::fs::read_to_string(&target).unwrap();
    assert!(!broken());
    place.write("db", "@ SOA wrong");
    logged();
    job.run(NOW);
    job.run(NOW);
    let warnings: Vec<String> =
        logged().into_iter().filter(|line| line.starts_with("[WARNING]")).collect();
    assert!(
        warnings.len() == 1
            && warnings[0]
                .starts_with("[WARNING] plugin/sign: Error signing \"broken.example.\": "),
        "{warnings:?}"
    );
    assert!(broken() && std::fs::read_to_string(&target).unwrap() == before);
    // A key goes; the last one signs.
    place.write("db", ZONE);
    std::fs::remove_file(place.0.join("ksk.key")).unwrap();
    job.run(NOW + 60);
    assert!(logged().iter().any(|line| line.contains("the last good keys sign")) && broken());
    assert!(std::fs::read_to_string(&target).unwrap().contains(" 1800000060 "));
    // There is nowhere to write to.
    place.write("ksk.key", samples::KSK[0]);
    std::fs::remove_file(&target).unwrap();
    std::fs::create_dir(&target).unwrap();
    job.run(NOW + 120);
    assert!(logged().iter().any(|line| line.contains("cannot write the signed zone")) && broken());
    std::fs::remove_dir(&target).unwrap();
    job.run(NOW + 180);
    assert!(target.is_file() && !broken());
}

/// The facts `sign.form`, `sign.single`, `sign.nokey`.
#[test]
fn what_is_wrong_is_refused() {
    let place = Place::new();
    for (line, want) in [
        ("sign", "Wrong argument count"),
        (
            "sign db {\n  key file ksk zsk\n }",
            "key example.org. (keyid: 12921) is a zone-signing key",
        ),
        ("sign db {\n  key file nowhere\n }", "nowhere.key: No such file"),
        ("sign db {\n  key directory /keys\n }", "'directory' is not implemented"),
        ("sign db {\n  key file\n }", "Wrong argument count"),
        ("sign db {\n  nsec3\n }", "'nsec3'"),
        ("sign db {\n  key file ksk\n  directory\n }", "Wrong argument count"),
        ("sign d\u{fffd}b {\n  key file ksk\n }", "could not be read"),
        ("sign db", "no keys to sign the zone with (add a line: key file KEY...)"),
        ("sign db {\n  directory /tmp\n }", "no keys to sign the zone with"),
    ] {
        let corefile =
            format!("example.org {{\n root {}\n {line}\n whoami\n}}\n", place.0.display());
        let wrong = Bench::refused(crate::CHAIN, &corefile);
        assert!(wrong.contains(want), "{line}: {wrong}");
    }
}

/// The facts `sign.multi`, `sign.handler`, `sign.dir`.
#[tokio::test]
async fn each_zone_has_a_file_of_its_own() {
    let place = Place::new();
    std::fs::create_dir(place.0.join("out")).unwrap();
    let corefile = format!(
        "example.org {{\n root {}\n sign db example.org a.example.org {{\n  key file ksk\n  directory out\n }}\n sign db example.net {{\n  key file ksk\n  directory {}\n }}\n}}\n",
        place.0.display(),
        place.0.display()
    );
    let bench = Bench::new(crate::CHAIN, &corefile);
    // There is nothing that answers.
    assert_eq!(bench.now("www.example.org A"), "REFUSED rd");
    let files =
        ["out/db.example.org.signed", "out/db.a.example.org.signed", "db.example.net.signed"];
    for _ in 0..200 {
        if files.iter().all(|file| place.0.join(file).exists()) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    for (file, name) in
        files.iter().zip(["www.example.org.", "www.a.example.org.", "www.example.net."])
    {
        let text = std::fs::read_to_string(place.0.join(file)).unwrap();
        assert_eq!(lines(&text, name, "A").len(), 2, "{file}");
    }
    // `directory` has a default.
    assert!(super::PLUGIN.readme.contains("`/var/lib/coredns` is the default"));
}
