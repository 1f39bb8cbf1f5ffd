#![doc = include_str!("README.md")]

#[cfg(test)]
mod tests;

use config::Diagnostic;
use config::value::ResolvConf;
use engine::metrics::{Counter, Table, counter, describe};
use engine::{
    Carry, Descriptor, End, Exchange, Fault, Kind, Plugin, Role, Roles, Routes, Setup, Step,
};
use wire::{Answer, Name, Section, class, rcode, rtype};

use crate::shared::file;
use crate::shared::zones::Zones;

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "autopath", readme: include_str!("README.md"), setup: set_up };

/// Names that were found on a search path.
const FOUND: &str = "coredns_autopath_success_total";
/// How many names of a path are tried at most.
const MOST: u8 = 32;

/// Walks the search path for the client.
#[derive(Debug)]
struct Autopath {
    /// The names that it acts on.
    zones: Zones,
    /// Where search paths come from.
    source: Source,
    /// The block's routes, for the label of the count.
    routes: Routes,
    /// The counts by route.
    found: Table<Counter>,
}

/// Where search paths come from.
#[derive(Debug)]
enum Source {
    /// The same one for everybody.
    File(Box<[Name]>),
    /// Another plugin of the block.
    Plugin(String, Roles),
}

/// How far a walk has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Walk {
    /// The place on the path of the name just tried.
    at: u8,
    /// The octets of the name without the search domain.
    base: u8,
    /// The response code of the first failure, where nothing was written for the first name.
    failed: u16,
}

impl Walk {
    /// Reads what was carried.
    fn read(Carry(bits): Carry) -> Self {
        let [at, base, high, low, ..] = bits.to_le_bytes();
        Self { at, base, failed: u16::from_be_bytes([high, low]) }
    }

    /// What to carry.
    fn carry(self) -> Carry {
        let [high, low] = self.failed.to_be_bytes();
        Carry(u64::from_le_bytes([self.at, self.base, high, low, 0, 0, 0, 0]))
    }
}

/// Sets the plugin up.
fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_block()?;
    let Some((last, zones)) = directive.args.split_last() else {
        let wrong = directive.name.fault("no search path is stated");
        return Err(wrong.help("write: autopath [ZONES...] RESOLV-CONF|@PLUGIN"));
    };
    let source = match last.text.strip_prefix('@') {
        Some(plugin) => {
            let (name, word, here) = (plugin.to_owned(), last.clone(), setup.has(plugin));
            setup.later(move |roles| offered(&name, roles, here).map_err(|why| word.wrong(why)));
            Source::Plugin(plugin.to_owned(), setup.roles())
        }
        None => {
            let text = file::text(last.text.as_ref()).map_err(|error| {
                let wrong = last.wrong(format_args!("cannot be read: {error}"));
                wrong.help("name a file in the form of resolv.conf, or a plugin as @kubernetes")
            })?;
            let search = ResolvConf::read(&text).search;
            let path = search.iter().filter_map(|domain| Name::parse(domain));
            Source::File(path.chain([Name::ROOT]).collect())
        }
    };
    describe(FOUND, "Counter of requests that were answered by a name on the search path.");
    let zones = Zones::new(setup.zones_of(zones));
    setup.install(Autopath { zones, source, routes: setup.routes(), found: Table::new(256) });
    Ok(())
}

/// Says why a plugin of the block gives no search path, if that can not be meant.
fn offered(name: &str, roles: &Roles, here: bool) -> Result<(), &'static str> {
    let found = roles.iter().any(|(own, role)| own == name && role.kind() == Kind::SearchPath);
    match (found, here, name) {
        (true, ..) => Ok(()),
        (false, true, "kubernetes") => {
            log::warn!(
                target: "plugin/autopath",
                "kubernetes knows no search paths without `pods verified`: nothing is done"
            );
            Ok(())
        }
        (false, true, _) => Err("is a plugin that knows no search paths"),
        (false, false, _) => {
            log::warn!(
                target: "plugin/autopath",
                "{name} is not in the server block: nothing is done"
            );
            Ok(())
        }
    }
}

