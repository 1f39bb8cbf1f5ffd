//! `dnstap [listen] SOCKET [full] [WRITEBUF] [QUEUE] { … }`.

use std::path::PathBuf;
use std::sync::Arc;

use certs::{ClientAuth, ClientTls, Options, ServerTls, Source};
use config::{Diagnostic, Directive, Prop, Word, Words};
use engine::{Role, Setup};

use super::TARGET;
use super::feed::Feed;
use super::handler::Tap;
use super::listen::{self, Inlet};
use super::message::Sender;
use super::outlet::{self, Outlet};
use crate::shared::host;
use crate::shared::replacer::Format;

/// The octets of one step of WRITEBUF.
const MEBIBYTE: usize = 1 << 20;

/// The messages of one step of QUEUE.
const MESSAGES: usize = 10_000;

/// What the block says.
#[derive(Debug, Default)]
struct Config {
    identity: Option<String>,
    version: Option<String>,
    extra: Option<String>,
    skip_verify: bool,
    tls: Option<(Word, Files)>,
}

/// The files of a listener's TLS, as named.
#[derive(Clone, Debug)]
struct Files {
    chain: PathBuf,
    key: PathBuf,
    ca: Option<PathBuf>,
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop { name: "identity", words: "IDENTITY", set: |c, w| set(&mut c.identity, w) },
    Prop { name: "version", words: "VERSION", set: |c, w| set(&mut c.version, w) },
    Prop { name: "extra", words: "FORMAT", set: |c, w| set(&mut c.extra, w) },
    Prop {
        name: "skipverify",
        words: "",
        set: |c, _| {
            c.skip_verify = true;
            Ok(())
        },
    },
    Prop { name: "tls", words: "CERT KEY [CA]", set: set_tls },
];

/// Takes a word.
fn set(text: &mut Option<String>, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    *text = Some(words.one()?.text.clone());
    Ok(())
}

/// `tls CERT KEY [CA]`.
fn set_tls(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let name = words.name().clone();
    let path = |word: &Word| PathBuf::from(&*word.text);
    let (chain, key) = (path(words.one()?), path(words.one()?));
    let ca = words.maybe().map(path);
    config.tls = Some((name, Files { chain, key, ca }));
    Ok(())
}

/// Where messages go.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Socket {
    /// A socket in the file system.
    Unix(PathBuf),
    /// HOST:PORT.
    Tcp(String),
    /// HOST:PORT, by TLS.
    Tls(String),
}

impl Socket {
    /// Reads SOCKET.
    fn read(text: &str) -> Self {
        // What a URL has behind its host means nothing here.
        let host = |rest: &str| rest.split('/').next().unwrap_or_default().to_owned();
        if let Some(rest) = text.strip_prefix("tcp://") {
            return Self::Tcp(host(rest));
        }
        if let Some(rest) = text.strip_prefix("tls://") {
            return Self::Tls(host(rest));
        }
        Self::Unix(text.strip_prefix("unix://").unwrap_or(text).into())
    }
}

/// What a directive says.
#[derive(Debug)]
struct Line {
    listen: bool,
    socket: Socket,
    /// SOCKET as it is written.
    text: String,
    full: bool,
    /// The size of the socket's buffer, in octets.
    buffer: usize,
    /// How many messages may wait.
    queue: usize,
}

/// Makes the block's directives.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    for directive in setup.directives() {
        let line = line(setup, directive)?;
        let mut config = Config::default();
        directive.read_block(PROPS, &mut config)?;
        if let Some((word, _)) = config.tls.as_ref().filter(|_| !line.listen) {
            let wrong = word.fault("'tls' is for `dnstap listen`");
            return Err(wrong.help("a sink that is connected to is checked by the system's CAs"));
        }
        let Some(feed) = feed(setup, directive, &line, &config)? else { continue };
        let extra = config.extra.as_deref().filter(|text| !text.is_empty()).map(Format::read);
        let tap = Tap { feed, extra, metadata: setup.metadata() };
        setup.offer(Role::Tap(Arc::new(tap.clone())));
        setup.observe(tap);
    }
    Ok(())
}

/// Reads the words of the line.
fn line(setup: &mut Setup<'_>, directive: &Directive) -> Result<Line, Diagnostic> {
    let mut words = directive.words();
    let mut word = words.one()?;
    let listen = word.text == *"listen";
    if listen {
        word = words.one()?;
    }
    let socket = Socket::read(&word.text);
    if let Socket::Tcp(host) | Socket::Tls(host) = &socket
        && host.rsplit_once(':').is_none_or(|(_, port)| port.parse::<u16>().is_err())
    {
        let odd = word.wrong("has no port, so there will be no connection");
        setup.warn(odd.help("write tcp://HOST:PORT or tls://HOST:PORT"));
    }
    let text = word.text.to_string();
    let second = words.maybe();
    let full = second.is_some_and(|word| word.text == *"full");
    if let Some(word) = second.filter(|_| !full) {
        setup.warn(word.wrong("is not `full`: messages go without their octets"));
    }
    let buffer = steps(&mut words, 1024, "mebibytes")?.saturating_mul(MEBIBYTE);
    let queue = steps(&mut words, 4096, "times 10000 messages")?.saturating_mul(MESSAGES);
    if let Some(word) = words.maybe() {
        setup.warn(word.wrong("is passed over"));
    }
    Ok(Line { listen, socket, text, full, buffer, queue })
}

