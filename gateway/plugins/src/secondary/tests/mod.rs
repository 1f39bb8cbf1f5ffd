//! The facts `secondary.*`.

mod catalogs;
mod copies;
mod settings;

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::testing::Bench;
use wire::{Answer, Name, Section, opcode, rcode, rtype};
use zone::reader::{NoFiles, read};
use zone::{Cursor, Zone};

use crate::shared::scripted::{Asked, Say, Scripted, encode};

/// How a primary answers queries for transfers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mood {
    /// The whole zone, whatever is asked for.
    Whole,
    /// The changes for IXFR.
    Changes,
    /// The whole zone for AXFR; NOTIMP for IXFR.
    NoChanges,
    /// Half of the zone, and then nothing.
    Half,
    /// Octets that are no message.
    Garbage,
    /// The wrong id.
    WrongId,
    /// Another name in the question.
    WrongQuestion,
    /// The zone with an end of another serial.
    OtherEnd,
    /// Changes that take away what is not there; AXFR is refused.
    WrongChanges,
    /// A response code.
    Refused,
    /// Nothing at all.
    Silent,
}

/// A primary with zones that a test changes.
#[derive(Clone)]
struct Primary {
    scripted: Scripted,
    zones: Arc<Mutex<HashMap<Name, Vec<Arc<Zone>>>>>,
    mood: Arc<Mutex<Mood>>,
}

/// A zone with this serial, its times short.
fn zone(name: &str, serial: u32, lines: &str) -> Zone {
    let text =
        format!("$TTL 60\n@ SOA ns1 hostmaster {serial} 3600 1 3600 30\n@ NS ns1\n{lines}\n");
    read(text.as_bytes(), "db", &Name::parse(name).unwrap(), &NoFiles).unwrap().zone
}

impl Primary {
    /// Without zones.
    async fn start() -> Self {
        let zones: Arc<Mutex<HashMap<Name, Vec<Arc<Zone>>>>> = Arc::default();
        let mood = Arc::new(Mutex::new(Mood::Changes));
        let (own, how) = (Arc::clone(&zones), Arc::clone(&mood));
        let scripted = Scripted::start(move |asked, answer| {
            let mood = *how.lock().unwrap();
            let versions =
                own.lock().unwrap().get(&asked.request.name).cloned().unwrap_or_default();
            say(asked, answer, mood, &versions)
        });
        Self { scripted: scripted.await, zones, mood }
    }

    /// Gives it a new version of a zone.
    fn put(&self, zone: Zone) {
        let name = zone.apex().clone();
        self.zones.lock().unwrap().entry(name).or_default().push(Arc::new(zone));
    }

    /// Changes how it answers.
    fn be(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
    }
}

/// What a primary says.
fn say(asked: &Asked, answer: &mut Answer, mood: Mood, versions: &[Arc<Zone>]) -> Say {
    answer.set_authoritative(true);
    let Some(last) = versions.last().filter(|_| mood != Mood::Refused) else {
        answer.rcode = rcode::REFUSED;
        return Say::Answer;
    };
    if mood == Mood::Silent {
        return Say::Nothing;
    }
    let mut pages = vec![Answer::default()];
    let is_changes = asked.request.rtype == rtype::IXFR && mood == Mood::Changes;
    match (asked.request.rtype, mood) {
        (rtype::SOA, _) => {
            soa(answer, last);
            return Say::Answer;
        }
        (rtype::IXFR, Mood::NoChanges) => {
            answer.rcode = rcode::NOTIMP;
            return Say::Answer;
        }
        (rtype::AXFR, Mood::WrongChanges) => {
            answer.rcode = rcode::REFUSED;
            return Say::Answer;
        }
        (rtype::IXFR, Mood::WrongChanges) => {
            soa(answer, last);
            soa(answer, &versions[0]);
            let owner = Name::parse("nobody").unwrap();
            let owner = Name::join(&owner.wire()[..7], last.apex().wire()).unwrap();
            answer.push(Section::Answer, owner.wire(), rtype::A, 60, &[198, 51, 100, 99]);
            soa(answer, last);
            soa(answer, last);
            return Say::Answer;
        }
        _ if is_changes && versions.len() > 1 => {
            let delta = zone::Delta::between(&versions[versions.len() - 2], last);
            let page = &mut pages[0];
            soa(page, last);
            soa(page, &versions[versions.len() - 2]);
            page.graft(&delta.removed, Section::Answer, Section::Answer);
            soa(page, last);
            page.graft(&delta.added, Section::Answer, Section::Answer);
            soa(page, last);
        }
        _ => {
            soa(&mut pages[0], last);
            let mut count = 0;
            last.walk(&mut Cursor::default(), |owner, kind, ttl, data| {
                count += 1;
                if count % 2 == 0 {
                    pages.push(Answer::default());
                }
                let page = pages.last_mut().unwrap();
                page.push(Section::Answer, owner.wire(), kind, ttl, data);
                true
            });
            if mood == Mood::Half {
                pages.truncate(1);
            } else {
                let of = if mood == Mood::OtherEnd { &versions[0] } else { last };
                soa(pages.last_mut().unwrap(), of);
            }
        }
    }
    let mut messages: Vec<Vec<u8>> = pages.iter().map(|page| encode(asked, page)).collect();
    match mood {
        Mood::Garbage => messages = vec![b"this is no message of the DNS at all".to_vec()],
        Mood::WrongId => messages[0][0] ^= 1,
        Mood::WrongQuestion => messages[0][13] ^= 1,
        _ => {}
    }
    Say::Raw(messages)
}

/// Writes a zone's SOA record.
fn soa(answer: &mut Answer, zone: &Zone) {
    let (ttl, data) = zone.soa_record();
    answer.push(Section::Answer, zone.apex().wire(), rtype::SOA, ttl, data);
}

/// The address of a name, or its code.
fn address(bench: &Bench, name: &str) -> String {
    let reply = bench.now(name);
    match reply.split(" A ").nth(1) {
        Some(rest) => rest.split([' ', ';']).next().unwrap_or_default().to_owned(),
        None => reply.split(' ').next().unwrap_or_default().to_owned(),
    }
}

/// Waits until the address of a name is this.
async fn until(bench: &Bench, name: &str, want: &str) {
    for _ in 0..1000 {
        if address(bench, name) == want {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{name} is not {want}: {}", bench.now(name));
}

/// Runs a test once for each of these, at the same time, each on a thread of its own with what it logs.
fn each<T: Send + 'static>(all: impl IntoIterator<Item = T>, test: fn(T) -> Test) {
    let run = |one: T| {
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(test(one));
        })
    };
    let threads: Vec<_> = all.into_iter().map(run).collect();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}

/// A test that runs.
type Test = std::pin::Pin<Box<dyn Future<Output = ()>>>;

/// Tells the gateway that a zone has changed; the reply's flags, code and nothing else.
fn notify(bench: &Bench, zone: &str) -> String {
    let mut x = bench.exchange(&format!("{zone} SOA +norec"));
    x.query.wire[2] |= opcode::NOTIFY << 3;
    engine::testing::show(&bench.serve(&mut x))
}
