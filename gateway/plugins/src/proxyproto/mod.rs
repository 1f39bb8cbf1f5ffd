#![doc = include_str!("README.md")]

use config::{Diagnostic, Prop, Words};
use engine::{Descriptor, ProxyPolicy, ProxySpec, Setup, Transport};

/// The registry entry.
pub static PLUGIN: Descriptor =
    Descriptor { name: "proxyproto", readme: include_str!("README.md"), setup };

/// What is stated.
#[derive(Default)]
struct Stated {
    spec: ProxySpec,
    default: Option<ProxyPolicy>,
}

/// The properties of the block.
static PROPS: &[Prop<Stated>] = &[
    Prop { name: "allow", words: "CIDR…", set: allow },
    Prop { name: "default", words: "use|ignore|reject|skip", set: default },
    Prop {
        name: "require",
        words: "",
        set: |stated, _| {
            stated.spec.required = true;
            Ok(())
        },
    },
    Prop { name: "udp_session_tracking", words: "DURATION [MAX]", set: sessions },
];

/// How many addresses of proxies are remembered unless stated otherwise.
const SESSIONS: usize = 10_240;

/// Has the block's listeners look for headers.
fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    directive.no_words()?;
    let mut stated = Stated::default();
    directive.read_block(PROPS, &mut stated)?;
    let Stated { mut spec, default } = stated;
    spec.default = match default {
        Some(default) => default,
        None if spec.allow.is_empty() => ProxyPolicy::Use,
        None => ProxyPolicy::Ignore,
    };
    let quic = [Transport::Quic, Transport::Https3];
    if setup.keys().iter().any(|key| quic.contains(&key.transport)) {
        return Err(directive
            .name
            .fault("QUIC is not served behind the PROXY protocol: its connections may change their addresses")
            .help("put the quic and https3 keys into a block of their own, without proxyproto"));
    }
    if spec.default == ProxyPolicy::Use {
        setup.warn(
            directive
                .name
                .fault("every client can claim to have any address")
                .help("name your proxies: allow CIDR"),
        );
    }
    setup.listener().proxy = Some(spec);
    Ok(())
}

/// Takes networks whose headers are believed.
fn allow(stated: &mut Stated, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let first = words.one()?;
    for word in std::iter::once(first).chain(words.rest()) {
        let net = word.text.parse::<ipnet::IpNet>().map_err(|_| {
            word.wrong("is no network").help("write ADDRESS/LENGTH, such as 198.51.100.7/32")
        })?;
        stated.spec.allow.push(net.trunc());
    }
    Ok(())
}

/// Takes what is done with the headers of all others.
fn default(stated: &mut Stated, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.one()?;
    stated.default = Some(match &*word.text.to_ascii_lowercase() {
        "use" => ProxyPolicy::Use,
        "ignore" => ProxyPolicy::Ignore,
        "reject" => ProxyPolicy::Reject,
        "skip" => ProxyPolicy::Skip,
        _ => return Err(word.wrong("is none of use, ignore, reject and skip")),
    });
    Ok(())
}

/// Takes for how long a datagram's client is remembered, and of how many addresses of proxies.
fn sessions(stated: &mut Stated, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.peek();
    let time = words.duration()?;
    if let Some(word) = word.filter(|_| time.is_zero()) {
        return Err(word.wrong("is no time"));
    }
    let most = match words.maybe() {
        None => SESSIONS,
        Some(word) => {
            let most = word.text.parse::<usize>().ok().filter(|most| *most > 0);
            most.ok_or_else(|| word.wrong("is no number of addresses").help("write 1 or more"))?
        }
    };
    stated.spec.udp_sessions = Some((time, most));
    Ok(())
}

#[cfg(test)]
mod tests;
