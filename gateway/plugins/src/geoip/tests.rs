//! The facts `geoip.*`, with the databases of the recorded cases.

use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use engine::testing::Bench;
use engine::{Descriptor, metrics};

use super::database::{Database, Schema};
use super::provider::subnet;
use super::source::Source;
use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[
    &crate::metadata::PLUGIN,
    &super::PLUGIN,
    &crate::cache::PLUGIN,
    &crate::log::PLUGIN,
    &crate::template::PLUGIN,
    &ANSWERS,
];

/// A database of the recorded cases, by its file's name.
fn octets(name: &str) -> Vec<u8> {
    let case = include_str!("../../../../tests/cases/corpus/geoip.yaml");
    let (_, rest) = case.split_once(&format!("  {name}: |\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    "));
    STANDARD.decode(lines.map(str::trim).collect::<String>()).unwrap()
}

/// A folder with both databases.
fn folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = std::env::temp_dir().join(format!("causeway-geoip-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    for name in ["city.mmdb", "asn.mmdb"] {
        std::fs::write(path.join(name), octets(name)).unwrap();
    }
    path
}

/// A gateway whose block logs these labels, and whose `geoip` has these words and lines behind its file.
fn bench(folder: &Path, file: &str, block: &str, labels: &str) -> Bench {
    let path = folder.join(file);
    let text = format!(
        "test {{\nmetadata\ngeoip {} {block}\nlog . \"{labels}\"\nanswers\n}}\n",
        path.display()
    );
    Bench::new(CHAIN, &text)
}

/// What the log says of a query.
fn line(bench: &Bench, query: &str) -> String {
    logged();
    bench.now(query);
    logged().iter().filter_map(|line| line.strip_prefix("[INFO] ")).collect()
}

/// All labels of cities.
const CITY: &str = "{/geoip/city/name}|{/geoip/country/code}|{/geoip/country/name}|\
                    {/geoip/country/is_in_european_union}|{/geoip/continent/code}|{/geoip/continent/name}|\
                    {/geoip/latitude}|{/geoip/longitude}|{/geoip/timezone}|{/geoip/postalcode}|\
                    {/geoip/subdivisions/code}|{/geoip/asn/number}|{/geoip/none}";

