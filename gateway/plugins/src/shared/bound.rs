//! The addresses that the lines of `bind` mean, for itself and for those that go by them.

use std::net::IpAddr;

use config::{Diagnostic, Directive, Prop, Word};
use engine::BindAddr;

use crate::shared::host::{Interface, interfaces};

/// The properties of the block: the words behind each `except`.
static PROPS: &[Prop<Vec<Word>>] = &[Prop {
    name: "except",
    words: "ADDRESS|INTERFACE...",
    set: |except, words| {
        except.push(words.one()?.clone());
        except.extend_from_slice(words.rest());
        Ok(())
    },
}];

/// The addresses of all lines of a block.
pub(crate) fn all<'a>(
    directives: impl Iterator<Item = &'a Directive>,
) -> Result<Vec<BindAddr>, Diagnostic> {
    let mut all = Vec::new();
    for directive in directives {
        let known = interfaces()
            .map_err(|error| directive.name.wrong(format!("cannot list interfaces: {error}")))?;
        all.extend(addresses(directive, &known)?);
    }
    Ok(all)
}

/// The addresses of one line, without those that its block takes out.
fn addresses(directive: &Directive, known: &[Interface]) -> Result<Vec<BindAddr>, Diagnostic> {
    if directive.args.is_empty() {
        return Err(directive
            .name
            .wrong("needs an address")
            .help("at least one address or interface name is expected"));
    }
    let mut except = Vec::new();
    directive.read_block(PROPS, &mut except)?;
    let expand = |words: &[Word]| {
        let all = words.iter().map(|word| expand(word, known)).collect::<Result<Vec<_>, _>>();
        all.map(|all| all.concat())
    };
    let (mut all, out) = (expand(&directive.args)?, expand(&except)?);
    all.retain(|addr| !out.contains(addr));
    Ok(all)
}

/// The addresses that a word means: those of the interface of that name, or itself.
fn expand(word: &Word, known: &[Interface]) -> Result<Vec<BindAddr>, Diagnostic> {
    let own = known.iter().filter(|one| one.name == word.text);
    let mut found: Vec<BindAddr> = own.map(Interface::bind_addr).collect();
    if !found.is_empty() {
        let all = std::mem::take(&mut found);
        for addr in all {
            // An interface lists an address once for each of its labels.
            if !found.contains(&addr) {
                found.push(addr);
            }
        }
        return Ok(found);
    }
    let (bare, zone) = word.text.split_once('%').unzip();
    let ip: Option<IpAddr> = bare.unwrap_or(&word.text).parse().ok();
    let scope = match zone {
        None => Some(0),
        Some(zone) => zone
            .parse()
            .ok()
            .or_else(|| known.iter().find(|one| one.name == zone).map(|one| one.index)),
    };
    match (ip, scope) {
        (Some(ip), Some(scope)) if zone.is_none() || ip.is_ipv6() => {
            Ok(vec![BindAddr { ip, scope }])
        }
        _ => {
            let mut names: Vec<&str> = Vec::new();
            for one in known {
                if !names.contains(&&*one.name) {
                    names.push(&one.name);
                }
            }
            Err(word
                .wrong("is no address and no interface")
                .help(format!("interfaces here: {}", names.join(", "))))
        }
    }
}
