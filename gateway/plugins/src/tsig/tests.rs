//! The facts `tsig.*`.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::hmac;
use engine::testing::Bench;

/// A secret, and it in base64.
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";
const BASE64: &str = "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=";

/// A gateway that demands what `lines` say.
fn bench(lines: &str) -> Bench {
    Bench::new(
        crate::CHAIN,
        &format!(
            "example.org {{\n tsig {{\n secret Key.test {BASE64}\n {lines}\n }}\n whoami\n}}\n"
        ),
    )
}

/// How a query is signed.
struct Signed {
    key: &'static [u8],
    algorithm: &'static [u8],
    digest: hmac::Algorithm,
    age: i64,
    spoil: bool,
    cut: usize,
}

impl Default for Signed {
    fn default() -> Self {
        Self {
            key: b"\x03key\x04test\0",
            algorithm: b"\x0bhmac-sha256\0",
            digest: hmac::HMAC_SHA256,
            age: 0,
            spoil: false,
            cut: usize::MAX,
        }
    }
}

/// Signs `wire` as a client does; the signature as well. Written from RFC 8945 section 4.3 alone.
fn sign(wire: &mut Vec<u8>, how: &Signed) -> Vec<u8> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let time = now.saturating_add_signed(-how.age).to_be_bytes();
    let mut digest = wire.clone();
    digest.extend_from_slice(&how.key.to_ascii_lowercase());
    digest.extend_from_slice(&[0, 255, 0, 0, 0, 0]);
    digest.extend_from_slice(how.algorithm);
    digest.extend_from_slice(&time[2..]);
    digest.extend_from_slice(&[1, 44, 0, 0, 0, 0]);
    let mut mac = hmac::sign(&hmac::Key::new(how.digest, SECRET), &digest).as_ref().to_vec();
    if how.spoil {
        mac[0] ^= 1;
    }
    mac.truncate(how.cut);
    let id = [wire[0], wire[1]];
    wire.extend_from_slice(how.key);
    wire.extend_from_slice(&[0, 250, 0, 255, 0, 0, 0, 0]);
    wire.extend_from_slice(&((how.algorithm.len() + 16 + mac.len()) as u16).to_be_bytes());
    wire.extend_from_slice(how.algorithm);
    wire.extend_from_slice(&time[2..]);
    wire.extend_from_slice(&[1, 44]);
    wire.extend_from_slice(&(mac.len() as u16).to_be_bytes());
    wire.extend_from_slice(&mac);
    wire.extend_from_slice(&id);
    wire.extend_from_slice(&[0, 0, 0, 0]);
    wire[11] += 1;
    mac
}

/// What a reply says: the response code, and of its TSIG record the error, whether it is signed and rightly so.
fn told(reply: &[u8], asked: &[u8], how: &Signed) -> (u8, Option<(u16, bool)>) {
    let rcode = reply[3] & 15;
    // The record is the last one: find its owner from the end of the message without it.
    let name = how.key.to_ascii_lowercase();
    let mut start = name.clone();
    start.extend_from_slice(&[0, 250, 0, 255, 0, 0, 0, 0]);
    let Some(at) = reply.windows(start.len()).rposition(|window| window == start) else {
        return (rcode, None);
    };
    let data = &reply[at + start.len() + 2 + how.algorithm.len()..];
    let len = usize::from(u16::from_be_bytes([data[8], data[9]]));
    let (mac, rest) = data[10..].split_at(len);
    let error = u16::from_be_bytes([rest[2], rest[3]]);
    let mut digest = (asked.len() as u16).to_be_bytes().to_vec();
    digest.extend_from_slice(asked);
    let message = digest.len();
    digest.extend_from_slice(&reply[..at]);
    digest[message + 11] -= 1;
    digest.extend_from_slice(&name);
    digest.extend_from_slice(&[0, 255, 0, 0, 0, 0]);
    digest.extend_from_slice(how.algorithm);
    digest.extend_from_slice(&data[..8]);
    digest.extend_from_slice(&rest[2..]);
    let key = hmac::Key::new(how.digest, SECRET);
    (rcode, Some((error, hmac::verify(&key, &digest, mac).is_ok())))
}

