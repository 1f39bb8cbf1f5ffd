//! DNS over HTTPS (RFC 8484) on TCP: HTTP/2 or HTTP/1.1, as the client and the listener agreed in the handshake.

use std::io;
use std::time::Duration;

use ::http::Request;
use engine::{Exchange, Stop};
use h2::RecvStream;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use crate::accept::Accepted;
use crate::desk::Desk;
use crate::http::{self, Form, MESSAGE, Refusal, Web};
use crate::http1;
use crate::http2::frames::PREFACE;
use crate::http2::{self, Ask, Failure, Reply, Service, Terms};

/// Serves one connection.
pub(crate) async fn serve<S>(desk: &Desk, accepted: Accepted<S>, stop: Stop) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Accepted { mut stream, peer, local, session, alpn, plan, seat } = accepted;
    let (timeouts, mut ahead) = (plan.timeouts, Vec::new());
    let is_h2 = match alpn.as_deref() {
        Some(alpn) => alpn == b"h2",
        // In clear text a proxy may go on with HTTP/2 at once (RFC 9113 §3.3); in TLS that takes ALPN (§3.2).
        None if session.is_none() => sniff(&mut stream, &mut ahead, timeouts.read).await?,
        None => false,
    };
    let web = Web::new(desk, (peer, local), session);
    // Which of the two is not known before, and neither is small.
    if is_h2 {
        let streams = u32::try_from(desk.limits.bounds.pipeline).unwrap_or(u32::MAX);
        let terms = Terms {
            streams: Some(streams),
            read: timeouts.read,
            write: timeouts.write,
            idle: timeouts.idle,
        };
        let doh = Doh { desk, web: &web };
        Box::pin(http2::serve((desk, &seat), stream, ahead, &doh, terms, stop)).await
    } else {
        Box::pin(http1::serve((desk, &seat), stream, ahead, &web, timeouts, stop)).await
    }
}

/// Whether a client begins with the preface of HTTP/2. What was read goes to `ahead`.
async fn sniff<S>(stream: &mut S, ahead: &mut Vec<u8>, limit: Duration) -> io::Result<bool>
where
    S: AsyncRead + Unpin,
{
    let read = async {
        while ahead.len() < PREFACE.len() && PREFACE.starts_with(ahead) {
            if stream.read_buf(ahead).await? == 0 {
                break;
            }
        }
        Ok(ahead.starts_with(PREFACE))
    };
    timeout(limit, read).await?
}

/// DoH on HTTP/2.
struct Doh<'a> {
    desk: &'a Desk,
    web: &'a Web,
}

impl Service for Doh<'_> {
    type Form = Form;

    fn exchange(&self) -> Box<Exchange> {
        self.web.exchange(self.desk)
    }

    fn ask(&self, request: &Request<RecvStream>, x: &mut Exchange) -> Ask<Form> {
        match self.web.ask(self.desk, request, x) {
            http::Ask::Query(form) => Ask::Query(form),
            http::Ask::Body(form) => Ask::Body(form, MESSAGE),
            http::Ask::Nothing(reply) => Ask::Nothing(Box::new(reply.into())),
        }
    }

    fn body(&self, _: Form, _: &mut Exchange) -> Result<(), Failure> {
        Ok(())
    }

    fn tell(&self, x: &Exchange, form: Form, message: &[u8]) -> Reply {
        self.web.tell(x, form, message).into()
    }

    fn fail(&self, form: Form, failure: Failure) -> Reply {
        let refusal = match failure {
            Failure::Unreadable(why) => Refusal::bad(why),
            Failure::TooLarge => Refusal::TOO_LARGE,
            Failure::Slow | Failure::Deadline => Refusal::TIMEOUT,
        };
        self.web.refuse(refusal, form).into()
    }
}

impl From<http::Reply> for Reply {
    fn from(http::Reply { response, body }: http::Reply) -> Self {
        Self { response, body, trailers: None }
    }
}
