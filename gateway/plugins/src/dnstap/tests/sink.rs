//! A sink: the receiving side of Frame Streams.

use std::time::Duration;

use prost::Message as _;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::dnstap::message::{Dnstap, Message};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

/// One end of a connection, after its handshake.
#[derive(Debug)]
pub(super) struct Sink<S>(pub(super) S);

impl<S: AsyncRead + AsyncWrite + Unpin> Sink<S> {
    /// Shakes hands.
    pub(super) async fn begin(mut stream: S) -> Self {
        assert_eq!(control(&mut stream).await, (4, true), "READY");
        let content = b"protobuf:dnstap.Dnstap";
        let mut accept = vec![0, 0, 0, 0, 0, 0, 0, 34, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 22];
        accept.extend_from_slice(content);
        stream.write_all(&accept).await.unwrap();
        assert_eq!(control(&mut stream).await, (2, true), "START");
        Self(stream)
    }

    /// The next message; none after STOP, which gets its FINISH.
    pub(super) async fn next(&mut self) -> Option<Dnstap> {
        let len = timeout(LIMIT, self.0.read_u32()).await.expect("a frame comes").ok()?;
        if len == 0 {
            let len = self.0.read_u32().await.unwrap();
            let kind = self.0.read_u32().await.unwrap();
            assert_eq!((len, kind), (4, 3), "STOP");
            self.0.write_all(&[0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5]).await.unwrap();
            return None;
        }
        let mut frame = vec![0; len as usize];
        self.0.read_exact(&mut frame).await.unwrap();
        Some(Dnstap::decode(&*frame).unwrap())
    }

    /// The inner parts of the next messages.
    pub(super) async fn messages<const N: usize>(&mut self) -> [Message; N] {
        let mut all = Vec::new();
        for _ in 0..N {
            all.push(self.next().await.unwrap().message.unwrap());
        }
        all.try_into().unwrap()
    }
}

/// Reads a control frame: its number, and whether it names the right content.
async fn control(stream: &mut (impl AsyncRead + Unpin)) -> (u32, bool) {
    assert_eq!(timeout(LIMIT, stream.read_u32()).await.unwrap().unwrap(), 0);
    let mut body = vec![0; stream.read_u32().await.unwrap() as usize];
    stream.read_exact(&mut body).await.unwrap();
    let kind = u32::from_be_bytes(body[..4].try_into().unwrap());
    (kind, body.ends_with(b"protobuf:dnstap.Dnstap"))
}
