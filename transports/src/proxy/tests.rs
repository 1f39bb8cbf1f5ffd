//! Headers octet by octet, and whom they are believed of.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use engine::{ProxyPolicy, ProxySpec};

use super::header::{Found, Head, crc32c, datagram, stream};
use super::{Sessions, Unwrapped};
use crate::accept::Ends;

/// What version 2 begins with.
const SIGNATURE: &[u8] = b"\r\n\r\n\0\r\nQUIT\n";

/// An address.
fn addr(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// Two ends.
fn ends(peer: &str, local: &str) -> Ends {
    Ends { peer: addr(peer), local: addr(local) }
}

/// A header of version 2.
fn v2(command: u8, family: u8, addrs: &[u8], fields: &[u8]) -> Vec<u8> {
    let len = u16::try_from(addrs.len() + fields.len()).unwrap().to_be_bytes();
    [SIGNATURE, &[command, family], &len, addrs, fields].concat()
}

/// The addresses 198.51.100.1:4000 and 203.0.113.2:53.
const V4: &[u8] = &[198, 51, 100, 1, 203, 0, 113, 2, 0x0f, 0xa0, 0, 53];

/// The same of IPv6: [2001:db8::1]:4000 and [2001:db8::2]:53.
fn v6() -> Vec<u8> {
    let end = |last: u8| {
        let mut end = [0u8; 16];
        (end[0], end[1], end[2], end[3], end[15]) = (0x20, 0x01, 0x0d, 0xb8, last);
        end
    };
    [&end(1)[..], &end(2), &[0x0f, 0xa0, 0, 53]].concat()
}

#[test]
fn proxyproto_v1_prx_02_lines_of_text() {
    let found = |len, ends| Head::Found(Found { len, ends, is_datagram: None });
    let longest = "PROXY UNKNOWN ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff 65535 65535\r\n";
    assert_eq!(longest.len(), 107);
    for (text, want) in [
        (
            "PROXY TCP4 198.51.100.1 203.0.113.2 4000 53\r\n\0\x1d",
            found(45, Some(ends("198.51.100.1:4000", "203.0.113.2:53"))),
        ),
        (
            "PROXY TCP6 2001:db8::1 2001:db8::2 4000 53\r\n",
            found(44, Some(ends("[2001:db8::1]:4000", "[2001:db8::2]:53"))),
        ),
        (
            "PROXY TCP6 ::ffff:198.51.100.1 ::ffff:203.0.113.2 0 53\r\n",
            found(56, Some(ends("198.51.100.1:0", "203.0.113.2:53"))),
        ),
        ("PROXY UNKNOWN\r\n", found(15, None)),
        ("PROXY UNKNOWN whatever follows\r\n", found(32, None)),
        (longest, found(107, None)),
        ("", Head::More),
        ("PRO", Head::More),
        ("PROXY ", Head::More),
        ("PROXY TCP4 198.51.100.1 203.0.113.2 4000 53\r", Head::More),
        ("PROXZ ", Head::None),
        ("\0\x1dPROXY", Head::None),
    ] {
        assert_eq!(stream(text.as_bytes()), want, "{text:?}");
    }
    for text in [
        "PROXY TCP5 198.51.100.1 203.0.113.2 4000 53\r\n",
        "PROXY tcp4 198.51.100.1 203.0.113.2 4000 53\r\n",
        "PROXY TCP4 2001:db8::1 2001:db8::2 4000 53\r\n",
        "PROXY TCP6 198.51.100.1 203.0.113.2 4000 53\r\n",
        "PROXY TCP4 198.51.100.1 203.0.113.2 4000\r\n",
        "PROXY TCP4 198.51.100.1 203.0.113.2 4000 53 53\r\n",
        "PROXY TCP4  198.51.100.1 203.0.113.2 4000 53\r\n",
        "PROXY TCP4 198.51.100.1 203.0.113.2 65536 53\r\n",
        "PROXY TCP4 198.51.100.1 203.0.113.2 +4000 53\r\n",
        "PROXY TCP4 198.51.100.1 203.0.113.2 04000 53\r\n",
        "PROXY TCP4 198.51.100.256 203.0.113.2 4000 53\r\n",
        "PROXY \r\n",
        &format!("PROXY UNKNOWN {}", "x".repeat(93)),
        &format!("PROXY UNKNOWN {}\r\n", "x".repeat(92)),
    ] {
        assert!(matches!(stream(text.as_bytes()), Head::Bad(_)), "{text:?}");
    }
    assert!(matches!(stream(b"PROXY TCP4 \xff\r\n"), Head::Bad(_)));
}

#[test]
fn prx_02_binary_headers() {
    let found = |len, ends, is_datagram| Head::Found(Found { len, ends, is_datagram });
    let four = Some(ends("198.51.100.1:4000", "203.0.113.2:53"));
    let six = Some(ends("[2001:db8::1]:4000", "[2001:db8::2]:53"));
    let mut mapped = v6();
    mapped[..16].copy_from_slice(&[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 198, 51, 100, 1]);
    let no_op = [4, 0, 3, 1, 2, 3];
    for (bytes, want) in [
        (v2(0x21, 0x11, V4, &[]), found(28, four, Some(false))),
        (v2(0x21, 0x12, V4, &[]), found(28, four, Some(true))),
        (v2(0x21, 0x10, V4, &[]), found(28, four, None)),
        (v2(0x21, 0x21, &v6(), &[]), found(52, six, Some(false))),
        (v2(0x21, 0x22, &v6(), &no_op), found(58, six, Some(true))),
        (
            v2(0x21, 0x21, &mapped, &[]),
            found(52, Some(ends("198.51.100.1:4000", "[2001:db8::2]:53")), Some(false)),
        ),
        // The proxy itself, whatever stands there.
        (v2(0x20, 0x00, &[], &[]), found(16, None, None)),
        (v2(0x20, 0x11, V4, &[]), found(28, None, None)),
        (v2(0x20, 0x11, &[1, 2, 3], &[]), found(19, None, None)),
        // Neither addresses nor a family.
        (v2(0x21, 0x00, &[], &[]), found(16, None, None)),
        (v2(0x21, 0x00, &[], &no_op), found(22, None, None)),
        // A local socket.
        (v2(0x21, 0x31, &[b'/'; 216], &[]), found(232, None, Some(false))),
        (
            v2(0x21, 0x11, V4, &[4, 2, 5].into_iter().chain([0; 517]).collect::<Vec<_>>()[..508]),
            Head::Bad("a field is cut"),
        ),
        (
            v2(0x21, 0x11, V4, &[vec![4, 1, 249], vec![0; 505]].concat()),
            found(536, four, Some(false)),
        ),
        (
            v2(0x21, 0x11, V4, &[vec![4, 1, 250], vec![0; 506]].concat()),
            Head::Bad("it is too long"),
        ),
        (v2(0x11, 0x11, V4, &[]), Head::Bad("its version is unknown")),
        (v2(0x22, 0x11, V4, &[]), Head::Bad("its command is unknown")),
        (v2(0x21, 0x41, V4, &[]), Head::Bad("its family is unknown")),
        (v2(0x21, 0x13, V4, &[]), Head::Bad("its protocol is unknown")),
        (v2(0x21, 0x11, &V4[..11], &[]), Head::Bad("its addresses are cut")),
        (v2(0x21, 0x21, V4, &[]), Head::Bad("its addresses are cut")),
        (v2(0x21, 0x11, V4, &[4, 0]), Head::Bad("a field is cut")),
        (v2(0x21, 0x11, V4, &[4, 0, 2, 1]), Head::Bad("a field is cut")),
    ] {
        assert_eq!(stream(&bytes), want, "{bytes:02x?}");
        if let Head::Found(found) = want {
            for cut in 0..found.len {
                assert_eq!(stream(&bytes[..cut]), Head::More, "{cut} of {bytes:02x?}");
            }
            let more = [&bytes[..], b"\0\x1d"].concat();
            assert_eq!(stream(&more), want, "with something behind");
        }
    }
}

#[test]
fn prx_02_a_checksum_is_checked() {
    assert_eq!(crc32c([&b"123456789"[..]]), 0xe306_9283, "the check value of CRC-32C");
    let mut header = v2(0x21, 0x11, V4, &[4, 0, 1, 7, 3, 0, 4, 0, 0, 0, 0, 4, 0, 0]);
    let sum = crc32c([&header[..]]).to_be_bytes();
    header[35..39].copy_from_slice(&sum);
    assert!(matches!(stream(&header), Head::Found(Found { len: 42, ends: Some(_), .. })));
    header[31] ^= 1;
    assert_eq!(stream(&header), Head::Bad("its checksum is wrong"));
    let short = v2(0x21, 0x11, V4, &[3, 0, 3, 0, 0, 0]);
    assert_eq!(stream(&short), Head::Bad("its checksum is no checksum"));
}

#[test]
fn proxyproto_udp_datagrams_have_version_2_and_all_of_it() {
    assert_eq!(datagram(b"\0\x01 query"), Head::None);
    assert_eq!(datagram(&[]), Head::None);
    assert_eq!(datagram(b"PROXY UNKNOWN\r\n"), Head::Bad("version 1 is for streams"));
    assert_eq!(datagram(&v2(0x21, 0x11, V4, &[])), Head::Bad("it is of a stream"));
    assert_eq!(datagram(&v2(0x21, 0x12, V4, &[])[..27]), Head::Bad("it is cut"));
    assert!(matches!(datagram(&v2(0x21, 0x12, V4, &[])), Head::Found(_)));
    assert!(matches!(datagram(&v2(0x20, 0x00, &[], &[])), Head::Found(Found { ends: None, .. })));
}

#[test]
fn proxyproto_default_each_policy_does_what_it_says_with_datagrams() {
    let with = [v2(0x21, 0x12, V4, &[]), b"query".to_vec()].concat();
    let (proxy, other) = (addr("198.51.100.7:1000"), addr("198.51.100.8:1000"));
    let told = Some(ends("198.51.100.1:4000", "203.0.113.2:53"));
    let spec = |default, required| ProxySpec {
        allow: vec!["198.51.100.7/32".parse().unwrap()],
        default,
        required,
        udp_sessions: None,
    };
    let look = |spec: &ProxySpec, peer, bytes: &[u8]| {
        let looked = super::datagram(spec, None, peer, bytes, Instant::now());
        looked.ok().map(|Unwrapped { ends, payload }| (ends, payload.to_vec()))
    };
    let query = b"query".to_vec();
    use ProxyPolicy::{Ignore, Reject, Skip, Use};
    for (policy, required, headed, bare) in [
        (Use, false, Some((told, query.clone())), Some((None, query.clone()))),
        (Ignore, false, Some((None, query.clone())), Some((None, query.clone()))),
        (Reject, false, None, Some((None, query.clone()))),
        (Skip, false, Some((None, with.clone())), Some((None, query.clone()))),
        (Use, true, Some((told, query.clone())), None),
        (Ignore, true, Some((None, query.clone())), None),
        (Reject, true, None, None),
        (Skip, true, Some((None, with.clone())), Some((None, query.clone()))),
    ] {
        let spec = spec(policy, required);
        assert_eq!(look(&spec, other, &with), headed, "{policy:?} {required}");
        assert_eq!(look(&spec, other, b"query"), bare, "{policy:?} {required}");
        assert_eq!(look(&spec, proxy, &with), Some((told, query.clone())), "allowed is believed");
        assert_eq!(look(&spec, proxy, b"query").is_some(), !required);
    }
}

#[test]
fn proxyproto_udpsess_the_client_holds_for_a_time_from_its_last_use() {
    let spec = ProxySpec::default();
    let sessions = Sessions::new((Duration::from_secs(10), 2));
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let ask = |proxy: &str, header: bool, now| {
        let mut bytes = if header { v2(0x21, 0x12, V4, &[]) } else { Vec::new() };
        bytes.extend_from_slice(b"query");
        let looked = super::datagram(&spec, Some(&sessions), addr(proxy), &bytes, now);
        looked.unwrap().ends.is_some()
    };
    let (one, two, three) = ("198.51.100.7:1", "198.51.100.7:2", "198.51.100.7:3");
    assert!(!ask(one, false, start), "nobody has been named yet");
    assert!(ask(one, true, start));
    assert!(ask(one, false, after(9)), "it holds");
    assert!(ask(one, false, after(18)), "and was refreshed");
    assert!(!ask(one, false, after(29)), "but not for ever");
    assert!(ask(one, true, after(30)) && ask(two, true, after(30)));
    assert!(ask(one, false, after(31)));
    assert!(ask(three, true, after(32)), "a third takes the place of the one used longest ago");
    assert!(!ask(two, false, after(33)) && ask(one, false, after(33)));
    // A header alone is noted as well.
    let header = v2(0x21, 0x12, V4, &[]);
    let lone = super::datagram(&spec, Some(&sessions), addr(two), &header, after(34));
    assert!(lone.unwrap().payload.is_empty() && ask(two, false, after(35)));
}
