//! The facts `dnssec.*`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use engine::testing::{Bench, show};
use wire::text::{name_text, type_name};
use wire::{Answer, Name, Section, rtype, scan};
use zone::types_in;

use super::signer::{ORIGINAL_TTL, now};
use crate::shared::dnssec::{Key, body, labels, samples};
use crate::shared::testing::logged;

/// A folder of a test, which goes with it.
struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The zone of most tests.
const ZONE: &str = "$TTL 300
@ SOA ns1 hostmaster 1 7200 3600 1209600 60
@ NS ns1
@ MX 10 mail
ns1 A 203.0.113.53
mail A 203.0.113.25
mail MX 10 mail
www A 203.0.113.80
www A 203.0.113.81
alias CNAME www
dang CNAME nowhere
ext CNAME www.example.com.
outside CNAME www.sub
a.ent A 203.0.113.9
*.w A 203.0.113.10
*.w CAA 0 issue ca.example.net
sub NS ns.sub
ns.sub A 203.0.113.101
sec NS ns1
sec DS 12345 13 2 0d6fcea5e0b2f4ca1bd1a4b5e8a0aa4bd7dbf0ad92e0ac29f9dd9b3a6a9f7b9a
dn DNAME w
";

impl Place {
    /// A folder with the zone and all keys.
    fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("causeway-dnssec-{}-{number}", std::process::id());
        let place = Self(std::env::temp_dir().join(name));
        std::fs::create_dir_all(&place.0).unwrap();
        for (name, key) in [("ksk", samples::KSK), ("zsk", samples::ZSK), ("rsa", samples::RSA256)]
        {
            place.key(name, key);
        }
        place.write("db", ZONE);
        place
    }

    /// Writes a file.
    fn write(&self, name: &str, text: &str) {
        std::fs::write(self.0.join(name), text).unwrap();
    }

    /// Writes the files of a key.
    fn key(&self, name: &str, [public, private]: [&str; 2]) {
        self.write(&format!("{name}.key"), public);
        self.write(&format!("{name}.private"), private);
    }

    /// A gateway for a block of example.org.
    fn bench(&self, lines: &str) -> Bench {
        Bench::new(crate::CHAIN, &self.corefile(lines))
    }

    /// The Corefile of a block of example.org.
    fn corefile(&self, lines: &str) -> String {
        format!("example.org {{\n root {}\n{lines}\n}}\n", self.0.display())
    }
}

/// `dnssec` with the KSK over the zone's file.
const OVER_FILE: &str = " dnssec {\n  key file ksk\n }\n file db {\n  reload 0\n }";

/// The records of a message that is signed by one key, checked. Each set as `answer www.example.org. A`, with a plus sign behind if it has
/// one signature that is good; of NSEC records also the next name and the types.
fn checked(message: &[u8], keys: &[Key]) -> Vec<String> {
    let mut answer = Answer::default();
    scan::read(message, &mut answer).unwrap();
    let mut shown: Vec<String> = Vec::new();
    for rr in answer.records().iter().filter(|rr| rr.rtype != rtype::RRSIG) {
        let section = match rr.section {
            Section::Answer => "answer",
            Section::Authority => "authority",
            Section::Additional => "additional",
        };
        let owner = answer.owner(rr);
        let set = answer.section(rr.section);
        let set = set.filter(|other| other.rtype == rr.rtype && answer.owner(other) == owner);
        let form = body(owner, rr.rtype, ORIGINAL_TTL, set.map(|other| answer.data(other)));
        let mut good = String::new();
        for other in answer.section(rr.section) {
            let data = answer.data(other);
            if other.rtype != rtype::RRSIG
                || !data.starts_with(&rr.rtype.to_be_bytes())
                || answer.owner(other) != owner
            {
                continue;
            }
            assert_eq!(other.ttl, rr.ttl);
            assert_eq!((data[3], &data[4..8]), (labels(owner), &[0, 0, 0x0e, 0x10][..]));
            let time =
                |at: usize| u64::from(u32::from_be_bytes(data[at..at + 4].try_into().unwrap()));
            let age = now() - (time(12) + 3 * 3600);
            assert!(age < 60 && time(8) - time(12) == 8 * 86_400 + 3 * 3600, "{age}");
            let (_, len) = Name::read(&data[18..]).unwrap();
            let (head, signature) = data.split_at(18 + len);
            let key = keys.iter().find(|key| key.tag().to_be_bytes() == data[16..18]).unwrap();
            let point = [&[4], &key.data()[4..]].concat();
            let public = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point);
            let signed = [head, &form].concat();
            assert!(public.verify(&signed, signature).is_ok(), "{}", name_text(owner));
            good.push('+');
        }
        let mut line = format!("{section} {} {}{good}", name_text(owner), type_name(rr.rtype));
        if rr.rtype == rtype::NSEC {
            let (next, len) = Name::read(answer.data(rr)).unwrap();
            let types: Vec<_> = types_in(&answer.data(rr)[len..]).map(type_name).collect();
            line.push_str(&format!(" {next} {}", types.join(" ")));
        }
        if !shown.contains(&line) {
            shown.push(line);
        }
    }
    shown
}

