//! `docs/parity`: each fact about CoreDNS is checked by a test or a recorded case, or is a difference that is written down.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use tests::process::{repository, run};

/// How many facts each file has, so that none gets lost.
const FACTS: &[(&str, usize)] = &[
    ("acl", 20),
    ("any", 4),
    ("auto", 14),
    ("autopath", 11),
    ("azure", 9),
    ("bind", 8),
    ("bufsize", 5),
    ("cache", 37),
    ("cancel", 5),
    ("chaos", 5),
    ("cli", 17),
    ("clouddns", 8),
    ("core", 47),
    ("corefile", 22),
    ("debug", 5),
    ("dns64", 10),
    ("dnssec", 22),
    ("dnstap", 18),
    ("erratic", 10),
    ("errors", 10),
    ("etcd", 22),
    ("file", 33),
    ("forward", 41),
    ("geoip", 9),
    ("grpc", 11),
    ("grpc_server", 5),
    ("header", 7),
    ("health", 8),
    ("hosts", 17),
    ("https", 5),
    ("https3", 5),
    ("import-deprecated", 2),
    ("k8s_external", 21),
    ("kubernetes", 54),
    ("loadbalance", 10),
    ("local", 10),
    ("log", 19),
    ("loop", 7),
    ("metadata", 7),
    ("minimal", 5),
    ("multisocket", 5),
    ("nomad", 15),
    ("nsid", 5),
    ("on", 6),
    ("pprof", 5),
    ("prometheus", 26),
    ("proxyproto", 11),
    ("quic", 6),
    ("ready", 8),
    ("reload", 10),
    ("rewrite", 30),
    ("root", 5),
    ("route53", 14),
    ("secondary", 17),
    ("shared", 26),
    ("shed", 7),
    ("sign", 11),
    ("template", 27),
    ("timeouts", 5),
    ("tls", 16),
    ("trace", 14),
    ("transfer", 20),
    ("tsig", 18),
    ("view", 19),
    ("whoami", 6),
];

/// The files that are about parts of the server and not about a plugin.
const PARTS: &[&str] = &["shared", "core", "corefile", "cli", "import-deprecated", "reports"];

/// The plugins that may still be missing. Once one is in the registry, each of its facts has to be checked.
const WAITING: &[&str] = &["trace"];

/// Facts that are about a plugin of [`WAITING`] and stand with another one, and that plugin.
const BELONGS: &[(&str, &str)] = &[("forward.trace", "trace")];

/// A fact: where it stands, its ID, and what checks it.
struct Fact {
    /// The name of its file, without the ending.
    part: String,
    id: String,
    checks: Vec<Check>,
}

/// How Causeway is held to a fact.
enum Check {
    /// A test, by its function; with the folder or the file that it is in where several have the name.
    Test { place: Option<String>, name: String },
    /// Recorded cases.
    Case(String),
    /// A row of the table of differences.
    Differs,
}

/// Reads a text of the repository.
fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(repository().join(path)).unwrap()
}

/// Reads all tables.
fn facts() -> Vec<Fact> {
    let names = FACTS.iter().map(|(part, _)| *part);
    let facts = names.flat_map(|part| facts_of(part, &read(format!("docs/parity/{part}.md"))));
    facts.chain(reports()).collect()
}

/// Reads the table of reports about other servers, which has the same form.
fn reports() -> Vec<Fact> {
    facts_of("reports", &read("docs/reports.md"))
}

/// Reads a table.
fn facts_of(part: &str, text: &str) -> Vec<Fact> {
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ID "));
    let facts = lines.map(|line| {
        // A stroke in a fact is escaped.
        let line = line.replace("\\|", "/");
        let cells: Vec<&str> = line.trim().trim_matches('|').split('|').map(str::trim).collect();
        let [id, fact, checks] = cells[..] else { panic!("{part}: not three cells: {line}") };
        assert!(!id.is_empty() && !fact.is_empty(), "{part}: {line}");
        let checks = checks.split(',').map(str::trim).filter(|check| !check.is_empty());
        let checks = checks.map(|text| {
            check(text)
                .unwrap_or_else(|| panic!("{part}, {id}: '{text}' is no test, case or differs"))
        });
        Fact { part: part.to_owned(), id: id.to_owned(), checks: checks.collect() }
    });
    facts.collect()
}

/// Reads what checks a fact.
fn check(text: &str) -> Option<Check> {
    if text == "differs" {
        return Some(Check::Differs);
    }
    let quoted = |text: &str| Some(text.strip_prefix('`')?.strip_suffix('`')?.to_owned());
    if let Some(case) = text.strip_prefix("case ") {
        return quoted(case).map(Check::Case);
    }
    let text = quoted(text)?;
    let (place, name) = match text.rsplit_once("::") {
        Some((place, name)) => (Some(place.to_owned()), name.to_owned()),
        None => (None, text),
    };
    let is_name =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    is_name.then_some(Check::Test { place, name })
}

/// The test functions of the workspace, each with the files that have one of the name.
fn tests() -> BTreeMap<String, Vec<String>> {
    let files = run(Command::new("git").current_dir(repository()).args(["ls-files", "*.rs"]));
    let mut found = BTreeMap::<String, Vec<String>>::new();
    for file in files.lines() {
        let text = std::fs::read_to_string(repository().join(file)).unwrap_or_default();
        let mut is_test = false;
        for line in text.lines().map(str::trim_start) {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
            let function = ["fn ", "async fn "].iter().find_map(|begin| line.strip_prefix(begin));
            if let Some(function) = function {
                let name = function.split(['(', '<']).next().unwrap_or_default();
                if std::mem::take(&mut is_test) {
                    found.entry(name.to_owned()).or_default().push(file.to_owned());
                }
            }
        }
    }
    found
}

