//! DNS over gRPC. The names of tests begin with the IDs of the requirements that they look at.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use bytes::Bytes;
use h2::client::SendRequest;
use hickory_proto::op::ResponseCode;
use http::{HeaderMap, Request};
use tests::web::{ENHANCE_YOUR_CALM, Raw, fields, frame, kind};
use tests::{Gateway, Query, Reply, Scripted};

/// Where the method is.
const PATH: &str = "/coredns.dns.DnsService/Query";

/// How long a step may take.
const SOON: Duration = Duration::from_secs(10);

/// A gateway in clear text; `slow.test` takes a second, `never.test` for ever, TXT records are 60 KB, SRV is dropped.
struct Place {
    gateway: Gateway,
    upstream: Scripted,
}

impl Place {
    /// A gateway with more lines in its block.
    fn new(lines: &str) -> Self {
        let upstream = Scripted::moody(230);
        let corefile = format!(
            "grpc://.:@PORT@ {{\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n {lines}\n acl {{\n  drop type SRV\n }}\n \
             template IN A gone.test {{\n  rcode NXDOMAIN\n }}\n hosts {{\n  203.0.113.1 www.test\n  fallthrough\n }}\n forward . {}\n}}\n",
            upstream.address()
        );
        Self { gateway: Gateway::new(&corefile).start(), upstream }
    }

    /// A connection.
    async fn connect(&self) -> SendRequest<Bytes> {
        let stream = tokio::net::TcpStream::connect(self.gateway.address()).await.unwrap();
        let mut builder = h2::client::Builder::new();
        // Room for the largest answer.
        builder.initial_window_size(1 << 20).initial_connection_window_size(1 << 20);
        let (send, connection) = builder.handshake(stream).await.unwrap();
        tokio::spawn(connection);
        send
    }
}

/// What came of a call.
struct Call {
    status: u16,
    /// The gRPC status, of the head or of the trailers.
    code: String,
    body: Vec<u8>,
}

impl Call {
    /// The answer.
    fn reply(&self) -> Reply {
        assert_eq!((self.status, &*self.code), (200, "0"));
        let [compressed, len @ ..] = <[u8; 5]>::try_from(&self.body[..5]).unwrap();
        assert_eq!(compressed, 0);
        assert_eq!(u32::from_be_bytes(len) as usize, self.body.len() - 5);
        let packet = &self.body[5..];
        assert_eq!(packet[0], 10);
        let digits = packet[1..].iter().take_while(|octet| **octet >= 128).count() + 1;
        Reply::decode(packet[1 + digits..].to_vec(), Duration::ZERO)
    }
}

/// A DNS message as the body of a call.
fn body(message: &[u8]) -> Vec<u8> {
    let mut packet = vec![10];
    let mut length = message.len();
    while length >= 128 {
        packet.push(u8::try_from(length % 128).unwrap() | 128);
        length /= 128;
    }
    packet.push(u8::try_from(length).unwrap());
    packet.extend(message);
    [&[0][..], &u32::try_from(packet.len()).unwrap().to_be_bytes(), &packet].concat()
}

