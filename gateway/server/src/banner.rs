//! What the process says of itself.

use std::fmt::Write as _;

use engine::Live;

/// The version of this build.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit of this build; `unknown` where it was built outside of a checkout.
pub(crate) const COMMIT: &str = match option_env!("GATEWAY_COMMIT") {
    Some(commit) => commit,
    None => "unknown",
};

/// The two version lines.
pub(crate) fn version() -> String {
    let (os, arch) = (std::env::consts::OS, std::env::consts::ARCH);
    format!("Causeway-{VERSION}\n{os}/{arch}, rust{}, {COMMIT}", env!("CARGO_PKG_RUST_VERSION"))
}

/// The names of all plugins, one a line in alphabetical order; `on`, which is none of the chain, is the last one.
pub(crate) fn plugins() -> String {
    let mut names: Vec<&str> = plugins::CHAIN.iter().map(|plugin| plugin.name).collect();
    names.sort_unstable_by_key(|name| (*name == "on", *name));
    names.join("\n")
}

/// What is served where, a line each, then the version; with a warning for each zone that is no host name.
pub(crate) fn serving(live: &Live) -> String {
    let mut out = String::new();
    let mut groups: Vec<_> = live.groups().collect();
    groups.sort_by_key(|group| group.key);
    for group in groups {
        let mut zones: Vec<String> = group.zones().map(wire::text::name_text).collect();
        zones.sort_unstable();
        for zone in zones {
            let server = group.key.to_string();
            let scheme = server.split_once("://").map_or("", |(scheme, _)| scheme);
            let scheme = if scheme == "dns" { String::new() } else { format!("{scheme}://") };
            if !is_host_name(&zone) {
                line(
                    &mut out,
                    &format!("Warning: Domain \"{zone}\" does not follow RFC1035 preferred syntax"),
                );
            }
            match group.key.addr {
                None => line(&mut out, &format!("{scheme}{zone}:{}", group.key.port)),
                Some(addr) => {
                    line(&mut out, &format!("{scheme}{zone}:{} on {}", group.key.port, addr.ip))
                }
            }
        }
    }
    out.push_str(&version());
    out
}

/// Appends a line.
fn line(out: &mut String, text: &str) {
    // Writing to a string cannot fail.
    let _unfailing = writeln!(out, "{text}");
}

/// Whether all labels consist of letters, digits and hyphens (RFC 1035 §2.3.1).
fn is_host_name(zone: &str) -> bool {
    zone.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}
