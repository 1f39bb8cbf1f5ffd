//! Copies of zones: what makes them, what replaces them, and when.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use engine::{Process, metrics};
use tokio::time::Instant;
use wire::{Answer, Name, rcode, rtype};

use super::records::zone;
use super::stub::{Reply, Stub};
use super::{Api, Asking, Copy, Figures, Listing, RecordSet, Source};
use crate::shared::fetch::{Failure, Fetch, Kind, request};
use crate::shared::testing::logged;

/// A record set.
fn set(owner: &str, rtype: &str, data: &[&str]) -> RecordSet {
    let data = data.iter().map(|data| (*data).to_owned()).collect();
    RecordSet { owner: owner.to_owned(), rtype: rtype.to_owned(), ttl: 300, data }
}

/// The sets of a zone that has an address.
fn sets(address: &str) -> Vec<RecordSet> {
    vec![
        set(
            "example.org",
            "SOA",
            &["ns1.example.org. hostmaster.example.org. 1 7200 900 1209600 300"],
        ),
        set("example.org.", "NS", &["ns1.example.org"]),
        set("www.example.org.", "A", &[address]),
    ]
}

#[test]
fn what_cannot_be_read_is_passed_over() {
    let apex = Name::parse("example.org").unwrap();
    let mut listing = Listing { sets: sets("198.51.100.1"), odd: vec!["odd".to_owned()] };
    listing.sets.extend([
        set("a.example.org.", "NEWTYPE", &["1 2 3"]),
        set("b.example.org.", "A", &["no address", "198.51.100.2"]),
        set("c.example.net.", "A", &["198.51.100.3"]),
        set("d.example.org.", "TXT", &["\"x\"\nexample.org. 1 IN A 198.51.100.4"]),
        set("e example.org.", "A", &["198.51.100.5"]),
        set("f.example.org.", "TYPE65280", &["\\# 2 abcd"]),
        set("*.example.org.", "CNAME", &["outside.example.net"]),
        RecordSet { ttl: u64::MAX, ..set("g.example.org.", "A", &["198.51.100.6"]) },
        RecordSet { ttl: 1 << 31, ..set("h.example.org.", "A", &["198.51.100.7"]) },
        set("i.example.org.", "A", &[]),
    ]);
    let made = zone(&apex, listing).unwrap();
    assert_eq!((made.zone.records(), made.passed_over), (7, 7));
    assert_eq!(made.notes.len(), 7, "{:?}", made.notes);
    let mut answer = Answer::default();
    made.zone.look_up(&Name::parse("h.example.org").unwrap(), rtype::A, false, &mut answer);
    assert_eq!(answer.records().first().map(|rr| rr.ttl), Some(0));
    made.zone.look_up(&Name::parse("f.example.org").unwrap(), 65280, false, &mut answer);
    // Without an SOA record there is no zone.
    let bare = Listing { sets: sets("198.51.100.1").split_off(1), odd: Vec::new() };
    assert!(zone(&apex, bare).unwrap_err().what.contains("no SOA record"));
}

