//! DNS over HTTPS by HTTP/3 (RFC 9114).

use std::future::poll_fn;

use bytes::{Buf, Bytes};
use futures::FutureExt;
use futures::future::BoxFuture;
use h3::client::{RequestStream, SendRequest};
use h3::error::{Code, ConnectionError, StreamError};

use super::bounded::Bounded;
use super::conn::Broken;
use super::https::{Form, MAX_HEADERS, MAX_MESSAGE, bad, judge, too_long};
use super::quic::{Road, over};
use super::session::{Link, Made, Maker};
use super::tls::bounded;

/// The most octets of a stream: a message, its header fields, and frames around them.
const MAX_STREAM: usize = MAX_MESSAGE + MAX_HEADERS as usize + (16 << 10);

/// What opens streams.
pub(super) type Sender = SendRequest<Bounded<h3_quinn::OpenStreams>, Bytes>;

/// A request and its response.
type Exchange = RequestStream<Bounded<h3_quinn::BidiStream<Bytes>>, Bytes>;

/// Makes connections of HTTP/3.
pub(super) struct Http3(pub(super) Road);

impl Maker for Http3 {
    fn make(&self) -> BoxFuture<'_, Result<Made, Broken>> {
        async {
            let (connection, local) = self.0.connect().await?;
            let watched = connection.clone();
            let streams = Bounded::new(h3_quinn::Connection::new(connection), MAX_STREAM);
            let mut builder = h3::client::builder();
            builder.max_field_section_size(MAX_HEADERS.into()).send_grease(false);
            let made = builder.build(streams).await;
            let (mut connection, link) = made.map_err(|error| ended(&error))?;
            let driver = async move {
                let error = poll_fn(|cx| connection.poll_close(cx)).await;
                // The connection itself knows best.
                watched.close_reason().map_or_else(|| ended(&error), |why| over(&why))
            };
            Ok(Made { link: Link::Http3(link), local, driver: driver.boxed() })
        }
        .boxed()
    }
}

/// A request, which is cancelled when it is dropped before its end (RFC 9114 §4.1.1). The receiving side is stopped by being
/// dropped: the library cannot stop one that waits.
struct Cancelled {
    exchange: Exchange,
    done: bool,
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        if !self.done {
            self.exchange.stop_stream(Code::H3_REQUEST_CANCELLED);
        }
    }
}

/// Sends a request and reads its reply.
pub(super) async fn ask(mut link: Sender, form: &Form, query: &[u8]) -> Result<Vec<u8>, Broken> {
    let (request, body) = form.request(query);
    let exchange = link.send_request(request).await.map_err(|error| lost(&error))?;
    let mut open = Cancelled { exchange, done: false };
    let exchange = &mut open.exchange;
    if let Some(body) = body {
        exchange.send_data(body).await.map_err(|error| lost(&error))?;
    }
    exchange.finish().await.map_err(|error| lost(&error))?;
    let response = exchange.recv_response().await.map_err(|error| lost(&error))?;
    judge(&response)?;
    let mut message = Vec::new();
    while let Some(mut data) = exchange.recv_data().await.map_err(|error| lost(&error))? {
        if message.len() + data.remaining() > MAX_MESSAGE {
            return Err(too_long());
        }
        while data.has_remaining() {
            let chunk = data.chunk();
            message.extend_from_slice(chunk);
            let len = chunk.len();
            data.advance(len);
        }
    }
    open.done = true;
    Ok(message)
}

/// What an error of a stream means for a query; see [`super::https::lost`].
fn lost(error: &StreamError) -> Broken {
    match error {
        StreamError::ConnectionError { 0: error, .. } => ended(error),
        StreamError::RemoteClosing { .. } => Broken::Closed,
        // RFC 9114 §4.1.1: it was not processed.
        StreamError::RemoteTerminate { code, .. } if *code == Code::H3_REQUEST_REJECTED => {
            Broken::Closed
        }
        StreamError::RemoteTerminate { code, .. } if *code == Code::H3_EXCESSIVE_LOAD => {
            bad("the reply is too long, or the server has too much to do")
        }
        StreamError::RemoteTerminate { code, .. } => {
            bad(format!("the server reset the stream: {code}"))
        }
        StreamError::HeaderTooBig { .. } => bad("the reply has too many header fields"),
        other => bad(bounded(&other.to_string())),
    }
}

/// What the end of a connection means.
fn ended(error: &ConnectionError) -> Broken {
    match error {
        ConnectionError::Local { .. } if !error.is_h3_no_error() => {
            bad(format!("the server breaks the rules of HTTP/3: {}", bounded(&error.to_string())))
        }
        _ => Broken::Closed,
    }
}