/// Asks, signed.
fn ask(bench: &Bench, line: &str, how: &Signed) -> (u8, Option<(u16, bool)>) {
    let mut x = bench.exchange(line);
    let mac = sign(&mut x.query.wire, how);
    let reply = bench.serve(&mut x);
    told(&reply, &mac, how)
}

#[test]
fn a_signature_is_checked_and_the_reply_signed() {
    let bench = bench("require all");
    for (what, how, want) in [
        ("good", Signed::default(), (0, Some((0, true)))),
        (
            "sha1",
            Signed {
                algorithm: b"\x09hmac-sha1\0",
                digest: hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
                ..Signed::default()
            },
            (0, Some((0, true))),
        ),
        (
            "sha512",
            Signed {
                algorithm: b"\x0bhmac-sha512\0",
                digest: hmac::HMAC_SHA512,
                ..Signed::default()
            },
            (0, Some((0, true))),
        ),
        (
            "key in upper case",
            Signed { key: b"\x03KEY\x04test\0", ..Signed::default() },
            (0, Some((0, true))),
        ),
        ("wrong", Signed { spoil: true, ..Signed::default() }, (9, Some((16, false)))),
        (
            "unknown key",
            Signed { key: b"\x05other\0", ..Signed::default() },
            (9, Some((17, false))),
        ),
        (
            "unknown algorithm",
            Signed { algorithm: b"\x08hmac-md5\0", ..Signed::default() },
            (9, Some((17, false))),
        ),
        ("an hour old", Signed { age: 3600, ..Signed::default() }, (9, Some((18, true)))),
        ("an hour ahead", Signed { age: -3600, ..Signed::default() }, (9, Some((18, true)))),
        ("cut", Signed { cut: 16, ..Signed::default() }, (9, Some((22, true)))),
        ("cut too short", Signed { cut: 9, ..Signed::default() }, (1, None)),
    ] {
        assert_eq!(ask(&bench, "www.example.org A", &how), want, "{what}");
        assert_eq!(ask(&bench, "www.example.org A +do", &how), want, "{what}, with OPT");
    }
}

#[test]
fn the_name_of_a_key_may_be_compressed() {
    let bench = bench("require all");
    let how = Signed::default();
    let mut x = bench.exchange("www.example.org A");
    let root = x.query.wire.len() + how.key.len() - 1;
    let mac = sign(&mut x.query.wire, &how);
    // Its end is that of the question's name.
    x.query.wire.splice(root..=root, [0xc0, 28]);
    assert_eq!(told(&bench.serve(&mut x), &mac, &how), (0, Some((0, true))));
    // A pointer that leads nowhere is no name.
    x.query.wire[root + 1] = 0xff;
    assert_eq!(bench.serve(&mut x)[3] & 15, 1);
}

#[test]
fn a_record_in_the_wrong_place_or_form_is_formerr() {
    let bench = bench("require none");
    let mut x = bench.exchange("www.example.org A");
    sign(&mut x.query.wire, &Signed::default());
    let whole = x.query.wire.clone();
    // Two of them.
    let one = whole[bench.exchange("www.example.org A").query.wire.len()..].to_vec();
    x.query.wire.extend_from_slice(&one);
    x.query.wire[11] += 1;
    assert_eq!(bench.serve(&mut x)[3] & 15, 1);
    // One before the OPT record.
    x.query.wire.clone_from(&whole);
    x.query.wire.extend_from_slice(&[0, 0, 41, 4, 208, 0, 0, 0, 0, 0, 0]);
    x.query.wire[11] += 1;
    assert_eq!(bench.serve(&mut x)[3] & 15, 1);
    // One whose lengths do not fit together, at every octet of it that is a length.
    for at in [whole.len() - 7, whole.len() - 39] {
        x.query.wire.clone_from(&whole);
        x.query.wire[at] ^= 0x40;
        let rcode = bench.serve(&mut x)[3] & 15;
        assert!(matches!(rcode, 1 | 9), "{at}: {rcode}");
    }
}