/// Asks, and checks the signatures; the response code, the flags and the sets.
fn ask(bench: &Bench, line: &str) -> (String, Vec<String>) {
    let message = bench.serve(&mut bench.exchange(line));
    let text = show(&message);
    let keys = [samples::key(samples::KSK), samples::key(samples::ZSK)];
    let head = text.split(" |").next().unwrap_or_default().to_owned();
    (head, checked(&message, &keys))
}

/// The types that a name is said to have that is not there, without one.
fn none(missing: &str) -> String {
    let all = "A HINFO TXT AAAA LOC SRV CERT SSHFP RRSIG NSEC TLSA HIP OPENPGPKEY SPF";
    let all: Vec<&str> = all.split(' ').filter(|kind| *kind != missing).collect();
    all.join(" ")
}

/// The types that a name is said to have that is there, without one.
fn plain(missing: &str) -> String {
    let all = "A PTR HINFO MX TXT RP AFSDB AAAA LOC SRV NAPTR KX CERT APL SSHFP IPSECKEY RRSIG NSEC DHCID TLSA SMIMEA HIP OPENPGPKEY SVCB HTTPS SPF URI CAA";
    let all: Vec<&str> = all.split(' ').filter(|kind| *kind != missing).collect();
    all.join(" ")
}

/// The facts `dnssec.zones`, `dnssec.sig`, `dnssec.ns`, `dnssec.below`, `dnssec.clock`.
#[test]
fn what_is_there_is_signed() {
    let place = Place::new();
    let bench = place.bench(OVER_FILE);
    let servers = "authority example.org. NS+";
    for (line, want) in [
        ("example.org SOA +do", vec!["answer example.org. SOA+", servers]),
        ("www.example.org A +do", vec!["answer www.example.org. A+", servers]),
        ("WWW.example.org A +do", vec!["answer www.example.org. A+", servers]),
        (
            "example.org MX +do",
            vec!["answer example.org. MX+", servers, "additional mail.example.org. A+"],
        ),
        // Of a wildcard the name asked for is signed, as if it were there.
        ("x.w.example.org A +do", vec!["answer x.w.example.org. A+", servers]),
        ("*.w.example.org A +do", vec!["answer *.w.example.org. A+", servers]),
        (
            "alias.example.org A +do",
            vec!["answer alias.example.org. CNAME+", "answer www.example.org. A+", servers],
        ),
        ("alias.example.org CNAME +do", vec!["answer alias.example.org. CNAME+", servers]),
        // What a DNAME record makes is not signed, and nothing is twice.
        (
            "x.dn.example.org A +do",
            vec![
                "answer dn.example.org. DNAME+",
                "answer x.dn.example.org. CNAME",
                "answer x.w.example.org. A+",
                servers,
            ],
        ),
        // What it leads to is not ours.
        ("ext.example.org A +do", vec!["answer ext.example.org. CNAME+", servers]),
        ("sec.example.org DS +do", vec!["answer sec.example.org. DS+", servers]),
    ] {
        let (head, sets) = ask(&bench, line);
        assert_eq!(
            (&*head, sets),
            ("NOERROR aa rd", want.iter().map(|set| (*set).to_owned()).collect()),
            "{line}"
        );
    }
}

