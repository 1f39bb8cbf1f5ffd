//! What is taken for a request, and what is not, wherever a read ends.

use crate::guard::{Filter, Watch};
use crate::http1::HEAD;
use crate::http1::heads::Heads;

/// How many of these octets are passed on when so many come at a time; the same for each such number.
fn passed(octets: &[u8]) -> usize {
    let by = |step: usize| {
        let mut heads = Heads::new(Watch::new());
        let mut sum = 0;
        for part in octets.chunks(step) {
            let count = heads.pass(part);
            sum += count;
            if count < part.len() {
                break;
            }
        }
        sum
    };
    let whole = by(octets.len().max(1));
    for step in [1, 2, 3, 7, 64] {
        assert_eq!(by(step), whole, "{step} at a time");
    }
    whole
}

#[test]
fn requests_follow_one_another() {
    let one = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let sized = "POST / HTTP/1.1\r\nhost: a\r\nContent-Length: 5\r\n\r\na\nb\0c";
    let chunked = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n\
        3;x=\"y\"\r\na\nb\r\n0A\r\n0123456789\r\n0\r\ntrailer: z\r\n\r\n";
    let old = "GET / HTTP/1.0\r\n\r\n";
    let all = [one, sized, "\r\n", chunked, old, sized, one].concat();
    assert_eq!(passed(all.as_bytes()), all.len());
}

#[test]
fn what_is_ambiguous_is_passed_on_up_to_where_it_is() {
    for (good, bad) in [
        ("GET / HTTP/1.1\r\nhost: a", "\n\r\n"),
        ("GET / HTTP/1.1\r\nhost: a\r", "b\r\n"),
        ("GET / HTTP/1.1\r\nhost: a\r\n\r", "\0"),
        ("GET / HTTP/1.1\r\nhost: a\r\nx: \"\"", "\0"),
        ("GET / HTTP/1.1\r\nhost: a\r\n x\r", "\n"),
        ("GET / HTTP/1.1\r\nhost : a\r", "\n"),
        ("GET / HTTP/1.1\r\nx: a\r\n\r", "\n"),
        (
            "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r",
            "\n",
        ),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 1\r", "\n"),
        ("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 99999999999999999999\r", "\n"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1\r\na", "b\r\n"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n-1\r", "\n"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1", "\n"),
        ("POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n no\r", "\n"),
    ] {
        let all = [good, bad, "GET / HTTP/1.1\r\nhost: a\r\n\r\n"].concat();
        assert_eq!(passed(all.as_bytes()), good.len(), "{good:?}");
    }
}

#[test]
fn lines_without_an_end_have_a_bound() {
    let size = format!(
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n1;{}",
        "x".repeat(1_000)
    );
    assert!(passed(size.as_bytes()) < size.len());
    let trailers = "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n0\r\n"
        .to_owned()
        + &"x: y\r\n".repeat(1_000);
    assert!(passed(trailers.as_bytes()) < trailers.len());
    // A head is the library's to refuse, which must see that it is too large.
    let head = "GET / HTTP/1.1\r\nhost: a\r\n".to_owned() + &"x: y\r\n".repeat(HEAD);
    assert_eq!(passed(head.as_bytes()), head.len());
}
