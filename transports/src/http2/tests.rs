//! One HTTP/2 connection at a time, without a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use engine::testing::Bench;
use engine::{Carry, Descriptor, Exchange, Plugin, Setup, Step, Stopper, Work};
use http::Request;

use crate::desk::Desk;
use crate::guard::Filter;
use crate::http2::frames::{Frames, PREFACE};
use crate::http2::{Ask, Failure, Reply, Service, Terms, serve};
use crate::limits::{Bounds, Limits};

/// A frame's octets.
fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
}

/// How many of these frames are passed on, behind the preface; the same however many octets come at a time.
fn passed(part: &[u8], count: usize) -> usize {
    let octets = [PREFACE, &part.repeat(count)].concat();
    let by = |step: usize| {
        let mut frames = Frames::new();
        let mut sum = 0;
        for some in octets.chunks(step) {
            let count = frames.pass(some);
            sum += count;
            if count < some.len() {
                break;
            }
        }
        sum - PREFACE.len()
    };
    let whole = by(octets.len());
    for step in [1, 5, 4_096] {
        // With less at a time some octets of a frame's header may have gone before it is known to be one too many.
        assert!(whole.abs_diff(by(step)) < 9, "{step} at a time: {} and {whole}", by(step));
    }
    whole / part.len()
}

#[test]
fn frames_that_ask_nothing_are_counted() {
    for (what, part) in [
        ("SETTINGS", frame(4, 0, &[])),
        ("PING", frame(6, 0, &[0; 8])),
        ("PRIORITY", frame(2, 0, &[0; 5])),
        ("WINDOW_UPDATE", frame(8, 0, &[0; 4])),
        ("CONTINUATION", frame(9, 0, &[])),
        ("empty DATA", frame(0, 0, &[])),
        ("unknown", frame(99, 0, &[0; 50])),
    ] {
        assert!((1_000..1_100).contains(&passed(&part, 2_000)), "{what}");
    }
    // A large one counts for each KiB.
    assert!((58..70).contains(&passed(&frame(99, 0, &[0; 16_384]), 100)));
    assert!((200..250).contains(&passed(&frame(3, 0, &[0; 4]), 500)));
}

#[test]
fn requests_pay_for_what_comes_with_them() {
    let request = frame(1, 5, &[0; 40]);
    let usual =
        [request.clone(), frame(8, 0, &[0; 4]), frame(8, 0, &[0; 4]), frame(0, 1, &[0; 30])];
    assert_eq!(passed(&usual.concat(), 5_000), 5_000);
    // One of three is taken back.
    let some = [request.clone(), request.clone(), request.clone(), frame(3, 0, &[0; 4])];
    assert_eq!(passed(&some.concat(), 5_000), 5_000);
    // All are.
    let rapid = [request, frame(3, 0, &[0; 4])];
    assert!((300..500).contains(&passed(&rapid.concat(), 5_000)));
}

/// How many queries are being worked on.
static AT_WORK: AtomicUsize = AtomicUsize::new(0);

/// Counts down when it goes.
struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        AT_WORK.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Never answers.
#[derive(Debug)]
struct Never;

impl Plugin for Never {
    fn query(&self, _: &mut Exchange) -> Step {
        Step::WAIT
    }

    fn work<'a>(&'a self, _: &'a mut Exchange, _: Carry) -> Work<'a> {
        AT_WORK.fetch_add(1, Ordering::SeqCst);
        let guard = Guard;
        Box::pin(async move {
            std::future::pending::<()>().await;
            drop(guard);
            Step::Next
        })
    }
}

/// Makes it.
static NEVER: Descriptor = Descriptor {
    name: "never",
    readme: "",
    setup: |setup: &mut Setup<'_>| {
        setup.install(Never);
        Ok(())
    },
};

/// Asks the same for every request.
struct Same<'a>(&'a Bench);

impl Service for Same<'_> {
    type Form = ();

    fn exchange(&self) -> Box<Exchange> {
        self.0.exchange("a.test")
    }

    fn ask(&self, _: &Request<h2::RecvStream>, _: &mut Exchange) -> Ask<()> {
        Ask::Query(())
    }

    fn body(&self, (): (), _: &mut Exchange) -> Result<(), Failure> {
        Ok(())
    }

    fn tell(&self, _: &Exchange, (): (), message: &[u8]) -> Reply {
        let body = Bytes::copy_from_slice(message);
        Reply { response: http::Response::new(()), body, trailers: None }
    }

    fn fail(&self, (): (), _: Failure) -> Reply {
        Reply { response: http::Response::new(()), body: Bytes::new(), trailers: None }
    }
}

#[tokio::test]
async fn h2_01_the_work_of_a_stream_that_is_reset_ends() {
    static PLUGINS: &[&Descriptor] = &[&NEVER];
    let bench = Bench::new(PLUGINS, "https://. {\n never\n}\n");
    let live = bench.gateway.live();
    let group = live.groups().next().unwrap();
    let limits = Limits::new(Bounds::default());
    let named = (group.id, group.key);
    let desk = Desk::new(Arc::clone(&bench.gateway), named, limits, group.spec.clone(), None);
    let room = desk.enter([127, 0, 0, 1].into()).unwrap();
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let stopper = Stopper::new(Duration::from_secs(1));
    let second = Duration::from_secs(1);
    let terms = Terms { streams: Some(10), read: second, write: second, idle: 60 * second };
    let service = Same(&bench);
    let served = serve((&desk, room.seat()), ours, Vec::new(), &service, terms, stopper.stop());
    let client = async {
        let (mut send, connection) = h2::client::handshake(theirs).await.unwrap();
        let connection = tokio::spawn(connection);
        let mut answers = Vec::new();
        for _ in 0..10 {
            send = send.ready().await.unwrap();
            let request = Request::get("http://a.test/").body(()).unwrap();
            answers.push(send.send_request(request, true).unwrap());
        }
        let wait = async |want| {
            while AT_WORK.load(Ordering::SeqCst) != want {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        wait(10).await;
        for (_, stream) in &mut answers[..7] {
            stream.send_reset(h2::Reason::CANCEL);
        }
        wait(3).await;
        // The rest goes with the connection.
        drop((answers, send));
        connection.abort();
        wait(0).await;
    };
    // Which of the two ends first is all the same.
    let both = futures::future::join(served, client);
    let (_, ()) = tokio::time::timeout(Duration::from_secs(20), both).await.unwrap();
}
