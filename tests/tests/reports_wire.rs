//! Faults of comparable servers that their users reported: Corefiles, messages, connections, access, metrics and log lines.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::thread::sleep;
use std::time::{Duration, Instant};

use hickory_proto::op::ResponseCode;
use tests::client::{PATIENCE, dig, exchange};
use tests::scripted::{asked, reply};
use tests::{Gateway, Namespace, Query, Reply, Scripted, Stream};

/// A message from hexadecimal digits.
fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<char> = hex.chars().filter(|c| !c.is_whitespace()).collect();
    let pair = |p: &[char]| u8::from_str_radix(&p.iter().collect::<String>(), 16).expect("digits");
    digits.chunks(2).map(pair).collect()
}

/// A message with its length in front (RFC 1035 4.2.2).
fn framed(message: &[u8]) -> Vec<u8> {
    let length = u16::try_from(message.len()).expect("it is short");
    [length.to_be_bytes().as_slice(), message].concat()
}

/// The reply to a message as it stands, over UDP.
fn udp(server: SocketAddr, message: &[u8]) -> Reply {
    let bytes = exchange(server, None, message, PATIENCE).expect("there is a reply");
    Reply::decode(bytes, Duration::ZERO)
}

/// The reply to a message as it stands, over TCP.
fn tcp(server: SocketAddr, message: &[u8]) -> Reply {
    let mut stream = Stream::open(server, None).expect("the port is open");
    stream.send_raw(&framed(message));
    stream.receive(PATIENCE).expect("there is a reply")
}

/// An upstream that has one address for each name.
fn plain() -> Scripted {
    Scripted::start(|query, _| {
        Some(reply(query, &[&format!("{}. 60 A 203.0.113.7", asked(query))]))
    })
}

// A server block on one line was refused with a message about an unmatched brace, which says nothing about lines.
#[test]
fn b01_a_block_on_one_line_is_refused_with_its_line() {
    for (corefile, place) in [
        (".:@PORT@ { whoami }", "Corefile:1"),
        (".:@PORT@ {\n bind 127.0.0.1 }\n", "Corefile:2"),
        (".:@PORT@ {\n cache { success 1024 }\n whoami\n}\n", "Corefile:2"),
    ] {
        let (status, output) = Gateway::new(corefile).refused();
        assert!(!status.success() && output.contains(place), "{corefile}: {output}");
        assert!(output.contains("line"), "it is about lines: {output}");
    }
    // The block of a directive may be one line, and what is in it counts.
    let upstream = plain();
    let one_line = |property: &str| {
        format!(".:@PORT@ {{\n forward . {} {{ {property} }}\n}}\n", upstream.address())
    };
    let gateway = Gateway::new(&one_line("max_fails 2")).start();
    assert_eq!(gateway.ask("www.example.test A").answers().len(), 1);
    let (_, output) = Gateway::new(&one_line("max_fails two")).refused();
    assert!(output.contains("Corefile:2"), "{output}");
    // A carriage return is space.
    let gateway = Gateway::new(".:@PORT@ {\r\n bind 127.0.0.1\r\n whoami\r\n}\r\n").start();
    assert_eq!(gateway.ask("www.example.test A").rcode(), ResponseCode::NoError);
}

// A variable with two addresses became one word with a blank in it, of which the plugin took what it liked.
#[test]
fn b02_a_variable_with_two_words_is_refused_with_its_value() {
    let (one, two) = (plain(), plain());
    let corefile = ".:@PORT@ {\n forward . {$UPSTREAMS}\n}\n";
    let both = format!("{} {}", one.address(), two.address());
    let (status, output) = Gateway::new(corefile).env("UPSTREAMS", &both).refused();
    assert!(!status.success() && output.contains(&format!("'{both}'")), "{output}");
    assert!(output.contains("forward"), "{output}");
    for corefile in [corefile, &corefile.replace("{$UPSTREAMS}", "{%UPSTREAMS%}")] {
        let gateway = Gateway::new(corefile).env("UPSTREAMS", &one.address().to_string()).start();
        assert_eq!(gateway.ask("www.example.test A").answers().len(), 1);
    }
}

