//! What a listener's configuration says, in QUIC's terms.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use engine::Transport;
use quinn::crypto::rustls::QuicServerConfig;
use quinn::{IdleTimeout, ServerConfig, TransportConfig, ValidationTokenConfig, VarInt};
use tokio::sync::Semaphore;

use super::tokens::Spent;
use crate::desk::Plan;

/// The most connections of a listener at a time, unless it states a number.
const CONNECTIONS: usize = 200;

/// The most streams of a connection at a time, unless the listener states a number.
const STREAMS: usize = 256;

/// The most streams of a connection at a time, whatever is stated: each costs memory before it is used.
const MOST_STREAMS: usize = 1 << 16;

/// With how many streams a connection begins: each has its entries in two tables from then on. A table of 2^n places whose
/// entries come and go stays as it is while less than 7/16 of it are full; beyond that it doubles sooner or later.
const FEW_QUERIES: u32 = 27;
/// The same of HTTP/3, which wants 100 at least (RFC 9114 §6.1).
const FEW_REQUESTS: u32 = 100;

/// The most streams of a listener that wait at a time, unless it states a number.
const POOL: usize = 1024;

/// What a client may send on a stream, and on a connection, before it is read, in octets.
const WINDOWS: (u32, u32) = (64 << 10, 1 << 20);

/// What is kept for a client that does not acknowledge it, in octets.
const UNACKNOWLEDGED: u64 = 1 << 20;

/// The streams that HTTP/3 needs of a client: control, and two of QPACK (RFC 9114 §6.2).
const UNIDIRECTIONAL: u32 = 3;

/// The most connections asked for that are not looked at yet; further ones are not heard.
const UNSEEN: usize = 1024;

/// How much such a connection may send, and all of them, in octets.
const UNSEEN_OCTETS: (u64, u64) = (16 << 10, 4 << 20);

/// For how long a token of an earlier connection proves an address (RFC 9000 §8.1.3).
const TOKEN: Duration = Duration::from_secs(24 * 3600);

/// How much longer the transport waits than the listener does: a connection that is idle is closed with a word, not in silence.
const SILENCE: Duration = Duration::from_secs(1);

/// The terms of a plan; a connection keeps those that it began with.
#[derive(Debug)]
pub(crate) struct Terms {
    pub(crate) plan: Arc<Plan>,
    /// Room for the streams of all connections that wait.
    pub(crate) pool: Arc<Semaphore>,
    /// The most streams of a connection.
    pub(super) streams: u32,
    /// With how many of them a connection begins.
    pub(super) few: u32,
    /// The most connections; none for no limit.
    pub(super) connections: Option<usize>,
    /// The code for connections beyond.
    pub(super) excess: VarInt,
    /// The code for clients that are not known: an error that says nothing.
    pub(super) nothing: VarInt,
    pub(super) config: Arc<ServerConfig>,
    /// The size of the pool.
    size: usize,
}

impl Terms {
    /// Those of a plan. What outlives a plan is taken over from the terms before: the keys and the tokens used, and the
    /// pool if it has the same size.
    ///
    /// # Errors
    /// If there is no TLS, or none that QUIC can use.
    pub(super) fn new(
        plan: Arc<Plan>,
        transport: Transport,
        before: Option<&Self>,
    ) -> io::Result<Self> {
        let tls = plan.tls.clone().ok_or_else(|| io::Error::other("there is no certificate"))?;
        let crypto = Arc::new(QuicServerConfig::try_from(tls).map_err(io::Error::other)?);
        let mut config = match before {
            Some(before) => ServerConfig::clone(&before.config),
            None => first(Arc::clone(&crypto)),
        };
        config.crypto = crypto;
        let (quic, h3) = (&plan.spec.quic, &plan.spec.https3);
        let is_h3 = transport == Transport::Https3;
        let streams = most_streams(if is_h3 { h3.max_streams } else { quic.max_streams });
        let connections = if is_h3 { h3.max_connections } else { quic.max_connections };
        let few = streams.min(if is_h3 { FEW_REQUESTS } else { FEW_QUERIES });
        config.transport =
            Arc::new(limits(few, if is_h3 { UNIDIRECTIONAL } else { 0 }, plan.timeouts.idle));
        let size = pool_size(quic.worker_pool_size);
        let pool =
            before.filter(|before| before.size == size).map(|before| Arc::clone(&before.pool));
        Ok(Self {
            pool: pool.unwrap_or_else(|| Arc::new(Semaphore::new(size))),
            connections: most_connections(connections),
            // H3_EXCESSIVE_LOAD (RFC 9114 §8.1); DoQ says it in CoreDNS's words.
            excess: VarInt::from_u32(if is_h3 { 0x107 } else { 0 }),
            // H3_NO_ERROR and DOQ_UNSPECIFIED_ERROR.
            nothing: VarInt::from_u32(if is_h3 { 0x100 } else { 5 }),
            config: Arc::new(config),
            streams,
            few,
            size,
            plan,
        })
    }
}

/// The most streams of a connection, from what is stated.
fn most_streams(stated: Option<usize>) -> u32 {
    let streams = match stated {
        None => STREAMS,
        // `https3 max_streams 0` stands for what QUIC libraries have, which is this.
        Some(0) => 100,
        Some(most) => most.min(MOST_STREAMS),
    };
    u32::try_from(streams).unwrap_or(u32::MAX)
}

/// The most connections of a listener, from what is stated; 0 stands for no limit.
fn most_connections(stated: Option<usize>) -> Option<usize> {
    Some(stated.unwrap_or(CONNECTIONS)).filter(|most| *most > 0)
}

/// How many queries of a listener may be worked on at a time, from what is stated.
fn pool_size(stated: Option<usize>) -> usize {
    stated.unwrap_or(POOL).min(Semaphore::MAX_PERMITS)
}

/// The configuration that all of a listener's come from: it has the key of the tokens, which is random.
fn first(crypto: Arc<QuicServerConfig>) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(crypto);
    let mut tokens = ValidationTokenConfig::default();
    tokens.lifetime(TOKEN).sent(1).log(Arc::new(Spent::default()));
    config
        .validation_token_config(tokens)
        .max_incoming(UNSEEN)
        .incoming_buffer_size(UNSEEN_OCTETS.0)
        .incoming_buffer_size_total(UNSEEN_OCTETS.1);
    config
}

/// What a client may take of a connection.
fn limits(streams: u32, unidirectional: u32, idle: Duration) -> TransportConfig {
    let mut limits = TransportConfig::default();
    limits
        .max_concurrent_bidi_streams(streams.into())
        .max_concurrent_uni_streams(unidirectional.into())
        .stream_receive_window(WINDOWS.0.into())
        .receive_window(WINDOWS.1.into())
        .send_window(UNACKNOWLEDGED)
        // Answers leave in the order in which they were made, each whole.
        .send_fairness(false)
        // More than a day of idleness is none that QUIC can state; the listener closes before.
        .max_idle_timeout(IdleTimeout::try_from(idle + SILENCE).ok())
        .datagram_receive_buffer_size(None);
    limits
}

#[cfg(test)]
mod tests {
    use super::{most_connections, most_streams, pool_size};

    #[test]
    fn terms_have_their_defaults() {
        for (stated, streams, connections, pool) in [
            (None, 256, Some(200), 1024),
            (Some(0), 100, None, 0),
            (Some(7), 7, Some(7), 7),
            (Some(1 << 20), 1 << 16, Some(1 << 20), 1 << 20),
        ] {
            let terms = (most_streams(stated), most_connections(stated), pool_size(stated));
            assert_eq!(terms, (streams, connections, pool), "{stated:?}");
        }
    }
}
