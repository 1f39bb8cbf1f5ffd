//! *dnstap* against the collectors that people run: fstrm_capture, read by dnstap-ldns; and sinks that do as they please.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use certs::{ClientTls, ServerTls};
use rustix::process::Signal;
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, ServerConnection, StreamOwned};
use tests::pki::Leaf;
use tests::process::run;
use tests::{Folder, Gateway, Pki, Process, Query, Upstream, free_port, until};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(30);

/// What the messages are.
const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";

/// What upstreams know.
const RECORDS: &[&str] = &[
    "example.org. 60 IN SOA ns.example.org. host.example.org. 1 2 3 4 5",
    "www.example.org. 60 IN A 203.0.113.1",
];

/// Starts a collector that writes what it gets to `file`, at `-u SOCKET` or `-a ADDRESS -p PORT`.
fn capture(file: &Path, place: &[&str]) -> Process {
    let mut command = Command::new("fstrm_capture");
    command.args(["-t", "protobuf:dnstap.Dnstap", "-d", "-d", "-d", "-w"]).arg(file).args(place);
    command.stdin(Stdio::null());
    let process = Process::start("fstrm_capture (Debian: fstrm-bin)", command);
    process.line("opened output file", LIMIT);
    process
}

/// The messages of a file, each in words.
fn messages(file: &Path) -> Vec<String> {
    let mut command = Command::new("dnstap-ldns");
    let text = run(command.arg("-r").arg(file).arg("-y"));
    text.split("---\n").map(str::trim).filter(|one| !one.is_empty()).map(str::to_owned).collect()
}

/// The kinds of messages.
fn kinds(messages: &[String]) -> Vec<&str> {
    let kind = |message: &'_ String| message.find("\n  type: ").unwrap() + 9;
    messages.iter().map(|message| message[kind(message)..].lines().next().unwrap()).collect()
}

/// Stops a collector, so that its file is whole.
fn finish(mut collector: Process) {
    collector.signal(Signal::TERM);
    collector.wait(LIMIT).expect("the collector ends");
}

/// The receiving side of Frame Streams, over anything.
struct Sink<S> {
    stream: S,
    frames: Vec<u8>,
    count: usize,
}

impl<S: Read + Write> Sink<S> {
    /// Shakes hands; none if the other side does not.
    fn begin(mut stream: S) -> Option<Self> {
        let ready = control(&mut stream)?;
        assert!(ready.starts_with(&[0, 0, 0, 4]) && ready.ends_with(CONTENT), "READY: {ready:?}");
        let mut accept = vec![0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 22];
        accept.extend_from_slice(CONTENT);
        stream.write_all(&accept).ok()?;
        let start = control(&mut stream)?;
        assert!(start.starts_with(&[0, 0, 0, 2]) && start.ends_with(CONTENT), "START: {start:?}");
        Some(Self { stream, frames: Vec::new(), count: 0 })
    }

    /// Reads this many messages.
    fn read(&mut self, count: usize) {
        while self.count < count {
            let len = number(&mut self.stream).expect("a message comes");
            assert_ne!(len, 0, "no control frame yet");
            let mut frame = vec![0; len as usize];
            self.stream.read_exact(&mut frame).unwrap();
            self.frames.extend_from_slice(&len.to_be_bytes());
            self.frames.extend_from_slice(&frame);
            self.count += 1;
        }
    }

    /// Takes leave as the other side does: STOP, then FINISH.
    fn end(&mut self) {
        assert_eq!(control(&mut self.stream).unwrap(), [0, 0, 0, 3], "STOP");
        self.stream.write_all(&[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5]).unwrap();
    }

    /// What has come, in words.
    fn messages(&self, folder: &Folder) -> Vec<String> {
        let mut file = vec![0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 22];
        file.extend_from_slice(CONTENT);
        file.extend_from_slice(&self.frames);
        file.extend_from_slice(&[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 3]);
        messages(&folder.write("sink.fstrm", file))
    }
}

/// A number of four octets.
fn number(stream: &mut impl Read) -> Option<u32> {
    let mut octets = [0; 4];
    stream.read_exact(&mut octets).ok()?;
    Some(u32::from_be_bytes(octets))
}

/// The next control frame.
fn control(stream: &mut impl Read) -> Option<Vec<u8>> {
    assert_eq!(number(stream)?, 0, "a control frame");
    let mut body = vec![0; number(stream)? as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// A stream with a bound on waiting.
fn bounded(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream
}

/// The address of a port.
fn at(port: u16) -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, port))
}

/// Waits for a metric.
fn wait_for(gateway: &Gateway, metric: &str, good: impl Fn(f64) -> bool) {
    let found =
        until(LIMIT, || gateway.metrics("metrics").get(metric).copied().filter(|v| good(*v)));
    assert!(found.is_some(), "{metric}: {:?}\n{}", gateway.metrics("metrics"), gateway.output());
}