/// Makes a call.
async fn call(
    send: &SendRequest<Bytes>,
    path: &str,
    headers: &[(&str, &str)],
    body: Vec<u8>,
) -> Call {
    let mut send = send.clone().ready().await.unwrap();
    let mut request = Request::post(format!("http://a.test{path}")).header("te", "trailers");
    if headers.iter().all(|(name, _)| *name != "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let (response, mut stream) = send.send_request(request.body(()).unwrap(), false).unwrap();
    stream.send_data(body.into(), true).unwrap();
    let (head, mut rest) = response.await.unwrap().into_parts();
    let mut body = Vec::new();
    while let Some(data) = rest.data().await {
        let data = data.unwrap();
        rest.flow_control().release_capacity(data.len()).unwrap();
        body.extend_from_slice(&data);
    }
    let trailers = rest.trailers().await.unwrap();
    let code =
        |map: &HeaderMap| map.get("grpc-status").map(|value| value.to_str().unwrap().to_owned());
    let code = trailers.as_ref().and_then(code).or_else(|| code(&head.headers)).unwrap_or_default();
    Call { status: head.status.as_u16(), code, body }
}

/// Asks.
async fn ask(send: &SendRequest<Bytes>, query: &Query) -> Call {
    call(send, PATH, &[], body(&query.encode())).await
}

#[tokio::test]
async fn grpc_01_every_answer_is_an_answer() {
    let place = Place::new("");
    let send = place.connect().await;
    assert_eq!(ask(&send, &Query::from("www.test")).await.reply().answers().len(), 1);
    let gone = ask(&send, &Query::from("gone.test")).await.reply();
    assert_eq!(gone.rcode(), ResponseCode::NXDomain);
    let empty = Query::from("www.test").with(|message| message.queries.clear());
    assert_eq!(ask(&send, &empty).await.reply().rcode(), ResponseCode::FormErr);
    // As large as a message gets: 65,535 octets in the query, and nearly so in the answer.
    let room = 65_535 - Query::from("large.test TXT").option(65001, &[]).encode().len();
    let largest = Query::from("large.test TXT").option(65001, &vec![0; room]);
    assert_eq!(body(&largest.encode()).len(), 65_539 + 5);
    assert_eq!(ask(&send, &largest).await.reply().answers().len(), 230);
    // Many at once.
    let many = (0..100).map(|at| {
        let send = send.clone();
        tokio::spawn(async move { ask(&send, &Query::from(&*format!("n{at}.test"))).await })
    });
    for one in many.collect::<Vec<_>>() {
        assert_eq!(one.await.unwrap().reply().answers().len(), 1);
    }
    let metrics = place.gateway.metrics("metrics");
    let key = format!(
        "causeway_grpc_responses_total{{code=\"0\",server=\"grpc://{}\"}}",
        place.gateway.address()
    );
    assert_eq!(metrics.get(&key), Some(&104.0), "{metrics:?}");
}

#[tokio::test]
async fn grpc_01_calls_that_get_no_answer_say_why() {
    let place = Place::new("");
    let send = place.connect().await;
    let good = || body(&Query::from("www.test").encode());
    for (what, path, headers, body, want) in [
        ("no query", PATH, &[][..], body(&[0; 11]), "3"),
        ("a response", PATH, &[], body(b"\0\0\x80\0\0\0\0\0\0\0\0\0"), "3"),
        ("nothing", PATH, &[], Vec::new(), "13"),
        ("an empty packet", PATH, &[], vec![0; 5], "3"),
        ("no packet", PATH, &[], b"\0\0\0\0\x02\xff\xff".to_vec(), "13"),
        ("two messages", PATH, &[], [good(), good()].concat(), "13"),
        ("too much", PATH, &[], body(&vec![0; 65_536]), "8"),
        ("compressed", PATH, &[], [&[1], &good()[1..]].concat(), "13"),
        ("compression", PATH, &[("grpc-encoding", "gzip")], good(), "12"),
        ("another method", "/coredns.dns.DnsService/Watch", &[], good(), "12"),
        ("another service", "/a.B/Query", &[], good(), "12"),
        ("a wrong time", PATH, &[("grpc-timeout", "1x")], good(), "13"),
        // Where the chain stays silent the query does not come back.
        ("silence", PATH, &[], body(&Query::from("www.test SRV").encode()), "14"),
    ] {
        let call = call(&send, path, headers, body).await;
        assert_eq!((call.status, &*call.code, call.body.len()), (200, want, 0), "{what}");
    }
    let plain = call(&send, PATH, &[("content-type", "application/dns-message")], good()).await;
    assert_eq!(plain.status, 415);
    // After all that the connection is as good as before.
    assert_eq!(ask(&send, &Query::from("www.test")).await.reply().answers().len(), 1);
}

#[tokio::test]
async fn grpc_01_the_clients_deadline_is_kept() {
    let place = Place::new("");
    let send = place.connect().await;
    let begun = Instant::now();
    let message = body(&Query::from("never.test").encode());
    let call = call(&send, PATH, &[("grpc-timeout", "300m")], message).await;
    assert_eq!(call.code, "4");
    assert!((300..2_000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
    let message = body(&Query::from("slow.test").encode());
    let call = self::call(&send, PATH, &[("grpc-timeout", "5S")], message).await;
    assert_eq!(call.reply().answers().len(), 1);
}

#[tokio::test]
async fn grpc_01_limits_hold() {
    let place = Place::new("grpc_server {\n  max_streams 3\n  max_connections 2\n }");
    let mut raw = Raw::http2(place.gateway.address(), &[]);
    let settings = raw.wait(SOON, |frame| frame.kind == kind::SETTINGS).unwrap().payload;
    assert!(settings.chunks(6).any(|six| six == [0, 3, 0, 0, 0, 3]), "{settings:?}");
    // A third connection waits until one of the others ends.
    let second = place.connect().await;
    assert_eq!(ask(&second, &Query::from("www.test")).await.reply().answers().len(), 1);
    let mut third = Raw::http2(place.gateway.address(), &[]);
    assert!(third.next(Duration::from_millis(500)).is_none());
    drop(raw);
    assert!(third.next(SOON).is_some());
    // What asks nothing ends a connection here as well.
    third.send(&frame(kind::PING, 0, 0, &[0; 8]).repeat(5_000));
    assert_eq!(third.goaway(SOON), Some(ENHANCE_YOUR_CALM));
    assert_eq!(ask(&second, &Query::from("www.test")).await.reply().answers().len(), 1);
}

#[tokio::test]
async fn grpc_01_nothing_under_way_is_lost_when_it_ends() {
    let mut place = Place::new("");
    let send = place.connect().await;
    let slow = tokio::spawn({
        let send = send.clone();
        async move { ask(&send, &Query::from("slow.test")).await }
    });
    while place.upstream.count("slow.test") == 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    place.gateway.signal(rustix::process::Signal::TERM);
    assert_eq!(slow.await.unwrap().reply().answers().len(), 1);
    let ended = tokio::task::spawn_blocking(move || place.gateway.stop().success());
    assert!(ended.await.unwrap());
}

#[test]
fn grpc_01_messages_that_do_not_come_are_not_waited_for() {
    let place = Place::new("timeouts {\n  read 1s\n }");
    let mut raw = Raw::http2(place.gateway.address(), &[]);
    let head = fields(&[
        (":method", "POST"),
        (":scheme", "http"),
        (":path", PATH),
        (":authority", "a.test"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ]);
    raw.frame(kind::HEADERS, 4, 1, &head);
    let begun = Instant::now();
    let answer = raw.wait(SOON, |frame| frame.kind == kind::HEADERS && frame.stream == 1).unwrap();
    // A head that is all.
    assert_eq!(answer.flags & 1, 1);
    assert!((800..5000).contains(&begun.elapsed().as_millis()), "{:?}", begun.elapsed());
}