/// Whether a file lies in a folder of this name, or has it itself.
fn lies_in(file: &str, place: &str) -> bool {
    file.split('/').any(|part| part == place || part.strip_suffix(".rs") == Some(place))
}

/// The cases that are run.
fn cases() -> BTreeSet<String> {
    let ready = read("tests/cases/ready.txt");
    let lines = ready.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines.filter(|line| !line.is_empty()).map(ToOwned::to_owned).collect()
}

/// What the first cells of the table of differences have in backticks, where it has the form of an ID.
fn differences() -> BTreeSet<String> {
    let text = read("docs/differences.md");
    let rows = text.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1).map(ToOwned::to_owned));
    let quoted = cells.flat_map(|cell| {
        cell.split('`').skip(1).step_by(2).map(ToOwned::to_owned).collect::<Vec<_>>()
    });
    quoted.filter(|text| text.contains('.') && !text.contains([' ', ':', '/'])).collect()
}

/// The plugins of the registry.
fn registered() -> BTreeSet<String> {
    let text = read("gateway/plugins/src/lib.rs");
    let (_, list) = text.split_once("\nplugins! {").unwrap();
    let names = list.lines().map(|line| line.trim().trim_start_matches("r#"));
    names.filter(|line| !line.is_empty() && *line != "}").map(ToOwned::to_owned).collect()
}

#[test]
fn every_fact_of_coredns_has_a_row_of_its_own() {
    let facts = facts();
    for (part, count) in FACTS {
        let here = facts.iter().filter(|fact| fact.part == *part).count();
        assert_eq!(here, *count, "docs/parity/{part}.md");
    }
    assert_eq!(reports().len(), 40, "docs/reports.md");
    let mut ids = BTreeSet::new();
    for fact in &facts {
        assert!(ids.insert(&*fact.id), "{} is there twice", fact.id);
    }
    let listed: BTreeSet<String> = FACTS.iter().map(|(part, _)| format!("{part}.md")).collect();
    let files =
        run(Command::new("git").current_dir(repository()).args(["ls-files", "docs/parity"]));
    let files = files.lines().filter_map(|file| file.rsplit('/').next());
    for file in files.filter(|file| *file != "README.md") {
        assert!(listed.contains(file), "{file} is not counted");
    }
}

#[test]
fn every_fact_is_checked_or_a_difference() {
    let (registered, known) = (registered(), differences());
    let may_wait = |part: &str| WAITING.contains(&part) && !registered.contains(part);
    let mut wrong = Vec::new();
    for Fact { part, id, checks } in facts() {
        if !PARTS.contains(&&*part) && !registered.contains(&part) && !WAITING.contains(&&*part) {
            wrong.push(format!("{part} is no plugin"));
        }
        let belongs = BELONGS.iter().find(|(own, _)| *own == id).map(|(_, plugin)| *plugin);
        if checks.is_empty() && !may_wait(belongs.unwrap_or(&part)) {
            wrong.push(format!("{part}: nothing checks {id}"));
        }
        let differs = checks.iter().any(|check| matches!(check, Check::Differs));
        if differs && !known.contains(&id) {
            wrong.push(format!("{part}: docs/differences.md has no row with {id}"));
        }
        if !differs && !checks.is_empty() && known.contains(&id) {
            wrong.push(format!(
                "{part}: docs/differences.md has {id}, its row here does not say so"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_said_to_check_a_fact_is_there() {
    let (tests, cases) = (tests(), cases());
    let mut wrong = Vec::new();
    for Fact { part, id, checks } in facts() {
        for check in checks {
            match check {
                Check::Case(case) if !cases.contains(&case) => {
                    wrong.push(format!("{part}: {id}: no case {case} is run"));
                }
                Check::Test { place, name } => {
                    let files = tests.get(&name).map(Vec::as_slice).unwrap_or_default();
                    let place = place.or_else(|| (files.len() > 1).then(|| part.clone()));
                    let is_there = |place: &str| files.iter().any(|file| lies_in(file, place));
                    if files.is_empty() || !place.as_deref().is_none_or(is_there) {
                        wrong
                            .push(format!("{part}: {id}: no test {name}, or not there: {files:?}"));
                    }
                }
                _ => {}
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn differences_are_about_facts_that_are_there() {
    let facts = facts();
    let ids: BTreeSet<&str> = facts.iter().map(|fact| &*fact.id).collect();
    let families: BTreeSet<&str> = ids.iter().filter_map(|id| id.split('.').next()).collect();
    let strange: Vec<String> = differences()
        .into_iter()
        .filter(|id| families.contains(id.split('.').next().unwrap_or_default()))
        .filter(|id| !ids.contains(&**id))
        .collect();
    assert!(strange.is_empty(), "no facts: {strange:?}");
}

#[test]
fn the_columns_have_a_grammar() {
    for text in ["`a_test`", "`view::a_test`", "case `dns64`", "differs"] {
        assert!(check(text).is_some(), "{text}");
    }
    for text in ["a_test", "case dns64", "`a test`", "see differences", "``"] {
        assert!(check(text).is_none(), "{text}");
    }
    assert!(lies_in("gateway/plugins/src/view/tests.rs", "view"));
    assert!(lies_in("tests/tests/proxy.rs", "proxy"));
    assert!(!lies_in("gateway/plugins/src/viewer/tests.rs", "view"));
    let rows = facts_of(
        "x",
        "# x\n\n| ID | Fact | Checked by |\n|---|---|---|\n| x.a | one \\| two | `t`, differs |\n| x.b | b |  |\n",
    );
    assert_eq!(rows.iter().map(|row| row.checks.len()).collect::<Vec<_>>(), [2, 0]);
}