#[test]
fn collectors_get_what_clients_and_upstreams_say() {
    let (folder, upstream) = (Folder::new("dnstap"), Upstream::start(RECORDS));
    let port = free_port();
    let (unix, tcp) = (folder.path().join("unix.fstrm"), folder.path().join("tcp.fstrm"));
    let socket = folder.path().join("tap.sock").display().to_string();
    let by_unix = capture(&unix, &["-u", &socket]);
    let by_tcp = capture(&tcp, &["-a", "127.0.0.1", "-p", &port.to_string()]);
    let mut gateway = Gateway::new(&format!(
        ".:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@\n dnstap {socket} full {{\n  identity edge\n  version one\n  extra \"{{proto}} {{rcode}}\"\n }}\n \
         dnstap tcp://127.0.0.1:{port}\n forward . {}\n}}",
        upstream.address()
    ))
    .start();
    wait_for(&gateway, &format!("causeway_dnstap_sinks{{socket=\"{socket}\"}}"), |v| v == 1.0);
    wait_for(
        &gateway,
        &format!("causeway_dnstap_sinks{{socket=\"tcp://127.0.0.1:{port}\"}}"),
        |v| v == 1.0,
    );
    gateway.ask("www.example.org A");
    gateway.ask(Query::from("no.example.org AAAA").tcp());
    assert!(gateway.stop().success());
    finish(by_unix);
    finish(by_tcp);
    let all = messages(&unix);
    let one = ["CLIENT_QUERY", "FORWARDER_QUERY", "FORWARDER_RESPONSE", "CLIENT_RESPONSE"];
    assert_eq!(kinds(&all), [one, one].concat(), "{all:#?}");
    for (message, protocol) in all.iter().zip(["UDP"; 4].into_iter().chain(["TCP"; 4])) {
        assert!(message.contains("identity: \"edge\"\nversion: \"one\""), "{message}");
        assert!(message.contains(&format!("socket_protocol: {protocol}")), "{message}");
        assert!(message.contains("query_address: \"127.0.0.1\""), "{message}");
    }
    assert!(all[0].contains("www.example.org.\tIN\tA"), "{}", all[0]);
    assert!(all[2].contains(&format!("response_port: {}", upstream.address().port())));
    assert!(all[3].contains("www.example.org.\t60\tIN\tA\t203.0.113.1"), "{}", all[3]);
    assert!(all[7].contains("rcode: NXDOMAIN"), "{}", all[7]);
    let all = messages(&tcp);
    assert_eq!(kinds(&all), [one, one].concat(), "{all:#?}");
    assert!(all.iter().all(|one| !one.contains("opcode:")), "no octets: {all:#?}");
}

#[test]
fn a_collector_that_dies_costs_no_query() {
    let folder = Folder::new("dnstap");
    let (socket, port) = (folder.path().join("tap.sock").display().to_string(), free_port());
    let mut collector = capture(&folder.path().join("first.fstrm"), &["-u", &socket]);
    let mut gateway = Gateway::new(&format!(
        ".:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@\n dnstap {socket} full\n dnstap tcp://127.0.0.1:{port}\n whoami\n}}"
    ))
    .start();
    gateway.line("No connection to dnstap endpoint: ");
    let sinks = format!("causeway_dnstap_sinks{{socket=\"{socket}\"}}");
    wait_for(&gateway, &sinks, |v| v == 1.0);
    gateway.ask("one.example.org A");
    collector.signal(Signal::KILL);
    collector.wait(LIMIT).unwrap();
    std::fs::remove_file(&socket).unwrap();
    wait_for(&gateway, &sinks, |v| v == 0.0);
    for number in 0..100 {
        assert_eq!(gateway.ask(format!("a{number}.example.org A").as_str()).additionals().len(), 2);
    }
    // What was asked meanwhile comes when it is back.
    let second = folder.path().join("second.fstrm");
    let collector = capture(&second, &["-u", &socket]);
    wait_for(&gateway, &sinks, |v| v == 1.0);
    gateway.ask("last.example.org A");
    assert!(gateway.stop().success());
    finish(collector);
    let all = messages(&second);
    assert_eq!(all.len(), 202, "{}", gateway.output());
    assert!(all[201].contains("last.example.org."), "{}", all[201]);
}