/// The facts `dnssec.denial`, `dnssec.bitmap`, `dnssec.nonsec3`.
#[test]
fn what_is_not_there_is_proved() {
    let place = Place::new();
    let bench = place.bench(OVER_FILE);
    let soa = "authority example.org. SOA+";
    let nsec = |name: &str, types: &str| format!("authority {name} NSEC+ \\000.{name} {types}");
    for (line, want) in [
        ("www.example.org TXT +do", vec![nsec("www.example.org.", &plain("TXT"))]),
        ("www.example.org TYPE65400 +do", vec![nsec("www.example.org.", &plain(""))]),
        ("nope.example.org A +do", vec![nsec("nope.example.org.", &none("A"))]),
        ("a.b.nope.example.org AAAA +do", vec![nsec("a.b.nope.example.org.", &none("AAAA"))]),
        ("ent.example.org A +do", vec![nsec("ent.example.org.", &plain("A"))]),
        ("w.example.org A +do", vec![nsec("w.example.org.", &plain("A"))]),
        (
            "example.org TXT +do",
            vec![nsec(
                "example.org.",
                "A NS SOA PTR HINFO MX RP AFSDB AAAA LOC SRV NAPTR KX CERT APL SSHFP IPSECKEY RRSIG NSEC DNSKEY DHCID TLSA SMIMEA HIP CDS CDNSKEY OPENPGPKEY CSYNC ZONEMD SVCB HTTPS SPF URI CAA",
            )],
        ),
        // An alias leads to the name that has nothing (RFC 2308 §2.2).
        (
            "alias.example.org TXT +do",
            vec![
                "answer alias.example.org. CNAME+".to_owned(),
                nsec("www.example.org.", &plain("TXT")),
            ],
        ),
        (
            "dang.example.org A +do",
            vec![
                "answer dang.example.org. CNAME+".to_owned(),
                nsec("nowhere.example.org.", &none("A")),
            ],
        ),
        (
            "x.dn.example.org TXT +do",
            vec![
                "answer dn.example.org. DNAME+".to_owned(),
                "answer x.dn.example.org. CNAME".to_owned(),
                nsec("x.w.example.org.", &plain("TXT")),
            ],
        ),
        // No zone below: the proof must not say that there is one.
        ("www.example.org DS +do", vec![nsec("www.example.org.", &plain("DS"))]),
        ("nope.example.org DS +do", vec![nsec("nope.example.org.", &none("DS"))]),
        ("sub.example.org DS +do", vec![nsec("sub.example.org.", &format!("A NS {}", &none("A")))]),
    ] {
        let (head, mut sets) = ask(&bench, line);
        assert_eq!(head, "NOERROR aa rd", "{line}");
        sets.retain(|set| set != soa);
        assert_eq!(sets, want, "{line}");
    }
    let reply = bench.now("nope.example.org A +do");
    assert!(reply.contains("example.org. 300 SOA") && reply.contains("nope.example.org. 300 NSEC"));
}

/// The fact `dnssec.nsecq`.
#[test]
fn an_nsec_record_that_was_asked_for_is_the_answer() {
    let place = Place::new();
    let bench = place.bench(OVER_FILE);
    let (head, sets) = ask(&bench, "www.example.org NSEC +do");
    assert_eq!(head, "NOERROR aa rd");
    let want = format!("answer www.example.org. NSEC+ \\000.www.example.org. {}", plain(""));
    assert_eq!(sets, [want]);
}

/// The fact `dnssec.deleg`.
#[test]
fn referrals_have_ds_records_or_the_proof_that_there_are_none() {
    let place = Place::new();
    let bench = place.bench(OVER_FILE);
    let proof =
        format!("authority sub.example.org. NSEC+ \\000.sub.example.org. A NS {}", none("A"));
    let (head, sets) = ask(&bench, "www.sub.example.org A +do");
    assert_eq!(head, "NOERROR rd");
    let referral = ["authority sub.example.org. NS", &proof, "additional ns.sub.example.org. A"];
    assert_eq!(sets, referral);
    let (_, sets) = ask(&bench, "x.sec.example.org A +do");
    assert_eq!(sets, ["authority sec.example.org. NS", "authority sec.example.org. DS+"]);
    // An alias that leads there.
    let (_, sets) = ask(&bench, "outside.example.org A +do");
    assert_eq!(sets, [&["answer outside.example.org. CNAME+"][..], &referral].concat());
}

