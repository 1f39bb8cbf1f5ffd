//! A server that speaks etcd's API as far as it is needed, and misbehaves on demand.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use h2::server::SendResponse;
use http::{HeaderMap, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpStream};

use super::super::proto::{
    AuthenticateRequest, AuthenticateResponse, KeyValue, RangeRequest, RangeResponse,
    TimeToLiveRequest, TimeToLiveResponse,
};

/// What the stub does beside its duty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Mood {
    /// Nothing.
    #[default]
    Good,
    /// It never answers.
    Silent,
    /// It ends calls with this state.
    State(u32),
    /// It answers with a status of HTTP.
    Http(u16),
    /// Its message is shorter than it says.
    Short,
    /// Its message is said to be compressed.
    Packed,
    /// Its message is none of etcd's.
    Garbage,
    /// It has no state behind the message.
    Stateless,
    /// It closes the connection.
    Gone,
}

/// What the stub holds.
#[derive(Debug, Default)]
struct Held {
    keys: BTreeMap<Vec<u8>, (Vec<u8>, i64)>,
    /// How long leases have, in seconds.
    leases: BTreeMap<i64, i64>,
    /// The password of the user `dns`, if it asks for one.
    password: Option<String>,
    /// The number of the token that counts.
    token: usize,
    mood: Mood,
}

/// A stub. Its connections end with the test's runtime.
#[derive(Clone, Debug)]
pub(super) struct Stub {
    port: u16,
    held: Arc<Mutex<Held>>,
    /// Calls by kind: ranges, leases, passwords.
    pub(super) calls: Arc<[AtomicUsize; 3]>,
}

impl Stub {
    /// One that holds these keys below `/skydns`.
    pub(super) async fn new(keys: &[(&str, &str)]) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let stub = Self { port, held: Arc::default(), calls: Arc::default() };
        for (key, value) in keys {
            stub.put(key, value, 0);
        }
        let serving = stub.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        stub
    }

    /// Where it is.
    pub(super) fn endpoint(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Sets a key below `/skydns`, with a lease if that is not 0.
    pub(super) fn put(&self, key: &str, value: &str, lease: i64) {
        let key = format!("/skydns{key}").into_bytes();
        self.held.lock().unwrap().keys.insert(key, (value.as_bytes().to_vec(), lease));
    }

    /// Gives a lease so many seconds.
    pub(super) fn lease(&self, lease: i64, seconds: i64) {
        self.held.lock().unwrap().leases.insert(lease, seconds);
    }

    /// Asks for this password from now on; tokens of before count no more.
    pub(super) fn protect(&self, password: &str) {
        let mut held = self.held.lock().unwrap();
        held.password = Some(password.to_owned());
        held.token += 1;
    }

    /// Changes its mood.
    pub(super) fn be(&self, mood: Mood) {
        self.held.lock().unwrap().mood = mood;
    }

    /// How many calls of a kind there were.
    pub(super) fn count(&self, kind: usize) -> usize {
        self.calls[kind].load(Ordering::Relaxed)
    }

    /// Serves a connection.
    async fn serve(self, stream: TcpStream) {
        let Ok(mut connection) = h2::server::handshake(stream).await else { return };
        while let Some(Ok((request, out))) = connection.accept().await {
            let mood = self.held.lock().unwrap().mood;
            if mood == Mood::Gone {
                return;
            }
            let stub = self.clone();
            tokio::spawn(async move {
                let (head, mut body) = request.into_parts();
                let mut octets = Vec::new();
                while let Some(Ok(data)) = body.data().await {
                    octets.extend_from_slice(&data);
                    body.flow_control().release_capacity(data.len()).unwrap();
                }
                assert_eq!(head.headers["content-type"], "application/grpc");
                assert!(head.headers["grpc-timeout"].to_str().unwrap().ends_with('m'));
                let token =
                    head.headers.get("token").map(|token| token.to_str().unwrap().to_owned());
                let said = stub.say(head.uri.path(), &octets[5..], token.as_deref());
                reply(out, mood, said).await;
            });
        }
    }

    /// What it says to a call: a message, or a state and words.
    fn say(
        &self,
        method: &str,
        message: &[u8],
        token: Option<&str>,
    ) -> Result<Vec<u8>, (u32, &'static str)> {
        let held = self.held.lock().unwrap();
        let right = format!("token-{}", held.token);
        let kind = match method {
            "/etcdserverpb.KV/Range" => 0,
            "/etcdserverpb.Lease/LeaseTimeToLive" => 1,
            "/etcdserverpb.Auth/Authenticate" => 2,
            other => panic!("{other}"),
        };
        self.calls[kind].fetch_add(1, Ordering::Relaxed);
        if kind == 2 {
            let AuthenticateRequest { name, password } = Message::decode(message).unwrap();
            return match &held.password {
                Some(own) if name == "dns" && password == *own => {
                    Ok(AuthenticateResponse { token: right }.encode_to_vec())
                }
                _ => Err((3, "etcdserver: authentication failed, invalid user ID or password")),
            };
        }
        if held.password.is_some() {
            match token {
                None => return Err((3, "etcdserver: user name is empty")),
                Some(token) if token != right => {
                    return Err((16, "etcdserver: invalid auth token"));
                }
                Some(_) => {}
            }
        }
        if kind == 1 {
            let TimeToLiveRequest { id } = Message::decode(message).unwrap();
            let ttl = held.leases.get(&id).copied().unwrap_or(-1);
            return Ok(TimeToLiveResponse { ttl }.encode_to_vec());
        }
        let RangeRequest { key, range_end, limit } = Message::decode(message).unwrap();
        assert!(limit > 0);
        let is_in = |other: &&Vec<u8>| match range_end.is_empty() {
            true => **other == key,
            false => **other >= key && **other < range_end,
        };
        let found = held.keys.iter().filter(|(key, _)| is_in(key));
        let kvs = found.map(|(key, (value, lease))| KeyValue {
            key: key.clone(),
            value: value.clone(),
            lease: *lease,
        });
        Ok(RangeResponse { kvs: kvs.collect() }.encode_to_vec())
    }
}

/// Sends what is said, in a mood.
async fn reply(
    mut out: SendResponse<Bytes>,
    mood: Mood,
    said: Result<Vec<u8>, (u32, &'static str)>,
) {
    let head =
        |status: u16| Response::builder().status(status).header("content-type", "application/grpc");
    let said = match mood {
        Mood::Silent => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            return;
        }
        Mood::Http(status) => {
            out.send_response(head(status).body(()).unwrap(), true).unwrap();
            return;
        }
        Mood::State(state) => Err((state, "as%20told%0A")),
        _ => said,
    };
    let message = match said {
        Ok(message) => message,
        // A call that fails has no more than a head.
        Err((state, words)) => {
            let head = head(200).header("grpc-status", state).header("grpc-message", words);
            out.send_response(head.body(()).unwrap(), true).unwrap();
            return;
        }
    };
    let message = if mood == Mood::Garbage { vec![0xff; 9] } else { message };
    let mut body = vec![u8::from(mood == Mood::Packed)];
    let len = message.len() as u32 + u32::from(mood == Mood::Short);
    body.extend(len.to_be_bytes());
    body.extend(message);
    let mut stream = out.send_response(head(200).body(()).unwrap(), false).unwrap();
    stream.send_data(body.into(), mood == Mood::Stateless).unwrap();
    if mood != Mood::Stateless {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", "0".parse().unwrap());
        stream.send_trailers(trailers).unwrap();
    }
}