// The BADVERS reply had no question, so that balancers and clients could not match it to the query.
#[test]
fn b03_an_unknown_version_of_edns_is_badvers_with_the_question() {
    let query = octets(
        "1a2b00000001000000000001 076578616d706c65 0474657374 00 0006 0001 0000291000006400000000",
    );
    let gateway = Gateway::new(".:@PORT@ {\n whoami\n}").start();
    for reply in [udp(gateway.address(), &query), tcp(gateway.address(), &query)] {
        assert_eq!(reply.bytes[..2], query[..2]);
        // QR is set and the header's four bits of the response code are 0; the other eight are in the OPT record.
        assert_eq!((reply.bytes[2] & 0x80, reply.bytes[3] & 0x0f), (0x80, 0));
        assert_eq!(u16::from(reply.rcode()), 16);
        assert_eq!(reply.message.version(), 0);
        assert_eq!(reply.bytes[4..12], [0, 1, 0, 0, 0, 0, 0, 1]);
        assert_eq!(reply.bytes[12..30], query[12..30]);
    }
}

// Replies were written without compression, passed 512 octets, and clients without EDNS saw a time-out.
#[test]
fn b04_replies_without_edns_are_compressed_and_cut_at_512_octets() {
    let lines = |name: &str, net: &str, count: u8| -> String {
        (1..=count).map(|i| format!("{net}.{i} {name}.compress.example.test\n")).collect()
    };
    let hosts = lines("many", "203.0.113", 26) + &lines("more", "198.51.100", 40);
    let gateway = Gateway::new(".:@PORT@ {\n hosts hosts.txt\n}").file("hosts.txt", &hosts).start();
    let many = gateway.ask("many.compress.example.test A");
    assert_eq!((many.addresses().len(), many.flags().as_str()), (26, "qr aa rd"));
    assert!(many.bytes.len() <= 512, "{}", many.bytes.len());
    // The decoder has checked that the counts of the header are those of the packet.
    let more = gateway.ask("more.compress.example.test A");
    assert!(more.bytes.len() <= 512 && more.flags().contains("tc"), "{more:?}");
    let more = gateway.ask(Query::from("more.compress.example.test A").tcp());
    assert_eq!((more.addresses().len(), more.flags().as_str()), (40, "qr aa rd"));
    let seen = dig(gateway.address(), "+noedns +short more.compress.example.test A");
    assert_eq!(seen.lines().filter(|l| !l.starts_with(';')).count(), 40, "{seen}");
}

// A reply that was cut to fit lost its OPT record, or its question.
#[test]
fn b05_a_reply_that_is_cut_keeps_question_and_opt() {
    let upstream = Scripted::start(|query, _| {
        let strings = format!("{} ", "x".repeat(200)).repeat(8);
        Some(reply(query, &[&format!("big.example.test. 60 TXT {}", strings.trim())]))
    });
    // Over TCP the upstream's reply is whole: it is cut here, not there.
    let corefile =
        format!(".:@PORT@ {{\n forward . {} {{\n  force_tcp\n }}\n}}", upstream.address());
    let gateway = Gateway::new(&corefile).start();
    let question = "big.example.test. IN TXT";
    let reply = gateway.ask(Query::from("big.example.test TXT").bufsize(1232).dnssec_ok());
    assert!(reply.flags().contains("tc") && reply.bytes.len() <= 1232, "{reply:?}");
    assert_eq!(reply.message.queries[0].to_string(), question);
    assert!(reply.message.edns.as_ref().is_some_and(|e| e.flags().dnssec_ok), "{reply:?}");
    let reply = gateway.ask("big.example.test TXT");
    assert!(reply.flags().contains("tc") && reply.bytes.len() <= 512, "{reply:?}");
    assert_eq!(reply.message.queries[0].to_string(), question);
    assert!(reply.message.edns.is_none(), "{reply:?}");
    let whole = gateway.ask(Query::from("big.example.test TXT").tcp());
    assert_eq!((whole.answers().len(), whole.flags().contains("tc")), (1, false));
}