/// The facts `dnssec.do_only`, `dnssec.dnskey`.
#[test]
fn clients_that_do_not_ask_get_nothing_but_the_keys() {
    let place = Place::new();
    let bench = place.bench(OVER_FILE);
    for line in
        ["www.example.org A", "nope.example.org A", "www.sub.example.org A", "www.example.org NSEC"]
    {
        let bare = place.bench(" file db {\n  reload 0\n }").now(line);
        assert_eq!(bench.now(line), bare);
    }
    let (head, sets) = ask(&bench, "example.org DNSKEY");
    assert_eq!((&*head, sets), ("NOERROR aa rd", vec!["answer example.org. DNSKEY".to_owned()]));
    let (head, sets) = ask(&bench, "example.org DNSKEY +do");
    assert_eq!((&*head, sets), ("NOERROR aa rd", vec!["answer example.org. DNSKEY+".to_owned()]));
    assert!(bench.now("example.org DNSKEY").contains("example.org. 3600 DNSKEY 0101030d"));
    // Below the apex there is none, and none for the parent.
    let (_, sets) = ask(&bench, "www.example.org DNSKEY +do");
    assert!(sets[1].starts_with("authority www.example.org. NSEC+"), "{sets:?}");
    let (_, sets) = ask(&bench, "example.org CDS +do");
    assert!(sets[1].starts_with("authority example.org. NSEC+"), "{sets:?}");
}

/// The facts `dnssec.split`, `dnssec.key.file`.
#[test]
fn keys_share_the_work() {
    let place = Place::new();
    for (keys, records, own) in [
        ("ksk zsk", "12921", "17122"),
        ("zsk.key", "12921", "12921"),
        ("ksk.private", "17122", "17122"),
    ] {
        let lines = format!(" dnssec {{\n  key file {keys}\n }}\n file db {{\n  reload 0\n }}");
        let bench = place.bench(&lines);
        for (line, want) in [("www.example.org A +do", records), ("example.org DNSKEY +do", own)] {
            let message = bench.serve(&mut bench.exchange(line));
            let mut answer = Answer::default();
            scan::read(&message, &mut answer).unwrap();
            let signed = answer.section(Section::Answer).filter(|rr| rr.rtype == rtype::RRSIG);
            let tags: Vec<String> = signed
                .map(|rr| {
                    u16::from_be_bytes(answer.data(rr)[16..18].try_into().unwrap()).to_string()
                })
                .collect();
            assert_eq!(tags, [want], "{keys} {line}");
        }
        let (_, sets) = ask(&bench, "example.org DNSKEY +do");
        assert_eq!(sets, ["answer example.org. DNSKEY+"]);
    }
}

/// The facts `dnssec.denial` and `dnssec.below` where there is no SOA record.
#[test]
fn zones_without_files_are_signed_too() {
    let place = Place::new();
    let over = |lines: &str| place.bench(&format!(" dnssec {{\n  key file ksk\n }}\n{lines}"));
    let nsec = |name: &str, missing: &str| {
        format!("authority {name} NSEC+ \\000.{name} {}", plain(missing))
    };
    let bench = over(" hosts {\n  203.0.113.1 www.example.org\n  no_reverse\n }");
    for (line, want) in [
        ("www.example.org A +do", "answer www.example.org. A+".to_owned()),
        ("www.example.org AAAA +do", nsec("www.example.org.", "AAAA")),
    ] {
        let (head, mut sets) = ask(&bench, line);
        // Resolvers want an SOA record, and nobody behind has one.
        let soa = sets.iter().any(|set| set == "authority example.org. SOA+");
        assert_eq!(soa, line.contains("AAAA"));
        sets.retain(|set| !set.contains("SOA+"));
        assert_eq!((&*head, sets), ("NOERROR aa rd", vec![want]), "{line}");
    }
    let bench = over(
        " template IN A {\n  match ^www\n  answer \"{{ .Name }} 60 IN A 203.0.113.1\"\n  fallthrough\n }\n \
         template ANY ANY {\n  rcode NXDOMAIN\n  authority \"example.org. 60 IN SOA a. b. 1 2 3 4 5\"\n }",
    );
    let soa = "authority example.org. SOA+".to_owned();
    for (line, want) in [
        ("www.example.org A +do", vec!["answer www.example.org. A+".to_owned()]),
        (
            "www.example.org AAAA +do",
            vec![
                soa,
                format!("authority www.example.org. NSEC+ \\000.www.example.org. {}", none("AAAA")),
            ],
        ),
    ] {
        let (head, sets) = ask(&bench, line);
        assert!(head.starts_with("NOERROR"), "{head}");
        assert_eq!(sets, want, "{line}");
    }
}

