//! A scripted upstream on loopback, for tests.
#![allow(clippy::unwrap_used)]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use wire::{Answer, Flags, Reply, Request, text};

/// A query that came.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    /// Its parts.
    pub(crate) request: Request,
    /// Its bytes.
    pub(crate) wire: Vec<u8>,
    /// Whether it came by TCP.
    pub(crate) tcp: bool,
    /// How many came before.
    pub(crate) number: usize,
}

impl Asked {
    /// `WWW.example.org. A udp rd ad do size=1232 OPT 10`, the name as it was spelled.
    pub(crate) fn line(&self) -> String {
        let len = self.request.name.wire().len();
        let (name, kind) =
            (text::name_text(&self.wire[12..12 + len]), text::type_name(self.request.rtype));
        let mut line = format!("{name} {kind} {}", if self.tcp { "tcp" } else { "udp" });
        for (flag, word) in [(Flags::RD, " rd"), (Flags::AD, " ad"), (Flags::CD, " cd")] {
            if self.request.flags.has(flag) {
                line.push_str(word);
            }
        }
        if self.request.edns.present {
            if self.request.edns.dnssec_ok() {
                line.push_str(" do");
            }
            line.push_str(&format!(" size={}", self.request.edns.size));
            for (code, _) in self.request.edns.options.iter() {
                line.push_str(&format!(" OPT {code}"));
            }
        }
        line
    }

    /// The first label of the name.
    pub(crate) fn label(&self) -> String {
        String::from_utf8(self.request.name.each_label().next().unwrap_or_default().to_vec())
            .unwrap()
    }
}

/// What the upstream does with a query.
pub(crate) enum Say {
    /// Sends the answer.
    Answer,
    /// Sends these messages.
    Raw(Vec<Vec<u8>>),
    /// Nothing.
    Nothing,
}

/// A scripted upstream, and what it was asked.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    /// Where it listens, by UDP and TCP.
    pub(crate) addr: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Scripted {
    /// Starts one. The script fills an answer that has RA, RD and CD set as usual.
    pub(crate) async fn start(
        script: impl Fn(&Asked, &mut Answer) -> Say + Send + Sync + 'static,
    ) -> Self {
        let (listener, socket) = loop {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
            if let Ok(socket) = UdpSocket::bind(listener.local_addr().unwrap()).await {
                break (listener, socket);
            }
        };
        let addr = listener.local_addr().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&seen);
        let script = Arc::new(move |wire: &[u8], tcp: bool| {
            let mut request = Request::default();
            request.read(wire).unwrap();
            let number = noted.lock().unwrap().len();
            let asked = Asked { request, wire: wire.to_vec(), tcp, number };
            noted.lock().unwrap().push(asked.line());
            let mut answer = Answer::default();
            answer.flags = asked.request.flags.only(Flags::RD.with(Flags::CD)).with(Flags::RA);
            match script(&asked, &mut answer) {
                Say::Nothing => Vec::new(),
                Say::Raw(messages) => messages,
                Say::Answer => vec![encode(&asked, &answer)],
            }
        });
        let for_tcp = Arc::clone(&script);
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((len, peer)) = socket.recv_from(&mut buffer).await {
                for message in script(&buffer[..len], false) {
                    socket.send_to(&message, peer).await.unwrap();
                }
            }
        });
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let script = Arc::clone(&for_tcp);
                tokio::spawn(async move {
                    while let Ok(len) = stream.read_u16().await {
                        let mut query = vec![0; usize::from(len)];
                        stream.read_exact(&mut query).await.unwrap();
                        for message in script(&query, true) {
                            stream.write_u16(message.len() as u16).await.unwrap();
                            stream.write_all(&message).await.unwrap();
                        }
                    }
                });
            }
        });
        Self { addr, seen }
    }

    /// What it was asked since the last time.
    pub(crate) fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.seen.lock().unwrap())
    }

    /// How often it was asked since the last time.
    pub(crate) fn count(&self) -> usize {
        self.seen().len()
    }
}

/// The answer as a message.
pub(crate) fn encode(asked: &Asked, answer: &Answer) -> Vec<u8> {
    let mut out = Vec::new();
    let reply = Reply {
        query: &asked.wire,
        question_len: asked.request.name.wire().len() + 4,
        limit: 65535,
        edns: &asked.request.edns,
        udp_size: 1232,
        reserve: 0,
        pad: 0,
    };
    wire::encode(answer, &reply, &mut out);
    out
}