// A forwarder lower-cased the name in its reply, at which stubs that mix the case of letters throw it away; another kept an
// entry in its cache for each spelling.
#[test]
fn b06_the_spelling_of_a_question_comes_back_and_makes_no_entry_of_its_own() {
    let upstream = plain();
    let corefile = format!(".:@PORT@ {{\n cache\n forward . {}\n}}", upstream.address());
    let gateway = Gateway::new(&corefile).start();
    let small =
        octets("1a2b01000001000000000000 03777777 076578616d706c65 0474657374 00 0001 0001");
    let mixed =
        octets("1a2b01000001000000000000 03577757 074578416d506c45 0454655374 00 0001 0001");
    let replies = [
        (&small, udp(gateway.address(), &small)),
        (&mixed, udp(gateway.address(), &mixed)),
        (&mixed, tcp(gateway.address(), &mixed)),
    ];
    for (query, reply) in replies {
        assert_eq!(reply.bytes[12..query.len()], query[12..]);
        assert_eq!(reply.addresses().len(), 1, "{reply:?}");
        let (asked, owner) = (&reply.message.queries[0].name, &reply.message.answers[0].name);
        assert_eq!(owner.to_string(), asked.to_string());
    }
    assert_eq!(upstream.count("www.example.test"), 1);
}

// The two octets of the length were read by one call, and a short read was not noticed; one timer served for half a message
// and for an idle connection.
#[test]
fn b07_messages_come_in_pieces_and_the_two_times_are_two() {
    let gateway =
        Gateway::new(".:@PORT@ {\n timeouts {\n  read 2s\n  idle 20s\n }\n whoami\n}").start();
    let query =
        octets("1a2b01000001000000000000 03777777 076578616d706c65 0474657374 00 0001 0001");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut stream = Stream::open(gateway.address(), None).expect("the port is open");
            let frame = framed(&query);
            let pieces = [&frame[..1], &frame[1..2]].into_iter().chain(frame[2..].chunks(5));
            for piece in pieces {
                stream.send_raw(piece);
                // So that the pieces are segments; less would change nothing but what is tested.
                sleep(Duration::from_millis(50));
            }
            let reply = stream.receive(PATIENCE).expect("there is a reply");
            assert_eq!(reply.message.metadata.id, 0x1a2b);
        });
        scope.spawn(|| {
            let mut stream = Stream::open(gateway.address(), None).expect("the port is open");
            let begin = Instant::now();
            stream.send_raw(&[0]);
            assert!(stream.closed_within(Duration::from_secs(10)));
            assert!(begin.elapsed() >= Duration::from_millis(1900), "{:?}", begin.elapsed());
        });
        scope.spawn(|| {
            let mut stream = Stream::open(gateway.address(), None).expect("the port is open");
            stream.send_raw(&framed(&query));
            assert!(stream.receive(PATIENCE).is_some());
            // Longer than a half message may take, shorter than a connection may be idle.
            assert!(!stream.closed_within(Duration::from_secs(4)));
            stream.send_raw(&framed(&query));
            assert!(stream.receive(PATIENCE).is_some());
        });
    });
    assert!(!gateway.output().contains("[ERROR]"), "{}", gateway.output());
}

// The next query of a connection was read only when the last one was answered.
#[test]
fn b08_a_slow_query_holds_up_no_other_of_its_connection() {
    let upstream = Scripted::start(|query, _| {
        if asked(query).starts_with("slow") {
            sleep(Duration::from_millis(1500));
        }
        Some(reply(query, &[&format!("{}. 60 A 203.0.113.7", asked(query))]))
    });
    let gateway =
        Gateway::new(&format!(".:@PORT@ {{\n forward . {}\n}}", upstream.address())).start();
    let mut stream = Stream::open(gateway.address(), None).expect("the port is open");
    stream.send_raw(&octets(
        "0023 00010100000100000000000004736c6f77076578616d706c6504746573740000010001
         0024 000201000001000000000000056661737431076578616d706c6504746573740000010001
         0024 000301000001000000000000056661737432076578616d706c6504746573740000010001",
    ));
    // The client says that no more comes, and still gets all replies.
    stream.finish();
    let replies: Vec<Reply> = std::iter::from_fn(|| stream.receive(PATIENCE)).collect();
    let mut ids: Vec<u16> = replies.iter().map(|r| r.message.metadata.id).collect();
    assert_eq!(ids.pop(), Some(1), "the slow one is the last: {replies:?}");
    ids.sort_unstable();
    assert_eq!(ids, [2, 3]);
    assert!(replies.iter().all(|r| r.addresses().len() == 1), "{replies:?}");
}

