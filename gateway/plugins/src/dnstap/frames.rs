//! Frame Streams, both directions: the handshake before the messages, and the one behind them. The messages go one way.

use std::io::{Error, ErrorKind, Result};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

/// What the frames hold.
pub(super) const CONTENT: &[u8] = b"protobuf:dnstap.Dnstap";

/// How long anything may take that the other side has to do its part of.
pub(super) const PATIENCE: Duration = Duration::from_secs(4);

/// The longest control frame, in octets.
const MAX_CONTROL: u32 = 512;

/// The field of control frames that names what the data frames hold.
const FIELD_CONTENT: u32 = 1;

/// The control frames, by their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Control {
    /// The receiver says what it takes.
    Accept = 1,
    /// The messages begin.
    Start = 2,
    /// They end.
    Stop = 3,
    /// The sender says what it has.
    Ready = 4,
    /// The receiver has all of them.
    Finish = 5,
}

/// A connection to a sink, whatever it is made of.
pub(super) trait Pipe: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Pipe for T {}

/// Begins: says what there is, hears that it is wanted, and starts.
///
/// # Errors
/// Those of the connection; if the other side speaks something else, or wants something else.
pub(super) async fn begin(pipe: &mut (impl Pipe + ?Sized)) -> Result<()> {
    let handshake = async {
        pipe.write_all(&control(Control::Ready)).await?;
        pipe.flush().await?;
        hear(pipe, Control::Accept).await?;
        pipe.write_all(&control(Control::Start)).await?;
        pipe.flush().await
    };
    timeout(PATIENCE, handshake).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Ends: says that nothing follows, and hears that all of it has come.
///
/// # Errors
/// Those of the connection.
pub(super) async fn end(pipe: &mut (impl Pipe + ?Sized)) -> Result<()> {
    let handshake = async {
        pipe.write_all(&control(Control::Stop)).await?;
        pipe.flush().await?;
        hear(pipe, Control::Finish).await?;
        pipe.shutdown().await
    };
    timeout(Duration::from_secs(1), handshake)
        .await
        .unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Writes frames.
///
/// # Errors
/// Those of the connection, and that the other side does not take them in time.
pub(super) async fn write(pipe: &mut (impl Pipe + ?Sized), frames: &[u8]) -> Result<()> {
    let write = async {
        pipe.write_all(frames).await?;
        pipe.flush().await
    };
    timeout(PATIENCE, write).await.unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// A control frame: an escape (an empty data frame), its length, its number, and what the data frames hold.
fn control(kind: Control) -> Vec<u8> {
    let mut body = (kind as u32).to_be_bytes().to_vec();
    if matches!(kind, Control::Ready | Control::Start) {
        body.extend_from_slice(&FIELD_CONTENT.to_be_bytes());
        body.extend_from_slice(&(CONTENT.len() as u32).to_be_bytes());
        body.extend_from_slice(CONTENT);
    }
    let mut frame = vec![0; 4];
    frame.extend_from_slice(&(body.len() as u32).to_be_bytes());
    frame.extend_from_slice(&body);
    frame
}

/// Reads a control frame, which has to be of this kind, and has to want what there is if it says what it wants.
async fn hear(pipe: &mut (impl Pipe + ?Sized), wanted: Control) -> Result<()> {
    let wrong = |what: &'static str| Err(Error::new(ErrorKind::InvalidData, what));
    if pipe.read_u32().await? != 0 {
        return wrong("the other side does not speak Frame Streams");
    }
    let len = pipe.read_u32().await?;
    if !(4..=MAX_CONTROL).contains(&len) {
        return wrong("a control frame of Frame Streams has a wrong length");
    }
    let mut body = vec![0; len as usize];
    pipe.read_exact(&mut body).await?;
    let Some((kind, mut fields)) = body.split_first_chunk::<4>() else {
        return wrong("a control frame of Frame Streams is too short");
    };
    if u32::from_be_bytes(*kind) != wanted as u32 {
        return wrong(
            "Frame Streams' handshake is out of order; the other side has to be bidirectional",
        );
    }
    let (mut named, mut found) = (false, false);
    while let Some((field, rest)) = fields.split_first_chunk::<4>() {
        let Some((len, rest)) = rest.split_first_chunk::<4>() else {
            return wrong("a field of Frame Streams is too short");
        };
        let Some((value, rest)) = rest.split_at_checked(u32::from_be_bytes(*len) as usize) else {
            return wrong("a field of Frame Streams is too long");
        };
        if u32::from_be_bytes(*field) == FIELD_CONTENT {
            named = true;
            found |= value == CONTENT;
        }
        fields = rest;
    }
    if named && !found {
        return wrong("the other side takes no messages of dnstap");
    }
    Ok(())
}
