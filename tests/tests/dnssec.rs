//! What is signed is taken by those who check it: BIND's `delv` and `dnssec-verify`, Unbound, and ldns; with keys in files, and in
//! a secrets manager that is not ours: moto.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use tests::moto::Moto;
use tests::{Folder, Gateway, Process, free_port, until};

/// How long anything here may take; a slow machine under load is no reason to fail.
const LIMIT: Duration = Duration::from_secs(60);

/// The key of the zones, as BIND has made it.
const KEY: &str = "Kexample.org.+013+17122";
/// One that has made nothing.
const STRANGER: &str = "Kexample.org.+015+34131";

/// The zone; the DS records of `sec` are put behind it.
const ZONE: &str = "$TTL 300
@ SOA ns1 hostmaster 1 7200 3600 1209600 60
@ NS ns1
@ MX 10 mail
ns1 A 203.0.113.53
mail A 203.0.113.25
mail MX 10 mail
www A 203.0.113.80
www A 203.0.113.81
alias CNAME www
dang CNAME nowhere
a.ent A 203.0.113.9
*.w A 203.0.113.10
sub NS ns1
sec NS ns1
dn DNAME w
";

/// A zone below, and what it has.
const CHILD: &str = "$TTL 60\n@ SOA a b 1 2 3 4 5\n@ NS a\na A 203.0.113.1\n";

/// What is asked of every zone file.
const QUESTIONS: &[(&str, &str)] = &[
    ("", "SOA"),
    ("", "DNSKEY"),
    ("", "MX"),
    ("", "TXT"),
    ("www", "A"),
    ("www", "ANY"),
    ("www", "NSEC"),
    ("www", "TXT"),
    ("nope", "A"),
    ("a.b.nope", "AAAA"),
    ("ent", "A"),
    ("x.w", "A"),
    ("x.w", "TXT"),
    ("alias", "A"),
    ("alias", "TXT"),
    ("dang", "A"),
    ("x.dn", "A"),
    ("x.dn", "TXT"),
    ("sub", "DS"),
    ("sec", "DS"),
    ("www", "DS"),
];

/// The file of a sample key.
fn sample(name: &str, ending: &str) -> PathBuf {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let folder = repository.join("gateway/plugins/src/shared/dnssec/samples");
    folder.join(format!("{name}.{ending}"))
}