/// The facts `dnssec.zones`, `dnssec.sig`: each zone signs its own, and nothing else is.
#[test]
fn other_zones_stay_as_they_are() {
    let place = Place::new();
    place.write(
        "net",
        "@ 60 SOA a b 1 2 3 4 5\n@ NS a\na A 203.0.113.1\nalias CNAME www.example.org.\n",
    );
    place.write("sub", "$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS a\na A 203.0.113.1\n");
    let text = format!(
        "example.org example.net {{\n root {}\n dnssec example.org sub.example.org {{\n  key file ksk\n }}\n \
         file db example.org\n file net example.net\n file sub sub.example.org\n}}\n",
        place.0.display()
    );
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let _inside = runtime.enter();
    let bench = Bench::new(crate::CHAIN, &text);
    let (_, sets) = ask(&bench, "a.example.net A +do");
    assert_eq!(sets, ["answer a.example.net. A", "authority example.net. NS"]);
    let (_, sets) = ask(&bench, "alias.example.net A +do");
    assert_eq!(sets[..2], ["answer alias.example.net. CNAME", "answer www.example.org. A+"]);
    let signer = |line: &str, kind: u16| {
        let message = bench.serve(&mut bench.exchange(line));
        let mut answer = Answer::default();
        scan::read(&message, &mut answer).unwrap();
        let found = answer.records().iter().find(|rr| {
            rr.rtype == rtype::RRSIG && answer.data(rr).starts_with(&kind.to_be_bytes())
        });
        found.map(|rr| name_text(&answer.data(rr)[18..]))
    };
    assert_eq!(signer("a.sub.example.org A +do", rtype::A).as_deref(), Some("sub.example.org."));
    assert_eq!(
        signer("a.sub.example.org TXT +do", rtype::NSEC).as_deref(),
        Some("sub.example.org.")
    );
    // The DS records of a zone's own name are those of the zone above, and so is their denial.
    assert_eq!(signer("sub.example.org DS +do", rtype::NSEC).as_deref(), Some("example.org."));
    let (_, sets) = ask(&bench, "sub.example.org DS +do");
    assert!(
        sets.iter().any(|set| set.contains("NSEC+") && set.contains(" A NS HINFO")),
        "{sets:?}"
    );
    assert_eq!(
        signer("sub.example.org DNSKEY +do", rtype::DNSKEY).as_deref(),
        Some("sub.example.org.")
    );
    // Answers of failures and other classes are nobody's to sign.
    assert_eq!(bench.now("example.org AXFR +do +tcp"), bench.now("example.org AXFR +edns +tcp"));
}

/// The facts `dnssec.cache`, `dnssec.M`.
#[test]
fn signatures_are_made_once() {
    let place = Place::new();
    let listener = 5391;
    let text = format!(
        "example.org:{listener} {{\n root {}\n dnssec {{\n  key file ksk\n  cache_capacity 2\n }}\n file db {{\n  reload 0\n }}\n}}\n",
        place.0.display()
    );
    let bench = Bench::new(crate::CHAIN, &text);
    let figure = |name: &str| {
        let server = format!("server=\"dns://:{listener}\"");
        let text = engine::metrics::render();
        let line = text.lines().find(|line| line.starts_with(name) && line.contains(&server));
        line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).unwrap_or_default()
    };
    let figures = || {
        let names = ["coredns_dnssec_cache_hits_total", "coredns_dnssec_cache_misses_total"];
        (names.map(figure), figure("coredns_dnssec_cache_entries{"))
    };
    // The answer, and the servers.
    let first = bench.now("www.example.org A +do");
    assert_eq!(figures(), ([0.0, 2.0], 2.0));
    assert_eq!(bench.now("www.example.org A +do"), first);
    assert_eq!(figures(), ([2.0, 2.0], 2.0));
    // No more than so many are kept.
    for number in 0..20 {
        ask(&bench, &format!("n{number}.w.example.org A +do"));
    }
    assert_eq!(figure("coredns_dnssec_cache_entries{"), 2.0);
    assert!(engine::metrics::render().contains("type=\"signature\""));
}

