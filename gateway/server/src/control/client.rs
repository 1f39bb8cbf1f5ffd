//! The side that asks: one HTTP/1.1 request over the socket.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use crate::flags::Asked;

/// How long the process may be silent; longer than it takes to say that there is no answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The most octets of an answer.
const MOST: u64 = 64 << 20;

/// What the process says.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The report.
    pub(crate) text: String,
    /// The exit code that says so, too: 0 if all is well, 1 if not, 2 if that cannot be known.
    pub(crate) code: u8,
}

/// Asks the process behind `socket`.
///
/// # Errors
/// Why there is no answer.
pub(crate) fn ask(socket: &Path, asked: &Asked) -> Result<Said, String> {
    let shown = socket.display();
    let mut stream = UnixStream::connect(socket).map_err(|error| {
        let help = match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                "is it running? state its socket by --socket PATH, or its run_dir by -set run_dir=DIR"
            }
            ErrorKind::PermissionDenied => "ask as the user that it runs as, or as root",
            _ => "state another one by --socket PATH",
        };
        format!("no process answers at {shown}: {error} ({help})")
    })?;
    let lost = |error: std::io::Error| format!("the process at {shown} gave no answer: {error}");
    stream.set_read_timeout(Some(PATIENCE)).map_err(lost)?;
    stream.write_all(request(asked).as_bytes()).map_err(lost)?;
    let mut reply = Vec::new();
    stream.take(MOST).read_to_end(&mut reply).map_err(lost)?;
    read(&String::from_utf8_lossy(&reply))
        .ok_or_else(|| format!("what answers at {shown} is no Causeway"))?
}

/// The request for a question.
fn request(asked: &Asked) -> String {
    let mut query: Vec<String> =
        asked.words.iter().map(|word| format!("arg={}", encoded(word))).collect();
    if asked.json {
        query.push("json".to_owned());
    }
    format!(
        "GET /{}?{} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
        asked.verb,
        query.join("&")
    )
}

/// Percent-encodes all but unreserved characters (RFC 3986 §2.1).
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                out.push(char::from(byte));
            }
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

/// What a reply says; none if it is none.
fn read(reply: &str) -> Option<Result<Said, String>> {
    let (head, body) = reply.split_once("\r\n\r\n")?;
    let status = head.lines().next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
    let text = body.to_owned();
    Some(match status {
        "200" => Ok(Said { text, code: 0 }),
        "409" => Ok(Said { text, code: 1 }),
        "503" => Ok(Said { text, code: 2 }),
        _ => Err(text),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_travel_as_they_are() {
        let asked = Asked {
            verb: "verify".to_owned(),
            words: vec!["a b&=%".to_owned(), "--x".to_owned()],
            json: true,
            ..Asked::default()
        };
        let request = request(&asked);
        let query = "arg=a%20b%26%3D%25&arg=--x&json";
        assert!(request.starts_with(&format!("GET /verify?{query} HTTP/1.1\r\n")), "{request}");
        let question = super::super::Question::read(query);
        assert_eq!((question.args, question.json), (asked.words, true));
    }

    #[test]
    fn replies_are_read() {
        let said = |text: &str, code| Ok(Said { text: text.to_owned(), code });
        for (reply, want) in [
            ("HTTP/1.1 200 OK\r\na: b\r\n\r\nx\n", Some(said("x\n", 0))),
            ("HTTP/1.1 409 Conflict\r\n\r\ny", Some(said("y", 1))),
            ("HTTP/1.1 503 Service Unavailable\r\n\r\nw", Some(said("w", 2))),
            ("HTTP/1.1 504 Gateway Timeout\r\n\r\nv", Some(Err("v".to_owned()))),
            ("HTTP/1.1 400 Bad Request\r\n\r\nz", Some(Err("z".to_owned()))),
            ("SSH-2.0-x\r\n", None),
            ("", None),
        ] {
            assert_eq!(read(reply), want, "{reply}");
        }
    }
}
