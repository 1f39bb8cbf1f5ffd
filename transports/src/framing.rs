//! Messages on a stream: two octets of length, then the message (RFC 1035 §4.2.2).

/// Bytes of a stream that are not yet whole messages.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    bytes: Vec<u8>,
    at: usize,
}

/// What an idle connection's buffer may keep, in octets.
const KEEP: usize = 4096;

impl Inbox {
    /// Where the next bytes are read to.
    pub(crate) fn space(&mut self) -> &mut Vec<u8> {
        self.bytes.drain(..self.at);
        self.at = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
        }
        self.bytes.reserve(2048);
        &mut self.bytes
    }

    /// The next whole message.
    pub(crate) fn message(&mut self) -> Option<&[u8]> {
        let rest = self.bytes.get(self.at..)?;
        let (len, rest) = rest.split_first_chunk::<2>()?;
        let len = usize::from(u16::from_be_bytes(*len));
        let message = rest.get(..len)?;
        self.at += 2 + len;
        Some(message)
    }
}

/// Appends a message that `write` appends to `out`, with its length in front; nothing if it appends nothing or more than
/// 65,535 octets.
pub(crate) fn frame<T>(out: &mut Vec<u8>, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
    let start = out.len();
    out.extend_from_slice(&[0, 0]);
    let result = write(out);
    match u16::try_from(out.len() - start - 2) {
        Ok(len) if len > 0 => out[start..start + 2].copy_from_slice(&len.to_be_bytes()),
        _ => out.truncate(start),
    }
    result
}