/// The fact `dnssec.cache`: what has less than three quarters of its life left is made anew, and swept.
#[test]
fn signatures_age() {
    let place = Place::new();
    let zones = crate::shared::zones::Zones::new([Name::parse("example.org").unwrap()]);
    let files = crate::shared::dnssec::KeyFiles::new([place.0.join("ksk")]);
    let signer = super::signer::Signer::new(
        zones,
        Box::new(super::setup::Keys { files, secrets: None }),
        100,
    )
    .unwrap();
    let keys = signer.keys();
    let form = body(b"\x01a\0", rtype::A, ORIGINAL_TTL, [&[198, 51, 100, 1][..]].into_iter());
    let wish = super::signer::Wish { zone: 0, rtype: rtype::A, labels: 1, body: form };
    let day = 86_400;
    let begun = 1_800_000_000;
    assert!(signer.made(&keys, &wish, begun).is_none());
    signer.make(&keys, &wish, begun).unwrap();
    for (age, good) in [(0, true), (2 * day - 1, true), (2 * day, false)] {
        assert_eq!(signer.made(&keys, &wish, begun + age).is_some(), good, "{age}");
    }
    // A clock that was set back makes signatures of the future.
    assert!(signer.made(&keys, &wish, begun - 4 * 3600).is_none());
    signer.cache.sweep(0, begun + day);
    assert_eq!(signer.cache.count(), 1);
    signer.cache.sweep(0, begun + 2 * day);
    assert_eq!(signer.cache.count(), 0);
}

/// Keys that take long to sign with are waited for.
#[tokio::test]
async fn slow_keys_do_not_hold_up_others() {
    let place = Place::new();
    let bench = place.bench(" dnssec {\n  key file rsa\n }\n file db {\n  reload 0\n }");
    let first = bench.ask("nope.example.org A +do").await;
    assert!(first.contains("nope.example.org. 300 RRSIG 002f0803"), "{first}");
    // What was made is there at once.
    assert_eq!(bench.now("nope.example.org A +do"), first);
    let keys = bench.ask("example.org DNSKEY +do").await;
    assert!(keys.starts_with("NOERROR aa rd") && keys.contains("RRSIG 00300802"), "{keys}");
    assert_eq!(bench.now("example.org DNSKEY +do"), keys);
    let referral = bench.ask("x.sub.example.org A +do").await;
    assert!(referral.contains("sub.example.org. 300 RRSIG 002f0803"), "{referral}");
    assert!(!referral.contains("RRSIG 0002") && !referral.contains("RRSIG 0001"), "{referral}");
}

/// The facts `dnssec.key.fit`, `dnssec.key.file`, `dnssec.err`.
#[test]
fn what_is_wrong_is_refused() {
    let place = Place::new();
    place.key("strange", [samples::KSK[0], samples::ZSK[1]]);
    place.key("other", [&samples::KSK[0].replace("example.org.", "example.net."), samples::KSK[1]]);
    for (lines, want) in [
        ("key file nowhere", "nowhere.key: No such file"),
        ("key file strange", "strange.key: the private key is not the one of the public key"),
        (
            "key file other",
            "key example.net. (keyid: 17122) can not sign any of the zones example.org.",
        ),
        ("key file", "Wrong argument count"),
        ("key", "Wrong argument count"),
        ("key folder ksk", "'folder'"),
        ("cache_capacity many", "many"),
        ("cache_capacity -1", "-1"),
        ("cache_capacity", "Wrong argument count"),
        ("cache_capacity 1 2", "2"),
        ("nsec3", "nsec3"),
    ] {
        let corefile = place.corefile(&format!(" dnssec {{\n  {lines}\n }}\n whoami"));
        let wrong = Bench::refused(crate::CHAIN, &corefile);
        assert!(wrong.contains(want), "{lines}: {wrong}");
    }
    let twice = place.corefile(" dnssec\n dnssec\n whoami");
    assert!(Bench::refused(crate::CHAIN, &twice).contains("once per Server Block"));
}

