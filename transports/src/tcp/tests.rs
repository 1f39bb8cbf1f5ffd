//! Connections that are told to end, and times: by a clock that stands still while nothing waits.

use std::net::SocketAddr;

use engine::testing::Bench;
use engine::{
    Admission, Descriptor, Door, Exchange, GroupKey, Http, LimitSpec, ListenSpec, ListenerId,
    Plugin, Rate, Step, Stopper, Work,
};
use tokio::io::DuplexStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant as Clock;
use wire::{Request, rcode};

use super::*;
use crate::limits::{Bounds, Limits, Room};

/// Answers after a second what begins with `slow`, and all else at once.
#[derive(Debug)]
struct Answerer;

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&Descriptor {
    name: "answerer",
    readme: "",
    setup: |setup| {
        setup.install(Answerer);
        setup.door(Arc::new(Closing(Arc::clone(&DOOR))));
        Ok(())
    },
}];

/// Whether the door of these tests is open; one test closes it.
static DOOR: std::sync::LazyLock<Arc<watch::Sender<u64>>> =
    std::sync::LazyLock::new(|| Arc::new(watch::Sender::new(0)));

impl Plugin for Answerer {
    fn query(&self, x: &mut Exchange) -> Step {
        if x.request().name.wire().starts_with(b"\x04slow") { Step::WAIT } else { Step::Done }
    }

    fn work<'a>(&'a self, _: &'a mut Exchange, _: engine::Carry) -> Work<'a> {
        Box::pin(async {
            sleep(Duration::from_secs(1)).await;
            Step::Done
        })
    }
}

/// A door that lets the connections of one name in until it is told otherwise.
#[derive(Debug)]
struct Closing(Arc<watch::Sender<u64>>);

impl Door for Closing {
    fn name(&self, _: Option<&str>) -> bool {
        true
    }

    fn connection(&self, session: &Session) -> bool {
        *self.0.borrow() == 0 || session.name.as_deref() != Some("mallory")
    }

    fn request(&self, _: Option<&Session>, _: &Http) -> bool {
        true
    }

    fn admit(&self, _: &mut Exchange) -> Admission {
        Admission::Open
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.subscribe()
    }
}

/// A listener without a socket.
struct House {
    desk: Arc<Desk>,
    stopper: Stopper,
    _bench: Bench,
}

/// A client's end of a connection.
struct Guest {
    stream: DuplexStream,
    room: Room,
    served: JoinHandle<io::Result<()>>,
}

impl House {
    /// One that says this of its connections.
    fn new(spec: ListenSpec) -> Self {
        let bench = Bench::new(CHAIN, ". {\n answerer\n}\n");
        let group = bench.gateway.live().groups().next().map(|group| (group.id, group.key));
        let (id, key): (ListenerId, GroupKey) = group.unwrap();
        let limits = Limits::new(Bounds::default());
        let desk = Desk::new(Arc::clone(&bench.gateway), (id, key), limits, spec, None);
        Self { desk, stopper: Stopper::new(Duration::from_secs(5)), _bench: bench }
    }

    /// Connects somebody who is known by a name.
    fn connect(&self, name: &str) -> Guest {
        let (stream, other) = tokio::io::duplex(64 << 10);
        let peer: SocketAddr = "198.51.100.1:4000".parse().unwrap();
        let room = self.desk.enter(peer.ip()).unwrap();
        room.greeted();
        let session = Arc::new(Session { name: Some(name.into()), ..Session::default() });
        assert!(self.desk.admit(room.seat(), &session));
        let accepted = Accepted {
            stream: other,
            peer,
            local: "203.0.113.1:853".parse().unwrap(),
            session: Some(session),
            alpn: None,
            plan: self.desk.plan(),
            seat: Arc::clone(room.seat()),
        };
        let (desk, stop) = (Arc::clone(&self.desk), self.stopper.stop());
        let served = tokio::spawn(async move { serve(&desk, accepted, stop).await });
        Guest { stream, room, served }
    }
}

impl Guest {
    /// Sends a query for a name, with the option that asks how long the connection may be idle.
    async fn ask(&mut self, name: &str) {
        let mut request = Request { name: name.parse().unwrap(), rtype: 1, ..Request::default() };
        request.edns.present = true;
        request.edns.options.push(11, &[]);
        let mut out = Vec::new();
        frame(&mut out, |out| wire::encode_query(&request, 7, out));
        self.stream.write_all(&out).await.unwrap();
    }

    /// The next reply's first label and the time that it tells, in units of 100 ms; none at the end.
    async fn reply(&mut self) -> Option<(String, u16)> {
        let mut length = [0; 2];
        self.stream.read_exact(&mut length).await.ok()?;
        let mut reply = vec![0; usize::from(u16::from_be_bytes(length))];
        self.stream.read_exact(&mut reply).await.unwrap();
        assert_eq!(u16::from(reply[3] & 0xf), rcode::NOERROR);
        let label = &reply[13..][..usize::from(reply[12])];
        let time = reply.last_chunk::<2>().unwrap();
        Some((String::from_utf8(label.to_vec()).unwrap(), u16::from_be_bytes(*time)))
    }

    /// Waits for the end, and says how long it took.
    async fn end(&mut self) -> Duration {
        let begin = Clock::now();
        assert_eq!(self.reply().await, None);
        begin.elapsed()
    }
}

