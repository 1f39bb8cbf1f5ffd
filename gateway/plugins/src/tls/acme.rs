//! Certificates by ACME: what the properties say, and one manager a domain.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use certs::{Acme, Answers, Challenge, ClientAuth, LETS_ENCRYPT, Resolve, Source};
use config::{Diagnostic, Word};
use engine::{Setup, Stage};

use super::TARGET;
use super::challenge::{Page, Records};
use super::setup::wrong;
use crate::shared::{listen, resolve};

/// The folder of the data directory that everything is kept in.
const FOLDER: &str = "acme";

/// Where the pages of http-01 are (RFC 8555 §8.3).
const PAGES: &str = "/.well-known/acme-challenge/";

/// What the properties say, each with the word that it begins with.
#[derive(Debug, Default)]
pub(super) struct Wanted {
    pub(super) domains: Option<(Word, Vec<Word>)>,
    pub(super) email: Option<(Word, Word)>,
    pub(super) directory: Option<(Word, Word)>,
    pub(super) storage: Option<(Word, Word)>,
    pub(super) ca_root: Option<(Word, Word)>,
    pub(super) resolver: Option<(Word, Word)>,
    pub(super) challenge: Option<(Word, Way)>,
}

/// How domains are shown to be ours, as it is written.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) word: Word,
    pub(super) challenge: Challenge,
    /// Where its page is.
    pub(super) page: Option<Word>,
}

impl Wanted {
    /// Refuses properties of ACME where it is not asked for.
    pub(super) fn refuse_alone(&self) -> Result<(), Diagnostic> {
        let all = [&self.email, &self.directory, &self.storage, &self.ca_root, &self.resolver];
        let first = all.into_iter().flatten().map(|(name, _)| name).next();
        match first.or_else(|| self.challenge.as_ref().map(|(name, _)| name)) {
            None => Ok(()),
            Some(name) => {
                Err(name.wrong("is a property of ACME").help("write a line: acme DOMAIN..."))
            }
        }
    }
}

/// The certificates of the domains, each one's its own, and a text that tells them from all else. They are obtained from when the
/// configuration goes live.
pub(super) fn sources(
    setup: &mut Setup<'_>,
    wanted: &Wanted,
    mode: ClientAuth,
) -> Result<(Vec<Source>, String), Diagnostic> {
    let words = wanted.domains.as_ref().map(|(_, words)| &**words).unwrap_or_default();
    let (challenge, page) = challenge(wanted, mode)?;
    let directory = match &wanted.directory {
        None => LETS_ENCRYPT.to_owned(),
        Some((_, word)) => url(word)?,
    };
    let email = wanted.email.as_ref().map(|(_, word)| email(word)).transpose()?;
    let resolver = wanted.resolver.as_ref().map(|(_, word)| resolver(word)).transpose()?;
    let storage = match &wanted.storage {
        None => setup.process().data_dir.join(FOLDER),
        Some((_, word)) => setup.path(&word.text),
    };
    let ca_root = wanted.ca_root.as_ref().map(|(_, word)| setup.path(&word.text));
    let options = format!(
        "{email:?} {directory} {storage:?} {ca_root:?} {resolver:?} {challenge:?} {page:?}"
    );
    let answers = setup.share("answers", || Ok(Arc::new(Answers::default())))?;
    let (mut sources, mut told): (Vec<Source>, String) = (Vec::new(), options.clone());
    let mut seen = Vec::new();
    for word in words {
        let domain = domain(word, challenge)?;
        if seen.contains(&domain) {
            continue;
        }
        if setup.note(domain.clone(), options.clone()) != options {
            return Err(word
                .wrong("has other options of ACME in another block")
                .help("a domain has one certificate: write the same options in both blocks"));
        }
        let source = setup.share(&format!("acme {domain} {options}"), || {
            let acme = Acme {
                domain: domain.clone(),
                email: email.clone(),
                directory: directory.clone(),
                storage: storage.clone(),
                ca_root: ca_root.clone(),
                resolve: resolver.clone().map(|(host, port)| asks(host, port)),
                challenge,
                answers: Arc::clone(&answers),
            };
            let at = wanted.ca_root.as_ref().map_or(word, |(_, word)| word);
            Source::acme(acme, TARGET).map(Arc::new).map_err(|error| wrong(at, error))
        })?;
        let run = Arc::clone(&source);
        setup.task(move |mut stop| async move {
            run.run(async move { stop.reached(Stage::Draining).await }).await;
        });
        told.push_str(&format!(" {domain}"));
        sources.push(Source::clone(&source));
        seen.push(domain);
    }
    match (challenge, page) {
        (Challenge::Dns, _) => Records::install(setup, answers),
        (Challenge::Http, Some(addr)) => {
            let mut pages = setup.pages().iter();
            if !pages.any(|page| page.addr == addr && page.is::<Page>().is_some()) {
                setup.admin(addr, PAGES, Arc::new(Page::new(PAGES, answers)));
            }
        }
        (Challenge::Http, None) | (Challenge::TlsAlpn, _) => {}
    }
    Ok((sources, told))
}

