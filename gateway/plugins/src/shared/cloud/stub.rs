//! A server of an API in a test: answers as a function says, on threads of its own, so that a set-up may wait for it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    /// `GET` or `POST`.
    pub(crate) method: String,
    /// The path with the query.
    pub(crate) path: String,
    /// The lines of the header, the names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The body.
    pub(crate) body: String,
}

impl Asked {
    /// A line of the header.
    pub(crate) fn header(&self, name: &str) -> &str {
        let line = self.headers.iter().find(|(own, _)| own == name);
        line.map(|(_, value)| &**value).unwrap_or_default()
    }
}

/// How a request is answered.
#[derive(Clone, Debug)]
pub(crate) enum Reply {
    /// With a status and a body.
    Status(u16, String),
    /// The same with a line in the header.
    With(u16, &'static str, String),
    /// Not at all.
    Silence,
    /// By closing the connection.
    Close,
}

impl Reply {
    /// A success.
    pub(crate) fn ok(body: impl Into<Text>) -> Self {
        Self::Status(200, body.into().0)
    }
}

/// A text, or JSON as one.
pub(crate) struct Text(pub(crate) String);

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text)
    }
}

impl From<serde_json::Value> for Text {
    fn from(value: serde_json::Value) -> Self {
        Self(value.to_string())
    }
}

/// What answers.
type Answers = Arc<Mutex<dyn FnMut(&Asked) -> Reply + Send>>;

/// A server, up to the end of the test.
pub(crate) struct Stub {
    addr: SocketAddr,
    answers: Arc<Mutex<Answers>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Stub {
    /// One that answers so.
    pub(crate) fn new(answers: impl FnMut(&Asked) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let answers: Answers = Arc::new(Mutex::new(answers));
        let stub = Self { addr, answers: Arc::new(Mutex::new(answers)), asked: Arc::default() };
        let (answers, asked) = (Arc::clone(&stub.answers), Arc::clone(&stub.asked));
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answers, asked) = (Arc::clone(&answers), Arc::clone(&asked));
                std::thread::spawn(move || serve(stream, &answers, &asked));
            }
        });
        stub
    }

    /// Has it answer otherwise from now on.
    pub(crate) fn answer(&self, answers: impl FnMut(&Asked) -> Reply + Send + 'static) {
        *self.answers.lock().unwrap() = Arc::new(Mutex::new(answers));
    }

    /// Its address: `http://127.0.0.1:PORT`.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }

    /// What it was asked since the last call.
    pub(crate) fn asked(&self) -> Vec<Asked> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

/// Serves a connection.
fn serve(stream: TcpStream, answers: &Mutex<Answers>, all: &Mutex<Vec<Asked>>) {
    let mut reader = BufReader::new(stream);
    while let Some(asked) = read(&mut reader) {
        all.lock().unwrap().push(asked.clone());
        let answers = Arc::clone(&answers.lock().unwrap());
        let reply = (answers.lock().unwrap())(&asked);
        let (status, line, body) = match reply {
            Reply::Status(status, body) => (status, "x-stub: 1", body),
            Reply::With(status, line, body) => (status, line, body),
            Reply::Silence => {
                std::thread::sleep(Duration::from_secs(60));
                return;
            }
            Reply::Close => return,
        };
        let head =
            format!("HTTP/1.1 {status} x\r\n{line}\r\ncontent-length: {}\r\n\r\n", body.len());
        if reader.get_mut().write_all(format!("{head}{body}").as_bytes()).is_err() {
            return;
        }
    }
}

/// Reads a request; none at the end of the connection.
fn read(reader: &mut BufReader<TcpStream>) -> Option<Asked> {
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let mut asked = Asked {
        method: words.next()?.to_owned(),
        path: words.next()?.to_owned(),
        ..Asked::default()
    };
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        asked.headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let length = asked.header("content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    asked.body = String::from_utf8(body).ok()?;
    Some(asked)
}