#[tokio::test(start_paused = true)]
async fn slow_01_the_times_are_those_that_are_stated() {
    let house = House::new(ListenSpec {
        read: Some(Duration::from_secs(3)),
        idle: Some(Duration::from_secs(20)),
        ..ListenSpec::default()
    });
    let mut silent = house.connect("alice");
    assert_eq!(silent.end().await.as_secs(), 3, "until the first query");
    let mut guest = house.connect("alice");
    for _ in 0..3 {
        sleep(Duration::from_millis(2900)).await;
        guest.ask("fast.test").await;
        assert_eq!(guest.reply().await.unwrap(), ("fast".to_owned(), 200));
    }
    // Single octets do not count.
    let begin = Clock::now();
    let drip = async {
        loop {
            sleep(Duration::from_secs(1)).await;
            if guest.stream.write_all(&[1]).await.is_err() {
                break;
            }
        }
    };
    drip.await;
    assert_eq!(begin.elapsed().as_secs(), 21, "the octet after the end is not taken");
    // An answer that takes longer than the connection may be idle is waited for.
    let house =
        House::new(ListenSpec { idle: Some(Duration::from_millis(400)), ..ListenSpec::default() });
    let mut guest = house.connect("alice");
    guest.ask("slow.test").await;
    assert_eq!(guest.reply().await.unwrap().0, "slow");
    assert_eq!(guest.end().await.as_millis(), 400);
}

#[tokio::test(start_paused = true)]
async fn keep_02_who_is_told_to_go_gets_his_answers_and_is_told() {
    for drain in [false, true] {
        let house = House::new(ListenSpec::default());
        let (mut busy, mut idle) = (house.connect("alice"), house.connect("alice"));
        busy.ask("slow.test").await;
        sleep(Duration::from_millis(500)).await;
        if drain {
            house.stopper.reach(Stage::Draining);
        } else {
            busy.room.seat().tell(Leave::Old);
            idle.room.seat().tell(Leave::Crowded);
        }
        assert!(idle.end().await < Duration::from_millis(10), "{drain}");
        busy.ask("late.test").await;
        assert_eq!(busy.reply().await.unwrap(), ("slow".to_owned(), 0), "{drain}");
        assert_eq!(busy.reply().await, None, "{drain}: no new ones are taken");
        drop(busy.stream);
        busy.served.await.unwrap().unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn what_has_come_before_the_end_is_answered_with_the_request_to_go() {
    let house = House::new(ListenSpec::default());
    let mut guest = house.connect("alice");
    tokio::task::yield_now().await;
    // Both at the same moment.
    guest.ask("fast.test").await;
    house.stopper.reach(Stage::Draining);
    assert_eq!(guest.reply().await.unwrap(), ("fast".to_owned(), 0));
    assert_eq!(guest.reply().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_revoked_identity_loses_its_connection_and_others_do_not() {
    let house = House::new(ListenSpec::default());
    let watching = tokio::spawn(Arc::clone(&house.desk).watch(house.stopper.stop()));
    let (mut alice, mut mallory) = (house.connect("alice"), house.connect("mallory"));
    for guest in [&mut alice, &mut mallory] {
        guest.ask("fast.test").await;
        assert!(guest.reply().await.is_some());
    }
    mallory.ask("slow.test").await;
    sleep(Duration::from_millis(500)).await;
    DOOR.send_replace(1);
    assert!(mallory.end().await < Duration::from_millis(100), "not even what is under way");
    alice.ask("fast.test").await;
    assert!(alice.reply().await.is_some());
    DOOR.send_replace(0);
    // A new configuration is looked at as well.
    let mut mallory = house.connect("mallory");
    sleep(Duration::from_secs(1)).await;
    DOOR.send_if_modified(|closed| {
        *closed = 1;
        false
    });
    house.desk.configured();
    assert!(mallory.end().await < Duration::from_millis(100));
    DOOR.send_replace(0);
    house.stopper.reach(Stage::Draining);
    watching.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn slow_01_connections_have_an_age() {
    let limits = LimitSpec { age: Some(Duration::ZERO), ..LimitSpec::default() };
    let idle = Some(Duration::from_secs(3600));
    let house = House::new(ListenSpec { limits, idle, ..ListenSpec::default() });
    let watching = tokio::spawn(Arc::clone(&house.desk).watch(house.stopper.stop()));
    tokio::task::yield_now().await;
    let mut guest = house.connect("alice");
    guest.ask("fast.test").await;
    assert!(guest.reply().await.is_some());
    let end = guest.end().await.as_secs();
    assert!((55..65).contains(&end), "it is looked at once a minute: {end} s");
    watching.abort();
}

#[tokio::test(start_paused = true)]
async fn who_asks_too_fast_is_answered_at_the_rate() {
    let rate = Some(Rate { per_second: 10, burst: 5 });
    let limits = LimitSpec { queries_per_client: rate, ..LimitSpec::default() };
    let house = House::new(ListenSpec { limits, ..ListenSpec::default() });
    let mut guest = house.connect("alice");
    let begin = Instant::now();
    for _ in 0..8 {
        guest.ask("fast.test").await;
    }
    for _ in 0..5 {
        assert!(guest.reply().await.is_some());
    }
    for _ in 5..8 {
        assert!(guest.reply().await.is_some(), "nothing is lost");
    }
    // The rate is by the clock of the machine, the wait by the one that stands still.
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert!(!house.desk.rate("198.51.100.1".parse().unwrap()), "all listeners of a kind share it");
    assert!(house.desk.rate("198.51.100.2".parse().unwrap()));
}
