//! What calls are taken for.

use std::time::Duration;

use http::{Request, StatusCode};

use super::{Code, Failure, PACKET, Unread, field, head, time, unwrap, wrap};

#[test]
fn a_message_comes_back_as_it_was() {
    for len in [0, 12, 127, 128, 16_383, 16_384, 65_535] {
        let message: Vec<u8> = (0..len).map(|at| (at % 251) as u8).collect();
        let body = wrap(&message);
        let found = unwrap(&body).unwrap();
        assert_eq!(body[found], message[..], "{len}");
        assert!(body.len() <= PACKET + 5);
    }
}

#[test]
fn unknown_fields_are_passed_over_and_the_last_of_a_field_counts() {
    for (packet, want) in [
        (&b"\x0a\x02ab"[..], Some(2..4)),
        (b"", Some(0..0)),
        (b"\x0a\x01a\x0a\x02bc", Some(5..7)),
        (b"\x10\x96\x01\x0a\x01a\x19\0\0\0\0\0\0\0\0\x25\0\0\0\0", Some(5..6)),
        (b"\x12\x03xyz\x0a\x01a", Some(7..8)),
        (b"\x0a\x03ab", None),
        (b"\x0a", None),
        (b"\x0b\x01a", None),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", None),
        (b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80", None),
    ] {
        assert_eq!(field(packet), want, "{packet:?}");
    }
}

#[test]
fn a_body_is_one_message() {
    for (body, want) in [
        (&b""[..], Failure::Unreadable("the message is missing")),
        (b"\0\0\0\0", Failure::Unreadable("the message is missing")),
        (b"\x01\0\0\0\0", Failure::Unreadable("messages must not be compressed")),
        (b"\0\0\x01\0\x04", Failure::TooLarge),
        (b"\0\0\0\0\x05\x0a", Failure::Unreadable("the body is not one message")),
        (b"\0\0\0\0\0\0\0\0\0\0", Failure::Unreadable("the body is not one message")),
        (b"\0\0\0\0\x01\x0a", Failure::Unreadable("the message is no DnsPacket")),
    ] {
        assert_eq!(unwrap(body), Err(want), "{body:?}");
    }
}

#[test]
fn a_head_says_what_is_called_and_for_how_long() {
    let request = |path: &str, headers: &[(&str, &str)]| {
        let mut request = Request::post(path).header("content-type", "application/grpc");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        head(&request.body(()).unwrap())
    };
    let path = "/coredns.dns.DnsService/Query";
    assert_eq!(request(path, &[]), Ok(None));
    assert_eq!(request(path, &[("grpc-timeout", "250m")]), Ok(Some(Duration::from_millis(250))));
    let code = |got: Result<_, Unread>| match got {
        Err(Unread::Grpc(code, _)) => code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(request("/coredns.dns.DnsService/Watch", &[])), Code::Unimplemented);
    assert_eq!(code(request(path, &[("grpc-encoding", "gzip")])), Code::Unimplemented);
    assert_eq!(code(request(path, &[("grpc-timeout", "soon")])), Code::Internal);
    let get = Request::get(path).body(()).unwrap();
    assert_eq!(head(&get), Err(Unread::Http(StatusCode::METHOD_NOT_ALLOWED)));
    let other = Request::post(path).header("content-type", "application/json").body(()).unwrap();
    assert_eq!(head(&other), Err(Unread::Http(StatusCode::UNSUPPORTED_MEDIA_TYPE)));
}

#[test]
fn times_have_a_unit() {
    for (text, want) in [
        ("1H", Some(3_600_000_000_000)),
        ("99999999M", Some(99_999_999 * 60_000_000_000)),
        ("3S", Some(3_000_000_000)),
        ("7m", Some(7_000_000)),
        ("7u", Some(7_000)),
        ("7n", Some(7)),
        ("7", None),
        ("m", None),
        ("", None),
        ("123456789m", None),
        ("-1S", None),
        ("1é", None),
    ] {
        assert_eq!(time(text).map(|time| time.as_nanos()), want, "{text}");
    }
}
