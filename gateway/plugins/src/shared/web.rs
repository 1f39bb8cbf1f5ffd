//! The properties that *https* and *https3* have in common.

use std::net::IpAddr;

use config::{Diagnostic, Prop, Words};
use engine::HttpSpec;
use ipnet::IpNet;

/// `max_connections`.
pub const MAX_CONNECTIONS: Prop<HttpSpec> = Prop {
    name: "max_connections",
    words: "NUMBER",
    set: |spec, words| number(&mut spec.max_connections, words),
};

/// `path`.
pub const PATH: Prop<HttpSpec> = Prop {
    name: "path",
    words: "PATH [PATH…]",
    set: |spec, words| {
        words.clone().one()?;
        for word in words.rest() {
            // The form of RFC 8484 §4.1.1 says the same.
            let path = word.text.strip_suffix("{?dns}").unwrap_or(&word.text);
            let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte);
            if !path.starts_with('/') || !path.bytes().all(is_plain) {
                return Err(word
                    .wrong("is no path")
                    .help("write a slash, and behind it letters, digits and any of / - . _ ~"));
            }
            if spec.paths.iter().any(|known| known == path) {
                return Err(word.wrong("is stated twice"));
            }
            spec.paths.push(path.to_owned());
        }
        Ok(())
    },
};

/// `json`.
pub const JSON: Prop<HttpSpec> = Prop {
    name: "json",
    words: "",
    set: |spec, words| {
        if spec.json {
            return Err(words.name().wrong("is stated twice"));
        }
        spec.json = true;
        Ok(())
    },
};

/// `trusted_proxies`.
pub const TRUSTED_PROXIES: Prop<HttpSpec> = Prop {
    name: "trusted_proxies",
    words: "CIDR [CIDR…]",
    set: |spec, words| {
        words.clone().one()?;
        for word in words.rest() {
            let net = word.text.parse::<IpNet>().ok();
            let net = net.or_else(|| word.text.parse::<IpAddr>().ok().map(IpNet::from));
            spec.trusted.push(net.map(|net| net.trunc()).ok_or_else(|| {
                word.wrong("is no network and no address")
                    .help("write a network such as 10.0.0.0/8, or an address")
            })?);
        }
        Ok(())
    },
};

/// Takes a number, once; 0 is no limit.
pub fn number(value: &mut Option<usize>, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.one()?;
    if value.is_some() {
        return Err(words.name().wrong("is stated twice"));
    }
    let number = word.text.parse().map_err(|_| {
        word.wrong("is no number for this").help("write 0 for no limit, or 1 or more")
    })?;
    *value = Some(number);
    Ok(())
}
