//! From the lines of the Corefile to a source and its handler.

use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use config::{Diagnostic, Directive, Prop};
use engine::Setup;
use wire::Name;

use super::handler::Hosts;
use super::source::{Source, address};
use crate::shared::fall::Fall;
use crate::shared::zones::Zones;

/// The file without a word for it.
const FILE: &str = "/etc/hosts";

/// What the properties say.
struct Options {
    ttl: u32,
    reload: Duration,
    reverse: bool,
    unsupported: bool,
}

/// The properties of the block, beside `fallthrough` and the lines of addresses.
static PROPS: &[Prop<Options>] = &[
    Prop {
        name: "ttl",
        words: "SECONDS",
        set: |options, words| {
            let word = words.one()?;
            let ttl = word.text.parse().ok().filter(|ttl| (1..=65535).contains(ttl));
            options.ttl = ttl
                .ok_or_else(|| word.wrong("is no time to live").help("write 1 to 65535 seconds"))?;
            Ok(())
        },
    },
    Prop {
        name: "reload",
        words: "DURATION",
        set: |options, words| words.duration().map(|reload| options.reload = reload),
    },
    Prop {
        name: "no_reverse",
        words: "",
        set: |options, _| {
            options.reverse = false;
            Ok(())
        },
    },
    Prop {
        name: "fallthrough_unsupported",
        words: "",
        set: |options, _| {
            options.unsupported = true;
            Ok(())
        },
    },
];

/// Reads the directive.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let (file, zones) = match directive.args.split_first() {
        Some((file, zones)) => (&*file.text, zones),
        None => (FILE, &[][..]),
    };
    let path = setup.path(file);
    if let Some(word) = directive.args.first() {
        match std::fs::metadata(&path) {
            Ok(metadata) if metadata.is_dir() => {
                setup.warn(word.fault(format!("Hosts file {path:?} is a directory")));
            }
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                setup.warn(word.fault(format!("File does not exist: {}", path.display())));
            }
            Err(error) => {
                let what = format!("unable to access hosts file '{}': {error}", path.display());
                return Err(word.fault(what));
            }
        }
    }
    let zones = Zones::new(setup.zones_of(zones));
    let mut options =
        Options { ttl: 3600, reload: Duration::from_secs(5), reverse: true, unsupported: false };
    let (mut fall, mut inline) = (None, Vec::new());
    for line in directive.lines() {
        match &*line.name.text {
            "fallthrough" => {
                line.no_block()?;
                fall = Some(Fall::read(setup, &mut line.words())?);
            }
            name if PROPS.iter().any(|prop| prop.name == name) => {
                line.read_line(PROPS, &mut options)?;
                if fall.is_none() && name == "fallthrough_unsupported" {
                    let later = directive.lines().iter().any(|one| one.name.text == "fallthrough");
                    if !later {
                        return Err(line
                            .name
                            .wrong("needs fallthrough as well")
                            .help("write a line: fallthrough"));
                    }
                }
            }
            _ => entries(setup, line, &zones, fall.is_some(), &mut inline)?,
        }
    }
    let source = source(setup, directive, &path, &zones, inline, options.reverse)?;
    if !options.reload.is_zero() {
        let (watched, interval) = (Arc::clone(&source), options.reload);
        setup.task(move |stop| watched.watch(interval, stop));
    }
    if fall.is_none() {
        setup.own(zones.iter().cloned());
    }
    let fall = fall.unwrap_or_default();
    setup.install(Hosts {
        source,
        zones,
        fall,
        unsupported: options.unsupported,
        ttl: options.ttl,
    });
    Ok(())
}

/// Reads a line of the block as one of a hosts file.
fn entries(
    setup: &mut Setup<'_>,
    line: &Directive,
    zones: &Zones,
    fallen: bool,
    inline: &mut Vec<(IpAddr, Name)>,
) -> Result<(), Diagnostic> {
    line.no_block()?;
    let Some(addr) = address(line.name.text.as_bytes()) else {
        let names: Vec<_> =
            PROPS.iter().map(|prop| prop.name).chain(std::iter::once("fallthrough")).collect();
        return Err(line
            .name
            .wrong("is no address and no property")
            .help(config::value::known(&line.name.text, &names)));
    };
    if fallen {
        return Err(line
            .name
            .wrong("stands behind fallthrough")
            .help("write lines of addresses before it"));
    }
    if line.args.is_empty() {
        return Err(line.name.wrong("has no name behind it"));
    }
    for word in &line.args {
        let name = Name::parse(&word.text).ok_or_else(|| word.wrong("is no domain name"))?;
        if zones.has(&name) {
            inline.push((addr, name));
        } else {
            setup.warn(word.wrong("is in none of the zones, and passed over"));
        }
    }
    Ok(())
}

/// The source, which blocks and reloads share if it is the same, read as it is now.
fn source(
    setup: &mut Setup<'_>,
    directive: &Directive,
    path: &Path,
    zones: &Zones,
    inline: Vec<(IpAddr, Name)>,
    reverse: bool,
) -> Result<Arc<Source>, Diagnostic> {
    let key = format!("{path:?} {zones:?} {inline:?} {reverse}");
    let source = setup.share(&key, || {
        Ok(Arc::new(Source::new(path.to_owned(), zones.clone(), inline.into(), reverse)))
    })?;
    if let Err(error) = source.refresh() {
        let word = directive.args.first().unwrap_or(&directive.name);
        let what = format!("Cannot read {}: {error}", path.display());
        setup.warn(word.fault(what));
    }
    Ok(source)
}