/// The fact `dnssec.nokeys`.
#[test]
fn without_keys_nothing_is_signed() {
    let place = Place::new();
    let bench = place.bench(" dnssec\n file db {\n  reload 0\n }");
    assert!(
        bench.built.warnings[0].what.contains("there are no keys"),
        "{:?}",
        bench.built.warnings
    );
    let bare = place.bench(" file db {\n  reload 0\n }");
    for line in ["www.example.org A +do", "nope.example.org A +do", "example.org DNSKEY +do"] {
        assert_eq!(bench.now(line), bare.now(line));
    }
}

/// Keys that are changed are taken up; those that are broken are not.
#[test]
fn the_last_good_keys_sign() {
    let place = Place::new();
    let zones = crate::shared::zones::Zones::new([Name::parse("example.org").unwrap()]);
    let files = crate::shared::dnssec::KeyFiles::new([place.0.join("ksk")]);
    let signer = super::signer::Signer::new(
        zones,
        Box::new(super::setup::Keys { files, secrets: None }),
        100,
    )
    .unwrap();
    let tags = || signer.keys().of_zone(0).map(Key::tag).collect::<Vec<_>>();
    let broken = || {
        let text = engine::metrics::render();
        text.lines().any(|line| line == "causeway_dnssec_keys_broken{zones=\"example.org.\"} 1")
    };
    logged();
    signer.refresh();
    assert_eq!((tags(), logged()), (vec![17122], vec![]));
    place.write("ksk.private", "Private-key-format: v1.3\nAlgorithm: 13\nPrivateKey: AAAA\n");
    signer.refresh();
    signer.refresh();
    let lines = logged();
    assert!(lines.len() == 1 && lines[0].starts_with("[ERROR] plugin/dnssec: "), "{lines:?}");
    assert!(lines[0].ends_with("the last good keys go on signing") && !lines[0].contains("AAAA"));
    assert!(tags() == [17122] && broken());
    place.key("ksk", samples::ZSK);
    signer.refresh();
    assert_eq!(
        (tags(), logged()),
        (vec![12921], vec!["[INFO] plugin/dnssec: the keys are now 12921".to_owned()])
    );
    assert!(!broken());
    std::fs::remove_file(place.0.join("ksk.key")).unwrap();
    signer.refresh();
    assert!(tags() == [12921] && broken() && logged().len() == 1);
}

/// A path below a root that is not there is one of the root's.
#[test]
fn names_of_keys_may_have_dots() {
    let files =
        crate::shared::dnssec::KeyFiles::new([Path::new("/nowhere/K.+013+1").to_path_buf()]);
    let wrong = files.read().unwrap_err().to_string();
    assert!(wrong.starts_with("cannot read /nowhere/K.+013+1.key: "), "{wrong}");
}

/// Gives a key that cannot sign.
#[derive(Debug)]
struct Dead;

impl super::signer::Source for Dead {
    fn read(&self) -> Option<Result<Vec<Key>, String>> {
        Some(Ok(vec![samples::key(samples::KSK).dead()]))
    }
}

/// Answers with an address, and signs with a key that cannot.
static DEAD: engine::Descriptor = engine::Descriptor {
    name: "dead",
    readme: "",
    setup: |setup| {
        let zones = crate::shared::zones::Zones::new([Name::ROOT
            .child(b"org")
            .unwrap()
            .child(b"example")
            .unwrap()]);
        let signer = super::signer::Signer::new(zones, Box::new(Dead), 10).unwrap();
        let figures = super::figures::Figures::new(setup.routes());
        setup.install(super::handler::Dnssec { signer: std::sync::Arc::new(signer), figures });
        Ok(())
    },
};

/// The fact `dnssec.alg.fail`.
#[test]
fn a_key_that_fails_leaves_the_set_as_it_is() {
    static CHAIN: &[&engine::Descriptor] = &[&DEAD, &crate::shared::testing::ANSWERS];
    let bench = Bench::new(CHAIN, "example.org {\n dead\n answers\n}\n");
    logged();
    assert_eq!(
        bench.now("www.example.org A +do"),
        "NOERROR aa rd | www.example.org. 30 A 198.51.100.1"
    );
    assert!(logged().is_empty());
}

