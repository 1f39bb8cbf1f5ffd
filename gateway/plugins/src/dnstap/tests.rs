//! Messages, sinks and lines.
#![allow(clippy::unwrap_used)]

mod sink;

use std::net::Ipv4Addr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use engine::Descriptor;
use engine::testing::Bench;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::timeout;

use self::sink::Sink;
use super::message::Message;
use crate::shared::scripted::{Say, Scripted};
use crate::shared::testing::{ANSWERS, logged};

/// The registry of these tests.
static PLUGINS: &[&Descriptor] = &[
    &crate::metadata::PLUGIN,
    &crate::errors::PLUGIN,
    &crate::log::PLUGIN,
    &super::PLUGIN,
    &crate::rewrite::PLUGIN,
    &ANSWERS,
    &crate::forward::PLUGIN,
];

/// A listener of TCP, and its port.
async fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

/// The next sink that connects there.
async fn accept(listener: &TcpListener) -> Sink<TcpStream> {
    let (stream, _) = timeout(Duration::from_secs(20), listener.accept()).await.unwrap().unwrap();
    Sink::begin(stream).await
}

/// A port that nobody listens at.
async fn nobody() -> u16 {
    listener().await.1
}

/// The file of a socket in a folder of its own, which goes with the value.
struct Folder(std::path::PathBuf);