/// Runs a program of a Debian package, whatever its status; what it prints.
fn program(name: &str, package: &str, arguments: &[&str], folder: &Path) -> (bool, String) {
    let done = Command::new(name).args(arguments).current_dir(folder).output();
    let done = done.unwrap_or_else(|error| panic!("{name} (Debian's {package}): {error}"));
    let text = [done.stdout, done.stderr].concat();
    (done.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The name of a question.
fn name(first: &str) -> String {
    if first.is_empty() { "example.org.".to_owned() } else { format!("{first}.example.org.") }
}

/// The gateway with the same zone from several sources, and the keys of `sec.example.org`.
fn gateway() -> (Gateway, Folder) {
    let folder = Folder::new("dnssec");
    let arguments = ["-q", "-a", "ECDSAP256SHA256", "-f", "KSK", "sec.example.org"];
    let (made, child) = program("dnssec-keygen", "bind9-utils", &arguments, folder.path());
    assert!(made, "{child}");
    let child = child.trim().to_owned();
    let arguments = ["-2", &*format!("{child}.key")];
    let (made, ds) = program("dnssec-dsfromkey", "bind9-utils", &arguments, folder.path());
    assert!(made, "{ds}");
    let read = |path: PathBuf| std::fs::read_to_string(path).unwrap();
    let dnssec = format!("bind 127.0.0.1\n dnssec {{\n  key file {KEY}\n }}");
    let corefile = format!(
        "example.org:@PORT:live@ {{\n {dnssec}\n file db\n}}
example.org:@PORT:signed@ {{\n bind 127.0.0.1\n file db.example.org.signed {{\n  reload 1s\n }}\n sign db {{\n  key file {KEY}\n  directory .\n }}\n}}
example.org:@PORT:hosts@ {{\n {dnssec}\n hosts {{\n  203.0.113.80 www.example.org\n  no_reverse\n }}\n}}
example.org:@PORT:template@ {{\n {dnssec}\n template IN A {{\n  match ^www\n  answer \"{{{{ .Name }}}} 60 IN A 203.0.113.80\"\n  fallthrough\n }}\n template ANY ANY {{\n  rcode NXDOMAIN\n }}\n}}
sub.example.org:@PORT:sub@ {{\n bind 127.0.0.1\n file child\n}}
sec.example.org:@PORT:sec@ {{\n bind 127.0.0.1\n dnssec {{\n  key file {child}\n }}\n file child\n}}
.:@PORT:page@ {{\n bind 127.0.0.1\n prometheus 127.0.0.1:@PORT:metrics@\n}}\n"
    );
    let mut builder =
        Gateway::new(&corefile).file("db", &format!("{ZONE}{ds}")).file("child", CHILD);
    for ending in ["key", "private"] {
        builder = builder.file(&format!("{KEY}.{ending}"), &read(sample(KEY, ending)));
        let file = format!("{child}.{ending}");
        builder = builder.file(&file, &read(folder.path().join(&file)));
    }
    (builder.start(), folder)
}

/// Asks by `delv`, which trusts one key; what it prints.
fn delv(folder: &Folder, port: u16, key: &str, (first, kind): (&str, &str)) -> String {
    let text = std::fs::read_to_string(sample(key, "key")).unwrap();
    let record = text.lines().find(|line| !line.starts_with(';')).unwrap();
    let (_, data) = record.split_once("DNSKEY ").unwrap();
    let words: Vec<&str> = data.splitn(4, ' ').collect();
    let anchors = format!(
        "trust-anchors {{ \"example.org\" static-key {} {} {} \"{}\"; }};\n",
        words[0], words[1], words[2], words[3]
    );
    folder.write("anchors", anchors);
    let (port, name) = (port.to_string(), name(first));
    let arguments = ["@127.0.0.1", "-p", &port, "-a", "anchors", "+root=example.org", &name, kind];
    program("delv", "bind9-dnsutils", &arguments, folder.path()).1
}

/// Whether `delv` has found everything right.
fn validated(text: &str) -> bool {
    text.contains("fully validated")
        && !["unsigned", "broken trust chain", "format error", "no valid"]
            .iter()
            .any(|bad| text.contains(bad))
}

#[test]
fn delv_takes_answers_denials_aliases_and_delegations() {
    let (gateway, folder) = gateway();
    gateway.line("Successfully signed zone");
    let port = |name: &str| gateway.address_of(name).port();
    let ready = || validated(&delv(&folder, port("signed"), KEY, ("", "SOA"))).then_some(());
    until(LIMIT, ready).expect("the signed zone is served");
    for source in ["live", "signed"] {
        for question in QUESTIONS {
            let text = delv(&folder, port(source), KEY, *question);
            assert!(validated(&text), "{source} {question:?}:\n{text}");
        }
    }
    for source in ["hosts", "template"] {
        for question in [("www", "A"), ("www", "TXT"), ("nope", "A"), ("", "DNSKEY")] {
            if source == "hosts" && question.0 == "nope" {
                // What no host has fails there, as without signatures.
                continue;
            }
            let text = delv(&folder, port(source), KEY, question);
            assert!(validated(&text), "{source} {question:?}:\n{text}");
        }
    }
    // Who trusts another key takes nothing.
    for question in [("www", "A"), ("nope", "A")] {
        let text = delv(&folder, port("live"), STRANGER, question);
        assert!(!validated(&text) && text.contains("resolution failed"), "{text}");
    }
}

/// A validating resolver with the key as its trust anchor; stopped with this value.
struct Unbound {
    process: Process,
    port: u16,
    folder: Folder,
}

impl Unbound {
    /// One that asks the gateway.
    fn start(gateway: &Gateway, source: &str) -> Self {
        let (folder, port) = (Folder::new("unbound"), free_port());
        let path = folder.path().display().to_string();
        let stub = |zone: &str, name: &str| {
            let port = gateway.address_of(name).port();
            format!("stub-zone:\n name: \"{zone}\"\n stub-addr: 127.0.0.1@{port}\n")
        };
        let config = format!(
            "server:\n username: \"\"\n chroot: \"\"\n directory: \"{path}\"\n pidfile: \"{path}/pid\"\n use-syslog: no\n interface: 127.0.0.1@{port}\n do-ip6: no\n do-daemonize: no\n \
             do-not-query-localhost: no\n module-config: \"validator iterator\"\n val-log-level: 2\n aggressive-nsec: yes\n trust-anchor-file: \"{}\"\nremote-control:\n control-enable: no\n{}{}{}",
            sample(KEY, "key").display(),
            stub("example.org", source),
            stub("sub.example.org", "sub"),
            stub("sec.example.org", "sec"),
        );
        let file = folder.write("conf", config);
        let mut command = Command::new("unbound");
        command.arg("-d").arg("-c").arg(file).env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
        let process = Process::start("unbound", command);
        let own = Self { process, port, folder };
        let up = || own.ask(("", "SOA")).contains("status: NOERROR").then_some(());
        until(LIMIT, up).unwrap_or_else(|| {
            panic!("Unbound (Debian's unbound) does not answer:\n{}", own.process.output())
        });
        own
    }

    /// What `dig` prints of its reply.
    fn ask(&self, (first, kind): (&str, &str)) -> String {
        let (port, name) = (self.port.to_string(), name(first));
        let arguments =
            ["@127.0.0.1", "-p", &port, "+dnssec", "+tries=1", "+timeout=15", &name, kind];
        program("dig", "bind9-dnsutils", &arguments, self.folder.path()).1
    }

    /// Whether a reply has this response code, and is secure or not.
    fn says(&self, question: (&str, &str), code: &str, secure: bool) {
        let text = self.ask(question);
        let flags = text.lines().find(|line| line.starts_with(";; flags:")).unwrap_or_default();
        let flags = flags.split(';').nth(2).unwrap_or_default();
        let own =
            (text.contains(&format!("status: {code}")), flags.split(' ').any(|flag| flag == "ad"));
        assert_eq!(own, (true, secure), "{question:?}:\n{text}\n{}", self.process.output());
    }
}

#[test]
fn unbound_takes_answers_denials_aliases_and_delegations() {
    let (mut gateway, _folder) = gateway();
    gateway.line("Successfully signed zone");
    let at = gateway.address_of("signed").port().to_string();
    let arguments = ["@127.0.0.1", "-p", &at, "example.org", "SOA"];
    let ready = || {
        let (_, text) = program("dig", "bind9-dnsutils", &arguments, gateway.folder());
        text.contains("status: NOERROR").then_some(())
    };
    until(LIMIT, ready).expect("the signed zone is served");
    for source in ["live", "signed"] {
        let unbound = Unbound::start(&gateway, source);
        let absent = if source == "live" { "NOERROR" } else { "NXDOMAIN" };
        for question in QUESTIONS {
            let missing = matches!(question.0, "nope" | "a.b.nope" | "dang");
            unbound.says(*question, if missing { absent } else { "NOERROR" }, true);
        }
        // One zone below is not signed, the other is.
        for question in [("a.sub", "A"), ("sub", "SOA"), ("x.sub", "TXT")] {
            let code = if question.0 == "x.sub" { "NXDOMAIN" } else { "NOERROR" };
            unbound.says(question, code, false);
        }
        for question in [("a.sec", "A"), ("sec", "SOA"), ("x.sec", "TXT"), ("a.sec", "TXT")] {
            unbound.says(question, "NOERROR", true);
        }
        // What a denial leaves open is not denied to the next one who asks (RFC 8198).
        unbound.says(("mail", "AAAA"), "NOERROR", true);
        assert!(unbound.ask(("mail", "MX")).contains("ANSWER: 2"), "{source}");
    }
    // Without the gateway nothing is made up.
    let unbound = Unbound::start(&gateway, "live");
    gateway.stop();
    let text = unbound.ask(("late.w", "A"));
    // It may still be trying.
    assert!(text.contains("status: SERVFAIL") || text.contains("timed out"), "{text}");
}

#[test]
fn verifiers_take_a_signed_zone_file() {
    let (gateway, _folder) = gateway();
    gateway.line("Successfully signed zone");
    let (folder, file) = (gateway.folder(), "db.example.org.signed");
    // The key is a common one.
    let checks: [(&str, &str, &[&str]); 3] = [
        ("dnssec-verify", "bind9-utils", &["-z", "-o", "example.org", file]),
        ("ldns-verify-zone", "ldnsutils", &[file]),
        ("named-checkzone", "bind9-utils", &["example.org", file]),
    ];
    for (name, package, arguments) in checks {
        let (good, text) = program(name, package, arguments, folder);
        assert!(good, "{name}:\n{text}");
    }
    // They do find what is wrong.
    let text = std::fs::read_to_string(folder.join(file)).unwrap();
    std::fs::write(folder.join("wrong"), text.replace("203.0.113.80", "203.0.113.82")).unwrap();
    assert!(
        !program("dnssec-verify", "bind9-utils", &["-z", "-o", "example.org", "wrong"], folder).0
    );
    assert!(!program("ldns-verify-zone", "ldnsutils", &["wrong"], folder).0);
}

#[test]
fn the_last_good_keys_sign_while_the_files_are_broken() {
    let (mut gateway, folder) = gateway();
    let file = format!("{KEY}.private");
    gateway.write(&file, "Private-key-format: v1.3\n");
    gateway.line("the last good keys go on signing");
    let metric = "causeway_dnssec_keys_broken{zones=\"example.org.\"}";
    assert_eq!(gateway.metrics("metrics").get(metric), Some(&1.0));
    let port = gateway.address_of("live").port();
    assert!(validated(&delv(&folder, port, KEY, ("new.w", "A"))));
    let text = std::fs::read_to_string(sample(KEY, "private")).unwrap();
    gateway.write(&file, &text);
    gateway.line("the keys are now 17122");
    assert_eq!(gateway.metrics("metrics").get(metric), Some(&0.0));
}

/// The fact `dnssec.key.aws`.
#[test]
fn keys_come_from_a_real_secrets_manager() {
    let mut moto = Moto::start();
    let read = |name: &str| {
        let text = |ending: &str| std::fs::read_to_string(sample(name, ending)).unwrap();
        serde_json::json!({ "key": text("key"), "private": text("private") }).to_string()
    };
    moto.admin(&["secret", "dns/zone", &read(KEY)]);
    let corefile = |id: &str, capacity: u32| {
        format!(
            "example.org:@PORT@ {{\n bind 127.0.0.1\n errors\n dnssec {{\n  key aws_secretsmanager {id}\n  cache_capacity {capacity}\n }}\n file db\n}}"
        )
    };
    let start = |moto: &Moto, id: &str| {
        Gateway::new(&corefile(id, 100))
            .file("db", ZONE)
            .env("AWS_ENDPOINT_URL", &moto.url())
            .env("AWS_ACCESS_KEY_ID", "AKID")
            .env("AWS_SECRET_ACCESS_KEY", "s3cretkey")
            .env("AWS_REGION", "us-east-1")
    };
    let refused = |moto: &Moto, id: &str, wanted: &[&str]| {
        let (status, output) = start(moto, id).refused();
        assert!(!status.success() && wanted.iter().all(|text| output.contains(text)), "{output}");
        assert!(!output.contains("s3cret") && !output.contains("PrivateKey"), "{output}");
    };
    let mut gateway = start(&moto, "dns/zone").start();
    let folder = Folder::new("secrets");
    let signs = |gateway: &Gateway, key: &str| {
        let text = delv(&folder, gateway.address().port(), key, ("www", "A"));
        assert!(validated(&text), "{key}:\n{text}\n{}", gateway.output());
    };
    signs(&gateway, KEY);
    // An ARN names it as well, whatever is behind the name in it.
    let arn = moto.admin(&["arn", "dns/zone"]);
    signs(&start(&moto, &arn).start(), KEY);
    // What is no secret, or no key, is refused at the start without a word of it.
    refused(&moto, "dns/none", &["secret \"dns/none\": ", "ResourceNotFoundException"]);
    moto.admin(&["secret", "dns/text", "s3cret text"]);
    refused(&moto, "dns/text", &["secret \"dns/text\": it is not of the form"]);
    let wrong = read(KEY).replace("Algorithm: 13", "Algorithm: 8");
    moto.admin(&["secret", "dns/zone", &wrong]);
    refused(&moto, "dns/zone", &["secret \"dns/zone\": "]);
    // A configuration that serves stays, with its keys.
    gateway.write("Corefile", &corefile("dns/zone", 101));
    gateway.reload();
    gateway.line("Restart failed");
    signs(&gateway, KEY);
    // Another key comes with another configuration.
    moto.admin(&["secret", "dns/zone", &read(STRANGER)]);
    gateway.write("Corefile", &corefile("dns/zone", 102));
    gateway.reload();
    gateway.line("Reloading complete");
    signs(&gateway, STRANGER);
    // Nobody is there: what is held signs on, also over a reload that needs no others, and nothing starts anew.
    moto.pause();
    gateway.write("Corefile", &format!("{}\n# more\n", corefile("dns/zone", 102)));
    gateway.reload();
    let told = || (gateway.output().matches("Reloading complete").count() == 2).then_some(());
    until(LIMIT, told).unwrap_or_else(|| panic!("{}", gateway.output()));
    signs(&gateway, STRANGER);
    refused(&moto, "dns/zone", &["secret \"dns/zone\": "]);
}