#[test]
fn what_is_demanded_is_said_by_zone_type_and_opcode() {
    for (lines, line, want) in [
        ("require all", "www.example.org A", 5),
        ("require none", "www.example.org A", 0),
        ("require none\n require all", "www.example.org A", 5),
        ("require all\n require none", "www.example.org A", 0),
        ("require AAAA MX", "www.example.org A", 0),
        ("require AAAA mx", "www.example.org MX", 5),
        ("require_opcode QUERY", "www.example.org A", 5),
        ("require_opcode NOTIFY", "www.example.org A", 0),
        ("require_opcode none\n require A", "www.example.org A", 5),
    ] {
        let bench = bench(lines);
        assert_eq!(bench.serve(&mut bench.exchange(line))[3] & 15, want, "{lines}: {line}");
        assert_eq!(ask(&bench, line, &Signed::default()), (0, Some((0, true))), "{lines}: {line}");
    }
    let bench = Bench::new(
        crate::CHAIN,
        &format!(
            "example.org {{\n tsig sub.example.org {{\n secret key.test {BASE64}\n require all\n }}\n whoami\n}}\n"
        ),
    );
    assert_eq!(bench.serve(&mut bench.exchange("www.example.org A"))[3] & 15, 0);
    assert_eq!(bench.serve(&mut bench.exchange("www.sub.example.org A"))[3] & 15, 5);
    // Outside its zones a signature means nothing.
    assert_eq!(ask(&bench, "www.example.org A", &Signed::default()), (0, None));
    assert_eq!(
        ask(&bench, "www.example.org A", &Signed { spoil: true, ..Signed::default() }),
        (0, None)
    );
}

#[test]
fn keys_are_those_of_all_blocks_of_a_listener() {
    let bench = Bench::new(
        crate::CHAIN,
        &format!(
            "a.test {{\n tsig {{\n secret key.test {BASE64}\n }}\n whoami\n}}\n\
             b.test {{\n tsig {{\n secret other.test {BASE64}\n require all\n }}\n whoami\n}}\n"
        ),
    );
    assert_eq!(ask(&bench, "www.b.test A", &Signed::default()), (0, Some((0, true))));
}

