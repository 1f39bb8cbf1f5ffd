//! As much of HTTP/2 as asks a DoH server (RFC 9113, RFC 8484): GET requests, and the data of the responses.

/// What a connection begins with: the preface, settings, and room for all responses to come.
const BEGIN: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\
    \x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x04\x00\x10\x00\x00\
    \x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\x00\x00\x00";

/// The kinds of frames that are looked at.
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// Begins a frame; [`finish`] says its length.
fn begin(kind: u8, flags: u8, stream: u32, out: &mut Vec<u8>) -> usize {
    let start = out.len();
    out.extend_from_slice(&[0, 0, 0, kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    start
}

/// Ends the frame that began at `start`.
fn finish(start: usize, out: &mut [u8]) {
    let length = (out.len() - start - 9) as u32;
    out[start..start + 3].copy_from_slice(&length.to_be_bytes()[1..]);
}

/// Appends a string of HPACK (RFC 7541 5.2), without Huffman coding.
fn string(text: &[u8], out: &mut Vec<u8>) {
    integer(text.len(), out);
    out.extend_from_slice(text);
}

/// Appends a length of seven bits and more (RFC 7541 5.1).
fn integer(mut value: usize, out: &mut Vec<u8>) {
    if value < 127 {
        out.push(value as u8);
        return;
    }
    out.push(127);
    value -= 127;
    while value >= 128 {
        out.push((value % 128) as u8 | 128);
        value /= 128;
    }
    out.push(value as u8);
}

/// Appends a message in base64url without padding.
fn base64url(message: &[u8], out: &mut Vec<u8>) {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    for three in message.chunks(3) {
        let bits = three.iter().fold(0, |bits, octet| bits << 8 | u32::from(*octet));
        let bits = bits << (8 * (3 - three.len()));
        for at in 0..=three.len() {
            out.push(LETTERS[(bits >> (18 - 6 * at) & 63) as usize]);
        }
    }
}

/// The client's side of a connection.
pub struct Asker {
    /// The next stream.
    stream: u32,
}

impl Asker {
    /// Appends what the connection begins with.
    pub fn begin(out: &mut Vec<u8>) -> Self {
        out.extend_from_slice(BEGIN);
        Self { stream: 1 }
    }

    /// Appends a request with a message.
    pub fn ask(&mut self, message: &[u8], out: &mut Vec<u8>) {
        let start = begin(HEADERS, 5, self.stream, out);
        // :method GET, :scheme https.
        out.extend_from_slice(&[0x82, 0x87]);
        // :authority and accept go to the table, where those that follow find them.
        let is_first = self.stream == 1;
        if is_first {
            out.push(0x41);
            string(b"dns.example.org", out);
        } else {
            out.push(0x80 | 63);
        }
        // :path, which no table takes up.
        out.push(4);
        let path = b"/dns-query?dns=";
        integer(path.len() + (message.len() * 4).div_ceil(3), out);
        out.extend_from_slice(path);
        base64url(message, out);
        if is_first {
            out.push(0x40 | 19);
            string(b"application/dns-message", out);
        } else {
            out.push(0x80 | 62);
        }
        finish(start, out);
        self.stream += 2;
    }
}

/// What the beginning of `inbox` is.
pub enum Seen {
    /// No whole frame yet.
    Part,
    /// A frame of so many octets that says nothing.
    Other(usize),
    /// Settings, to be acknowledged.
    Settings(usize),
    /// A message of so many octets, from the tenth on.
    Message(usize),
    /// The end.
    End,
}

/// Looks at the first frame.
pub fn look(inbox: &[u8]) -> Seen {
    let Some([a, b, c, kind, flags, ..]) = inbox.first_chunk::<9>() else { return Seen::Part };
    let length = u32::from_be_bytes([0, *a, *b, *c]) as usize;
    if inbox.len() < 9 + length {
        return Seen::Part;
    }
    match *kind {
        DATA if length > 0 => Seen::Message(length),
        SETTINGS if flags & 1 == 0 => Seen::Settings(9 + length),
        RST_STREAM | GOAWAY => Seen::End,
        _ => Seen::Other(9 + length),
    }
}

/// What acknowledges settings.
pub const ACKNOWLEDGED: &[u8] = &[0, 0, 0, SETTINGS, 1, 0, 0, 0, 0];

#[cfg(test)]
mod tests {
    use super::{Asker, BEGIN, Seen, look};

    #[test]
    fn a_request_is_one_frame() {
        let mut out = Vec::new();
        let mut asker = Asker::begin(&mut out);
        assert_eq!(out.len(), BEGIN.len());
        out.clear();
        asker.ask(&[0; 44], &mut out);
        let length = usize::from(out[1]) << 8 | usize::from(out[2]);
        assert_eq!((out[3], out.len()), (1, 9 + length));
        let text = String::from_utf8_lossy(&out);
        assert!(text.contains(&format!("/dns-query?dns={}", "A".repeat(59))), "{text}");
    }

    #[test]
    fn only_data_is_a_message() {
        assert!(matches!(look(&[0, 0, 1, 0, 1, 0, 0, 0, 1]), Seen::Part));
        assert!(matches!(look(&[0, 0, 1, 0, 1, 0, 0, 0, 1, 7]), Seen::Message(1)));
        assert!(matches!(look(&[0, 0, 0, 4, 0, 0, 0, 0, 0]), Seen::Settings(9)));
        assert!(matches!(look(&[0, 0, 0, 7, 0, 0, 0, 0, 0]), Seen::End));
    }
}