impl Source {
    /// The name at a place of the client's search path.
    fn get(&self, x: &Exchange, index: u8) -> Option<Name> {
        match self {
            Self::File(path) => path.get(usize::from(index)).cloned(),
            Self::Plugin(plugin, roles) => {
                let (mut at, mut found) = (0, None);
                for (name, role) in roles.iter() {
                    if let (true, Role::SearchPath(path)) = (name == plugin, role) {
                        path.search_path(x, &mut |domain| {
                            if at == index {
                                found = Name::read(domain).map(|(name, _)| name);
                            }
                            at = at.saturating_add(1);
                        });
                    }
                }
                found
            }
        }
    }
}

impl Plugin for Autopath {
    fn query(&self, x: &mut Exchange) -> Step {
        let request = x.request();
        // A search path is what the client's resolver walks: names that plugins look up are whole.
        if x.is_nested() || request.class != class::IN || !self.zones.has(&request.name) {
            return Step::Next;
        }
        let Some(first) = self.source.get(x, 0) else { return Step::Next };
        let base = x.request().name.below(&first).map(<[u8]>::len);
        match base.and_then(|base| u8::try_from(base).ok()) {
            // The first domain itself has no name in front that others could follow.
            None | Some(0) => Step::Next,
            Some(base) => Step::Wrap(Walk { at: 0, base, failed: 0 }.carry()),
        }
    }

    fn answer(&self, x: &mut Exchange, carry: Carry) -> Step {
        let mut walk = Walk::read(carry);
        let (end, tried) = (x.end(), x.request().name.clone());
        if walk.at > 0 {
            x.put_back();
        }
        let failed = match end {
            Some(End::Answered) if is_denied(x.answer()) => 0,
            // Another name may be allowed, or known.
            Some(End::Failed(fault)) if fault.rcode != rcode::SERVFAIL => fault.rcode,
            Some(End::Answered) => {
                if walk.at > 0 {
                    lead(x, &tried);
                }
                self.count(x);
                return Step::Next;
            }
            Some(End::Failed(_) | End::Silent) | None => return Step::Next,
        };
        if walk.at == 0 {
            walk.failed = failed;
        }
        if let Some((next, at)) = self.next(x, walk) {
            if walk.at == 0 {
                // The first reply waits until all have failed.
                x.swap_aside();
            }
            walk.at = at;
            x.keep();
            return x.again(next, walk.carry());
        }
        if walk.at == 0 {
            return Step::Next;
        }
        x.swap_aside();
        match (walk.failed, end) {
            (0, Some(End::Answered)) => Step::Next,
            (0, _) => Step::Done,
            (code, _) => {
                Step::Fail(Fault { rcode: code, ede: None, why: "nothing on the search path" })
            }
        }
    }
}

impl Autopath {
    /// The next name to try, and its place; none if all have been.
    fn next(&self, x: &Exchange, walk: Walk) -> Option<(Name, u8)> {
        let base = x.request().name.wire().get(..usize::from(walk.base))?;
        for at in walk.at + 1..MOST {
            let domain = self.source.get(x, at)?;
            // A domain that makes the name too long is none for it.
            if let Some(name) = Name::join(base, domain.wire()) {
                return Some((name, at));
            }
        }
        None
    }

    /// Counts a name that was found.
    fn count(&self, x: &Exchange) {
        if x.answer().rcode != rcode::NOERROR {
            return;
        }
        let make = || {
            let server = self.routes.of(x).map(|route| &*route.server).unwrap_or_default();
            counter(FOUND, &[("server", server)])
        };
        if let Some(found) = self.found.get(x.route(), make) {
            found.increment(1);
        }
    }
}

/// Whether a name is denied; an alias whose target is denied is there itself.
fn is_denied(answer: &Answer) -> bool {
    answer.rcode == rcode::NXDOMAIN && answer.section(Section::Answer).next().is_none()
}

/// Puts a CNAME record in front that leads from the name asked to the one found.
fn lead(x: &mut Exchange, found: &Name) {
    let (asked, answer) = x.parts_mut();
    let Some(ttl) = answer.section(Section::Answer).next().map(|rr| rr.ttl) else { return };
    answer.push(Section::Answer, asked.name.wire(), rtype::CNAME, ttl, found.wire());
    answer.records_mut().rotate_right(1);
}