// On a socket for both families IPv4 clients are `::ffff:a.b.c.d`, and no rule for IPv4 matched them.
#[test]
fn b15_clients_with_mapped_addresses_are_clients_of_ipv4() {
    let loopback = |gateway: &Gateway| {
        let v4 = gateway.address();
        (v4, SocketAddr::from((Ipv6Addr::LOCALHOST, v4.port())))
    };
    for (rules, served, refused) in
        [("allow net 127.0.0.0/8\n  block", 0, 1), ("block net 127.0.0.0/8\n  allow", 1, 0)]
    {
        let corefile = format!(".:@PORT@ {{\n bind ::\n log\n acl {{\n  {rules}\n }}\n whoami\n}}");
        let gateway = Gateway::new(&corefile).start();
        let (v4, v6) = loopback(&gateway);
        for query in [Query::from("www.example.test"), Query::from("www.example.test").tcp()] {
            let replies = [v4, v6].map(|a| query.ask(a).expect("there is a reply"));
            assert_eq!(replies[served].rcode(), ResponseCode::NoError, "{rules}");
            assert_eq!(replies[refused].rcode(), ResponseCode::Refused, "{rules}");
            let own = ["A 127.0.0.1", "AAAA ::1"][served];
            let shown = replies[served].additionals();
            assert!(shown.iter().any(|r| r.ends_with(own)), "{shown:?}");
        }
        gateway.line("[INFO] 127.0.0.1:");
        gateway.line("[INFO] [::1]:");
        assert!(!gateway.output().contains("ffff"), "{}", gateway.output());
    }
}

// Labels that clients can choose made the page of metrics grow without end.
#[test]
fn b39_metrics_do_not_grow_with_what_clients_send() {
    let upstream = Scripted::start(|query, _| {
        let mut message = reply(query, &[]);
        let code =
            asked(query).strip_prefix("rcode-").and_then(|n| n.split('.').next()?.parse().ok());
        let code: u16 = code.unwrap_or_default();
        let [high, low] =
            [code >> 4, code & 0xf].map(|part| u8::try_from(part).expect("four bits"));
        message.metadata.response_code = ResponseCode::from(high, low);
        Some(message)
    });
    let corefile = format!(
        ".:@PORT@ {{\n prometheus 127.0.0.1:@PORT:metrics@\n cache\n forward . {}\n}}",
        upstream.address()
    );
    let gateway = Gateway::new(&corefile).start();
    let storm = || {
        let server = gateway.address();
        let question = |name: &str, rtype: u16, class: u16, opcode: u8| {
            let mut query = Query::from(format!("{name}.example.test").as_str()).encode();
            query[2] |= opcode << 3;
            let end = query.len();
            query[end - 4..].copy_from_slice(&[rtype.to_be_bytes(), class.to_be_bytes()].concat());
            query
        };
        let send = |source: Option<IpAddr>, query: &[u8]| {
            exchange(server, source, query, Duration::from_secs(1))
        };
        for i in 0..200_u8 {
            send(None, &question(&format!("name-{i}"), 1, 1, 0));
            send(Some(Ipv4Addr::new(127, 1, 0, i).into()), &question("www", 1, 1, 0));
        }
        for rtype in (0..270).chain([32_768, 65_280, 65_535]) {
            send(None, &question("types", rtype, 1, 0));
        }
        for class in 0..20 {
            send(None, &question("classes", 1, class, 0));
        }
        for code in 0..24 {
            let query = Query::from(format!("rcode-{code}.example.test").as_str()).bufsize(1232);
            query.ask(server);
        }
    };
    let opcodes = || {
        for opcode in 0..16 {
            let mut query = Query::from("opcodes.example.test").encode();
            query[2] |= opcode << 3;
            exchange(gateway.address(), None, &query, Duration::from_millis(200));
        }
    };
    gateway.ask("www.example.test A");
    let before = gateway.metrics("metrics");
    storm();
    opcodes();
    // The second time some come from the cache.
    storm();
    let after = gateway.metrics("metrics");
    let new = after.keys().filter(|k| !before.contains_key(*k) && !k.contains("_bucket{"));
    let new: Vec<_> = new.collect();
    assert!(new.len() < 100, "{}: {new:#?}", new.len());
    storm();
    let again = gateway.metrics("metrics");
    let more: Vec<_> = again.keys().filter(|k| !after.contains_key(*k)).collect();
    assert!(more.is_empty(), "{more:#?}");
    for sample in again.keys() {
        let chosen = ["example.test", "127.1.", "name-", "65280", "TYPE6", "CLASS"];
        assert!(!chosen.iter().any(|c| sample.contains(c)), "{sample}");
    }
}

