//! The facts `proxyproto.*` that are read at the start; what is done with headers is tested in the front-ends and from outside.

use std::time::Duration;

use engine::testing::Bench;
use engine::{ProxyPolicy, ProxySpec};

/// What a block with these lines says of its only listener.
fn spec(lines: &str) -> Option<ProxySpec> {
    let live =
        Bench::new(crate::CHAIN, &format!("test {{\n {lines}\n whoami\n}}\n")).gateway.live();
    live.groups().next().unwrap().spec.proxy.clone()
}

#[test]
fn policies_have_their_defaults() {
    let net = |text: &str| text.parse().unwrap();
    assert_eq!(spec(""), None);
    assert_eq!(spec("proxyproto"), Some(ProxySpec::default()));
    let want = ProxySpec {
        allow: vec![net("198.51.100.0/24"), net("2001:db8::/32"), net("203.0.113.7/32")],
        default: ProxyPolicy::Ignore,
        ..ProxySpec::default()
    };
    let lines = "proxyproto {\n allow 198.51.100.0/24 2001:db8::1/32\n allow 203.0.113.7/32\n }";
    assert_eq!(spec(lines), Some(want));
    for (word, policy) in [
        ("use", ProxyPolicy::Use),
        ("IGNORE", ProxyPolicy::Ignore),
        ("Reject", ProxyPolicy::Reject),
        ("skip", ProxyPolicy::Skip),
    ] {
        for allow in ["", "allow 198.51.100.0/24"] {
            let lines = format!("proxyproto {{\n {allow}\n default {word}\n }}");
            assert_eq!(spec(&lines).unwrap().default, policy, "{lines}");
        }
    }
    let tracking = "proxyproto {\n require\n udp_session_tracking 28s\n }";
    let spec_of = spec(tracking).unwrap();
    assert!(spec_of.required);
    assert_eq!(spec_of.udp_sessions, Some((Duration::from_secs(28), 10_240)));
    let tracking = "proxyproto {\n udp_session_tracking 1m 5\n }";
    assert_eq!(spec(tracking).unwrap().udp_sessions, Some((Duration::from_secs(60), 5)));
}

#[test]
fn the_last_block_of_a_listener_decides_and_every_key_has_it() {
    let corefile = "a.test:53 a.test:5353 {\n proxyproto {\n default skip\n }\n whoami\n}\n\
        b.test:53 {\n proxyproto {\n default reject\n }\n whoami\n}\nc.test:53 {\n whoami\n}\n";
    let live = Bench::new(crate::CHAIN, corefile).gateway.live();
    let policy = |port| {
        let group = live.groups().find(|group| group.key.port == port).unwrap();
        group.spec.proxy.as_ref().unwrap().default
    };
    assert_eq!((policy(53), policy(5353)), (ProxyPolicy::Reject, ProxyPolicy::Skip));
}

#[test]
fn wrong_lines_are_refused() {
    for (line, want) in [
        ("proxyproto on", "Wrong argument count"),
        ("proxyproto\n proxyproto", "only be used once"),
        ("proxyproto {\n trust 10.0.0.0/8\n }", "'trust' is not a property"),
        ("proxyproto {\n allow\n }", "Wrong argument count"),
        ("proxyproto {\n allow 198.51.100.7\n }", "is no network"),
        ("proxyproto {\n allow 198.51.100.0/24 balancer\n }", "write ADDRESS/LENGTH"),
        ("proxyproto {\n default\n }", "Wrong argument count"),
        ("proxyproto {\n default maybe\n }", "is none of use, ignore, reject and skip"),
        ("proxyproto {\n default use ignore\n }", "Wrong argument count"),
        ("proxyproto {\n require it\n }", "Wrong argument count"),
        ("proxyproto {\n udp_session_tracking\n }", "Wrong argument count"),
        ("proxyproto {\n udp_session_tracking 0s\n }", "is no time"),
        ("proxyproto {\n udp_session_tracking -1s\n }", "cannot be negative here"),
        ("proxyproto {\n udp_session_tracking 28s 0\n }", "is no number of addresses"),
        ("proxyproto {\n udp_session_tracking 28s 1 1\n }", "Wrong argument count"),
    ] {
        let text = Bench::refused(crate::CHAIN, &format!("test {{\n {line}\n whoami\n}}\n"));
        assert!(text.contains(want), "{line}: {text}");
    }
}
