//! *recursive* in a small world of its own: a root, two zones below it, and zones below those, on addresses of a namespace, signed by
//! BIND's tools and served by NSD, Knot and BIND.
#![allow(clippy::unwrap_used)]

use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use tests::nameserver::Make;
use tests::process::run;
use tests::{Folder, Gateway, Namespace, Process, Query, Reply, until};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(60);

/// A zone of the world.
struct Zone {
    /// Its name, with the last dot.
    name: &'static str,
    /// The address of its server.
    server: &'static str,
    /// What that is; BIND only where the namespace has its address for an interface's.
    make: Make,
    /// Its other records.
    records: &'static str,
    state: State,
}

/// How a zone is signed.
#[derive(Clone, Copy, PartialEq)]
enum State {
    /// Well, and the zone above says so.
    Signed,
    /// Well, with hashed names in its denials.
    Hashed,
    /// Not at all.
    Unsigned,
    /// A record was changed afterwards.
    Changed,
    /// Long ago.
    Expired,
}

/// The zones, those below first: the one above needs their keys.
const ZONES: &[Zone] = &[
    Zone {
        name: "good.test.",
        server: "127.0.0.3",
        make: Make::Knot,
        records: "www 60 A 203.0.113.1\nalias 60 CNAME www.plain.test.\nhere 60 CNAME www\nfar 60 CNAME x.w.good3.test.\n\
                  void 60 CNAME no.good3.test.\n*.w 60 TXT wild\nd 60 DNAME w.good3.test.\ne 60 DNAME good3.test.\n\
                  inner 60 DNAME w\nout 60 DNAME plain.test.\n",
        state: State::Signed,
    },
    Zone {
        name: "good3.test.",
        server: "127.0.0.8",
        make: Make::Nsd,
        records: "www 60 A 203.0.113.6\n*.w 60 A 203.0.113.7\nback 60 CNAME x.d.good.test.\n",
        state: State::Hashed,
    },
    Zone {
        name: "plain.test.",
        server: "127.0.0.4",
        make: Make::Knot,
        records: "www 60 A 203.0.113.2\nd 60 DNAME good.test.\n",
        state: State::Unsigned,
    },
    Zone {
        name: "bad.test.",
        server: "127.0.0.5",
        make: Make::Knot,
        records: "www 60 A 203.0.113.3\n",
        state: State::Changed,
    },
    Zone {
        name: "old.test.",
        server: "127.0.0.6",
        make: Make::Nsd,
        records: "www 60 A 203.0.113.4\nd 60 DNAME good.test.\n",
        state: State::Expired,
    },
    // Its server has an address of IPv6 alone.
    Zone {
        name: "six.test.",
        server: "::1",
        make: Make::Knot,
        records: "www 60 A 203.0.113.9\n",
        state: State::Signed,
    },
    // Its server is not there.
    Zone {
        name: "gone.test.",
        server: "127.0.0.7",
        make: Make::Nsd,
        records: "www 60 A 203.0.113.5\n",
        state: State::Unsigned,
    },
    // One of its servers does not know it.
    Zone {
        name: "half.test.",
        server: "127.0.0.9",
        make: Make::Nsd,
        records: "www 60 A 203.0.113.8\n",
        state: State::Unsigned,
    },
    // The only server of `lame` does not know it.
    Zone {
        name: "test.",
        server: "127.0.0.2",
        make: Make::Nsd,
        records: "half 60 NS ns.plain.test.\nlame 60 NS ns.plain.test.\n",
        state: State::Signed,
    },
    Zone { name: ".", server: "127.0.0.1", make: Make::Bind, records: "", state: State::Signed },
];

/// The file of a zone.
fn file(name: &str) -> String {
    format!("zone-{}", if name == "." { "root" } else { name.trim_end_matches('.') })
}

/// Whether one zone is right below another.
fn is_below(name: &str, above: &str) -> bool {
    let parent =
        name.split_once('.').map(|(_, parent)| if parent.is_empty() { "." } else { parent });
    name != "." && parent == Some(above)
}

/// The world, as long as it is there.
struct World {
    folder: Folder,
    namespace: Namespace,
    servers: Vec<(&'static str, Process)>,
}

impl World {
    /// Signs all zones and starts their servers.
    fn new() -> Self {
        let (folder, namespace) = (Folder::new("recursive"), Namespace::new());
        for zone in ZONES {
            write(&folder, zone);
        }
        let mut world = Self { folder, namespace, servers: Vec::new() };
        for zone in ZONES.iter().filter(|zone| zone.name != "gone.test.") {
            world.start(zone);
        }
        world
    }

