//! The name servers that `nameserver` states, for a gateway outside the cluster.

use std::net::IpAddr;

use config::{Diagnostic, Word, Words};
use wire::{Name, Section, rtype};

use super::lookup::Look;
use crate::shared::cluster::{Found, NAME_SERVER};
use crate::shared::sheet::Sheet;

/// A name server.
#[derive(Debug)]
pub(super) struct Server {
    /// Where it is stated.
    word: Word,
    /// Its name.
    name: Name,
    /// Its addresses.
    ips: Vec<IpAddr>,
}

/// The stated name servers, in order; empty where the cluster's own are found out.
#[derive(Debug, Default)]
pub(super) struct Servers(Vec<Server>);

impl Servers {
    /// Reads the words of `nameserver`; more words about one server are its further addresses.
    ///
    /// # Errors
    /// A name that is none, and an address that is none.
    pub(super) fn read(&mut self, words: &mut Words<'_>) -> Result<(), Diagnostic> {
        let word = words.one()?.clone();
        let name = Name::parse(&word.text)
            .filter(|name| !name.is_root() && word.text.parse::<IpAddr>().is_err());
        let Some(name) = name else {
            let wrong = word.wrong("is no name of a server");
            return Err(wrong.help("write: nameserver NAME [ADDRESS...]"));
        };
        let mut ips = Vec::new();
        for word in words.rest() {
            let ip: IpAddr = word.text.parse().map_err(|_| {
                word.wrong("is no IP address").help("write: nameserver NAME [ADDRESS...]")
            })?;
            ips.push(ip);
        }
        match self.0.iter_mut().find(|server| server.name == name) {
            Some(server) => server.ips.append(&mut ips),
            None => self.0.push(Server { word, name, ips }),
        }
        Ok(())
    }

    /// Refuses a server inside the zones that nobody would find: its addresses are asked of this gateway (RFC 1034 §4.2.1).
    ///
    /// # Errors
    /// Such a server.
    pub(super) fn check(&self, zones: &[Name]) -> Result<(), Diagnostic> {
        let inside = |server: &&Server| zones.iter().any(|zone| server.name.below(zone).is_some());
        match self.0.iter().filter(inside).find(|server| server.ips.is_empty()) {
            Some(server) => {
                let wrong = server.word.wrong("is in the zone itself, and has no address");
                Err(wrong.help("write its addresses behind the name"))
            }
            None => Ok(()),
        }
    }

    /// Whether any is stated.
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// The names of those in a zone.
    pub(super) fn within<'s>(&'s self, zone: &'s Name) -> impl Iterator<Item = &'s Name> {
        self.0.iter().map(|server| &server.name).filter(|name| name.below(zone).is_some())
    }

    /// The labels of the first, and the zone's behind them where they are below it: what the zone's SOA record names first.
    pub(super) fn first<'s>(&'s self, zone: &'s [u8]) -> [&'s [u8]; 2] {
        self.0.first().map_or([NAME_SERVER, zone], |server| [server.name.wire(), b""])
    }
}

impl Look<'_> {
    /// Writes the records of a stated server's name, whatever else the cluster would have there, and of the zone's apex; none if
    /// the name is neither. A name above a server's own is there too, if only by that (RFC 8020 §2).
    pub(super) fn stated_server(&self, head: &[u8], sheet: &mut Sheet<'_>) -> Option<Found> {
        let servers = &self.cluster.servers.0;
        // A server may have the zone's own name, which has more than addresses.
        let own = matches!(self.rtype, rtype::A | rtype::AAAA) || !head.is_empty();
        if let Some(server) = servers.iter().find(|server| own && server.name == *self.name) {
            server.ips.iter().for_each(|ip| self.pen().address(sheet, *ip));
            return Some(Found::Name);
        }
        if head.is_empty() && self.rtype == rtype::NS && !servers.is_empty() {
            for server in servers {
                let zone = self.zone.wire();
                sheet.add(Section::Answer, zone, rtype::NS, server.name.wire());
                for ip in &server.ips {
                    sheet.address(Section::Additional, server.name.wire(), *ip);
                }
            }
            return Some(Found::Name);
        }
        None
    }

    /// Whether a name is there since a stated server is below it.
    pub(super) fn leads_to_server(&self) -> bool {
        self.cluster.servers.0.iter().any(|server| server.name.below(self.name).is_some())
    }
}
