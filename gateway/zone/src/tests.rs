//! Zone files and what their zones say.

use std::io::{self, BufRead, Cursor as Text};

use wire::{Answer, Name, Section, rcode, rtype, text};

use crate::reader::{Files, NoFiles, Read, read};
use crate::{Builder, Cursor, Delta, Found, Unfit, Zone};

/// A name.
fn name(text: &str) -> Name {
    Name::parse(text).unwrap()
}

/// A zone `example.org` from text, with an SOA record in front.
fn zone(text: &str) -> Zone {
    let text = format!("@ 3600 IN SOA ns1 hostmaster 7 7200 3600 1209600 300\n{text}");
    parse(&text).unwrap().zone
}

/// A zone `example.org` from the text of a file.
fn parse(text: &str) -> Result<Read, String> {
    let read = read(text.as_bytes(), "db", &name("example.org"), &NoFiles);
    read.map_err(|wrong| wrong.to_string())
}

/// All records of a zone but the SOA record, a line each: `owner ttl TYPE data in hexadecimal`.
fn lines(zone: &Zone) -> Vec<String> {
    let (mut all, mut at) = (Vec::new(), Cursor::default());
    zone.walk(&mut at, |owner, kind, ttl, data| {
        all.push(line(owner.wire(), kind, ttl, data));
        true
    });
    all
}