    /// Starts the server of a zone.
    fn start(&mut self, zone: &Zone) {
        let file = file(zone.name);
        let config = self.folder.write(&format!("{file}.conf"), configuration(zone, &self.folder));
        // Knot does not make this one itself.
        self.folder.write(&format!("{file}.db/.keep"), "");
        let (program, words) = match zone.make {
            Make::Knot => ("knotd", &["-c"][..]),
            Make::Nsd => ("nsd", &["-d", "-c"][..]),
            Make::Bind => ("named", &["-g", "-c"][..]),
        };
        let mut command = self.namespace.command(program);
        command.args(words).arg(config).stdin(Stdio::null());
        let process = Process::start(program, command);
        let server = SocketAddr::new(zone.server.parse().unwrap(), 53);
        let up = self.namespace.enter(|| {
            let ask = || {
                Query::from(format!("{} SOA", zone.name).as_str())
                    .patience(Duration::from_millis(500))
                    .ask(server)
            };
            until(LIMIT, ask).is_some()
        });
        assert!(up, "{}: {}", zone.name, process.output());
        self.servers.push((zone.name, process));
    }

    /// A gateway in it.
    fn gateway(&self, more: &str) -> Gateway {
        let hints = self.folder.write("hints", ". 3600 IN NS ns.\nns. 3600 IN A 127.0.0.1\n");
        let keys = std::fs::read_to_string(self.folder.path().join("keys-root")).unwrap();
        let anchors = self.folder.write("anchors", keys);
        Gateway::new(&format!(
            ".:5300 {{\n bind 127.0.0.100\n prometheus 127.0.0.100:9153\n errors\n recursive {{\n  hints {}\n  anchors {}\n  allow_servers 127.0.0.0/8 ::1/128\n  timeout 6s\n  {more}\n }}\n}}",
            hints.display(),
            anchors.display()
        ))
        .within(&self.namespace)
        .start()
    }

    /// Asks the gateway for something and looks at the reply: its code, something in it, whether AD is set, the extended error.
    fn check(&self, gateway: &Gateway, expected: (&str, &str, &str, bool, Option<u16>)) {
        let (question, code, data, secure, error) = expected;
        let mut query = Query::from(question).dnssec_ok();
        if question.starts_with("big.") {
            query = query.tcp();
        }
        let reply = self.ask(query);
        let all = format!(
            "{question}: {:?} {:?}\n{}",
            reply.answers(),
            reply.authorities(),
            gateway.output()
        );
        assert_eq!(reply.rcode().to_str(), code, "{all}");
        assert!(reply.answers().concat().contains(data), "{all}");
        assert_eq!(reply.flags().contains("ad"), secure, "{} {all}", reply.flags());
        assert_eq!(reply.extended().map(|(code, _)| code), error, "{all}");
    }

