//! A response's body as it comes, with gzip undone.

use std::io::{self, Write as _};

use flate2::write::MultiGzDecoder;

/// Undoes the encoding of a body piece by piece. API servers since 1.37 end a gzip member at every flush of a watch, so
/// that what has come must be readable at once and further members must be expected.
#[derive(Debug)]
pub(crate) enum Decoder {
    /// The body is as it is.
    Plain(Vec<u8>),
    /// The body is gzip, of any number of members.
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
}

impl Decoder {
    /// Makes a decoder for a `Content-Encoding`.
    ///
    /// # Errors
    ///
    /// The encoding is another than gzip.
    pub(crate) fn new(encoding: &[u8]) -> io::Result<Self> {
        match encoding {
            b"" | b"identity" => Ok(Self::Plain(Vec::new())),
            b"gzip" => Ok(Self::Gzip(Box::new(MultiGzDecoder::new(Vec::new())))),
            other => Err(io::Error::other(format!(
                "unknown content encoding {:?}",
                other.escape_ascii().to_string()
            ))),
        }
    }

    /// Takes a piece of the body; [`Self::bytes`] has what it means.
    ///
    /// # Errors
    ///
    /// The piece is not what the encoding allows.
    pub(crate) fn push(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(bytes) => bytes.extend_from_slice(piece),
            Self::Gzip(decoder) => {
                decoder.write_all(piece)?;
                decoder.flush()?;
            }
        }
        Ok(())
    }

    /// Checks that the body may end here.
    ///
    /// # Errors
    ///
    /// A gzip member is cut short.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Plain(_) => Ok(()),
            Self::Gzip(decoder) => decoder.try_finish(),
        }
    }

    /// Gives the decoded bytes that have not been taken.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(bytes) => bytes,
            Self::Gzip(decoder) => decoder.get_ref(),
        }
    }

    /// Takes bytes off the front.
    pub(crate) fn consume(&mut self, len: usize) {
        let bytes = match self {
            Self::Plain(bytes) => bytes,
            Self::Gzip(decoder) => decoder.get_mut(),
        };
        bytes.drain(..len.min(bytes.len()));
        // One large object or list should not hold its memory for the watch's life.
        if bytes.is_empty() && bytes.capacity() > 1 << 20 {
            bytes.shrink_to(1 << 16);
        }
    }
}

#[cfg(test)]
mod tests {
    use flate2::{Compression, write::GzEncoder};

    use super::*;

    /// Makes one gzip member.
    fn member(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn members_are_read_as_they_come_whatever_the_pieces() {
        let members: Vec<Vec<u8>> =
            (0..50).map(|i| format!("event {i} ").repeat(i).into_bytes()).collect();
        let whole = members.concat();
        let packed: Vec<u8> = members.iter().flat_map(|bytes| member(bytes)).collect();
        for size in [1, 2, 7, 100, packed.len()] {
            let mut decoder = Decoder::new(b"gzip").unwrap();
            let mut out = Vec::new();
            for piece in packed.chunks(size) {
                decoder.push(piece).unwrap();
                out.extend_from_slice(decoder.bytes());
                decoder.consume(usize::MAX);
            }
            decoder.finish().unwrap();
            out.extend_from_slice(decoder.bytes());
            assert_eq!(out, whole, "pieces of {size}");
        }
    }

    #[test]
    fn a_member_is_readable_as_soon_as_it_is_whole() {
        let mut decoder = Decoder::new(b"gzip").unwrap();
        for event in [&b"first"[..], b"second", &[b'x'; 100_000]] {
            decoder.push(&member(event)).unwrap();
            assert_eq!(decoder.bytes(), event);
            decoder.consume(event.len());
        }
    }

    #[test]
    fn what_is_cut_short_or_garbled_is_an_error() {
        let packed = member(&[7; 5000]);
        let mut decoder = Decoder::new(b"gzip").unwrap();
        decoder.push(&packed[..packed.len() - 3]).unwrap();
        assert!(decoder.finish().is_err());
        let mut decoder = Decoder::new(b"gzip").unwrap();
        assert!(decoder.push(b"HTTP/1.1 200 OK").and_then(|()| decoder.finish()).is_err());
        assert!(Decoder::new(b"br").is_err());
    }
}