/// What a fake API does when it is asked.
#[derive(Clone, Debug)]
enum Turn {
    /// Gives the zone with this address.
    Gives(&'static str),
    /// Gives nothing at all.
    Empty,
    /// Fails so.
    Fails(Kind),
}

/// An API that does one thing after another, and the last one from then on.
#[derive(Clone, Debug)]
struct Fake(Arc<Mutex<(Vec<Turn>, Vec<Instant>)>>);

impl Fake {
    /// The next turn.
    fn turn(&self) -> Result<Listing, Failure> {
        let mut script = self.0.lock().unwrap();
        script.1.push(Instant::now());
        let turn = if script.0.len() > 1 { script.0.remove(0) } else { script.0[0].clone() };
        match turn {
            Turn::Gives(address) => Ok(Listing { sets: sets(address), odd: Vec::new() }),
            Turn::Empty => Ok(Listing::default()),
            Turn::Fails(kind) => Err(Failure::new(kind, "it fails")),
        }
    }
}

impl Api for Fake {
    fn probe<'a>(&'a self, _: &'a Copy) -> Asking<'a, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn list<'a>(&'a self, _: &'a Copy) -> Asking<'a, Listing> {
        Box::pin(std::future::ready(self.turn()))
    }
}

/// A source by these turns, refreshed every minute.
fn source(id: &str, turns: &[Turn]) -> (Arc<Source>, Fake) {
    let figures = Figures {
        broken: "test_broken",
        loaded: "test_loaded",
        records: "test_records",
        passed_over: "test_passed_over",
    };
    let fake = Fake(Arc::new(Mutex::new((turns.to_vec(), Vec::new()))));
    let name = Name::parse("example.org").unwrap();
    let copies = vec![Copy::new(figures, name, id.to_owned(), false)];
    let minute = Duration::from_secs(60);
    (Arc::new(Source::new("plugin/test", Box::new(fake.clone()), copies, minute)), fake)
}

/// The address that a source serves; none if it serves nothing.
fn served(source: &Source) -> Option<String> {
    let now = source.copies()[0].served().load()?;
    let mut answer = Answer::default();
    let name = Name::parse("www.example.org").unwrap();
    now.as_ref()?.zone.look_up(&name, rtype::A, false, &mut answer);
    assert_eq!(answer.rcode, rcode::NOERROR);
    let rr = answer.records().iter().find(|rr| rr.rtype == rtype::A)?;
    let octets: [u8; 4] = answer.data(rr).try_into().ok()?;
    Some(std::net::Ipv4Addr::from(octets).to_string())
}

/// A figure of the source with this ID.
fn figure(name: &str, id: &str) -> f64 {
    let text = metrics::render();
    let line = text.lines().find(|line| line.starts_with(name) && line.contains(id)).unwrap();
    line.rsplit(' ').next().unwrap().parse().unwrap()
}

/// The facts `route53.bg`, `clouddns.bg` and `azure.load`: old data stays whatever the API does, and is told once.
#[tokio::test(start_paused = true)]
async fn what_was_loaded_stays_until_something_better_is_there() {
    logged();
    let away = Turn::Fails(Kind::Away);
    let (source, fake) = source(
        "stays",
        &[
            Turn::Gives("198.51.100.1"),
            away.clone(),
            away,
            Turn::Empty,
            Turn::Fails(Kind::Busy(Some(Duration::from_secs(90)))),
            Turn::Gives("198.51.100.2"),
        ],
    );
    source.start().await.unwrap();
    assert_eq!(served(&source).as_deref(), Some("198.51.100.1"));
    let process = Process::new(std::env::temp_dir(), "test".to_owned(), 1, Duration::from_secs(1));
    let task = tokio::spawn(Arc::clone(&source).run(process.stop()));
    let began = Instant::now();
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert_eq!(served(&source).as_deref(), Some("198.51.100.1"));
    assert!((figure("test_broken", "stays") - 1.0).abs() < 0.1);
    tokio::time::sleep(Duration::from_secs(300)).await;
    assert_eq!(served(&source).as_deref(), Some("198.51.100.2"));
    assert!(figure("test_broken", "stays").abs() < 0.1);
    assert!((figure("test_records", "stays") - 3.0).abs() < 0.1);
    let times: Vec<u64> =
        fake.0.lock().unwrap().1.iter().map(|at| (*at - began).as_secs()).collect();
    // After the interval, a second, two seconds, the interval, what the API wants, the interval again.
    assert_eq!(times[..7], [0, 60, 61, 63, 123, 213, 273], "{times:?}");
    assert_eq!(
        logged(),
        [
            "[ERROR] plugin/test: Failed to update zones [example.org.]: it fails; what was loaded stays",
            "[ERROR] plugin/test: Failed to update zones [example.org.]: what the API has of example.org. has no SOA record; what was loaded stays",
            "[ERROR] plugin/test: Failed to update zones [example.org.]: it fails; what was loaded stays",
            "[INFO] plugin/test: example.org. is up to date again",
        ]
    );
    process.stopper().reach(engine::Stage::Draining);
    task.await.unwrap();
}

/// The facts `route53.start`, `azure.start.probe` and `clouddns.load`.
#[tokio::test(start_paused = true)]
async fn the_start_tells_what_is_refused_from_what_is_away() {
    let refused = source("refused", &[Turn::Fails(Kind::Refused)]).0.start().await.unwrap_err();
    assert!(refused.is_final());
    assert_eq!(refused.what, "example.org.: it fails");
    let began = Instant::now();
    let (away, fake) = source("away", &[Turn::Fails(Kind::Away)]);
    assert!(!away.start().await.unwrap_err().is_final());
    assert!(began.elapsed() <= Duration::from_secs(15) && !away.is_loaded());
    assert_eq!(fake.0.lock().unwrap().1.len(), 4);
    let (late, _) = source("late", &[Turn::Fails(Kind::Away), Turn::Gives("198.51.100.1")]);
    late.start().await.unwrap();
    assert!(late.is_loaded());
    // What is loaded is not asked for again.
    late.start().await.unwrap();
}

/// A server that is silent, that hangs up, and that wants to be left alone.
#[tokio::test]
async fn servers_that_misbehave_are_failures() {
    let fetch = Fetch::new(&certs::ClientTls::new(None, None).unwrap());
    let fetch = fetch.within(Duration::from_millis(300));
    let stub = Stub::new(|_| Reply::Silence);
    let send = || async {
        let url = format!("{}/path?secret=s3cret", stub.url());
        let reply = fetch.send(request(http::Method::GET, &url, &[], "").unwrap()).await?;
        Err::<(), Failure>(reply.failure("", "", &[]))
    };
    let silent = send().await.unwrap_err();
    assert!(
        silent.kind == Kind::Away && silent.what.ends_with("no reply within 300ms"),
        "{silent}"
    );
    stub.answer(|_| Reply::Close);
    let closed = send().await.unwrap_err();
    assert!(closed.kind == Kind::Away && closed.what.contains("cannot be asked: "), "{closed}");
    stub.answer(|_| Reply::With(429, "retry-after: 7", String::new()));
    assert_eq!(send().await.unwrap_err().kind, Kind::Busy(Some(Duration::from_secs(7))));
    for failure in [silent, closed] {
        assert!(!failure.what.contains("s3cret"), "{failure}");
    }
}