    /// Asks the gateway.
    fn ask(&self, query: Query) -> Reply {
        let server = SocketAddr::from(([127, 0, 0, 100], 5300));
        let query = query.patience(Duration::from_secs(15));
        self.namespace.enter(|| query.ask(server)).expect("the gateway replies")
    }
}

/// What the server of a zone is told.
fn configuration(zone: &Zone, folder: &Folder) -> String {
    let (name, server, file) = (zone.name, zone.server, file(zone.name));
    let dir = folder.path().display();
    match zone.make {
        Make::Knot => format!(
            "server:\n rundir: \"{dir}/{file}.db\"\n listen: {server}@53\n user: root:root\nlog:\n - target: stderr\n   any: info\n\
             database:\n storage: \"{dir}/{file}.db\"\nzone:\n - domain: {name}\n   storage: \"{dir}\"\n   file: \"{file}.signed\"\n"
        ),
        Make::Nsd => format!(
            "server:\n ip-address: {server}\n port: 53\n username: \"\"\n chroot: \"\"\n zonesdir: \"{dir}\"\n pidfile: \"\"\n \
             xfrdfile: \"\"\n zonelistfile: \"{dir}/{file}.list\"\n database: \"\"\n server-count: 1\n rrl-ratelimit: 0\n verbosity: 1\n\
             remote-control:\n control-enable: no\nzone:\n name: \"{name}\"\n zonefile: \"{file}.signed\"\n"
        ),
        Make::Bind => format!(
            "options {{ directory \"{dir}\"; listen-on {{ {server}; }}; listen-on-v6 {{ none; }}; pid-file none; session-keyfile none; \
             managed-keys-directory \"{dir}\"; recursion no; dnssec-validation no; }};\ncontrols {{ }};\n\
             zone \"{name}\" {{ type primary; file \"{file}.signed\"; }};\n"
        ),
    }
}

/// The address record of a name.
fn address(name: &str, server: &str) -> String {
    format!("{name} {} {server}\n", if server.contains(':') { "AAAA" } else { "A" })
}

/// A set of records that needs several datagrams.
fn large() -> String {
    (10..30).map(|n| format!("big 60 TXT \"part {n} {}\"\n", "x".repeat(200))).collect()
}

/// Writes a zone as its server has it, and the keys that the zone above needs.
fn write(folder: &Folder, zone: &Zone) {
    let ns = if zone.name == "." { "ns.".to_owned() } else { format!("ns.{}", zone.name) };
    let mut text = format!(
        "$TTL 60\n$ORIGIN {name}\n@ SOA {ns} host.{ns} 1 3600 600 86400 30\n@ NS {ns}\n{address}{records}",
        name = zone.name,
        address = address(&ns, zone.server),
        records = zone.records,
    );
    if matches!(zone.name, "good.test." | "plain.test.") {
        text += &large();
    }
    for below in ZONES.iter().filter(|below| is_below(below.name, zone.name)) {
        let _unfailing = writeln!(text, "{0} NS ns.{0}", below.name);
        text += &address(&format!("ns.{}", below.name), below.server);
        if below.state != State::Unsigned {
            let set = format!("dsset-{}", below.name);
            text += &std::fs::read_to_string(folder.path().join(set)).unwrap();
        }
    }
    let name = file(zone.name);
    folder.write(&name, &text);
    if zone.state == State::Unsigned {
        folder.write(&format!("{name}.signed"), &text);
        return;
    }
    let tool = |program: &str, words: &[&str]| {
        let mut command = Command::new(program);
        command.current_dir(folder.path()).args(words);
        run(&mut command)
    };
    let key = tool("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", zone.name]);
    tool("dnssec-keygen", &["-q", "-a", "ECDSAP256SHA256", zone.name]);
    let public = folder.path().join(format!("{}.key", key.trim()));
    std::fs::copy(public, folder.path().join(name.replace("zone-", "keys-"))).unwrap();
    let mut words = vec!["-S", "-o", zone.name];
    if zone.state == State::Expired {
        // Without -P it would see for itself.
        words.extend(["-P", "-s", "20200101000000", "-e", "20200201000000"]);
    }
    if zone.state == State::Hashed {
        words.extend(["-3", "-"]);
    }
    words.push(&name);
    tool("dnssec-signzone", &words);
    if zone.state == State::Changed {
        let signed = folder.path().join(format!("{name}.signed"));
        let text = std::fs::read_to_string(&signed).unwrap();
        assert!(text.contains("203.0.113.3"), "{text}");
        std::fs::write(&signed, text.replace("203.0.113.3", "203.0.113.33")).unwrap();
    }
    assert!(Path::new(&folder.path().join(format!("{name}.signed"))).exists());
}