// The finished line was used as a format, and control characters of names came into terminals.
#[test]
fn b40_names_in_the_log_are_printable_and_mean_nothing() {
    let gateway = Gateway::new(".:@PORT@ {\n log\n whoami\n}").start();
    let format = octets(
        "1a2b01000001000000000000 08 2573256e20227822 076578616d706c65 0474657374 00 0001 0001",
    );
    let control =
        octets("1a2b01000001000000000000 06 610a1b5b324a 076578616d706c65 0474657374 00 0001 0001");
    let label = |length: u8| [vec![length], vec![0xff; usize::from(length)]].concat();
    let high = [
        octets("1a2b01000001000000000000"),
        label(63),
        label(63),
        label(63),
        label(61),
        octets("00 0001 0001"),
    ]
    .concat();
    for query in [&format, &control, &high] {
        assert_eq!(udp(gateway.address(), query).rcode(), ResponseCode::NoError);
    }
    let line = gateway.line("%s%n");
    assert!(line.contains("\"A IN %s%n\\ \\\"x\\\".example.test. udp"), "{line}");
    let line = gateway.line("[2j");
    assert!(line.contains("\"A IN a\\010\\027[2j.example.test. udp"), "{line}");
    let line = gateway.line("\\255");
    assert_eq!(line.matches("\\255").count(), 250, "{line}");
    let output = gateway.output();
    assert_eq!(output.lines().filter(|l| l.contains("\"A IN ")).count(), 3, "{output}");
    assert!(output.chars().all(|c| c == '\n' || !c.is_control()), "{output:?}");
}

// A zone behind a client's address was taken for a part of a format.
#[test]
fn b40_a_link_local_client_is_logged_as_it_is() {
    let (near, far) = (Namespace::new(), Namespace::new());
    let (mine, theirs) =
        (Ipv4Addr::new(198, 51, 100, 1).into(), Ipv4Addr::new(198, 51, 100, 2).into());
    near.link(&far, mine, theirs, 24, 1500);
    near.shell("ip -6 addr add fe80::53/64 dev link0 nodad");
    far.shell("ip -6 addr add fe80::54/64 dev link0 nodad");
    let gateway = Gateway::new(".:53 {\n log\n whoami\n}").within(&near).start();
    let index = far.shell("cat /sys/class/net/link0/ifindex || ip -o link show link0");
    let index = index.split([':', '\n']).next().and_then(|i| i.trim().parse().ok());
    let index: u32 = index.expect("the link has a number");
    let server = SocketAddrV6::new("fe80::53".parse().expect("an address"), 53, 0, index);
    let seen = far.enter(|| tests::client::ask(server.into(), "www.example.test A"));
    assert_eq!(seen.rcode(), ResponseCode::NoError);
    let line = gateway.line("\"A IN www.example.test.");
    let client =
        line.split(' ').find(|w| w.starts_with('[') && w.contains("fe80::")).unwrap_or_default();
    assert!(client.starts_with("[fe80::") && !line.contains("%!"), "{line}");
}
