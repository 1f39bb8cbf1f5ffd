//! Replies that find no room, where load is shed.

use std::time::Duration;

use engine::testing::Bench;
use engine::{Descriptor, ListenSpec, Plugin, Step, Stopper, metrics};
use tokio::time::timeout;
use wire::Request;

use super::*;
use crate::limits::{Bounds, Limits};

/// Answers, or drops what comes while replies find no room.
#[derive(Debug)]
struct Answerer;

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[&Descriptor {
    name: "answerer",
    readme: "",
    setup: |setup| {
        setup.install(Answerer);
        Ok(())
    },
}];

impl Plugin for Answerer {
    fn query(&self, x: &mut Exchange) -> Step {
        if x.query.congested { Step::Drop } else { Step::Done }
    }
}

/// A listener on a port of its own, and a client of it.
struct House {
    shared: Arc<Socket>,
    stopper: Stopper,
    client: UdpSocket,
    server: String,
    _bench: Bench,
}

impl House {
    /// Opens one.
    async fn new(shed: bool) -> Self {
        let socket = crate::socket::udp(Some(IpAddr::from([127, 0, 0, 1]).into()), 0).unwrap();
        let addr = socket.local_addr().unwrap();
        let bench = Bench::new(CHAIN, &format!(".:{} {{\n answerer\n}}\n", addr.port()));
        let named =
            bench.gateway.live().groups().next().map(|group| (group.id, group.key)).unwrap();
        let spec = ListenSpec { shed, ..ListenSpec::default() };
        let limits = Limits::new(Bounds::default());
        let desk = Desk::new(Arc::clone(&bench.gateway), named, limits, spec, None);
        let udp = Udp::new(socket, desk).unwrap();
        let shared = Arc::clone(&udp.shared);
        let stopper = Stopper::new(Duration::from_millis(300));
        tokio::spawn(udp.run(stopper.stop()));
        let client = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        client.connect(addr).await.unwrap();
        Self { shared, stopper, client, server: named.1.to_string(), _bench: bench }
    }

    /// Sends a query with this number.
    async fn ask(&self, id: u16) {
        let request = Request { name: "a.test".parse().unwrap(), rtype: 1, ..Request::default() };
        let mut query = Vec::new();
        wire::encode_query(&request, id, &mut query);
        self.client.send(&query).await.unwrap();
    }

    /// The number of the next reply, if one comes.
    async fn reply(&self) -> Option<u16> {
        let mut buffer = [0; 512];
        let wait = timeout(Duration::from_millis(500), self.client.recv(&mut buffer));
        wait.await.ok().map(|len| {
            assert!(len.unwrap() >= 12);
            u16::from_be_bytes([buffer[0], buffer[1]])
        })
    }

    /// Waits until so many replies wait.
    async fn until(&self, waiting: usize) {
        for _ in 0..2000 {
            if self.shared.stack.len() == waiting {
                return;
            }
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        panic!("{} replies wait, not {waiting}", self.shared.stack.len());
    }

    /// How many replies were dropped.
    fn dropped(&self) -> u64 {
        let server = &self.server;
        let line =
            format!("coredns_shed_dropped_total{{reason=\"response\",server=\"{server}\"}} ");
        let text = metrics::render();
        let found = text.lines().find_map(|one| one.strip_prefix(&line));
        found.map_or(0, |number| number.parse().unwrap())
    }
}

#[tokio::test]
async fn the_freshest_reply_goes_first() {
    // shed.writer
    let house = House::new(true).await;
    house.ask(1).await;
    assert_eq!(house.reply().await, Some(1));
    house.shared.jammed.store(true, Ordering::Relaxed);
    for id in 2..5 {
        house.ask(id).await;
        house.until(usize::from(id) - 1).await;
    }
    house.shared.jammed.store(false, Ordering::Relaxed);
    let mut replies = Vec::new();
    while let Some(id) = house.reply().await {
        replies.push(id);
    }
    assert_eq!((replies, house.dropped()), (vec![4, 3, 2], 0));
}

#[tokio::test]
async fn a_full_stack_drops_what_comes() {
    // shed.writer, shed.drop: the oldest reply gives way, and queries are told that there is no room.
    let house = House::new(true).await;
    house.shared.jammed.store(true, Ordering::Relaxed);
    for id in 0..stack::DEPTH {
        house.shared.send(house.path(), &[id as u8; 12], None).await.unwrap();
    }
    assert!(house.shared.stack.is_full());
    house.ask(7).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((house.shared.stack.len(), house.dropped()), (stack::DEPTH, 0));
    house.shared.send(house.path(), &[9; 12], None).await.unwrap();
    assert_eq!((house.shared.stack.len(), house.dropped()), (stack::DEPTH, 1));
    // What is left when the listener ends is lost.
    house.stopper.reach(Stage::Draining);
    house.until(0).await;
    assert_eq!(house.dropped(), 1 + stack::DEPTH as u64);
}

#[tokio::test]
async fn without_shedding_the_socket_waits() {
    let house = House::new(false).await;
    house.shared.jammed.store(true, Ordering::Relaxed);
    house.ask(1).await;
    assert_eq!(house.reply().await, None);
    assert_eq!(house.shared.stack.len(), 0);
    house.shared.jammed.store(false, Ordering::Relaxed);
    assert_eq!(house.reply().await, Some(1));
}

impl House {
    /// Where the client is.
    fn path(&self) -> Path {
        Path { peer: self.client.local_addr().unwrap(), asked: None }
    }
}