/// The fact `minimal.signed`.
#[test]
fn what_minimal_takes_away_is_not_signed() {
    let place = Place::new();
    for (lines, wanted) in [(OVER_FILE.to_owned(), 2), (format!(" minimal\n{OVER_FILE}"), 1)] {
        let reply = place.bench(&lines).now("www.example.org A +do");
        // The answer with its signature, and the zone's servers with theirs.
        assert_eq!(reply.matches(" RRSIG ").count(), wanted, "{reply}");
    }
}

/// The fact `dnssec.key.aws`.
#[tokio::test]
async fn keys_come_from_secrets() {
    use crate::shared::cloud::stub::{Reply, Stub};
    let secret = |[public, private]: [&str; 2]| {
        let text = serde_json::json!({ "key": public, "private": private }).to_string();
        Reply::ok(serde_json::json!({ "Name": "zone", "SecretString": text }))
    };
    let stub = Stub::new(move |_| secret(samples::KSK));
    let url = stub.url();
    let env = crate::shared::environment::Environment::new(move |name| match name {
        "AWS_ENDPOINT_URL_SECRETS_MANAGER" => Some(url.clone()),
        "AWS_ACCESS_KEY_ID" => Some("AKIDEXAMPLE".to_owned()),
        "AWS_SECRET_ACCESS_KEY" => Some("s3cret".to_owned()),
        "AWS_REGION" => Some("eu-west-1".to_owned()),
        _ => None,
    });
    let fetch = crate::shared::fetch::Fetch::new(&certs::ClientTls::new(None, None).unwrap());
    let secrets =
        std::sync::Arc::new(super::secrets::Secrets::new(fetch, env, vec!["zone".to_owned()]));
    let zones = crate::shared::zones::Zones::new([Name::parse("example.org").unwrap()]);
    let files = crate::shared::dnssec::KeyFiles::new([]);
    let keys = super::setup::Keys { files, secrets: Some(std::sync::Arc::clone(&secrets)) };
    let signer = super::signer::Signer::new(zones, Box::new(keys), 100).unwrap();
    let tags = || signer.keys().of_zone(0).map(Key::tag).collect::<Vec<_>>();
    assert!(tags().is_empty() && !secrets.are_there());
    secrets.fetch().await.unwrap();
    signer.take().unwrap();
    assert!(tags() == [17122] && secrets.are_there());
    let asked = stub.asked().remove(0);
    assert_eq!(
        (&*asked.method, asked.header("x-amz-target")),
        ("POST", "secretsmanager.GetSecretValue")
    );
    assert_eq!(asked.body, "{\"SecretId\":\"zone\"}");
    let scope = "/eu-west-1/secretsmanager/aws4_request";
    assert!(asked.header("authorization").contains(scope), "{asked:?}");
    // What is wrong is told without the secret, and the last good keys stay.
    for (reply, want) in [
        (
            Reply::Status(
                400,
                "{\"__type\":\"ResourceNotFoundException\",\"message\":\"no such secret\"}"
                    .to_owned(),
            ),
            "ResourceNotFoundException: no such secret",
        ),
        (Reply::ok("hello"), "the reply is no JSON"),
        (Reply::ok("{\"SecretBinary\":\"aa\"}"), "it has no text"),
        (Reply::ok("{\"SecretString\":\"s3cret text\"}"), "is not of the form"),
        (Reply::ok("{\"SecretString\":\"{\\\"key\\\":\\\"s3cret\\\"}\"}"), "is not of the form"),
        (secret([samples::KSK[0], samples::ZSK[1]]), "not the one of the public key"),
    ] {
        stub.answer(move |_| reply.clone());
        let wrong = match secrets.fetch().await {
            Err(wrong) => wrong,
            Ok(()) => signer.take().unwrap_err(),
        };
        assert!(wrong.starts_with("secret \"zone\": ") && wrong.contains(want), "{wrong}");
        assert!(!wrong.contains("s3cret") && tags() == [17122]);
    }
    stub.answer(move |_| secret(samples::ED25519));
    secrets.fetch().await.unwrap();
    signer.refresh();
    assert_eq!(tags(), [34131]);
}