impl Folder {
    /// A new one.
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("dnstap-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// The socket's path.
    fn socket(&self) -> String {
        self.0.join("tap.sock").display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// Connects to a listener, which may not be there yet.
async fn join(socket: &str) -> Sink<UnixStream> {
    for _ in 0..200 {
        if let Ok(stream) = UnixStream::connect(socket).await {
            return Sink::begin(stream).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("nobody listens at {socket}");
}

/// When a message says that the query was.
fn query_time(message: &Message) -> Duration {
    Duration::new(message.query_time_sec.unwrap(), message.query_time_nsec.unwrap())
}

#[tokio::test]
async fn clients_queries_and_responses() {
    // dnstap.out, dnstap.full, dnstap.identity, dnstap.client, dnstap.frames, dnstap.noquery.
    let (listener, port) = listener().await;
    let text = format!(
        "test {{\ndnstap tcp://127.0.0.1:{port} full {{\nidentity edge\nversion V-1\n}}\nanswers\n}}"
    );
    let mut bench = Bench::new(PLUGINS, &text);
    let mut sink = accept(&listener).await;
    let query = bench.exchange("a.test").query.wire.clone();
    let reply = bench.serve(&mut bench.exchange("a.test"));
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let whole = sink.next().await.unwrap();
    assert_eq!(whole.identity.as_deref(), Some(&b"edge"[..]));
    assert_eq!(whole.version.as_deref(), Some(&b"V-1"[..]));
    assert_eq!((whole.extra, whole.kind), (None, 1));
    let (asked, [replied]) = (whole.message.unwrap(), sink.messages().await);
    assert_eq!((asked.kind, replied.kind), (5, 6));
    assert_eq!(asked.query_message.as_deref(), Some(&*query));
    assert_eq!(asked.response_message, None);
    assert_eq!(replied.response_message.as_deref(), Some(&*reply));
    assert_eq!(replied.query_message, None);
    assert!(query_time(&asked).abs_diff(now) < Duration::from_secs(5));
    assert_eq!(query_time(&asked), query_time(&replied));
    assert_eq!((asked.response_time_sec, asked.response_time_nsec), (None, None));
    assert!(replied.response_time_sec.unwrap() >= now.as_secs() - 1);
    for message in [&asked, &replied] {
        assert_eq!((message.socket_family, message.socket_protocol), (Some(1), Some(1)));
        assert_eq!(message.query_address.as_deref(), Some(&[127, 0, 0, 1][..]));
        assert_eq!((message.query_port, message.response_port), (Some(40000), None));
    }
    // Addresses of IPv4 have four octets, whatever the socket says.
    for (from, family, octets) in [("::ffff:127.0.0.1", 1, 4), ("2001:db8::1", 2, 16)] {
        bench.from(from.parse().unwrap());
        bench.now("a.test +tcp");
        let [asked, _] = sink.messages().await;
        assert_eq!((asked.socket_family, asked.socket_protocol), (Some(family), Some(2)));
        assert_eq!(asked.query_address.unwrap().len(), octets);
    }
    for (query, protocol) in [("a.test +tls", 3), ("a.test +http", 4)] {
        bench.now(query);
        let [asked, _] = sink.messages().await;
        assert_eq!(asked.socket_protocol, Some(protocol), "{query}");
    }
    assert_eq!(bench.now("drop.test"), "(none)");
    bench.now("nx.test");
    let [dropped, asked, replied] = sink.messages().await;
    assert_eq!([dropped.kind, asked.kind, replied.kind], [5, 5, 6]);
}

#[tokio::test]
async fn without_full_there_are_no_octets() {
    // dnstap.full, dnstap.version, dnstap.unix.
    for second in ["", "Full", "full"] {
        let folder = Folder::new(&format!("short{second}"));
        let listener = UnixListener::bind(folder.socket()).unwrap();
        let text = format!("test {{\ndnstap {} {second}\nanswers\n}}", folder.socket());
        let bench = Bench::new(PLUGINS, &text);
        let (stream, _) = listener.accept().await.unwrap();
        let mut sink = Sink::begin(stream).await;
        bench.now("a.test");
        let whole = sink.next().await.unwrap();
        assert_eq!(whole.version.as_deref(), Some(&b"Causeway-test"[..]));
        assert_eq!(whole.identity.unwrap(), crate::shared::host::hostname().into_bytes());
        let ([replied], asked) = (sink.messages().await, whole.message.unwrap());
        let is_full = second == "full";
        assert_eq!(asked.query_message.is_some(), is_full);
        assert_eq!(replied.response_message.is_some(), is_full);
        assert_eq!(bench.built.warnings.len(), usize::from(second == "Full"));
    }
}

#[tokio::test]
async fn extra_has_placeholders() {
    // dnstap.extra.
    let (listener, port) = listener().await;
    let text = format!(
        "test {{\nmetadata\nlog\ndnstap unix:///nowhere\ndnstap tcp://127.0.0.1:{port} {{\nextra \"{{name}} {{rcode}} {{duration}} {{/log/type}} {{/no/thing}}\"\n}}\nanswers\n}}"
    );
    let bench = Bench::new(PLUGINS, &text);
    let mut sink = accept(&listener).await;
    bench.now("nx.test");
    let mut extra = Vec::new();
    for _ in 0..2 {
        extra.push(String::from_utf8(sink.next().await.unwrap().extra.unwrap()).unwrap());
    }
    assert_eq!(extra[0], "nx.test. - - - -");
    assert!(extra[1].starts_with("nx.test. NXDOMAIN 0"), "{extra:?}");
    assert!(extra[1].ends_with("s NXDOMAIN -"), "{extra:?}");
}

#[tokio::test]
async fn what_clients_asked_is_noted_before_it_is_rewritten() {
    // dnstap.position.
    let (listener, port) = listener().await;
    let text = format!(
        "test {{\ndnstap tcp://127.0.0.1:{port} full\nrewrite name a.test b.test\nanswers\n}}"
    );
    let bench = Bench::new(PLUGINS, &text);
    let mut sink = accept(&listener).await;
    let mut x = bench.exchange("a.test");
    let query = x.query.wire.clone();
    let reply = bench.serve(&mut x);
    let [asked, replied] = sink.messages().await;
    assert_eq!(asked.query_message, Some(query));
    assert_eq!(replied.response_message, Some(reply));
}

#[tokio::test]
async fn forwarders_queries_and_responses() {
    // dnstap.forwarder, forward.dnstap.
    let upstream = Scripted::start(|asked, answer| {
        if asked.label() == "silent" {
            return Say::Nothing;
        }
        let name = asked.request.name.clone();
        answer.a(&name, 60, Ipv4Addr::new(198, 51, 100, 1));
        Say::Answer
    })
    .await;
    let (listener, port) = listener().await;
    let text = format!(
        "test {{\ndnstap tcp://127.0.0.1:{port} full\nforward . {} {{\nread_timeout 100ms\nmax_fails 0\nmax_connect_attempts 1\n}}\n}}",
        upstream.addr
    );
    let bench = Bench::new(PLUGINS, &text);
    let mut sink = accept(&listener).await;
    for (query, protocol) in [("a.test", 1), ("a.test +tcp", 2)] {
        bench.ask(query).await;
        let [client, asked, replied, end] = sink.messages().await;
        assert_eq!([client.kind, asked.kind, replied.kind, end.kind], [5, 7, 8, 6], "{query}");
        for message in [&asked, &replied] {
            assert_eq!(message.socket_protocol, Some(protocol));
            assert_eq!(message.socket_family, Some(1));
            assert_eq!(message.query_address.as_deref(), Some(&[127, 0, 0, 1][..]));
            assert_ne!(message.query_port, Some(40000), "it is our own socket");
            assert!(message.query_port.unwrap() > 0);
            assert_eq!(message.response_address.as_deref(), Some(&[127, 0, 0, 1][..]));
            assert_eq!(message.response_port, Some(upstream.addr.port().into()));
        }
        assert_eq!(query_time(&asked), query_time(&replied));
        assert!(asked.response_time_sec.is_none() && replied.response_time_sec.is_some());
        let (sent, came) = (asked.query_message.unwrap(), replied.response_message.unwrap());
        assert_eq!(sent[..2], came[..2], "the id is that of the wire");
        assert_eq!(sent[12..], client.query_message.unwrap()[12..]);
    }
    bench.ask("silent.test").await;
    let [client, asked, end] = sink.messages().await;
    assert_eq!([client.kind, asked.kind, end.kind], [5, 7, 6]);
    assert_eq!(asked.response_port, Some(upstream.addr.port().into()));
}

#[tokio::test]
async fn a_sink_that_is_away_is_tried_again() {
    // dnstap.reconnect, dnstap.frames.
    let port = nobody().await;
    let text = format!("test {{\ndnstap tcp://127.0.0.1:{port}\nanswers\n}}");
    logged();
    let bench = Bench::new(PLUGINS, &text);
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lines = logged();
    assert!(lines[0].starts_with("[ERROR] plugin/dnstap: No connection to dnstap endpoint: "));
    // What was asked meanwhile waits.
    bench.now("a.test");
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await.unwrap();
    let mut sink = accept(&listener).await;
    let [asked, replied] = sink.messages().await;
    assert_eq!([asked.kind, replied.kind], [5, 6]);
    // One that goes is tried at once.
    drop(sink);
    let mut sink = accept(&listener).await;
    bench.now("a.test");
    let [asked, _] = sink.messages().await;
    assert_eq!(asked.kind, 5);
}

#[tokio::test]
async fn messages_without_room_are_counted_and_left_out() {
    // dnstap.queue, dnstap.reconnect: queries do not wait.
    let port = nobody().await;
    let text = format!("test {{\ndnstap tcp://127.0.0.1:{port}\nanswers\n}}");
    logged();
    let bench = Bench::new(PLUGINS, &text);
    tokio::task::yield_now().await;
    for _ in 0..5_003 {
        assert!(bench.now("a.test").starts_with("NOERROR"));
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    let lines = logged();
    assert!(
        lines.contains(&"[WARNING] plugin/dnstap: Dropped dnstap messages: 6".to_owned()),
        "{lines:?}"
    );
    let metric =
        format!("causeway_dnstap_dropped_messages_total{{socket=\"tcp://127.0.0.1:{port}\"}} 6");
    assert!(engine::metrics::render().contains(&metric));
}

#[tokio::test]
async fn every_connected_sink_gets_all() {
    // dnstap.listen.
    let folder = Folder::new("listen");
    let text = format!("test {{\ndnstap listen {} full\nanswers\n}}", folder.socket());
    let bench = Bench::new(PLUGINS, &text);
    let mut first = join(&folder.socket()).await;
    let mut second = join(&folder.socket()).await;
    // A sink is counted shortly after its handshake.
    let both = format!("causeway_dnstap_sinks{{socket=\"{}\"}} 2", folder.socket());
    while !engine::metrics::render().contains(&both) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bench.now("a.test");
    for sink in [&mut first, &mut second] {
        let [asked, replied] = sink.messages().await;
        assert_eq!([asked.kind, replied.kind], [5, 6]);
    }
    drop(first);
    bench.now("a.test");
    let [asked, _] = second.messages().await;
    assert_eq!(asked.kind, 5);
    // The end of the process is the end of the stream, and of the socket.
    let ((), last) = tokio::join!(bench.process().close(Duration::from_secs(5)), second.next());
    assert_eq!(last, None);
    assert!(!std::path::Path::new(&folder.socket()).exists());
}

#[tokio::test]
async fn a_sink_that_does_not_read_loses_its_connection() {
    // dnstap.listen.
    let folder = Folder::new("slow");
    let text = format!("test {{\ndnstap listen {} full\nanswers\n}}", folder.socket());
    let bench = Bench::new(PLUGINS, &text);
    let sink = join(&folder.socket()).await;
    let metric = |count: u8| format!("sinks{{socket=\"{}\"}} {count}\n", folder.socket());
    let wait = async |count| {
        while !engine::metrics::render().contains(&metric(count)) {
            bench.now("a.test");
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_secs(20), wait(1)).await.unwrap();
    timeout(Duration::from_secs(60), wait(0)).await.unwrap();
    drop(sink);
}

#[tokio::test]
async fn several_directives_are_several_taps() {
    // dnstap.multi.
    let ((one, first), (two, second)) = (listener().await, listener().await);
    let text = format!(
        "test {{\ndnstap tcp://127.0.0.1:{first} full\ndnstap tcp://127.0.0.1:{second}\nanswers\n}}\n\
         other {{\ndnstap tcp://127.0.0.1:{second}\nanswers\n}}"
    );
    let bench = Bench::new(PLUGINS, &text);
    let (mut one, mut both) = (accept(&one).await, accept(&two).await);
    bench.now("a.test");
    bench.now("a.other");
    let [asked, _] = one.messages().await;
    assert!(asked.query_message.is_some());
    let kinds = both.messages::<4>().await.map(|message| message.kind);
    assert_eq!(kinds, [5, 6, 5, 6]);
}

#[tokio::test]
async fn connections_stay_over_a_reload() {
    // dnstap.reload.
    let (listener, port) = listener().await;
    let text = |more: &str| format!("test {{\n{more}\ndnstap tcp://127.0.0.1:{port}\nanswers\n}}");
    let mut bench = Bench::new(PLUGINS, &text(""));
    let mut sink = accept(&listener).await;
    bench.reload(&text("errors")).unwrap();
    bench.now("a.test");
    let [asked, _] = sink.messages().await;
    assert_eq!(asked.kind, 5);
    // One whose directive is gone takes leave.
    bench.reload("test {\nanswers\n}").unwrap();
    assert_eq!(sink.next().await, None);
}

#[tokio::test]
async fn a_sink_that_speaks_something_else_is_refused() {
    // dnstap.frames.
    for (says, want) in [
        (&b"\x00\x00\x00\x00\x00\x00\x00\x04\x00\x00\x00\x02"[..], "out of order"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not speak Frame Streams"),
        (b"\x00\x00\x00\x00\xff\xff\xff\xff", "wrong length"),
        (
            b"\x00\x00\x00\x00\x00\x00\x00\x0f\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x03abc",
            "takes no messages of dnstap",
        ),
        (
            b"\x00\x00\x00\x00\x00\x00\x00\x0c\x00\x00\x00\x01\x00\x00\x00\x01\xff\xff\xff\xff",
            "too long",
        ),
    ] {
        let (mut ours, mut theirs) = tokio::io::duplex(4096);
        tokio::io::AsyncWriteExt::write_all(&mut theirs, says).await.unwrap();
        let wrong = super::frames::begin(&mut ours).await.unwrap_err();
        assert!(wrong.to_string().contains(want), "{wrong}");
    }
    let (mut ours, _theirs) = tokio::io::duplex(4096);
    tokio::time::pause();
    let wrong = super::frames::begin(&mut ours).await.unwrap_err();
    assert_eq!(wrong.kind(), std::io::ErrorKind::TimedOut);
}

#[tokio::test]
async fn what_a_line_may_say() {
    // dnstap.writebuf, dnstap.queue, dnstap.tls, dnstap.multi.
    for (line, want) in [
        ("dnstap", "Wrong argument count"),
        ("dnstap listen", "Wrong argument count"),
        ("dnstap /x full 0", "is no number from 1 to 1024"),
        ("dnstap /x full 1025", "is no number from 1 to 1024"),
        ("dnstap /x full x", "is no number from 1 to 1024"),
        ("dnstap /x full 1 0", "is no number from 1 to 4096"),
        ("dnstap /x full 1 4097", "is no number from 1 to 4096"),
        ("dnstap /x {\nfoo\n}", "'foo' is not a property"),
        ("dnstap /x {\nidentity\n}", "Wrong argument count"),
        ("dnstap /x {\ntls a b\n}", "'tls' is for `dnstap listen`"),
        ("dnstap listen tls://127.0.0.1:0 {\ntls a\n}", "Wrong argument count"),
        ("dnstap listen tls://127.0.0.1:0 {\ntls /no/a /no/b\n}", "/no/a"),
    ] {
        let wrong = Bench::refused(PLUGINS, &format!("test {{\n{line}\nanswers\n}}"));
        assert!(wrong.starts_with("plugin/dnstap: ") && wrong.contains(want), "{line}: {wrong}");
    }
    for (line, warning) in [
        ("dnstap /x full 1024 4096", None),
        ("dnstap unix:///x any 1 1 more", Some("is not `full`")),
        ("dnstap tcp://127.0.0.1", Some("has no port")),
        ("dnstap listen tls://127.0.0.1:0", Some("needs a certificate")),
        ("dnstap tls://127.0.0.1:1 {\nskipverify\n}", None),
    ] {
        let bench = Bench::new(PLUGINS, &format!("test {{\n{line}\nanswers\n}}"));
        let first = bench.built.warnings.first().map(|warning| warning.what.clone());
        let fits = match warning {
            None => first.is_none(),
            Some(want) => first.as_ref().is_some_and(|text| text.contains(want)),
        };
        assert!(fits, "{line}: {first:?}");
    }
}
