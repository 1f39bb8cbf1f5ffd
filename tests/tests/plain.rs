//! Plain DNS over UDP and TCP, message by message. Where a test has an ID of a requirement, its name begins with it.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use tests::client::{Query, Reply, Stream};
use tests::{Folder, Gateway, Namespace, Process, free_port, until};

/// How long anything here may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A block that answers everything, with a large name and a small one.
const COREFILE: &str = "\
.:@PORT@ {
    template IN TXT big.test {
        answer \"{{ .Name }} 60 IN TXT \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"1123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"2123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"3123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"4123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"5123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"6123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"7123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"8123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
        answer \"{{ .Name }} 60 IN TXT \\\"9123456789012345678901234567890123456789012345678901234567890123456789\\\" \\\"0123456789012345678901234567890123456789012345678901234567890123456789\\\"\"
    }
    whoami
}
";

/// A message from hexadecimal digits; blanks do not count.
fn octets(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// Sends octets over UDP and gives what comes back within half a second.
fn exchange(server: SocketAddr, message: &[u8]) -> Option<Vec<u8>> {
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    socket.send_to(message, server).unwrap();
    let mut reply = vec![0; 65535];
    let (len, from) = socket.recv_from(&mut reply).ok()?;
    assert_eq!(from, server);
    reply.truncate(len);
    Some(reply)
}

/// Messages with one defect each, and the response code that they get; none for silence.
const DEFECTS: &[(&str, &str, Option<u8>)] = &[
    ("MSG-02 shorter than a header", "1234 0100 0001 0000 0000 00", None),
    ("MSG-01 a response", "1234 8100 0001 0000 0000 0000 0161 00 0001 0001", None),
    ("MSG-02 a header alone", "1234 0100 0001 0000 0000 0000", Some(1)),
    ("MSG-03 no question", "1234 0100 0000 0000 0000 0000", Some(1)),
    (
        "MSG-03 two questions",
        "1234 0100 0002 0000 0000 0000 0161 00 0001 0001 0162 00 0001 0001",
        Some(1),
    ),
    (
        "MSG-04 a label of an unknown kind",
        "1234 0100 0001 0000 0000 0000 4161 00 0001 0001",
        Some(1),
    ),
    ("MSG-04 a pointer in the question", "1234 0100 0001 0000 0000 0000 c00c 0001 0001", Some(1)),
    ("MSG-04 a name that ends too soon", "1234 0100 0001 0000 0000 0000 0561 62", Some(1)),
    ("MSG-07 an opcode nobody knows", "1234 39f0 0001 0000 0000 0000 0161 00 0001 0001", Some(4)),
    (
        "MSG-10 octets behind the message",
        "1234 0100 0001 0000 0000 0000 0161 00 0001 0001 ffff ffff",
        Some(0),
    ),
    ("MSG-13 a class nobody serves", "1234 0100 0001 0000 0000 0000 0161 00 0001 0004", Some(5)),
    (
        "EDNS-02 two OPT records",
        "1234 0100 0001 0000 0000 0002 0161 00 0001 0001 00 0029 04d0 0000 0000 0000 00 0029 04d0 0000 0000 0000",
        Some(1),
    ),
    (
        "EDNS-02 an OPT record with an owner",
        "1234 0100 0001 0000 0000 0001 0161 00 0001 0001 0161 00 0029 04d0 0000 0000 0000",
        Some(1),
    ),
    (
        "EDNS-08 an option past its end",
        "1234 0100 0001 0000 0000 0001 0161 00 0001 0001 00 0029 04d0 0000 0000 0004 0003 0009",
        Some(1),
    ),
];

#[test]
fn malformed_messages_get_what_they_deserve_on_udp_and_tcp() {
    let gateway = Gateway::new(".:@PORT@ {\n whoami\n}\n").start();
    for (defect, text, want) in DEFECTS {
        let message = octets(text);
        let reply = exchange(gateway.address(), &message);
        assert_eq!(reply.as_ref().map(|reply| reply[3] & 0xf), *want, "{defect} over UDP");
        if let Some(reply) = reply {
            assert_eq!(reply[..2], message[..2], "{defect}: the id");
            assert_eq!(reply[2] & 0xf9, 0x80 | message[2] & 0x79, "{defect}: QR, opcode and RD");
            assert_eq!(reply[3] & 0xf0, 0, "{defect}: RA, Z, AD and CD");
        }
        // A bad message does not cost the others of its connection.
        let mut stream = Stream::open(gateway.address(), None).unwrap();
        let length = u16::try_from(message.len()).unwrap().to_be_bytes();
        stream.send_raw(&[&length[..], &message].concat());
        if message.len() < 12 {
            assert!(stream.closed_within(LIMIT), "TCP-10: {defect}");
            continue;
        }
        if let Some(rcode) = want {
            assert_eq!(
                u8::try_from(u16::from(
                    stream.receive(LIMIT).unwrap_or_else(|| panic!("{defect}: closed")).rcode()
                ))
                .unwrap(),
                *rcode,
                "{defect} over TCP"
            );
        }
        stream.send(&Query::from("good.test A"));
        assert_eq!(stream.receive(LIMIT).unwrap().rcode(), ResponseCode::NoError, "after {defect}");
    }
    assert_eq!(gateway.ask("still.test A").rcode(), ResponseCode::NoError);
}

#[test]
fn edns_is_answered_by_the_book() {
    let gateway = Gateway::new(COREFILE).start();
    let plain = gateway.ask("a.test A");
    assert!(plain.message.edns.is_none(), "EDNS-01: no OPT without one");
    let odd = gateway.ask(Query::from("a.test A").bufsize(1232).option(65_001, &[1, 2, 3]));
    assert!(
        odd.message.edns.is_some() && odd.option(65_001).is_none(),
        "EDNS-04: unknown options are not echoed"
    );
    let version =
        octets("1234 0100 0001 0000 0000 0001 0161 00 0001 0001 00 0029 04d0 0001 0000 0000");
    let reply = Reply::decode(exchange(gateway.address(), &version).unwrap(), Duration::ZERO);
    assert_eq!(u16::from(reply.rcode()), 16, "EDNS-03: BADVERS");
    let keepalive = gateway.ask(Query::from("a.test A").bufsize(1232).option(11, &[]));
    assert!(keepalive.option(11).is_none(), "KEEP-01: not over UDP");
    let keepalive = gateway.ask(Query::from("a.test A").bufsize(1232).option(11, &[]).tcp());
    assert_eq!(keepalive.option(11), Some(vec![0, 100]), "KEEP-02: ten seconds in units of 100 ms");
}

#[test]
fn edns_06_a_datagram_keeps_to_the_clients_size_and_to_the_ceiling() {
    let gateway = Gateway::new(COREFILE).start();
    for (size, most) in
        [(None, 512), (Some(100), 512), (Some(800), 800), (Some(1232), 1232), (Some(65_535), 1232)]
    {
        let mut query = Query::from("x.big.test TXT");
        if let Some(size) = size {
            query = query.bufsize(size);
        }
        let reply = gateway.ask(query);
        assert!(reply.flags().contains("tc"), "{size:?}: {reply:?}");
        assert!(reply.bytes.len() <= most, "{size:?}: {} octets", reply.bytes.len());
    }
    let whole = gateway.ask(Query::from("x.big.test TXT").bufsize(512).tcp());
    assert!(!whole.flags().contains("tc"), "EDNS-09: the size does not bind TCP");
    assert_eq!(whole.answers().len(), 10);
}

#[test]
fn edns_07_a_reply_too_large_for_the_path_sends_the_client_to_tcp() {
    let (server, client) = (Namespace::new(), Namespace::new());
    let (here, there) = (IpAddr::from([10, 99, 7, 1]), IpAddr::from([10, 99, 7, 2]));
    server.link(&client, here, there, 24, 1280);
    let gateway = Gateway::new(&COREFILE.replace("@PORT@", "53"))
        .argument("-set")
        .argument("udp_payload_size=4096")
        .within(&server)
        .start();
    let reply = client.enter(|| Query::from("x.big.test TXT").bufsize(4096).ask((here, 53).into()));
    let reply =
        reply.unwrap_or_else(|| panic!("no reply; the gateway wrote:\n{}", gateway.output()));
    assert!(reply.flags().contains("tc") && reply.answers().is_empty(), "{reply:?}");
    let whole =
        client.enter(|| Query::from("x.big.test TXT").tcp().ask((here, 53).into())).unwrap();
    assert_eq!(whole.answers().len(), 10);
}

#[test]
fn msg_16_the_reply_comes_from_the_address_that_was_asked() {
    let gateway = Gateway::new(".:@PORT@ {\n whoami\n}\n").start();
    for ip in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 7, 7, 7]] {
        let server = SocketAddr::from((ip, gateway.address().port()));
        // The client of the tests takes replies from the address it asked, and from no other.
        assert!(Query::from("a.test A").ask(server).is_some(), "{server}");
    }
    let v6 = SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, gateway.address().port()));
    let reply = Query::from("a.test AAAA").ask(v6).unwrap();
    assert!(reply.additionals().contains(&"a.test. 0 IN AAAA ::1".to_owned()), "{reply:?}");
}

