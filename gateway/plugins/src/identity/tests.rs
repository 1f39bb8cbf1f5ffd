//! Who asks, by what is presented, and what others make of it.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::testing::Bench;
use engine::{Admission, Descriptor, Door, Exchange, Method, Plugin, Session, Signature, Step};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa,
    KeyPair, SanType,
};

use super::door::{Doorkeeper, Rules};
use super::files::Files;
use super::networks::Networks;
use super::{Minted, mint};
use crate::shared::testing::logged;

/// Answers with the values of metadata labels; `count` is how many words it has written before, and `later` the client's name
/// unless it is the first of them.
#[derive(Debug)]
struct Reply(Vec<String>, engine::Metadata, AtomicUsize);

impl Plugin for Reply {
    fn query(&self, x: &mut Exchange) -> Step {
        let mut text = String::new();
        for word in &self.0 {
            if !text.is_empty() {
                text.push(' ');
            }
            let count = self.2.fetch_add(1, Ordering::Relaxed);
            if word == "count" {
                text.push_str(&count.to_string());
            } else if word == "later" {
                if count == 0 || self.1.value(x, "identity/name", &mut text).is_none() {
                    text.push('-');
                }
            } else if !word.contains('/') {
                text.push_str(word);
            } else if self.1.value(x, word, &mut text).is_none() {
                text.push('-');
            }
        }
        let name = x.request().name.clone();
        x.answer_mut().txt(&name, 1, 60, text.as_bytes());
        Step::Done
    }
}

/// Its entry.
static REPLY: Descriptor = Descriptor {
    name: "reply",
    readme: "",
    setup: |setup| {
        let words = setup.directive().args.iter().map(|word| word.text.clone()).collect();
        let metadata = setup.metadata();
        setup.install(Reply(words, metadata, Default::default()));
        Ok(())
    },
};

/// Asks for another name, and answers with what comes.
#[derive(Debug)]
struct Elsewhere(wire::Name);

impl Plugin for Elsewhere {
    fn query(&self, x: &mut Exchange) -> Step {
        x.ask(&self.0, wire::rtype::TXT, engine::Carry::NONE)
    }

    fn asked(&self, x: &mut Exchange, _: engine::Carry) -> Step {
        x.graft();
        Step::Done
    }
}

/// Its entry.
static ELSEWHERE: Descriptor = Descriptor {
    name: "elsewhere",
    readme: "",
    setup: |setup| {
        let name = setup.directive().words().one()?.text.parse().expect("a name");
        setup.install(Elsewhere(name));
        Ok(())
    },
};

/// Stands for the plugin that has certificates.
static TLS: Descriptor = Descriptor { name: "tls", readme: "", setup: |_| Ok(()) };

/// The registry of these tests.
static CHAIN: &[&Descriptor] = &[
    &super::PLUGIN,
    &TLS,
    &crate::tsig::PLUGIN,
    &crate::rewrite::PLUGIN,
    &crate::acl::PLUGIN,
    &crate::cache::PLUGIN,
    &REPLY,
    &ELSEWHERE,
    &crate::view::PLUGIN,
];

/// A folder of its own, gone with this value.
struct Place(PathBuf);

