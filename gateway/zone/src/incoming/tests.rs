//! Transfers as primaries send them, right ones and others.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::Delta;
use crate::reader::{NoFiles, read};
use crate::zone::Cursor;

/// A zone of these lines with this serial.
fn zone(serial: u32, lines: &str) -> Zone {
    let text = format!("$TTL 60\n@ SOA ns1 hostmaster {serial} 7200 3600 1209600 30\n{lines}\n");
    read(text.as_bytes(), "db", &apex(), &NoFiles).unwrap().zone
}

/// The name of the zone.
fn apex() -> Name {
    Name::parse("example.org").unwrap()
}

/// Messages of these records, `@` and numbers being SOA records: `@5` that with the serial 5.
fn messages(lines: &[&[&str]]) -> Vec<Answer> {
    let message = |records: &&[&str]| {
        let mut answer = Answer::default();
        for record in *records {
            let line = match record.strip_prefix('@') {
                Some(serial) => format!(
                    "example.org. 60 SOA ns1.example.org. hostmaster.example.org. {serial} 7200 3600 1209600 30"
                ),
                None => (*record).to_owned(),
            };
            let record = crate::record::Record::parse(&line, &crate::record::Defaults::default());
            let record = record.unwrap().unwrap();
            answer.push_class(
                Section::Answer,
                &record.owner,
                record.class,
                record.rtype,
                record.ttl,
                &[&record.data],
            );
        }
        answer
    };
    lines.iter().map(message).collect()
}

/// What comes of messages: the zone's records, or none, or what is wrong.
fn outcome(old: Option<&Zone>, lines: &[&[&str]]) -> Result<Option<Vec<String>>, String> {
    let have = old.map(|old| old.soa().serial);
    let mut incoming = Incoming::new(apex(), have);
    let mut ended = false;
    for message in messages(lines) {
        assert!(!ended, "messages are left");
        ended = incoming.take(&message).map_err(|wrong| wrong.to_string())?;
    }
    let zone = incoming.finish(old).map_err(|wrong| wrong.to_string())?;
    Ok(zone.as_ref().map(records))
}

/// The records of a zone in short, its serial first.
fn records(zone: &Zone) -> Vec<String> {
    let mut all = vec![zone.soa().serial.to_string()];
    zone.walk(&mut Cursor::default(), |owner, kind, ttl, data| {
        let last = data.last().copied().unwrap_or_default();
        let owner = owner.to_string();
        all.push(format!("{} {ttl} {kind} {last}", owner.split('.').next().unwrap_or_default()));
        true
    });
    all
}

#[test]
fn a_whole_zone_comes_in_messages() {
    let a = "a.example.org. 60 A 198.51.100.1";
    let want = |lines: &[&str]| Ok(Some(lines.iter().map(|&line| line.to_owned()).collect()));
    for lines in
        [&[&["@5", a, "@5"][..]][..], &[&["@5"], &[a], &["@5"]], &[&["@5", a], &[], &["@5"]]]
    {
        assert_eq!(outcome(None, lines), want(&["5", "a 60 1 1"]));
        // Whoever asks for changes may get it all (RFC 1995 §4).
        assert_eq!(outcome(Some(&zone(4, "")), lines), want(&["5", "a 60 1 1"]));
    }
    assert_eq!(outcome(None, &[&["@5", "@5"]]), want(&["5"]));
    // What is outside is passed over, owners are compared without case.
    let odd = ["@5", "A.EXAMPLE.org. 60 A 198.51.100.1", "a.example.net. 60 A 198.51.100.2", "@5"];
    assert_eq!(outcome(None, &[&odd]), want(&["5", "a 60 1 1"]));
}