#[test]
fn tcp_02_and_03_queries_in_any_pieces_are_answered() {
    let gateway = Gateway::new(".:@PORT@ {\n whoami\n}\n").start();
    let mut all = Vec::new();
    for number in 0..50 {
        let message = Query::from(&*format!("n{number}.test A")).encode();
        all.extend_from_slice(&u16::try_from(message.len()).unwrap().to_be_bytes());
        all.extend_from_slice(&message);
    }
    let mut stream = Stream::open(gateway.address(), None).unwrap();
    stream.send_raw(&all);
    for _ in 0..50 {
        assert_eq!(stream.receive(LIMIT).unwrap().rcode(), ResponseCode::NoError);
    }
    for byte in &all[..80] {
        stream.send_raw(&[*byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(stream.receive(LIMIT).is_some());
}

#[test]
fn tcp_02_and_07_a_slow_answer_holds_up_nobody_and_survives_a_half_close() {
    let upstream = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let port = upstream.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let mut message = [0; 512];
        while let Ok((len, from)) = upstream.recv_from(&mut message) {
            std::thread::sleep(Duration::from_millis(700));
            message[2] |= 0x80;
            drop(upstream.send_to(&message[..len], from));
        }
    });
    let corefile = format!(
        ".:@PORT@ {{\n whoami\n}}\nslow.test:@PORT@ {{\n forward . 127.0.0.1:{port} {{\n prefer_udp\n }}\n}}\n"
    );
    let gateway = Gateway::new(&corefile).start();
    let mut stream = Stream::open(gateway.address(), None).unwrap();
    let begin = Instant::now();
    stream.send(&Query::from("a.slow.test A"));
    stream.send(&Query::from("fast.test A"));
    stream.finish();
    let first = stream.receive(LIMIT).unwrap();
    assert_eq!(first.message.queries[0].name().to_string(), "fast.test.");
    assert!(begin.elapsed() < Duration::from_millis(600));
    let second = stream.receive(LIMIT).unwrap();
    assert_eq!(second.message.queries[0].name().to_string(), "a.slow.test.");
    assert!(stream.closed_within(LIMIT));
}

#[test]
fn tcp_05_and_06_idle_and_dripping_clients_lose_their_connection() {
    let corefile = ".:@PORT@ {\n timeouts {\n read 1s\n idle 2s\n }\n whoami\n}\n";
    let gateway = Gateway::new(corefile)
        .argument("-set")
        .argument("limits.tcp_connections_per_client=3")
        .start();
    let begin = Instant::now();
    let mut silent = Stream::open(gateway.address(), None).unwrap();
    assert!(
        silent.closed_within(Duration::from_secs(3))
            && begin.elapsed() > Duration::from_millis(800)
    );
    let mut dripping = TcpStream::connect(gateway.address()).unwrap();
    let begin = Instant::now();
    dripping.write_all(&[0, 200]).unwrap();
    while begin.elapsed() < Duration::from_secs(6) && dripping.write_all(&[0]).is_ok() {
        std::thread::sleep(Duration::from_millis(200));
    }
    assert!(begin.elapsed() < Duration::from_secs(4), "one octet at a time keeps nothing open");
    let mut open: Vec<Stream> =
        (0..3).map(|_| Stream::open(gateway.address(), None).unwrap()).collect();
    for stream in &mut open {
        stream.send(&Query::from("a.test A"));
        assert!(stream.receive(LIMIT).is_some());
    }
    let mut fourth = Stream::open(gateway.address(), None).unwrap();
    assert!(fourth.closed_within(Duration::from_millis(900)), "one too many of a client");
    let other = Stream::open(gateway.address(), Some(IpAddr::from([127, 0, 0, 9])));
    let mut other = other.unwrap();
    other.send(&Query::from("a.test A"));
    assert!(other.receive(LIMIT).is_some(), "others are not concerned");
}

#[test]
fn tcp_09_a_client_that_never_reads_costs_no_memory_and_is_cut_off() {
    let gateway = Gateway::new(".:@PORT@ {\n timeouts {\n write 1s\n }\n whoami\n}\n").start();
    let message = Query::from("a.test A").encode();
    let framed =
        [&u16::try_from(message.len()).unwrap().to_be_bytes()[..], &message].concat().repeat(1000);
    let mut stream = TcpStream::connect(gateway.address()).unwrap();
    stream.set_write_timeout(Some(Duration::from_secs(5))).unwrap();
    let before = gateway.resident();
    let begin = Instant::now();
    while begin.elapsed() < LIMIT && stream.write_all(&framed).is_ok() {}
    assert!(begin.elapsed() < LIMIT, "the connection was never closed");
    assert!(gateway.resident() < before + (16 << 20));
    drop(stream.read(&mut [0]));
    assert_eq!(gateway.ask("a.test A").rcode(), ResponseCode::NoError);
}

#[test]
fn a_reload_keeps_listeners_and_connections_and_a_bad_one_changes_nothing() {
    let mut gateway = Gateway::new(".:@PORT@ {\n whoami\n}\n").start();
    let mut stream = Stream::open(gateway.address(), None).unwrap();
    gateway.write("Corefile", "nonsense.test:@PORT@ {\n whoamy\n}\n");
    gateway.reload();
    let line = gateway.line("Restart failed");
    assert!(gateway.output().contains("did you mean 'whoami'?"), "{line}");
    stream.send(&Query::from("a.test A"));
    assert_eq!(stream.receive(LIMIT).unwrap().rcode(), ResponseCode::NoError);
    gateway.write("Corefile", "other.test:@PORT@ {\n whoami\n}\n");
    gateway.reload();
    gateway.line("Reloading complete");
    stream.send(&Query::from("a.test A"));
    assert_eq!(stream.receive(LIMIT).unwrap().rcode(), ResponseCode::Refused);
    assert_eq!(gateway.ask("a.other.test A").rcode(), ResponseCode::NoError);
}

#[test]
fn all_file_descriptors_that_are_allowed_are_used() {
    let folder = Folder::new("descriptors");
    let port = free_port();
    let corefile = folder.write("Corefile", format!(".:{port} {{\n whoami\n}}\n"));
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -Sn 256 && exec \"$0\" -conf \"$1\""]);
    command.arg(tests::gateway::binary()).arg(corefile);
    let process = Process::start("gateway", command);
    let limits = format!("/proc/{}/limits", process.id());
    let raised = until(LIMIT, || {
        let limits = std::fs::read_to_string(&limits).ok()?;
        let line = limits.lines().find(|line| line.starts_with("Max open files"))?;
        let mut words = line.split_whitespace().skip(3);
        let (soft, hard) = (words.next()?, words.next()?);
        (soft != "256" && soft == hard).then_some(())
    });
    raised.expect("the soft limit is the hard one");
}