#[test]
fn a_collector_by_tls_is_checked() {
    let (folder, pki) = (Folder::new("dnstap"), Pki::new());
    let pair = pki.server("sink", &["127.0.0.1"]);
    let tls = ServerTls::files(pair.chain, pair.key).unwrap().stream(&[], None);
    let listener = TcpListener::bind(at(0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    let accept = || {
        let (stream, _) = listener.accept().unwrap();
        let session = ServerConnection::new(std::sync::Arc::clone(&tls)).unwrap();
        Sink::begin(StreamOwned::new(session, bounded(stream)))
    };
    let start = |corefile: &str, ca: &Path| {
        Gateway::new(corefile).env("SSL_CERT_FILE", &ca.display().to_string()).start()
    };
    let line = format!(".:@PORT@ {{\n dnstap tls://127.0.0.1:{port} full");
    // One whose authority the system knows.
    let mut gateway = start(&format!("{line}\n whoami\n}}"), pki.ca());
    let mut sink = accept().expect("the certificate is good");
    gateway.ask("a.example.org A");
    sink.read(2);
    let all = sink.messages(&folder);
    assert_eq!(kinds(&all), ["CLIENT_QUERY", "CLIENT_RESPONSE"]);
    assert!(all[1].contains("a.example.org."), "{all:?}");
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| sink.end());
        gateway.stop()
    });
    assert!(ended.success());
    // One that it does not know, and one that is not looked at.
    let stranger = Pki::new();
    let gateway = start(&format!("{line}\n whoami\n}}"), stranger.ca());
    assert!(accept().is_none(), "nothing is told to anybody else");
    let said = gateway.line("No connection to dnstap endpoint: ");
    assert!(said.contains("certificate"), "{said}");
    gateway.ask("a.example.org A");
    drop(gateway);
    let gateway = start(&format!("{line} {{\n  skipverify\n }}\n whoami\n}}"), stranger.ca());
    let mut sink = accept().expect("any certificate will do");
    gateway.ask("b.example.org A");
    sink.read(2);
}

#[test]
fn collectors_connect_to_a_listener() {
    let (folder, pki) = (Folder::new("dnstap"), Pki::new());
    let socket = folder.path().join("listen.sock");
    let server = pki.server("server", &["127.0.0.1"]);
    let known = pki.issue("client", Leaf::client("collector", &["collector.example.org"]));
    let mut corefile = format!(
        ".:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@\n dnstap listen {} full\n",
        socket.display()
    );
    for (name, ca, skip) in [
        ("open", PathBuf::new(), ""),
        ("strict", pki.ca().to_owned(), ""),
        ("lenient", pki.ca().to_owned(), "skipverify"),
    ] {
        let _unfailing = write!(
            corefile,
            " dnstap listen tls://127.0.0.1:@PORT:{name}@ {{\n  tls {server} {}\n  {skip}\n }}\n",
            ca.display()
        );
    }
    corefile.push_str(" dnstap listen tcp://127.0.0.1:@PORT:tcp@\n whoami\n}\n");
    let mut gateway = Gateway::new(&corefile).start();
    let by_tcp = || {
        let stream = until(LIMIT, || TcpStream::connect(gateway.address_of("tcp")).ok()).unwrap();
        Sink::begin(bounded(stream)).unwrap()
    };
    let by_unix = || {
        let stream = until(LIMIT, || UnixStream::connect(&socket).ok()).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        Sink::begin(stream).unwrap()
    };
    let by_tls = |name: &str, shows: bool| {
        let pair = shows.then(|| (known.chain.clone(), known.key.clone()));
        let tls = ClientTls::new(Some(pki.ca().to_owned()), pair).unwrap().config(&[]);
        let address = gateway.address_of(name);
        let session = ClientConnection::new(tls, ServerName::from(address.ip())).unwrap();
        let stream = until(LIMIT, || TcpStream::connect(address).ok()).unwrap();
        Sink::begin(StreamOwned::new(session, bounded(stream)))
    };
    assert!(by_tls("strict", false).is_none(), "it shows no certificate");
    let (mut one, mut two, mut third) = (by_unix(), by_unix(), by_tcp());
    let mut secure = [("open", false), ("strict", true), ("lenient", false), ("lenient", true)]
        .map(|(name, shows)| by_tls(name, shows).unwrap_or_else(|| panic!("{name} {shows}")));
    let total = || {
        let all = gateway.metrics("metrics");
        let sinks = all.iter().filter(|(name, _)| name.starts_with("causeway_dnstap_sinks"));
        sinks.map(|(_, value)| value).sum::<f64>()
    };
    assert!(until(LIMIT, || (total() == 7.0).then_some(())).is_some(), "{}", gateway.output());
    gateway.ask("a.example.org A");
    one.read(2);
    two.read(2);
    third.read(2);
    secure.iter_mut().for_each(|sink| sink.read(2));
    let all = two.messages(&folder);
    assert_eq!(kinds(&all), ["CLIENT_QUERY", "CLIENT_RESPONSE"]);
    assert!(all[0].contains("a.example.org."), "{all:?}");
    // One that goes does not keep the others from theirs.
    drop(one);
    gateway.ask("b.example.org A");
    two.read(4);
    third.read(4);
    let ended = std::thread::scope(|scope| {
        scope.spawn(|| two.end());
        scope.spawn(|| third.end());
        secure.iter_mut().for_each(|sink| {
            scope.spawn(|| {
                sink.read(4);
                sink.end();
            });
        });
        gateway.stop()
    });
    assert!(ended.success());
    assert!(!socket.exists());
}