#[test]
fn names_are_found_from_the_root_and_signatures_are_checked() {
    let world = World::new();
    let gateway = world.gateway("");
    // What is asked, and: code, first address or alias, whether AD is set, extended error.
    for expected in [
        ("www.good.test A", "No Error", "203.0.113.1", true, None),
        ("here.good.test A", "No Error", "203.0.113.1", true, None),
        ("x.w.good.test TXT", "No Error", "wild", true, None),
        ("no.good.test A", "Non-Existent Domain", "", true, None),
        ("www.good.test MX", "No Error", "", true, None),
        ("www.plain.test A", "No Error", "203.0.113.2", false, None),
        ("alias.good.test A", "No Error", "203.0.113.2", false, None),
        ("www.bad.test A", "Server Failure", "", false, Some(6)),
        ("www.old.test A", "Server Failure", "", false, Some(6)),
        ("www.gone.test A", "Server Failure", "", false, Some(22)),
        ("www.good3.test A", "No Error", "203.0.113.6", true, None),
        ("no.good3.test A", "Non-Existent Domain", "", true, None),
        ("www.good3.test MX", "No Error", "", true, None),
        ("x.w.good3.test A", "No Error", "203.0.113.7", true, None),
        ("x.w.good3.test MX", "No Error", "", true, None),
        ("x.w.good.test A", "No Error", "", true, None),
        ("a.b.w.good.test TXT", "No Error", "wild", true, None),
        // Aliases whose ends are a wildcard, have no such record, or are not there.
        ("far.good.test A", "No Error", "203.0.113.7", true, None),
        ("far.good.test MX", "No Error", "x.w.good3.test", true, None),
        ("void.good.test A", "Non-Existent Domain", "no.good3.test", true, None),
        ("here.good.test AAAA", "No Error", "www.good.test", true, None),
        ("alias.good.test AAAA", "No Error", "www.plain.test", false, None),
        ("www.half.test A", "No Error", "203.0.113.8", false, None),
        ("www.lame.test A", "Server Failure", "", false, Some(22)),
        ("no.such A", "Non-Existent Domain", "", true, None),
        // Names below a DNAME record: it and the alias that is made of it lead on.
        ("www.d.plain.test A", "No Error", "203.0.113.1", false, None),
        // The alias is not signed: it is as good as the DNAME record.
        ("x.d.good.test A", "No Error", "203.0.113.7", true, None),
        ("x.d.good.test CNAME", "No Error", "x.w.good3.test", true, None),
        ("x.d.good.test MX", "No Error", "x.w.good3.test", true, None),
        ("www.e.good.test A", "No Error", "203.0.113.6", true, None),
        ("no.e.good.test A", "Non-Existent Domain", "no.good3.test", true, None),
        ("www.out.good.test A", "No Error", "203.0.113.2", false, None),
        ("www.d.old.test A", "Server Failure", "", false, Some(6)),
        // Its end is in the same zone, whose server goes on by itself.
        ("x.inner.good.test TXT", "No Error", "wild", true, None),
        ("x.inner.good.test A", "No Error", "x.w.good.test", true, None),
        ("x.inner.good.test CNAME", "No Error", "x.w.good.test", true, None),
        // An alias of another zone leads there.
        ("back.good3.test A", "No Error", "203.0.113.7", true, None),
        // More than a datagram holds.
        ("big.good.test TXT", "No Error", "part 29", true, None),
        ("big.plain.test TXT", "No Error", "part 29", false, None),
        // A server that is there by IPv6 alone.
        ("www.six.test A", "No Error", "203.0.113.9", true, None),
        ("no.six.test A", "Non-Existent Domain", "", true, None),
        // Names have no large and small letters.
        ("WwW.gOOd.TEST A", "No Error", "203.0.113.1", true, None),
    ] {
        // Twice: found, and kept.
        world.check(&gateway, expected);
        world.check(&gateway, expected);
    }
    // Those who do not ask for proofs get none, and no AD bit.
    let plain = world.ask(Query::from("www.good.test A"));
    assert!(!plain.flags().contains("ad") && plain.answers().len() == 1, "{:?}", plain.answers());
    let signed = world.ask(Query::from("www.good.test A").dnssec_ok());
    assert!(signed.answers().iter().any(|rr| rr.contains("RRSIG")), "{:?}", signed.answers());
    // Those who check themselves get what is there.
    let own = world.ask(
        Query::from("www.bad.test A").dnssec_ok().with(|m| m.metadata.checking_disabled = true),
    );
    assert!(own.answers().concat().contains("203.0.113.33"), "{:?}", own.answers());
    let refused = world.ask(Query::from("www.good.test A").no_recursion());
    assert_eq!(refused.rcode().to_str(), "Query Refused");
}

#[test]
fn names_are_asked_for_in_letters_of_both_cases() {
    let world = World::new();
    let gateway = world.gateway("random_case on");
    for expected in [
        ("www.good.test A", "No Error", "203.0.113.1", true, None),
        ("WWW.plain.TEST A", "No Error", "203.0.113.2", false, None),
        ("www.d.plain.test A", "No Error", "203.0.113.1", false, None),
        ("big.plain.test TXT", "No Error", "part 29", false, None),
        ("www.six.test A", "No Error", "203.0.113.9", true, None),
        ("no.good3.test A", "Non-Existent Domain", "", true, None),
        ("www.bad.test A", "Server Failure", "", false, Some(6)),
    ] {
        world.check(&gateway, expected);
    }
}

#[test]
fn a_root_that_is_away_costs_time_only_until_it_is_back() {
    let mut world = World::new();
    let gateway = world.gateway("max_concurrent 2");
    assert_eq!(world.ask(Query::from("www.good.test A")).answers().len(), 1);
    // The world goes dark, but for what is known.
    for (_, server) in &mut world.servers {
        server.kill();
    }
    assert_eq!(
        world.ask(Query::from("www.good.test A")).answers().len(),
        1,
        "{}",
        gateway.output()
    );
    let lost = world.ask(Query::from("www.plain.test A").dnssec_ok());
    assert_eq!(
        (lost.rcode().to_str(), lost.extended().map(|(code, _)| code)),
        ("Server Failure", Some(22))
    );
    world.servers.clear();
    for zone in ZONES.iter().filter(|zone| zone.name != "gone.test.") {
        world.start(zone);
    }
    let back = until(LIMIT, || {
        let reply = world.ask(Query::from("www.plain.test A"));
        (reply.answers().len() == 1).then_some(())
    });
    assert!(back.is_some(), "{}", gateway.output());
}