/// How domains are shown to be ours, and for http-01 where its pages are.
fn challenge(
    wanted: &Wanted,
    mode: ClientAuth,
) -> Result<(Challenge, Option<SocketAddr>), Diagnostic> {
    let Some((_, Way { word, challenge, page })) = &wanted.challenge else {
        return Ok((Challenge::Dns, None));
    };
    match challenge {
        Challenge::Dns => Ok((Challenge::Dns, None)),
        Challenge::Http => {
            let any = SocketAddr::from((Ipv6Addr::UNSPECIFIED, 80));
            let addr = page.as_ref().map(listen::read).transpose()?;
            Ok((Challenge::Http, Some(addr.unwrap_or(any))))
        }
        // The CA has no certificate to show.
        Challenge::TlsAlpn
            if matches!(mode, ClientAuth::Require | ClientAuth::RequireAndVerify) =>
        {
            Err(word
                .wrong(format!(
                    "cannot work with client_auth {}: the CA shows no certificate",
                    mode.word()
                ))
                .help("use dns-01 or http-01"))
        }
        Challenge::TlsAlpn => Ok((Challenge::TlsAlpn, None)),
    }
}

/// A domain in the form that CAs take.
fn domain(word: &Word, challenge: Challenge) -> Result<String, Diagnostic> {
    let text = word.text.strip_suffix('.').unwrap_or(&word.text);
    let (bare, is_wildcard) = match text.strip_prefix("*.") {
        Some(bare) => (bare, true),
        None => (text, false),
    };
    if bare.trim_matches(['[', ']']).parse::<IpAddr>().is_ok() {
        return Err(word.wrong("is an address: certificates by ACME are for domains"));
    }
    let name = hickory_proto::rr::Name::from_utf8(bare).ok();
    let name = name.map(|name| name.to_ascii().trim_end_matches('.').to_ascii_lowercase());
    let is_host = |name: &String| {
        let mut labels = name.split('.');
        name.contains('.')
            && labels.all(|label| {
                let good = |octet: u8| octet.is_ascii_alphanumeric() || octet == b'-';
                !label.is_empty() && label.bytes().all(good) && !label.starts_with('-')
            })
    };
    let name = name.filter(is_host).ok_or_else(|| {
        word.wrong("is no domain that a CA can look at")
            .help("such as dns.example.org or *.example.org")
    })?;
    match (is_wildcard, challenge) {
        (true, Challenge::Http | Challenge::TlsAlpn) => Err(word
            .wrong(format!("is a wildcard, which {} is not for", challenge.name()))
            .help("use dns-01, or name each domain")),
        (true, Challenge::Dns) => Ok(format!("*.{name}")),
        (false, _) => Ok(name),
    }
}

/// The address of a CA's directory.
fn url(word: &Word) -> Result<String, Diagnostic> {
    let wrong = || {
        word.wrong("is no https URL")
            .help(format!("the address of the CA's directory, such as {LETS_ENCRYPT}"))
    };
    let rest = word.text.strip_prefix("https://").ok_or_else(wrong)?;
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let is_host = |sign: char| sign.is_ascii_alphanumeric() || "-._[]:".contains(sign);
    let is_port = |port: &str| port.parse::<u16>().is_ok_and(|port| port != 0);
    if host.is_empty() || !host.chars().all(is_host) || !port.is_none_or(is_port) {
        return Err(wrong());
    }
    if !word.text.bytes().all(|octet| octet.is_ascii_graphic()) {
        return Err(wrong());
    }
    Ok(word.text.clone())
}

/// An address of mail.
fn email(word: &Word) -> Result<String, Diagnostic> {
    let text = word.text.strip_prefix("mailto:").unwrap_or(&word.text);
    let is_good = text.split_once('@').is_some_and(|(who, host)| {
        !who.is_empty() && host.contains('.') && text.bytes().all(|octet| octet.is_ascii_graphic())
    });
    if is_good { Ok(text.to_owned()) } else { Err(word.wrong("is no address of mail")) }
}

/// The host and port of a resolver.
fn resolver(word: &Word) -> Result<(String, u16), Diagnostic> {
    let wrong =
        || word.wrong("is not HOST:PORT").help("such as 198.51.100.53:53 or [2001:db8::53]:53");
    let (host, port) = word.text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse::<u16>().ok().filter(|port| *port != 0).ok_or_else(wrong)?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(bare) if bare.parse::<Ipv6Addr>().is_ok() => Ok((bare.to_owned(), port)),
        None if !host.is_empty() && !host.contains(':') => Ok((host.to_owned(), port)),
        _ => Err(wrong()),
    }
}

/// Asks a resolver for the addresses of the CA's server.
fn asks(host: String, port: u16) -> Resolve {
    Arc::new(move |name| {
        let host = host.clone();
        Box::pin(async move {
            let looked = tokio::task::spawn_blocking(move || {
                let resolvers: Vec<SocketAddr> = (&*host, port).to_socket_addrs()?.collect();
                resolve::ask_each(&name, &resolvers).map_err(std::io::Error::other)
            });
            looked.await.map_err(std::io::Error::other)?
        })
    })
}