#[test]
fn clients_are_looked_up() {
    // geoip.md.city, geoip.md.asn, geoip.lang, geoip.v6, geoip.src.
    let folder = folder();
    let mut city = bench(&folder, "city.mmdb", "", CITY);
    let mut asn =
        bench(&folder, "asn.mmdb", "", "{/geoip/asn/number} {/geoip/asn/org} {/geoip/city/name}");
    for (from, want, network) in [
        (
            "127.1.2.3",
            "Cambridge|GB|United Kingdom|false|EU|Europe|52.2242|0.1315|Europe/London|CB4|ENG,CAM|-|-",
            "64500 EXAMPLE-AS -",
        ),
        ("127.3.2.3", "|US|United States|false||||||||-|-", "0  -"),
        (
            "127.2.2.3",
            "Utrecht|NL|Netherlands|true|EU|Europe|52.0907|5.1214|Europe/Amsterdam|3511|UT|-|-",
            "0  -",
        ),
        ("203.0.113.99", "|||false||||||||-|-", "0  -"),
        (
            "::ffff:127.1.2.3",
            "Cambridge|GB|United Kingdom|false|EU|Europe|52.2242|0.1315|Europe/London|CB4|ENG,CAM|-|-",
            "64500 EXAMPLE-AS -",
        ),
        ("fd00::1", "|||false||||||||-|-", "0  -"),
    ] {
        let addr: IpAddr = from.parse().unwrap();
        city.from(addr);
        asn.from(addr);
        assert_eq!(line(&city, "a.test"), want, "{from}");
        assert_eq!(line(&asn, "a.test"), network, "{from}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn stated_subnets_count_where_that_is_wanted() {
    // geoip.ecs
    let folder = folder();
    let mut on = bench(&folder, "city.mmdb", "{\nedns-subnet\n}", "{/geoip/country/code}");
    let mut off = bench(&folder, "city.mmdb", "", "{/geoip/country/code}");
    on.from("127.1.2.3".parse().unwrap());
    off.from("127.1.2.3".parse().unwrap());
    for (query, want) in [
        ("a.test", "GB"),
        ("a.test +opt=8:000110007f02", "NL"),
        ("a.test +opt=8:00010000", ""),
        // What cannot be read is not stated.
        ("a.test +opt=8:0001", "GB"),
        ("a.test +opt=8:000310007f02", "GB"),
    ] {
        assert_eq!(line(&on, query), want, "{query}");
        assert_eq!(line(&off, query), "GB", "{query}");
    }
    for (data, want) in [
        (&[0, 1, 24, 0, 198, 51, 100][..], Some("198.51.100.0")),
        (&[0, 2, 32, 0, 0x20, 1, 0xd, 0xb8], Some("2001:db8::")),
        (&[0, 1, 40, 0, 1, 2, 3, 4, 5], None),
        (&[0, 2, 200, 0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], None),
        (&[], None),
    ] {
        assert_eq!(subnet(data), want.map(|text| text.parse().unwrap()), "{data:?}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn answers_by_place_are_not_kept_for_others() {
    let folder = folder();
    let text = format!(
        "test {{\nmetadata\ngeoip {}\ncache\ntemplate IN TXT {{\nanswer \"{{{{ .Name }}}} 60 IN TXT {{{{ .Meta \\\"geoip/country/code\\\" }}}}\"\n}}\n}}\n",
        folder.join("city.mmdb").display()
    );
    let mut bench = Bench::new(CHAIN, &text);
    for (from, want) in [("127.1.2.3", "GB"), ("127.2.2.3", "NL"), ("127.3.2.3", "US")] {
        bench.from(from.parse().unwrap());
        let want = format!("NOERROR aa rd | a.test. 60 TXT \"{want}\"");
        assert_eq!(bench.now("a.test TXT"), want, "{from}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_new_database_is_taken_and_a_wrong_one_is_not() {
    // geoip.needs
    let folder = folder();
    let path = folder.join("city.mmdb");
    let source = Source::open(&path).unwrap();
    let country = |from: &str| {
        let mut out = String::new();
        assert!(source.now().write(from.parse().unwrap(), "country/code", &mut out));
        out
    };
    let figures = |name: &str| {
        let line = format!("causeway_geoip_{name}{{file=\"{}\"}} ", path.display());
        let text = metrics::render();
        text.lines().find_map(|one| one.strip_prefix(&line)).unwrap().to_owned()
    };
    let good = octets("city.mmdb");
    // Another value of the same length, as a later edition has.
    let mut other = good.clone();
    let at = other.windows(3).position(|three| three == b"BGB").unwrap();
    other[at + 1..at + 3].copy_from_slice(b"XX");
    let replace = |octets: &[u8]| {
        std::fs::write(folder.join("next"), octets).unwrap();
        std::fs::rename(folder.join("next"), &path).unwrap();
        source.look();
        source.look();
        source.look();
    };
    logged();
    source.look();
    assert_eq!((country("127.1.2.3"), logged().len()), ("GB".to_owned(), 0));
    replace(&other);
    assert_eq!(country("127.1.2.3"), "XX");
    assert_eq!(logged().len(), 1);
    let mut hole = other.clone();
    // A pointer of the tree into nowhere.
    hole[..3].copy_from_slice(&[0xff, 0xff, 0xf0]);
    for (what, octets) in [
        ("cut", &other[..other.len() / 2]),
        ("none", b""),
        ("text", b"this is no database at all"),
        ("holed", &hole),
        ("another schema", &octets("asn.mmdb")),
    ] {
        replace(&other);
        logged();
        let before: f64 = figures("refused_swaps_total").parse().unwrap();
        replace(octets);
        assert_eq!(country("127.1.2.3"), "XX", "{what}");
        let said = logged();
        assert!(said.len() == 1 && said[0].contains("stays in use"), "{what}: {said:?}");
        assert_eq!(figures("refused_swaps_total"), (before + 1.0).to_string(), "{what}");
        assert_eq!(figures("broken"), "1", "{what}");
    }
    std::fs::remove_file(&path).unwrap();
    (0..3).for_each(|_| source.look());
    assert_eq!((country("127.1.2.3"), logged().len()), ("XX".to_owned(), 1));
    replace(&good);
    assert_eq!(country("127.1.2.3"), "GB");
    assert_eq!((figures("broken"), figures("swaps_total")), ("0".to_owned(), "7".to_owned()));
    assert!(figures("build_timestamp_seconds").parse::<f64>().unwrap() > 1e9);
    std::fs::remove_dir_all(folder).unwrap();
}

#[tokio::test]
async fn the_file_is_watched() {
    let folder = folder();
    let mut bench = bench(&folder, "city.mmdb", "", "{/geoip/country/code}");
    bench.from("127.1.2.3".parse().unwrap());
    assert_eq!(line(&bench, "a.test"), "GB");
    let mut other = octets("city.mmdb");
    let at = other.windows(3).position(|three| three == b"BGB").unwrap();
    other[at + 1..at + 3].copy_from_slice(b"XX");
    std::fs::write(folder.join("next"), other).unwrap();
    std::fs::rename(folder.join("next"), folder.join("city.mmdb")).unwrap();
    let begin = std::time::Instant::now();
    while line(&bench, "a.test") != "XX" {
        assert!(begin.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn databases_say_what_they_are_about() {
    // geoip.schema
    for (name, want) in [("city.mmdb", Schema::City), ("asn.mmdb", Schema::Asn)] {
        let database = Database::read(octets(name)).unwrap();
        database.verify().unwrap();
        assert_eq!(database.schema, want, "{name}");
    }
    let mut strange = octets("asn.mmdb");
    let at = strange.windows(12).position(|text| text == b"GeoLite2-ASN").unwrap();
    strange[at..at + 12].copy_from_slice(b"GeoLite2-XYZ");
    let wrong = Database::read(strange).unwrap_err();
    assert!(wrong.contains("any supported schema (city, asn)"), "{wrong}");
}

#[test]
fn what_is_refused() {
    // geoip.dbfile, geoip.ecs.
    let folder = folder();
    let path = folder.join("city.mmdb").display().to_string();
    std::fs::write(folder.join("text"), "no database").unwrap();
    let text = folder.join("text").display().to_string();
    for (lines, want) in [
        ("geoip".to_owned(), "Wrong argument count"),
        (format!("geoip {path} {path}"), "is one too many"),
        (format!("geoip {path}\ngeoip {path}"), "configuring multiple databases is not supported"),
        (format!("geoip {path}.gone"), "cannot be read: No such file"),
        (format!("geoip {}", folder.display()), "Is a directory"),
        (format!("geoip {text}"), "database"),
        (format!("geoip {path} {{\nfoo\n}}"), "'foo' is not a property"),
        (format!("geoip {path} {{\nedns-subnet on\n}}"), "'on' is one too many"),
    ] {
        let text = Bench::refused(CHAIN, &format!("test {{\n{lines}\nanswers\n}}\n"));
        assert!(text.starts_with("plugin/geoip: ") && text.contains(want), "{lines}: {text}");
    }
    let alone = Bench::new(CHAIN, &format!("test {{\ngeoip {path}\nanswers\n}}\n"));
    assert!(alone.built.warnings[0].what.contains("nothing without metadata"));
    std::fs::remove_dir_all(folder).unwrap();
}