#[test]
fn a_lack_of_file_descriptors_is_said_by_name_and_once() {
    let corefile = ".:@PORT@ {\n errors\n forward . 127.0.0.1:1\n}\na.test:@PORT@ {\n whoami\n}\n";
    let mut gateway = Gateway::new(corefile).start();
    let pid = Pid::from_raw(i32::try_from(gateway.process().id()).unwrap());
    let few = Rlimit { current: Some(64), maximum: Some(64) };
    prlimit(pid, Resource::Nofile, few).expect("the limit can be lowered");
    let address = gateway.address();
    let connections: Vec<_> = (0..100).map_while(|_| TcpStream::connect(address).ok()).collect();
    gateway.line("accepting a connection: Too many open files");
    assert_eq!(gateway.ask("x.a.test A").rcode(), ResponseCode::NoError);
    assert_eq!(gateway.ask("www.example.org A").rcode(), ResponseCode::ServFail);
    gateway.line("dial udp 127.0.0.1");
    assert!(gateway.output().contains(": Too many open files"), "{}", gateway.output());
    std::thread::sleep(Duration::from_secs(1));
    let told = gateway.output().matches("accepting a connection").count();
    assert!((1..=4).contains(&told), "{told} lines: one a listener, not ten a second");
    drop(connections);
    let heard = until(LIMIT, || Query::from("x.a.test A").tcp().ask(address));
    heard.expect("connections are accepted again");
}