/// A record in words.
fn line(owner: &[u8], kind: u16, ttl: u32, data: &[u8]) -> String {
    let data = match kind {
        rtype::A => format!("{}.{}.{}.{}", data[0], data[1], data[2], data[3]),
        rtype::NS | rtype::CNAME | rtype::DNAME | rtype::NSEC => text::name_text(data),
        rtype::RRSIG => text::type_name(u16::from_be_bytes([data[0], data[1]])).into_owned(),
        rtype::SOA => "soa".to_owned(),
        _ => data.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    format!("{} {ttl} {} {data}", text::name_text(owner), text::type_name(kind))
        .replace("example.org.", "o.")
}

/// An answer in words: how the look-up ended, code, AA, and the sections.
fn ask(zone: &Zone, question: &str) -> String {
    let mut words = question.split(' ');
    let (asked, kind) = (words.next().unwrap(), words.next().unwrap());
    let mut answer = Answer::default();
    let kind = text::type_number(kind).unwrap();
    let dnssec = words.next() == Some("do");
    let finding = zone.look_up(&name(&format!("{asked}example.org")), kind, dnssec, &mut answer);
    let found = match &finding.found {
        Found::Elsewhere(target) => format!("Elsewhere({target})"),
        found => format!("{found:?}"),
    };
    let code = if answer.rcode == 0 {
        String::new()
    } else {
        format!(" {}", text::rcode_name(answer.rcode))
    };
    let mut out = format!("{found}{code}{}", if answer.is_authoritative() { " aa" } else { "" });
    for section in [Section::Answer, Section::Authority, Section::Additional] {
        let records: Vec<String> = answer
            .section(section)
            .map(|rr| line(answer.owner(rr), rr.rtype, rr.ttl, answer.data(rr)))
            .collect();
        out.push_str(" | ");
        out.push_str(&records.join("; "));
    }
    out.trim_end_matches([' ', '|']).to_owned()
}

#[test]
fn lines_of_a_file_are_read_as_they_lead_on() {
    let all = lines(&zone(
        r#"
        A 198.51.100.1
$TTL 1h
a       IN A ( 198.51.100.2 ; a comment
        )
        60 A 198.51.100.3
b       A 198.51.100.4
$ORIGIN sub
a       A 198.51.100.5
$ORIGIN deep.sub.example.org.
@       A 198.51.100.6
x\.y    A 198.51.100.7
z       TYPE65534 \# 2 abcd
t       TXT "a ; b" c"#,
    ));
    let want = [
        "o. 3600 A 198.51.100.1",
        "a.o. 60 A 198.51.100.2",
        "a.o. 60 A 198.51.100.3",
        "b.o. 3600 A 198.51.100.4",
        "a.sub.o. 3600 A 198.51.100.5",
        "deep.sub.o. 3600 A 198.51.100.6",
        "t.deep.sub.o. 3600 TXT 056120 3b20620163",
        r"x\.y.deep.sub.o. 3600 A 198.51.100.7",
        "z.deep.sub.o. 3600 TYPE65534 abcd",
    ];
    assert_eq!(all, want.map(|line| line.replace("056120 3b", "0561203b")));
}

#[test]
fn a_missing_time_to_live_is_the_last_one() {
    for (text, want) in [
        ("a A 198.51.100.1", 3600),
        ("a 5 A 198.51.100.9\na 7 TXT a\nb A 198.51.100.1", 7),
        ("$TTL 30\na 5 A 198.51.100.9\nb A 198.51.100.1", 30),
        ("$TTL 1m30s\nb A 198.51.100.1", 90),
        ("b 4294967295 A 198.51.100.1", 0),
    ] {
        let all = lines(&zone(text)).join("\n");
        assert!(all.contains(&format!(" {want} A 198.51.100.1")), "{text}: {all}");
    }
}

#[test]
fn records_are_generated() {
    for (text, want) in [
        (
            "$GENERATE 1-3 h$ A 198.51.100.$",
            "h1.o. 198.51.100.1,h2.o. 198.51.100.2,h3.o. 198.51.100.3",
        ),
        (
            "$GENERATE 0-4/2 h${10,4} 60 IN A 198.51.100.${1}",
            "h0010.o. 198.51.100.1,h0012.o. 198.51.100.3,h0014.o. 198.51.100.5",
        ),
        (
            "$GENERATE 10-11 h${0,2,x}-${0,3,X}-${0,0,o} A 198.51.100.1",
            "h0a-00a-12.o. 198.51.100.1,h0b-00b-13.o. 198.51.100.1",
        ),
        (r"$GENERATE 5-5 \$$$a$ A 198.51.100.1", "$$a5.o. 198.51.100.1"),
        ("$GENERATE 7-7 @ A 198.51.100.$", "o. 198.51.100.7"),
    ] {
        let all = lines(&zone(text));
        let all: Vec<_> =
            all.iter().map(|line| line.replace(" 3600 A", "").replace(" 60 A", "")).collect();
        assert_eq!(all.join(","), want, "{text}");
    }
}

/// Files by their names.
struct Folder(&'static [(&'static str, &'static str)]);

impl Files for Folder {
    fn open(&self, name: &str, _: &str) -> io::Result<(Box<dyn BufRead>, String)> {
        let found = self.0.iter().find(|(own, _)| *own == name);
        let (own, text) = found.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok((Box::new(Text::new(text.as_bytes())), (*own).to_owned()))
    }
}

#[test]
fn files_are_included() {
    const FOLDER: Folder = Folder(&[
        ("one", "$TTL 9\nx A 198.51.100.1\n$ORIGIN else.example.org.\ny A 198.51.100.2\n"),
        ("loop", "\n$INCLUDE loop\n"),
        ("bad", "\n\nx A nonsense\n"),
    ]);
    const SOA: &str = "@ SOA a b 1 2 3 4 5\n";
    let read = |text: &str| {
        let text = format!("{SOA}{text}");
        read(text.as_bytes(), "db", &name("example.org"), &FOLDER).map(|read| lines(&read.zone))
    };
    assert_eq!(
        read("a 60 A 198.51.100.3\n$INCLUDE one sub\n  A 198.51.100.4\nb A 198.51.100.5").unwrap(),
        [
            "a.o. 60 A 198.51.100.3",
            "a.o. 60 A 198.51.100.4",
            "b.o. 60 A 198.51.100.5",
            "y.else.o. 9 A 198.51.100.2",
            "x.sub.o. 9 A 198.51.100.1"
        ]
    );
    for (text, want) in [
        ("$INCLUDE loop", "loop:2: files include one another too deeply"),
        ("$INCLUDE bad", "bad:3: A: 'nonsense' is no IPv4 address"),
        ("$INCLUDE none", "db:2: cannot include none: entity not found"),
        ("$INCLUDE", "db:2: write: $INCLUDE FILE [ORIGIN]"),
    ] {
        assert_eq!(read(text).unwrap_err().to_string(), want, "{text}");
    }
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    const SOA: &str = "@ SOA a b 1 2 3 4 5\n";
    for (text, want) in [
        ("", "db: zone example.org. has no SOA record for its own name"),
        ("\n\n;x\n a A 198.51.100.1", "db:4: the first record has no owner"),
        ("SOA\nx A 1", "db:2: A: '1' is no IPv4 address"),
        ("SOA\nx TXT ( a\n b \"", "db:2: a quote is not closed"),
        ("SOA\nx TXT ( a\n b", "db:2: a parenthesis is not closed"),
        ("SOA\nx TXT a )", "db:2: a parenthesis is closed that is not open"),
        ("SOA\n$ORIGIN", "db:2: '$ORIGIN' is no directive with so many words"),
        ("SOA\n$ORIGIN a..b", "db:2: 'a..b' is no domain name"),
        ("SOA\n$TTL x", "db:2: 'x' is no time to live"),
        ("SOA\n$NONE x", "db:2: '$NONE' is no directive"),
        ("SOA\n\nx CH TXT a", "db:3: only records of class IN are served"),
        ("SOA\nx NSEC3PARAM 1 0 0 -", "db:2: NSEC3 is not served: sign the zone with NSEC"),
        ("SOA\n$INCLUDE a", "db:2: cannot include a: files are not included here"),
        ("SOA\n$GENERATE 1-2", "db:2: the record type is missing"),
        (
            "SOA\n$GENERATE 1 a A 198.51.100.1",
            "db:2: '1' is no range: write FROM-TO or FROM-TO/STEP",
        ),
        (
            "SOA\n$GENERATE 2-1 a A 198.51.100.1",
            "db:2: '2-1' is no range: it ends before it begins",
        ),
        (
            "SOA\n$GENERATE 1-2/0 a A 198.51.100.1",
            "db:2: '1-2/0' is no range: numbers and a step above 0",
        ),
        (
            "SOA\n$GENERATE 0-65536 a A 198.51.100.1",
            "db:2: '0-65536' is no range: it has more than 65,536 numbers",
        ),
        (
            "SOA\n$GENERATE 1-2 ${-9} A 198.51.100.1",
            "db:2: '${-9}' cannot be used: the number is negative or too large",
        ),
        (
            "SOA\n$GENERATE 1-2 ${0,999} A 198.51.100.1",
            "db:2: '${0,999}' cannot be used: the width is no number up to 255",
        ),
        (
            "SOA\n$GENERATE 1-2 ${0,1,n} A 198.51.100.1",
            "db:2: '${0,1,n}' cannot be used: the base is d, o, x or X",
        ),
    ] {
        assert_eq!(parse(&text.replace("SOA\n", SOA)).unwrap_err(), want, "{text}");
    }
    let long = format!("{SOA}x TXT {}", "a ".repeat(1 << 20));
    assert_eq!(parse(&long).unwrap_err(), "db:2: a record is longer than 1 MiB");
}

#[test]
fn what_the_zone_cannot_have_is_passed_over() {
    let read = parse(
        "@ SOA a b 1 2 3 4 5\nx.test. A 198.51.100.1\na SOA a b 1 2 3 4 5\n\nb A 198.51.100.2\nb CNAME x",
    )
    .unwrap();
    assert_eq!((lines(&read.zone).len(), read.passed_over), (2, 2));
    let notes: Vec<_> = read.notes.iter().map(ToString::to_string).collect();
    assert_eq!(
        notes,
        [
            "db:2: the record of x.test. is passed over: the name is outside of the zone",
            "db:3: the record of a.example.org. is passed over: an SOA record stands below the zone's own name",
            "db: b.example.org. has a CNAME record, so its other records are not seen",
        ]
    );
}

#[test]
fn octets_that_are_no_text_are_kept() {
    let mut text = b"@ SOA a b 1 2 3 4 5 ; \xe9\nt TXT \"\xe9\" \xc3\xa9\n".to_vec();
    text.extend_from_slice(b"m\xfc A 198.51.100.1");
    let read = read(&*text, "db", &name("example.org"), &NoFiles).unwrap();
    assert_eq!(lines(&read.zone), [r"m\252.o. 3600 A 198.51.100.1", "t.o. 3600 TXT 01e902c3a9"]);
}

#[test]
fn a_zone_is_in_canonical_order_and_each_record_is_there_once() {
    // The names of RFC 4034 §6.1.
    let zone = zone(
        "*.z A 198.51.100.1\n\\200.z A 198.51.100.1\nZ.a A 198.51.100.1\nzABC.a A 198.51.100.1\nyljkjljk.a A 198.51.100.1\nz A 198.51.100.1\n\\001.z 9 A 198.51.100.1\n\\001.z A 198.51.100.1\na A 198.51.100.1\n@ SOA ns2 hostmaster 8 7200 3600 1209600 300",
    );
    let names: Vec<_> =
        lines(&zone).iter().map(|line| line.split(' ').next().unwrap().to_owned()).collect();
    assert_eq!(
        names,
        [
            "a.o.",
            "yljkjljk.a.o.",
            "z.a.o.",
            "zabc.a.o.",
            "z.o.",
            r"\001.z.o.",
            "*.z.o.",
            r"\200.z.o."
        ]
    );
    assert_eq!(zone.soa().serial, 8);
    assert_eq!(zone.records(), 9);
}

#[test]
fn names_are_looked_up_as_wildcards_and_empty_names_have_it() {
    // The zone of RFC 4592 §2.2.1.
    let zone = zone(
        "
        NS ns.example.com.
        NS ns.example.net.
* 60 TXT \"w\"
* 60 MX 10 host1
sub.* 60 TXT \"s\"
host1 60 A 198.51.100.1
_ssh._tcp.host1 60 SRV 1 2 3 host1
_ssh._tcp.host2 60 SRV 1 2 3 host1
subdel 60 NS ns.example.com.
subdel 60 NS ns.example.net.
a.ent 60 A 198.51.100.2
*.cn 60 CNAME host1",
    );
    const NS: &str = "o. 3600 NS ns.example.com.; o. 3600 NS ns.example.net.";
    const SOA: &str = "o. 3600 SOA soa";
    for (question, want) in [
        ("host1. A", format!("Records aa | host1.o. 60 A 198.51.100.1 | {NS}")),
        (
            "host3. MX",
            format!(
                "Records aa | host3.o. 60 MX 000a05686f737431076578616d706c65036f726700 | {NS} | host1.o. 60 A 198.51.100.1"
            ),
        ),
        ("host3. A", format!("NoData aa |  | {SOA}")),
        ("foo.bar. TXT", format!("Records aa | foo.bar.o. 60 TXT 0177 | {NS}")),
        ("host1. MX", format!("NoData aa |  | {SOA}")),
        ("sub.*. MX", format!("NoData aa |  | {SOA}")),
        ("_telnet._tcp.host1. SRV", format!("NoName NXDOMAIN aa |  | {SOA}")),
        (
            "host.subdel. A",
            "Referral |  | subdel.o. 60 NS ns.example.com.; subdel.o. 60 NS ns.example.net."
                .to_owned(),
        ),
        ("ghost.*. MX", format!("NoName NXDOMAIN aa |  | {SOA}")),
        ("ent. A", format!("Hollow aa |  | {SOA}")),
        ("_tcp.host1. SRV", format!("Hollow aa |  | {SOA}")),
        (
            "q.cn. A",
            format!("Records aa | q.cn.o. 60 CNAME host1.o.; host1.o. 60 A 198.51.100.1 | {NS}"),
        ),
        ("q.cn. CNAME", format!("Records aa | q.cn.o. 60 CNAME host1.o. | {NS}")),
        ("q.cn. TXT", format!("NoData aa | q.cn.o. 60 CNAME host1.o. | {SOA}")),
        (" SOA", format!("Records aa | {SOA} | {NS}")),
        (" NS", format!("Records aa | {NS}")),
        (" DS", format!("NoData aa |  | {SOA}")),
        (" ANY", format!("Records aa | {NS}")),
        ("host1. ANY", "Records aa | host1.o. 60 A 198.51.100.1".to_owned()),
    ] {
        assert_eq!(ask(&zone, question), want, "{question}");
    }
    let mut answer = Answer::default();
    let finding = zone.look_up(&name("a.b.example.org"), rtype::TXT, false, &mut answer);
    assert_eq!(zone.wildcard(&finding), Some(name("*.example.org")));
}

#[test]
fn other_names_lead_on() {
    let zone = zone(
        "
    60 NS ns1
ns1 60 A 198.51.100.53
c1 60 CNAME c2
c2 60 CNAME ns1
out 60 CNAME www.example.net.
dang 60 CNAME gone
l1 60 CNAME l2
l2 60 CNAME l1
self 60 CNAME self
tosub 60 CNAME www.sub
sub 60 NS ns.sub
ns.sub 60 A 198.51.100.9
sub 60 DS 1 13 2 abcd
dn 60 DNAME target
dn 60 A 198.51.100.4
x.target 60 A 198.51.100.5
under.dn 60 A 198.51.100.6
ext 60 DNAME example.net.
loopd 60 DNAME loopd
$GENERATE 1-17 ch$ 60 CNAME ch${1}
ch18 60 A 198.51.100.18
both 60 CNAME ns1
both 60 A 198.51.100.66",
    );
    const NS: &str = "o. 60 NS ns1.o.";
    const SOA: &str = "o. 3600 SOA soa";
    for (question, want) in [
        ("c1. A", format!("Records aa | c1.o. 60 CNAME c2.o.; c2.o. 60 CNAME ns1.o.; ns1.o. 60 A 198.51.100.53 | {NS}")),
        ("both. A", format!("Records aa | both.o. 60 CNAME ns1.o.; ns1.o. 60 A 198.51.100.53 | {NS}")),
        ("c1. CNAME", format!("Records aa | c1.o. 60 CNAME c2.o. | {NS}")),
        ("out. A", format!("Elsewhere(www.example.net.) aa | out.o. 60 CNAME www.example.net. | {NS}")),
        ("dang. A", format!("NoName NXDOMAIN aa | dang.o. 60 CNAME gone.o. | {SOA}")),
        ("tosub. A", "Referral aa | tosub.o. 60 CNAME www.sub.o. | sub.o. 60 NS ns.sub.o. | ns.sub.o. 60 A 198.51.100.9".to_owned()),
        ("sub. NS", "Referral |  | sub.o. 60 NS ns.sub.o. | ns.sub.o. 60 A 198.51.100.9".to_owned()),
        ("sub. DS", format!("Records aa | sub.o. 60 DS 00010d02abcd | {NS}")),
        ("ns.sub. DS", "Referral |  | sub.o. 60 NS ns.sub.o. | ns.sub.o. 60 A 198.51.100.9".to_owned()),
        ("dn. A", format!("Records aa | dn.o. 60 A 198.51.100.4 | {NS}")),
        ("x.dn. A", format!("Records aa | dn.o. 60 DNAME target.o.; x.dn.o. 60 CNAME x.target.o.; x.target.o. 60 A 198.51.100.5 | {NS}")),
        ("x.dn. CNAME", format!("Records aa | dn.o. 60 DNAME target.o.; x.dn.o. 60 CNAME x.target.o. | {NS}")),
        ("under.dn. A", format!("NoName NXDOMAIN aa | dn.o. 60 DNAME target.o.; under.dn.o. 60 CNAME under.target.o. | {SOA}")),
        ("a.b.ext. A", format!("Elsewhere(a.b.example.net.) aa | ext.o. 60 DNAME example.net.; a.b.ext.o. 60 CNAME a.b.example.net. | {NS}")),
    ] {
        assert_eq!(ask(&zone, question), want, "{question}");
    }
    for circle in ["l1. A", "self. A", "y.loopd. A", "ch1. A"] {
        assert!(ask(&zone, circle).starts_with("Circle"), "{circle}");
    }
    assert!(ask(&zone, "ch2. A").contains("; ch18.o. 60 A 198.51.100.18 |"));
    // Four labels of 63 octets are too many once the target is put behind them.
    let long = format!("{0}.{0}.{0}.{1}.dn. A", "a".repeat(62), "b".repeat(46));
    assert!(
        ask(&zone, &long).starts_with("TooLong YXDOMAIN aa | dn.o. 60 DNAME target.o."),
        "{}",
        ask(&zone, &long)
    );
}

#[test]
fn addresses_go_with_what_leads_to_them() {
    let zone = zone(
        "
    60 NS ns.sub
    60 NS ns2
ns2 60 AAAA 2001:db8::53
sub 60 NS ns.sub
ns.sub 60 A 198.51.100.1
mx 60 MX 1 host
mx 60 MX 2 HOST
mx 60 MX 3 ns.sub
mx 60 MX 4 other.test.
host 60 A 198.51.100.2
svc 60 HTTPS 1 . port=1
svc 60 A 198.51.100.3
srv 60 SRV 1 2 3 Host
alias 60 HTTPS 0 .",
    );
    for (question, want) in [
        (" NS", "ns.sub.o. 60 A 198.51.100.1; ns2.o. 60 AAAA 20010db8000000000000000000000053"),
        ("mx. MX", "host.o. 60 A 198.51.100.2"),
        ("srv. SRV", "host.o. 60 A 198.51.100.2"),
        ("svc. HTTPS", "svc.o. 60 A 198.51.100.3"),
    ] {
        assert_eq!(ask(&zone, question).rsplit(" | ").next(), Some(want), "{question}");
    }
    assert_eq!(ask(&zone, "alias. HTTPS").matches(" | ").count(), 2);
    // Names in SRV records stay as written.
    assert!(ask(&zone, "srv. SRV").contains("04486f7374"));
}

/// A signed zone, whose signatures only say what they are of.
fn signed() -> Zone {
    let mut text = "
    60 NS ns1
ns1 60 A 198.51.100.1
*.w 60 A 198.51.100.2
a.ent 60 A 198.51.100.3
sec 60 NS ns.sec
sec 60 DS 1 13 2 abcd
ns.sec 60 A 198.51.100.4
unsec 60 NS ns.test.
dn 60 DNAME w
cn 60 CNAME ns1
@ NSEC cn NS SOA RRSIG NSEC
cn NSEC dn CNAME RRSIG NSEC
dn NSEC a.ent DNAME RRSIG NSEC
a.ent NSEC ns1 A RRSIG NSEC
ns1 NSEC sec A RRSIG NSEC
sec NSEC unsec NS DS RRSIG NSEC
unsec NSEC *.w NS RRSIG NSEC
*.w NSEC @ A RRSIG NSEC
"
    .to_owned();
    for (owner, types) in [
        ("@", "SOA NS NSEC"),
        ("ns1", "A NSEC"),
        ("*.w", "A NSEC"),
        ("a.ent", "A NSEC"),
        ("sec", "DS NSEC"),
        ("unsec", "NSEC"),
        ("dn", "DNAME NSEC"),
        ("cn", "CNAME NSEC"),
    ] {
        for kind in types.split(' ') {
            text.push_str(&format!(
                "{owner} 60 RRSIG {kind} 13 2 60 20300101000000 20200101000000 1 @ AAAA\n"
            ));
        }
    }
    zone(&text)
}

#[test]
fn a_signed_zone_proves_what_it_says() {
    let zone = signed();
    assert!(zone.is_signed());
    let ns = "o. 60 NS ns1.o.; o. 60 RRSIG NS";
    let soa = "o. 3600 SOA soa; o. 60 RRSIG SOA";
    let nsec = |owner: &str, next: &str| format!("{owner} 60 NSEC {next}; {owner} 60 RRSIG NSEC");
    let w = nsec("*.w.o.", "o.");
    for (question, want) in [
        ("ns1. A do", format!("Records aa | ns1.o. 60 A 198.51.100.1; ns1.o. 60 RRSIG A | {ns}")),
        ("ns1. A", "Records aa | ns1.o. 60 A 198.51.100.1 | o. 60 NS ns1.o.".to_owned()),
        // RFC 4035 §3.1.3.1 and §3.1.3.2: no data, no name.
        ("ns1. MX do", format!("NoData aa |  | {soa}; {}", nsec("ns1.o.", "sec.o."))),
        ("ent. A do", format!("Hollow aa |  | {soa}; {}", nsec("dn.o.", "a.ent.o."))),
        ("no. A do", format!("NoName NXDOMAIN aa |  | {soa}; {}; {}", nsec("a.ent.o.", "ns1.o."), nsec("o.", "cn.o."))),
        ("x.a.ent. A do", format!("NoName NXDOMAIN aa |  | {soa}; {}", nsec("a.ent.o.", "ns1.o."))),
        // RFC 4035 §3.1.3.3 and §3.1.3.4: by a wildcard.
        ("x.w. A do", format!("Records aa | x.w.o. 60 A 198.51.100.2; x.w.o. 60 RRSIG A | {ns}; {w}")),
        ("x.w. MX do", format!("NoData aa |  | {soa}; {w}")),
        // RFC 4035 §3.1.4: referrals.
        ("x.sec. A do", "Referral |  | sec.o. 60 NS ns.sec.o.; sec.o. 60 DS 00010d02abcd; sec.o. 60 RRSIG DS | ns.sec.o. 60 A 198.51.100.4".to_owned()),
        ("unsec. A do", format!("Referral |  | unsec.o. 60 NS ns.test.; {}", nsec("unsec.o.", "*.w.o."))),
        ("unsec. DS do", format!("NoData aa |  | {soa}; {}", nsec("unsec.o.", "*.w.o."))),
        // RFC 6672 §5.3.1: the CNAME record is made, so nobody signed it.
        ("x.dn. A do", format!("Records aa | dn.o. 60 DNAME w.o.; dn.o. 60 RRSIG DNAME; x.dn.o. 60 CNAME x.w.o.; x.w.o. 60 A 198.51.100.2; x.w.o. 60 RRSIG A | {ns}; {w}")),
        ("cn. A do", format!("Records aa | cn.o. 60 CNAME ns1.o.; cn.o. 60 RRSIG CNAME; ns1.o. 60 A 198.51.100.1; ns1.o. 60 RRSIG A | {ns}")),
        ("ns1. RRSIG do", format!("Records aa | ns1.o. 60 RRSIG NSEC; ns1.o. 60 RRSIG A | {ns}")),
        ("cn. NSEC", "Records aa | cn.o. 60 NSEC dn.o. | o. 60 NS ns1.o.".to_owned()),
    ] {
        assert_eq!(ask(&zone, question), want, "{question}");
    }
}

#[test]
fn versions_differ_by_the_records_that_go_and_come() {
    let old = zone(
        "a 60 A 198.51.100.1\na 60 A 198.51.100.2\nb 60 A 198.51.100.3\nc.d 60 TXT x\ne 60 A 198.51.100.9",
    );
    let new = zone(
        "@ 3600 SOA ns1 hostmaster 8 7200 3600 1209600 300\na 60 A 198.51.100.2\na 60 A 198.51.100.7\nb 30 A 198.51.100.3\nf 60 NS g\ne 60 A 198.51.100.9\ne 60 AAAA ::1",
    );
    let delta = Delta::between(&old, &new);
    let all = |answer: &Answer| -> Vec<String> {
        answer
            .records()
            .iter()
            .map(|rr| line(answer.owner(rr), rr.rtype, rr.ttl, answer.data(rr)))
            .collect()
    };
    assert_eq!((delta.from, delta.to), (7, 8));
    assert_eq!(
        all(&delta.removed),
        ["a.o. 60 A 198.51.100.1", "b.o. 60 A 198.51.100.3", "c.d.o. 60 TXT 0178"]
    );
    assert_eq!(
        all(&delta.added),
        [
            "a.o. 60 A 198.51.100.7",
            "b.o. 30 A 198.51.100.3",
            "e.o. 60 AAAA 00000000000000000000000000000001",
            "f.o. 60 NS g.o."
        ]
    );
    assert_eq!(delta.records(), 9);
}

#[test]
fn what_cannot_be_added_is_refused() {
    let mut builder = Builder::new(name("example.org"));
    for (owner, kind, data, want) in [
        ("a.test", rtype::A, &[1, 2, 3, 4][..], Unfit::Outside),
        ("a.example.org", rtype::SOA, &[0; 22], Unfit::MisplacedSoa),
        ("example.org", rtype::SOA, &[0; 21], Unfit::Malformed),
        ("example.org", rtype::NSEC3, &[0], Unfit::Nsec3),
        ("example.org", rtype::RRSIG, &[0], Unfit::Malformed),
    ] {
        assert_eq!(builder.add(name(owner).wire(), kind, 1, data), Err(want));
    }
    assert_eq!(builder.finish().map(|_| ()), Err(Unfit::NoSoa));
}

#[test]
fn a_walk_goes_on_where_it_was_stopped() {
    let zone = zone("$GENERATE 1-50 h$ 60 A 198.51.100.$\n$GENERATE 1-9 h1 60 A 203.0.113.$");
    let whole = lines(&zone);
    let (mut at, mut all) = (Cursor::default(), Vec::new());
    loop {
        let mut room = 7;
        let before = all.len();
        zone.walk(&mut at, |owner, kind, ttl, data| {
            if room == 0 {
                return false;
            }
            room -= 1;
            all.push(line(owner.wire(), kind, ttl, data));
            true
        });
        if all.len() == before {
            break;
        }
    }
    assert_eq!((all, whole.len()), (whole, 59));
}

#[test]
fn the_root_is_a_zone_too() {
    let read = read(
        &b". SOA a. b. 1 2 3 4 5\norg NS ns.org\nns.org A 198.51.100.1\nx A 198.51.100.2"[..],
        "db",
        &Name::ROOT,
        &NoFiles,
    )
    .unwrap();
    let mut answer = Answer::default();
    for (asked, found) in [
        (".", Found::NoData),
        ("x", Found::Records),
        ("a.org", Found::Referral),
        ("no", Found::NoName),
    ] {
        answer.clear();
        assert_eq!(
            read.zone.look_up(&name(asked), rtype::A, true, &mut answer).found,
            found,
            "{asked}"
        );
    }
    assert_eq!(answer.rcode, rcode::NXDOMAIN);
}