#[test]
fn a_file_of_keys_is_read() {
    let folder = std::env::temp_dir().join(format!("tsig-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("keys");
    let corefile = format!(
        "example.org {{\n tsig {{\n secrets {}\n require all\n }}\n whoami\n}}\n",
        file.display()
    );
    for text in [
        format!("key \"key.test.\" {{\n algorithm hmac-sha256;\n secret \"{BASE64}\";\n}};\n"),
        format!("# one\nkey key.test {{ secret {BASE64}; }};"),
        format!(
            "/* a\nb */ key \"KEY.test\"\n{{\nsecret \"{BASE64}\"; // end\n}};\nkey other {{secret \"AAAA\";}};"
        ),
    ] {
        std::fs::write(&file, &text).unwrap();
        let bench = Bench::new(crate::CHAIN, &corefile);
        assert_eq!(
            ask(&bench, "www.example.org A", &Signed::default()),
            (0, Some((0, true))),
            "{text}"
        );
    }
    for (text, want) in [
        ("key \"a\" {\n secret \"AAAA\"\n};", "keys:2: has a property without `;`"),
        ("key \"a\" {\n};", "keys:1: has no secret"),
        (
            "key \"a\" { secret \"AAAA\"; };\nkey \"A.\" { secret \"AAAA\"; };",
            "keys:2: the secret is there twice",
        ),
        ("key \"a\" { secret \"!!\"; };", "keys:1: the secret is not base64"),
        ("key \"a\" { secret \"\"; };", "keys:1: the secret is empty"),
        ("key \"a\" { secret \"AA", "keys:1: has a quote that is not closed"),
        ("key { };", "keys:1: has no name"),
        ("key \"a\" secret \"AAAA\";", "has no `{`"),
        ("key \"a\" { secret \"AAAA\";", "never closed"),
        ("key \"a\" { size 3; };", "other than algorithm and secret"),
        ("/* ", "never ends"),
        ("zone x;", "does not begin with `key`"),
    ] {
        std::fs::write(&file, text).unwrap();
        let refused = Bench::refused(crate::CHAIN, &corefile);
        assert!(refused.contains(want), "{text}: {refused}");
        assert!(!refused.contains("!!"), "{refused}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn wrong_lines_are_refused_without_their_secrets() {
    for (lines, want) in [
        ("secret key.test", "takes the name of a key and its secret"),
        ("secret key.test s3cr3t more", "takes the name of a key and its secret"),
        ("secret key.test s3cr3t", "the secret of key.test is not base64"),
        ("secret a AAAA\n secret A. AAAA", "the secret of A. is there twice"),
        ("secret a..b AAAA", "is not a domain name"),
        ("secrets", "Wrong argument count"),
        ("secrets nowhere.keys", "cannot be read"),
        ("require", "Wrong argument count"),
        ("require A HINFOO", "is no record type"),
        ("require_opcode DSO", "is none of QUERY"),
        ("demand all", "demand"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n tsig {{\n {lines}\n }}\n}}\n"));
        assert!(text.contains(want), "{lines}: {text}");
        assert!(!text.contains("s3cr3t"), "{lines}: {text}");
    }
    let twice = "test {\n tsig {\n }\n tsig {\n }\n}\n";
    assert!(Bench::refused(crate::CHAIN, twice).contains("can only be used once"));
    let wrong = Bench::try_new(crate::CHAIN, "test {\n tsig {\n secret key.test s3cr3t\n }\n}\n");
    let shown: String =
        wrong.unwrap_err().iter().map(|one| one.render(&|_| Some("s3cr3t\n".repeat(9)))).collect();
    assert!(!shown.contains("s3cr3t") && shown.contains("-->"), "{shown}");
}

#[test]
fn signatures_are_checked_on_every_transport() {
    use engine::Transport;
    let bench = bench("require all");
    for transport in [
        Transport::Udp,
        Transport::Tcp,
        Transport::Tls,
        Transport::Https,
        Transport::Https3,
        Transport::Quic,
        Transport::Grpc,
    ] {
        let ask = |how: &Signed| {
            let mut x = bench.exchange("www.example.org A");
            x.query.transport = transport;
            let mac = sign(&mut x.query.wire, how);
            told(&bench.serve(&mut x), &mac, how)
        };
        assert_eq!(ask(&Signed::default()), (0, Some((0, true))), "{transport:?}");
        let spoiled = Signed { spoil: true, ..Signed::default() };
        assert_eq!(ask(&spoiled), (9, Some((16, false))), "{transport:?}");
        let mut x = bench.exchange("www.example.org A");
        x.query.transport = transport;
        assert_eq!(bench.serve(&mut x)[3] & 15, 5, "{transport:?}");
    }
}

#[tokio::test]
async fn a_good_signature_stays_here() {
    use crate::shared::scripted::{Say, Scripted};
    let up = Scripted::start(|asked, _| {
        assert_eq!(asked.wire[10..12], [0, 0], "no additional records");
        Say::Answer
    })
    .await;
    let bench = Bench::new(
        crate::CHAIN,
        &format!(
            ". {{\n tsig {{\n secret key.test {BASE64}\n require all\n }}\n forward . {}\n}}\n",
            up.addr
        ),
    );
    let mut x = bench.exchange("www.example.org A");
    let mac = sign(&mut x.query.wire, &Signed::default());
    let mut out = Vec::new();
    if let engine::Served::Later(live) = bench.gateway.serve(&mut x, &mut out) {
        live.complete(&mut x, &mut out).await;
    }
    assert_eq!(told(&out, &mac, &Signed::default()), (0, Some((0, true))));
    assert_eq!(up.seen(), ["www.example.org. A udp rd"]);
}