#[test]
fn a_reader_of_the_log_that_stands_still_does_not_hold_up_the_end() {
    let folder = Folder::new("blocked");
    let port = free_port();
    let corefile = folder.write("Corefile", format!(".:{port} {{\n log\n whoami\n}}\n"));
    let (reader, writer) = std::io::pipe().unwrap();
    let mut child = Command::new(tests::gateway::binary())
        .arg("-conf")
        .arg(corefile)
        .stdout(writer)
        .spawn()
        .unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    until(LIMIT, || Query::from("x.test A").ask(address)).expect("it serves");
    // More lines than the pipe and the queue hold.
    let socket = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    socket.connect(address).unwrap();
    socket.set_read_timeout(Some(LIMIT)).unwrap();
    let query = Query::from("x.test A").encode();
    for _ in 0..20_000 {
        socket.send(&query).unwrap();
        socket.recv(&mut [0; 512]).unwrap();
    }
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    let ended = until(2 * LIMIT, || child.try_wait().unwrap());
    if ended.is_none() {
        child.kill().unwrap();
    }
    drop(reader);
    assert!(ended.expect("it ends though nobody reads").success());
}

#[test]
fn a_start_without_threads_says_so_and_ends() {
    let mut command = Command::new("prlimit");
    command.args(["--nproc=3", "setpriv", "--reuid", "65534"]);
    command.arg(tests::gateway::binary()).args(["-p", "0", "-conf", "/dev/null"]);
    let mut process = Process::start("gateway", command);
    let ended = process.wait(LIMIT).expect("it ends");
    assert_eq!(ended.code(), Some(1), "{}", process.output());
    process.line("cannot start the runtime: ", LIMIT);
}

#[test]
fn keep_01_datagrams_have_no_connection_to_keep() {
    let gateway = Gateway::new(COREFILE).start();
    let query = || Query::from("good.test A").option(11, &[]);
    assert_eq!(gateway.ask(query()).option(11), None);
    assert!(gateway.ask(query().tcp()).option(11).is_some());
}

#[test]
fn tcp_01_every_address_and_port_with_udp_has_tcp() {
    let gateway =
        Gateway::new("a.test:@PORT@ b.test:@PORT:b@ {\n bind 127.0.0.1 127.0.0.2\n whoami\n}\n")
            .start();
    for (name, key) in [("a.test", "dns"), ("b.test", "b")] {
        for last in [1, 2] {
            let port =
                if key == "dns" { gateway.address() } else { gateway.address_of(key) }.port();
            let address = SocketAddr::from(([127, 0, 0, last], port));
            for query in
                [Query::from(&*format!("{name} A")), Query::from(&*format!("{name} A")).tcp()]
            {
                let reply = query.ask(address).unwrap_or_else(|| panic!("{name} at {address}"));
                assert_eq!(reply.rcode(), ResponseCode::NoError);
            }
        }
    }
}
