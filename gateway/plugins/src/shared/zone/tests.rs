//! Zones that are served: versions and their changes.

use engine::Stream;
use engine::testing::show_data;
use wire::{Answer, Name, Section, rtype, text};

use super::Served;
use zone::reader::{NoFiles, read};

/// A zone of these lines with this serial.
fn zone(serial: u32, lines: &str) -> zone::Zone {
    let text = format!("$TTL 60\n@ SOA ns1 hostmaster {serial} 7200 3600 1209600 30\n{lines}\n");
    read(text.as_bytes(), "db", &Name::parse("o").unwrap(), &NoFiles).unwrap().zone
}

/// The records of all messages, and how many messages there are.
fn records(mut stream: Box<dyn Stream>) -> (Vec<String>, usize) {
    let (mut all, mut messages, mut answer) = (Vec::new(), 0, Answer::default());
    loop {
        answer.clear();
        if !stream.next(&mut answer) {
            return (all, messages);
        }
        assert!(answer.is_authoritative() && answer.message_len(0) < 65_535);
        messages += 1;
        for rr in answer.section(Section::Answer) {
            all.push(match rr.rtype {
                rtype::SOA => {
                    let serial = answer.data(rr).last_chunk::<20>().unwrap().first_chunk().unwrap();
                    format!("SOA {}", u32::from_be_bytes(*serial))
                }
                kind => {
                    let data = show_data(kind, answer.data(rr));
                    format!("{} {data}", text::name_text(answer.owner(rr)))
                }
            });
        }
    }
}

/// Records that fill a zone, so that small changes are worth telling.
const FILL: &str = "$GENERATE 1-60 h$ A 203.0.113.$";

#[test]
fn a_secondary_gets_what_has_changed() {
    let served = Served::new(Name::parse("o").unwrap());
    assert!(served.transfer(None).is_err());
    for (serial, lines) in [
        (1, "a A 198.51.100.1"),
        (2, "a A 198.51.100.2"),
        (4, "a A 198.51.100.2\nb A 198.51.100.4"),
    ] {
        served.replace(zone(serial, &format!("{FILL}\n{lines}")));
    }
    let ask = |serial| records(served.transfer(Some(serial)).unwrap());
    assert_eq!(ask(4), (vec!["SOA 4".to_owned()], 1));
    // A serial ahead of the zone's (RFC 1995 §2).
    assert_eq!(ask(5), (vec!["SOA 4".to_owned()], 1));
    let last = ["SOA 2", "SOA 4", "b.o. 198.51.100.4", "SOA 4"];
    assert_eq!(ask(2).0, [&["SOA 4"][..], &last].concat());
    let first = ["SOA 4", "SOA 1", "a.o. 198.51.100.1", "SOA 2", "a.o. 198.51.100.2"];
    assert_eq!(ask(1).0, [&first[..], &last].concat());
    // One that is not known gets all.
    let whole = records(served.transfer(None).unwrap());
    assert_eq!((ask(0), whole.0.len(), whole.0.first()), (whole.clone(), 64, whole.0.last()));
}

#[test]
fn changes_are_forgotten_that_are_no_use() {
    let served = Served::new(Name::parse("o").unwrap());
    let is_whole = |serial| records(served.transfer(Some(serial)).unwrap()).0.len() > 60;
    served.replace(zone(10, FILL));
    // Most of the zone.
    served.replace(zone(11, &FILL.replace("203", "198")));
    assert!(is_whole(10));
    // A serial that goes back, after which the same ones come again.
    served.replace(zone(12, &FILL.replace("203", "198")));
    assert!(!is_whole(11));
    served.replace(zone(11, FILL));
    served.replace(zone(12, FILL));
    assert!(!is_whole(11) && is_whole(10));
    // Too many.
    for serial in 13..90 {
        served.replace(zone(serial, FILL));
    }
    assert!(is_whole(12) && !is_whole(80));
}

#[test]
fn a_large_zone_comes_in_many_messages() {
    let served = Served::new(Name::parse("o").unwrap());
    let text = "x".repeat(250);
    let lines: String = (0..2000).map(|n| format!("t{n} TXT {text}\n")).collect();
    served.replace(zone(1, &lines));
    let (all, messages) = records(served.transfer(None).unwrap());
    assert_eq!(all.len(), 2002);
    assert!(messages > 8, "{messages}");
}

/// The fact `file.expired`.
#[test]
fn an_expired_zone_is_kept_and_not_served() {
    let served = Served::new(Name::parse("o").unwrap());
    served.replace(zone(1, ""));
    served.set_expired(true);
    assert!(served.load().is_none() && served.transfer(None).is_err());
    assert_eq!(served.serial(), Some(1));
    served.set_expired(false);
    assert!(served.load().is_some());
}