impl Place {
    /// An empty one.
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("causeway-identity-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// Writes a file; gives its path as text.
    fn write(&self, name: &str, text: impl AsRef<[u8]>) -> String {
        let (path, new) = (self.0.join(name), self.0.join("new"));
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
        path.display().to_string()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

/// New secrets.
fn made(name: &str, groups: &[&str]) -> Minted {
    let groups: Vec<_> = groups.iter().map(|group| (*group).to_owned()).collect();
    mint(name, &groups).unwrap()
}

/// The door of a bench.
fn door(bench: &Bench) -> Arc<dyn Door> {
    let live = bench.gateway.live();
    let group = live.groups().next().unwrap();
    Arc::clone(group.door.as_ref().unwrap())
}

/// What a front-end makes of a query: whether it comes to the door at all, then the text of the answer or its beginning.
fn knock(bench: &Bench, line: &str) -> String {
    let mut x = bench.exchange(&format!("{line} +norec"));
    let door = door(bench);
    let session = x.query.session.as_deref();
    if session.is_some_and(|session| !door.name(session.name.as_deref())) {
        return "no handshake".to_owned();
    }
    if session.is_some_and(|session| !door.connection(session)) {
        return "closed".to_owned();
    }
    if x.query.http.as_ref().is_some_and(|http| !door.request(session, http)) {
        return "404".to_owned();
    }
    let shown = engine::testing::show(&bench.serve(&mut x));
    assert_eq!(x.is_turned_away(), shown.starts_with("REFUSED"), "{shown}");
    shown.split('"').nth(1).unwrap_or(&shown).to_owned()
}

/// An authority, and a certificate in DER of a client that it knows.
fn certificate(place: &Place, name: &str) -> (String, String) {
    let mut authority = CertificateParams::default();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.distinguished_name.push(DnType::CommonName, name);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let mut client = CertificateParams::default();
    client.distinguished_name.push(DnType::OrganizationalUnitName, "unit,one");
    client.subject_alt_names = vec![SanType::Rfc822Name("carol@example.org".try_into().unwrap())];
    client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let client = client.signed_by(&KeyPair::generate().unwrap(), &authority).unwrap();
    let ca = place.write(&format!("{name}.pem"), authority.pem());
    (ca, place.write(&format!("{name}.der"), client.der()))
}

#[test]
fn the_first_that_is_presented_decides() {
    let place = Place::new("order");
    let (ca, good) = certificate(&place, "ours");
    let (_, bad) = certificate(&place, "theirs");
    let (alice, bob) = (made("alice", &["staff", "ops"]), made("bob", &[]));
    let lines = [alice.lines.join("\n"), bob.lines.join("\n")].join("\n");
    let secrets = place.write("secrets", lines);
    let mut bench = Bench::new(
        CHAIN,
        &format!(
            ". {{\n tls\n identity {{\n certificates {ca}\n secrets {secrets}\n names *.dns.example.com\n \
             networks office 198.51.100.0/24 2001:db8::/32 staff\n networks host 198.51.100.7\n }}\n \
             reply identity/name identity/groups identity/method\n}}\n"
        ),
    );
    let basic = |text: &str| {
        use base64::Engine as _;
        format!("+auth=Basic:{}", base64::prelude::BASE64_STANDARD.encode(text))
    };
    let (token, label) = (&*alice.token, &*alice.label);
    let alice_label = format!("+sni={label}.dns.example.com");
    let bob_label = format!("+sni={}.dns.example.com", bob.label);
    let bob_path = format!("+path={}", bob.token);
    let (good, bad) = (format!("+cert={good}"), format!("+cert={bad}"));
    let bearer = format!("+auth=Bearer:{token}");
    let refused = "REFUSED";
    for (from, line, want) in [
        // Nothing, and addresses.
        ("203.0.113.1", String::new(), refused),
        ("203.0.113.1", "+tls".into(), refused),
        ("203.0.113.1", "+tls +sni=dns.example.com".into(), refused),
        ("203.0.113.1", "+http".into(), refused),
        ("198.51.100.9", String::new(), "office staff network"),
        ("2001:db8::9", String::new(), "office staff network"),
        ("198.51.100.7", String::new(), "host  network"),
        // Labels, of one level below the name.
        ("203.0.113.1", alice_label.clone(), "alice staff,ops name"),
        ("198.51.100.9", alice_label.clone(), "alice staff,ops name"),
        ("198.51.100.9", "+sni=wrong.dns.example.com".into(), "no handshake"),
        ("198.51.100.9", format!("+sni={token}.dns.example.com"), "no handshake"),
        ("198.51.100.9", format!("+sni=a.{label}.dns.example.com"), "office staff network"),
        ("198.51.100.9", format!("+sni={label}.dns.example.org"), "office staff network"),
        // Paths.
        ("203.0.113.1", bob_path.clone(), "bob  path"),
        ("203.0.113.1", format!("{alice_label} {bob_path}"), "bob  path"),
        ("198.51.100.9", format!("+path={label}"), "404"),
        ("198.51.100.9", "+path=wrong".into(), "404"),
        ("198.51.100.9", format!("{alice_label} +path=wrong"), "404"),
        // The header.
        ("203.0.113.1", bearer.clone(), "alice staff,ops authorization"),
        ("203.0.113.1", format!("+auth=bEARER:{token}"), "alice staff,ops authorization"),
        ("203.0.113.1", basic(&format!("anybody:{token}")), "alice staff,ops authorization"),
        ("203.0.113.1", basic(&format!(":{token}")), "alice staff,ops authorization"),
        ("203.0.113.1", format!("{bob_path} {bearer}"), "alice staff,ops authorization"),
        ("198.51.100.9", format!("{bob_path} +auth=Bearer:wrong"), "404"),
        ("198.51.100.9", format!("{bob_path} +auth=Bearer:"), "404"),
        ("198.51.100.9", format!("{bob_path} +auth=Digest:{token}"), "404"),
        ("198.51.100.9", format!("+auth={token}"), "404"),
        ("198.51.100.9", basic(token), "404"),
        ("198.51.100.9", basic(&format!("{token}:")), "404"),
        ("198.51.100.9", format!("+auth=Basic:{token}="), "404"),
        ("198.51.100.9", basic(&format!("a:{}", "x".repeat(2000))), "404"),
        // Certificates.
        ("203.0.113.1", good.clone(), "carol@example.org unit\\044one certificate"),
        (
            "203.0.113.1",
            format!("{good} {bob_label}"),
            "carol@example.org unit\\044one certificate",
        ),
        (
            "203.0.113.1",
            format!("{good} +http +auth=Bearer:wrong"),
            "carol@example.org unit\\044one certificate",
        ),
        ("198.51.100.9", bad.clone(), "closed"),
        ("198.51.100.9", format!("{bad} {bearer}"), "closed"),
        ("198.51.100.9", format!("{good} +sni=wrong.dns.example.com"), "no handshake"),
    ] {
        bench.from(from.parse().unwrap());
        // A backslash is doubled where text is shown.
        assert_eq!(
            knock(&bench, &format!("a.test TXT {line}")).replace("\\\\", "\\"),
            want,
            "{from} {line}"
        );
    }
}

#[test]
fn a_key_stands_for_who_has_it() {
    let key = "secret k.example. NoTCJU+DMqFWywaPyxSijrDEA/eC3nK0xi3AMEZuPVk=";
    let mut bench = Bench::new(
        CHAIN,
        &format!(
            ". {{\n tsig {{\n {key}\n }}\n identity {{\n tsig K.example branch sites\n networks office 127.0.0.1\n }}\n reply ok\n}}\n"
        ),
    );
    let door = door(&bench);
    for (from, signature, want) in [
        (
            "127.0.0.1",
            Signature::Good("k.example".parse().unwrap()),
            Some(("branch", Method::Tsig)),
        ),
        ("127.0.0.1", Signature::Bad, None),
        // A good signature that stands for nobody is none.
        (
            "127.0.0.1",
            Signature::Good("other.example".parse().unwrap()),
            Some(("office", Method::Network)),
        ),
        ("127.0.0.1", Signature::None, Some(("office", Method::Network))),
    ] {
        bench.from(from.parse().unwrap());
        let mut x = bench.exchange("a.test");
        x.begin();
        x.query.signature = signature.clone();
        let admission = door.admit(&mut x);
        let who = x.identity().map(|who| (&*who.name, who.method));
        assert_eq!(who, want, "{signature:?}");
        let admitted = if want.is_some() { Admission::Open } else { Admission::Refused };
        assert_eq!(admission, admitted, "{signature:?}");
    }
}

#[test]
fn who_presents_nothing_gets_what_the_views_let_in() {
    for (default, line, want) in [
        ("default none", "a.open.test TXT", "open"),
        ("default none", "a.closed.test TXT", "REFUSED"),
        ("", "a.closed.test TXT", "REFUSED"),
        ("default anonymous", "a.closed.test TXT", "- - -"),
        ("default anonymous", "a.staff.test TXT", "REFUSED"),
    ] {
        let identity =
            format!("identity {{\n networks office 198.51.100.0/24 staff\n {default}\n }}");
        let mut bench = Bench::new(
            CHAIN,
            &format!(
                "open.test {{\n {identity}\n view everybody {{\n expr true\n }}\n reply open\n}}\n\
                 closed.test {{\n {identity}\n reply identity/name identity/groups identity/method\n}}\n\
                 staff.test {{\n {identity}\n view staff {{\n expr metadata('identity/name') != '' && 'staff' in groups()\n }}\n reply staff\n}}\n"
            ),
        );
        bench.from("203.0.113.1".parse().unwrap());
        let reply = bench.now(&format!("{line} +norec"));
        let reply = reply.split('"').nth(1).unwrap_or(&reply);
        assert_eq!(reply, want, "{default} {line}");
        bench.from("198.51.100.1".parse().unwrap());
        assert!(bench.now("a.staff.test TXT").contains("\"staff\""));
        assert!(bench.now("a.closed.test TXT").contains("\"office staff network\""));
    }
}

#[test]
fn groups_are_a_list_in_conditions() {
    for (condition, want) in [
        ("'ops' in groups()", true),
        ("'op' in groups()", false),
        ("\"any(groups(), # startsWith 'st')\"", true),
        ("len(groups()) == 2 && groups()[1] == 'ops'", true),
        ("groups() == ['staff', 'ops']", true),
        ("let groups = 7; groups == 7", true),
        ("not ('guest' in groups())", true),
        ("['ops'] == groups()", false),
    ] {
        let bench = Bench::new(
            CHAIN,
            &format!(
                "test {{\n identity {{\n networks me 127.0.0.0/8 staff ops\n }}\n view v {{\n expr {condition}\n }}\n reply yes\n}}\n"
            ),
        );
        assert_eq!(bench.now("a.test TXT").contains("\"yes\""), want, "{condition}");
    }
    for (condition, want) in [
        ("groups('x')", "groups takes no argument"),
        ("1 in groups()", "does not go between the types int and []string"),
        ("groups()", "which is never true"),
        ("groups", "functions are called with parentheses"),
    ] {
        let text = Bench::refused(
            CHAIN,
            &format!(
                "test {{\n identity {{\n networks me 127.0.0.0/8\n }}\n view v {{\n expr {condition}\n }}\n reply yes\n}}\n"
            ),
        );
        assert!(text.contains(want), "{condition}: {text}");
    }
    let text =
        Bench::refused(CHAIN, "test {\n view v {\n expr 'a' in groups()\n }\n reply yes\n}\n");
    assert!(text.contains("groups() needs the plugin identity"), "{text}");
}

#[test]
fn what_depends_on_who_asks_is_in_no_cache() {
    let identity = "identity {\n networks one 198.51.100.1\n networks two 198.51.100.2 staff\n }";
    let mut bench = Bench::new(
        CHAIN,
        &format!(
            "who.test {{\n {identity}\n cache\n reply identity/name count\n}}\n\
             all.test {{\n {identity}\n cache\n reply count\n}}\n\
             told.test {{\n {identity}\n rewrite edns0 local set 0xffee {{identity/name}}\n cache\n reply count\n}}\n\
             acl.test {{\n {identity}\n acl {{\n allow identity two\n block\n }}\n cache\n reply count\n}}\n\
             a.view.test {{\n {identity}\n cache\n elsewhere x.view.test\n}}\n\
             x.view.test {{\n {identity}\n view staff {{\n expr 'staff' in groups()\n }}\n reply staff\n}}\n\
             x.view.test {{\n {identity}\n reply others\n}}\n"
        ),
    );
    let mut ask = |from: &str, line: &str| {
        bench.from(from.parse().unwrap());
        let reply = bench.now(&format!("{line} TXT +norec"));
        reply.split('"').nth(1).unwrap_or_else(|| reply.split(" | ").next().unwrap()).to_owned()
    };
    for (from, line, want) in [
        ("198.51.100.1", "who.test", "one 1"),
        ("198.51.100.2", "who.test", "two 3"),
        ("198.51.100.1", "who.test", "one 5"),
        ("198.51.100.1", "all.test", "0"),
        ("198.51.100.2", "all.test", "0"),
        ("198.51.100.1", "told.test", "0"),
        ("198.51.100.2", "told.test", "1"),
        ("198.51.100.1", "told.test", "2"),
        ("198.51.100.2", "acl.test", "0"),
        ("198.51.100.1", "acl.test", "REFUSED"),
        ("198.51.100.2", "acl.test", "0"),
        ("198.51.100.2", "a.view.test", "staff"),
        ("198.51.100.1", "a.view.test", "others"),
        ("198.51.100.2", "a.view.test", "staff"),
    ] {
        assert_eq!(ask(from, line), want, "{from} {line}");
    }
}

#[test]
fn nested_queries_of_those_who_are_not_known_are_not_kept_for_others() {
    let identity = "identity {\n networks one 198.51.100.1\n }";
    for order in [["203.0.113.1", "198.51.100.1"], ["198.51.100.1", "203.0.113.1"]] {
        let mut bench = Bench::new(
            CHAIN,
            &format!(
                "open.test {{\n {identity}\n view all {{\n expr true\n }}\n cache\n elsewhere closed.test\n}}\n\
                 closed.test {{\n {identity}\n reply inside\n}}\n"
            ),
        );
        for from in order.into_iter().chain(order) {
            bench.from(from.parse().unwrap());
            let is_known = from == "198.51.100.1";
            assert_eq!(
                bench.now("open.test TXT").contains("inside"),
                is_known,
                "{from} of {order:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn background_runs_keep_nothing_of_those_they_were_begun_for() {
    let identity = "identity {\n networks one 198.51.100.1\n networks two 198.51.100.2 staff\n }";
    for (stale, last) in [("serve_stale 1h", ["-", "-"]), ("serve_stale 1h verify", ["one", "two"])]
    {
        let mut bench = Bench::new(
            CHAIN,
            &format!(
                "test {{\n {identity}\n cache {{\n prefetch 1 1m 90%\n {stale}\n }}\n reply later\n}}\n"
            ),
        );
        for (pass, from, want) in [
            // The first run reads nothing of the client; those in the background do.
            (0, "198.51.100.1", "-"),
            (20, "198.51.100.2", "-"),
            (12, "198.51.100.1", "-"),
            (60, "198.51.100.1", last[0]),
            (12, "198.51.100.2", last[1]),
        ] {
            bench.pass(Duration::from_secs(pass));
            bench.from(from.parse().unwrap());
            let reply = bench.ask("a.test TXT").await;
            // Time for what was begun in the background.
            tokio::time::sleep(Duration::from_millis(1)).await;
            assert_eq!(reply.split('"').nth(1), Some(want), "{stale} {from}: {reply}");
        }
    }
}

#[test]
fn acl_knows_names_and_groups() {
    let block = |lines: &str| {
        Bench::new(
            CHAIN,
            &format!(
                "test {{\n identity {{\n networks alice 127.0.0.1 staff ops\n networks bob 127.0.0.2 staff\n networks eve 127.0.0.3\n default anonymous\n }}\n \
                 acl {{\n {lines}\n }}\n reply ok\n}}\n"
            ),
        )
    };
    for (lines, allowed) in [
        ("allow identity alice\n block", [true, false, false, false]),
        ("allow identity alice eve\n block", [true, false, true, false]),
        ("allow identity alice identity eve\n block", [true, false, true, false]),
        ("allow identity *\n block", [true, true, true, false]),
        ("allow group staff\n block", [true, true, false, false]),
        ("allow group ops none\n block", [true, false, false, false]),
        ("allow group staff identity bob eve\n block", [false, true, false, false]),
        ("allow group staff net 127.0.0.1 127.0.0.3\n block", [true, false, false, false]),
        ("allow type TXT group ops\n block", [true, false, false, false]),
        ("allow type A group ops\n block", [false, false, false, false]),
        ("block identity eve\n allow", [true, true, false, true]),
        ("block group staff", [false, false, true, true]),
    ] {
        let mut bench = block(lines);
        for (from, allowed) in
            ["127.0.0.1", "127.0.0.2", "127.0.0.3", "127.0.0.4"].iter().zip(allowed)
        {
            bench.from(from.parse().unwrap());
            assert_eq!(bench.now("a.test TXT").contains("ok"), allowed, "{lines}: {from}");
        }
    }
    for (lines, want) in [
        ("allow group *", "'*' is no group (write identity * for everybody who is known)"),
        ("allow group", "'group' has nothing behind it (write the names of groups)"),
        ("allow identity", "'identity' has nothing behind it"),
        ("allow name alice", "'name' begins no section"),
    ] {
        let corefile = format!(
            "test {{\n identity {{\n networks a 127.0.0.1\n }}\n acl {{\n {lines}\n }}\n reply ok\n}}\n"
        );
        let text = Bench::refused(CHAIN, &corefile);
        assert!(text.contains(want), "{lines}: {text}");
    }
    let text = Bench::refused(CHAIN, "test {\n acl {\n block group staff\n }\n reply ok\n}\n");
    assert!(text.contains("identity and group need the plugin identity"), "{text}");
}

/// The rules of a file of secrets.
fn rules(secrets: &str, names: &[&str]) -> Rules {
    Rules {
        files: Files { secrets: Some(secrets.into()), authorities: Vec::new() },
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        networks: Networks::default(),
        tsig: Default::default(),
        default: Admission::Views,
    }
}

#[test]
fn a_line_taken_out_closes_connections_and_a_broken_file_changes_nothing() {
    let place = Place::new("watch");
    let (alice, bob) = (made("alice", &["staff"]), made("bob", &[]));
    let both = format!("{}\n{}\n", alice.lines.join("\n"), bob.lines.join("\n"));
    let path = place.write("secrets", &both);
    let door = Doorkeeper::new(rules(&path, &[".example.com", ".dns.example.com"])).unwrap();
    let mut changes = door.changes();
    let session = |minted: &Minted| Session {
        name: Some(format!("{}.dns.example.com", minted.label).into()),
        ..Session::default()
    };
    let (first, second) = (session(&alice), session(&bob));
    let mut stamps = door.refresh(&[]).unwrap();
    logged();
    changes.mark_unchanged();
    assert!(door.connection(&first) && door.connection(&second));
    assert_eq!(door.refresh(&stamps), None);
    // A token at the wrong place is what a line most likely has of a secret.
    for (broken, line) in [
        (format!("{both}carol {}\n", bob.token), 7),
        (format!("carol path:sha256:{} staff\n", bob.token), 1),
        (format!("\n{}:sha256:{}\n", alice.label, "0".repeat(63)), 2),
    ] {
        place.write("secrets", &broken);
        stamps = door.refresh(&stamps).unwrap();
        let lines = logged();
        assert_eq!(lines.len(), 1, "{lines:?}");
        assert!(
            lines[0].starts_with(&format!("[ERROR] plugin/identity: {path}:{line}: ")),
            "{lines:?}"
        );
        for secret in [&alice.token, &alice.label, &bob.token, &bob.label] {
            assert!(!lines[0].contains(&**secret), "{lines:?}");
        }
        assert_eq!(door.refresh(&stamps), None, "it is said once");
        assert!(door.connection(&first) && !changes.has_changed().unwrap());
    }
    std::fs::remove_file(&path).unwrap();
    stamps = door.refresh(&stamps).unwrap();
    assert!(door.connection(&first) && logged().len() == 1);
    place.write("secrets", bob.lines.join("\n"));
    door.refresh(&stamps).unwrap();
    assert!(changes.has_changed().unwrap());
    assert!(!door.connection(&first) && !door.name(first.name.as_deref()));
    assert!(door.connection(&second) && door.name(second.name.as_deref()));
    let text = format!("{:?}", logged());
    assert!(!text.contains(&bob.label) && !text.contains("sha256"), "{text}");
}

#[test]
fn a_certificate_is_revoked_by_its_fingerprint_and_over_at_its_end() {
    let place = Place::new("revoked");
    let (ca, good) = certificate(&place, "ours");
    let der = std::fs::read(good).unwrap();
    let session = Session { certificates: [der.clone().into()].into(), ..Session::default() };
    let path = place.write("secrets", "# nothing yet\n");
    let mut rules = rules(&path, &[]);
    rules.files.authorities.push(ca.into());
    let door = Doorkeeper::new(rules).unwrap();
    let stamps = door.refresh(&[]).unwrap();
    assert!(door.connection(&session));
    let print: String = certs::fingerprint(&der).iter().map(|byte| format!("{byte:02X}")).collect();
    place.write("secrets", format!("- sha256:{print}\n"));
    door.refresh(&stamps).unwrap();
    assert!(!door.connection(&session));
}

#[tokio::test]
async fn files_are_watched_over_a_reload() {
    let place = Place::new("reload");
    let alice = made("alice", &[]);
    let path = place.write("secrets", alice.lines.join("\n"));
    let corefile =
        |word: &str| format!(". {{\n identity {{\n secrets {path}\n }}\n reply {word}\n}}\n");
    let mut bench = Bench::new(CHAIN, &corefile("one"));
    let first = door(&bench);
    bench.reload(&corefile("two")).unwrap();
    assert!(Arc::ptr_eq(&first, &door(&bench)), "connections stay known over a reload");
    let mut changes = first.changes();
    place.write("secrets", "");
    tokio::time::timeout(Duration::from_secs(20), changes.changed()).await.unwrap().unwrap();
    assert_eq!(knock(&bench, &format!("a.test TXT +path={}", alice.token)), "404");
}

#[test]
fn blocks_of_a_listener_have_the_same_lines() {
    let place = Place::new("same");
    let path = place.write("secrets", "");
    let block = |zone: &str, lines: &str| format!("{zone} {{\n {lines}\n reply ok\n}}\n");
    let lines = format!("identity {{\n secrets {path}\n }}");
    let other = "identity {\n networks a 127.0.0.1\n }";
    Bench::new(CHAIN, &[block("a.test", &lines), block("b.test", &lines)].concat());
    Bench::new(CHAIN, &[block("a.test", &lines), block("b.test:1053", other)].concat());
    for second in [other, ""] {
        let text =
            Bench::refused(CHAIN, &[block("a.test", &lines), block("b.test", second)].concat());
        assert!(
            text.contains("another block at dns://:53 has other `identity` lines, or none"),
            "{text}"
        );
    }
}

#[test]
fn wrong_lines_are_refused() {
    let place = Place::new("lines");
    let secrets = place.write("secrets", "");
    let broken = place.write("broken", "alice path:sha256:abcdef\n");
    let tsig = "tsig k.example branch";
    for (lines, want) in [
        ("", "'identity' knows nobody (write certificates, secrets, networks or tsig"),
        ("default none", "'identity' knows nobody"),
        (
            "certificates",
            "unexpected line ending after 'certificates' (write: certificates CA [CA...])",
        ),
        ("certificates /nowhere/ca.pem", "/nowhere/ca.pem: "),
        (&format!("certificates {secrets}"), "is empty (write a PEM file with the CAs of clients)"),
        ("secrets", "unexpected line ending after 'secrets' (write: secrets FILE)"),
        ("secrets /nowhere/secrets", "/nowhere/secrets: No such file"),
        ("secrets /", "Is a directory"),
        (&format!("secrets {broken}"), "broken:1: the hash has not 64 hexadecimal digits"),
        (&format!("secrets {secrets} b"), "'b' is one too many"),
        (&format!("secrets {secrets}\n secrets {secrets}"), "'secrets' stands there twice"),
        ("names *.example.org\n networks a 127.0.0.1", "`names` needs `secrets`"),
        (
            &format!("secrets {secrets}\n names example.org"),
            "'example.org' is no pattern (write *.DOMAIN",
        ),
        (&format!("secrets {secrets}\n names *.*.example.org"), "is no pattern"),
        (&format!("secrets {secrets}\n names *."), "is no pattern"),
        (&format!("secrets {secrets}\n names"), "(write: names *.DOMAIN [*.DOMAIN...])"),
        ("networks", "(write: networks NAME NETWORK [NETWORK...] [GROUP...])"),
        ("networks office", "(write: networks NAME NETWORK [NETWORK...] [GROUP...])"),
        ("networks office staff", "'staff' is no network such as"),
        ("networks office 10.0.0.0/33 staff", "'10.0.0.0/33' is no network such as"),
        ("networks office 10.0.0.0/8 staff 10.1.0.0/16", "'10.1.0.0/16' stands behind a group"),
        ("networks office 10.0.0.0/8 10.0.0.1/8", "'10.0.0.1/8' is named already"),
        ("networks a 10.0.0.0/8\n networks b 10.0.0.0/8", "'10.0.0.0/8' is named already"),
        ("networks a,b 10.0.0.0/8", "'a,b' has a comma"),
        ("networks - 10.0.0.0/8", "'-' has a meaning of its own"),
        ("networks a 10.0.0.0/8 *", "'*' has a meaning of its own"),
        (tsig, "'k.example' is a key of the plugin tsig, which the block does not have"),
        ("tsig k.example", "(write: tsig KEY NAME [GROUP...])"),
        ("tsig k..example branch", "'k..example' is no domain name"),
        (&format!("{tsig}\n {tsig}"), "'k.example' is named already"),
        ("default", "(write: default none|anonymous)"),
        ("default all", "'all' is not known here"),
        ("networks a 127.0.0.1\n default none\n default none", "'default' stands there twice"),
        ("passwords x", "'passwords' is not a property"),
        ("secret x", "did you mean 'secrets'?"),
    ] {
        let text = Bench::refused(
            CHAIN,
            &format!("test {{\n identity {{\n {lines}\n }}\n reply ok\n}}\n"),
        );
        assert!(text.contains(want), "{lines}: {text}");
    }
    let text = Bench::refused(CHAIN, "test {\n identity office\n reply ok\n}\n");
    assert!(text.contains("'office' is one too many"), "{text}");
}

#[test]
fn what_is_odd_is_a_warning() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new("odd");
    let path = place.write("secrets", "");
    for (mode, lines, want) in [
        (0o640, format!("secrets {path}"), None),
        (0o644, format!("secrets {path}"), Some("can be read by everybody on this machine")),
        (0o600, format!("secrets {path}\n names *.example.org"), Some("the block has no tls")),
    ] {
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let bench =
            Bench::new(CHAIN, &format!("test {{\n identity {{\n {lines}\n }}\n reply ok\n}}\n"));
        let warnings: Vec<_> = bench.built.warnings.iter().map(|one| &*one.what).collect();
        match want {
            None => assert!(warnings.is_empty(), "{warnings:?}"),
            Some(want) => {
                assert!(warnings.len() == 1 && warnings[0].contains(want), "{warnings:?}")
            }
        }
    }
}

#[test]
fn decisions_are_counted_without_names() {
    let place = Place::new("counted");
    let alice = made("alice-of-the-metrics", &["group-of-the-metrics"]);
    let path = place.write("secrets", alice.lines.join("\n"));
    let bench = Bench::new(
        CHAIN,
        &format!(
            "test {{\n tls\n identity {{\n secrets {path}\n names *.dns.example.com\n }}\n reply identity/name\n}}\n"
        ),
    );
    for line in [
        format!("+sni={}.dns.example.com", alice.label),
        "+sni=wrong.dns.example.com".to_owned(),
        format!("+path={}", alice.token),
        "+path=wrong".to_owned(),
        format!("+auth=Bearer:{}", alice.token),
        "+auth=Bearer:wrong".to_owned(),
        String::new(),
    ] {
        knock(&bench, &format!("a.test TXT {line}"));
    }
    let text = engine::metrics::render();
    for labels in [
        "method=\"name\",outcome=\"known\"",
        "method=\"name\",outcome=\"refused\"",
        "method=\"path\",outcome=\"known\"",
        "method=\"path\",outcome=\"refused\"",
        "method=\"authorization\",outcome=\"known\"",
        "method=\"authorization\",outcome=\"refused\"",
        "method=\"none\",outcome=\"unknown\"",
    ] {
        let line = format!("causeway_identity_admissions_total{{{labels}}} ");
        let count = text.lines().find_map(|own| own.strip_prefix(&*line)).unwrap();
        assert_ne!(count, "0", "{line}");
    }
    for secret in [&alice.token, &alice.label, "of-the-metrics", "sha256"] {
        assert!(!text.contains(secret), "{secret}");
    }
}

#[test]
fn nothing_that_is_printed_has_a_secret() {
    let place = Place::new("printed");
    let alice = made("alice", &[]);
    let path = place.write("secrets", alice.lines.join("\n"));
    let bench = Bench::new(
        CHAIN,
        &format!(
            "test {{\n tls\n identity {{\n secrets {path}\n names *.dns.example.com\n }}\n reply identity/name\n}}\n"
        ),
    );
    let line = format!(
        "a.test TXT +sni={}.dns.example.com +path={} +auth=Bearer:{}",
        alice.label, alice.token, alice.token
    );
    assert_eq!(knock(&bench, &line), "alice");
    let mut x = bench.exchange(&line);
    bench.serve(&mut x);
    let session = x.query.session.clone().unwrap();
    let printed = format!(
        "{x:?} {:?} {session:?} {:?} {:?} {:?} {:?}",
        x.query,
        session.kept,
        door(&bench),
        bench.gateway,
        alice
    );
    for secret in [&*alice.token, &*alice.label, "sha256"] {
        assert!(!printed.contains(secret), "{printed}");
    }
    for hash in alice.lines.iter().map(|line| line.rsplit(':').next().unwrap()) {
        assert!(!printed.contains(hash), "{printed}");
    }
}