/// Takes a number from 1 to `most`, 1 if there is no word.
fn steps(words: &mut Words<'_>, most: usize, of: &str) -> Result<usize, Diagnostic> {
    let Some(word) = words.maybe() else { return Ok(1) };
    let number = word.text.parse().ok().filter(|number| (1..=most).contains(number));
    number.ok_or_else(|| word.wrong(format_args!("is no number from 1 to {most} ({of})")))
}

/// Who empties a queue.
enum End {
    /// One that connects.
    Out(outlet::Place),
    /// One that listens.
    In(listen::Place),
}

/// The queue of a directive, and who empties it; none if nobody can.
fn feed(
    setup: &mut Setup<'_>,
    directive: &Directive,
    line: &Line,
    config: &Config,
) -> Result<Option<Arc<Feed>>, Diagnostic> {
    let process = Arc::clone(setup.process());
    let sender = Sender {
        identity: config.identity.clone().unwrap_or_else(host::hostname),
        version: config.version.clone().unwrap_or_else(|| process.program()),
    };
    // The format is of the block, all else of the queue.
    let key = format!(
        "dnstap {line:?} {sender:?} {} {:?}",
        config.skip_verify,
        config.tls.as_ref().map(|(_, files)| files)
    );
    let end = match (&line.socket, line.listen) {
        (Socket::Unix(path), false) => End::Out(outlet::Place::Unix(path.clone())),
        (Socket::Tcp(host), false) => End::Out(outlet::Place::Tcp(host.clone())),
        (Socket::Tls(host), false) => {
            let tls = client(setup, directive, config)?;
            End::Out(outlet::Place::Tls(host.clone(), tls.config(&[])))
        }
        (Socket::Unix(path), true) => End::In(listen::Place::Unix(path.clone())),
        (Socket::Tcp(host), true) => End::In(listen::Place::Tcp(host.clone())),
        (Socket::Tls(host), true) => {
            let Some((word, files)) = &config.tls else {
                let odd = directive
                    .name
                    .fault("a listener of TLS needs a certificate and its key: nobody listens");
                setup.warn(odd.help("write `tls CERT KEY [CA]` in the block"));
                return Ok(None);
            };
            let tls = server(setup, word, files, config.skip_verify)?;
            End::In(listen::Place::Tls(host.clone(), tls.stream(&[], None)))
        }
    };
    let feed =
        setup.share(&key, || Ok(Feed::new(&line.text, line.queue, line.full, !line.listen)))?;
    let (begun, buffer) = (Arc::clone(&feed), line.buffer);
    setup.task(move |_| {
        // Whoever comes first with this configuration or one before empties it; it ends when nobody feeds it.
        let notes = begun.take();
        let board = Arc::clone(&begun.board);
        drop(begun);
        let (stop, _linger) = (process.stop(), process.linger());
        async move {
            match (notes, end) {
                (None, _) => {}
                (Some(notes), End::Out(place)) => {
                    Outlet { place, sender, buffer, notes, board, stop, _linger }.run().await;
                }
                (Some(notes), End::In(place)) => {
                    Inlet { place, sender, notes, board, stop, _linger }.run().await;
                }
            }
        }
    });
    Ok(Some(feed))
}

/// What a sink is checked by.
fn client(
    setup: &mut Setup<'_>,
    directive: &Directive,
    config: &Config,
) -> Result<Arc<ClientTls>, Diagnostic> {
    match config.skip_verify {
        true => setup.share("dnstap unchecked", || Ok(ClientTls::unchecked())),
        false => crate::shared::client_tls::open(setup, None).map_err(|mut wrong| {
            wrong.place.get_or_insert_with(|| directive.name.place.clone());
            wrong
        }),
    }
}

/// The certificate of a listener, and who may connect.
fn server(
    setup: &mut Setup<'_>,
    word: &Word,
    files: &Files,
    skip_verify: bool,
) -> Result<Arc<ServerTls>, Diagnostic> {
    let wrong = |error: certs::Error| {
        let wrong = word.fault(format!("tls: {error}"));
        match error.help {
            Some(help) => wrong.help(help),
            None => wrong,
        }
    };
    let client_auth = match (&files.ca, skip_verify) {
        (None, _) => ClientAuth::None,
        (Some(_), true) => ClientAuth::VerifyIfGiven,
        (Some(_), false) => ClientAuth::RequireAndVerify,
    };
    let key = format!("dnstap server {files:?} {client_auth:?}");
    setup.share(&key, || {
        let source =
            Source::files(files.chain.clone(), files.key.clone(), TARGET).map_err(wrong)?;
        let options = Options {
            sources: vec![source],
            client_auth,
            client_ca: files.ca.clone(),
            keylog: None,
            target: TARGET,
        };
        ServerTls::new(options).map_err(wrong)
    })
}