#[test]
fn changes_make_the_new_zone_of_the_old_one() {
    let old = zone(5, "a A 198.51.100.1\nb A 198.51.100.2\nb A 198.51.100.3\nm MX 1 A");
    let (b2, b4) = ("B.example.org. 60 A 198.51.100.2", "b.example.org. 60 A 198.51.100.4");
    let (mx, c) = ("m.example.org. 60 MX 1 a.EXAMPLE.org.", "c.example.org. 60 A 198.51.100.5");
    let want = |lines: &[&str]| Ok(Some(lines.iter().map(|&line| line.to_owned()).collect()));
    let steps: [(&[&[&str]], &[&str]); 3] = [
        (
            &[&["@7", "@5", b2, "@7", b4, "@7"]],
            &["7", "a 60 1 1", "b 60 1 3", "b 60 1 4", "m 60 15 0"],
        ),
        // One change after another, in several messages; what comes and goes again leaves nothing.
        (
            &[&["@8"], &["@5", b2, "@6", b4, c, "@6", c], &[mx, "@8"], &["@8"]],
            &["8", "a 60 1 1", "b 60 1 3", "b 60 1 4"],
        ),
        // The same record with another time to live.
        (
            &[&[
                "@6",
                "@5",
                "a.example.org. 60 A 198.51.100.1",
                "@6",
                "a.example.org. 30 A 198.51.100.1",
                "@6",
            ]],
            &["6", "a 30 1 1", "b 60 1 2", "b 60 1 3", "m 60 15 0"],
        ),
    ];
    for (lines, zone) in steps {
        assert_eq!(outcome(Some(&old), lines), want(zone), "{lines:?}");
    }
    // The zone is as new as the primary's, or newer (RFC 1995 §2).
    for serial in ["@5", "@4"] {
        assert_eq!(outcome(Some(&old), &[&[serial]]), Ok(None));
    }
}

#[test]
fn what_is_no_transfer_is_refused() {
    let (old, a) = (zone(5, "a A 198.51.100.1"), "a.example.org. 60 A 198.51.100.1");
    let gone = "x.example.org. 60 A 198.51.100.1";
    let cases: [(bool, &[&[&str]], &str); 13] = [
        (false, &[&[a, "@5"]], "the first record is no SOA record"),
        (false, &[&["@5", a]], "the transfer has no end"),
        (false, &[&["@5"]], "the transfer has no end"),
        (false, &[&[]], "the transfer has no end"),
        (false, &[&["@5", a, "@6"]], "the zone has changed while it was sent"),
        (false, &[&["@5", a, "@5", a]], "records follow the end of the transfer"),
        (
            false,
            &[&["@5", "b.example.org. 60 SOA a. b. 1 2 3 4 5", "@5"]],
            "there is an SOA record of another zone",
        ),
        (
            false,
            &[&["@5", "a.example.org. 60 CH A 198.51.100.1", "@5"]],
            "a record is not of class IN",
        ),
        (
            false,
            &[&["@5", "example.org. 60 NSEC3PARAM 1 0 0 -", "@5"]],
            "NSEC3 is not served: sign the zone with NSEC",
        ),
        (true, &[&["@7", "@4", "@7", "@7"]], "the changes are none of the zone that is there"),
        (
            true,
            &[&["@7", "@5", a, "@6", "@5", "@7", "@7"]],
            "the changes do not follow one another",
        ),
        (
            true,
            &[&["@7", "@5", gone, "@7", "@7"]],
            "a record is taken away that the zone does not have",
        ),
        (
            true,
            &[&["@7", "@5", a, a, "@7", "@7"]],
            "a record is taken away that the zone does not have",
        ),
    ];
    for (changes, lines, want) in cases {
        let old = changes.then_some(&old);
        assert_eq!(outcome(old, lines), Err(want.to_owned()), "{lines:?}");
    }
}

#[test]
fn what_we_tell_of_changes_is_what_we_take_up() {
    let fill: String = (0..300).map(|n| format!("h{n} A 198.51.100.{}\n", n % 250)).collect();
    let old = zone(1, &format!("{fill}www A 198.51.100.1\nold TXT gone\nx 30 MX 1 www"));
    let new = zone(
        2,
        &format!("{fill}www A 198.51.100.9\nnew TXT come\nx 40 MX 1 www\n*.w A 198.51.100.1"),
    );
    let delta = Delta::between(&old, &new);
    let mut answer = Answer::default();
    let soa = |answer: &mut Answer, zone: &Zone| {
        let (ttl, data) = zone.soa_record();
        answer.push(Section::Answer, apex().wire(), rtype::SOA, ttl, data);
    };
    soa(&mut answer, &new);
    soa(&mut answer, &old);
    answer.graft(&delta.removed, Section::Answer, Section::Answer);
    soa(&mut answer, &new);
    answer.graft(&delta.added, Section::Answer, Section::Answer);
    soa(&mut answer, &new);
    let mut incoming = Incoming::new(apex(), Some(1));
    assert_eq!(incoming.take(&answer), Ok(true));
    assert!(incoming.is_incremental());
    let made = incoming.finish(Some(&old)).unwrap().unwrap();
    assert_eq!(records(&made), records(&new));
}
