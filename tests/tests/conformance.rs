//! `docs/conformance.md` against the tests: what it calls kept has a test that is named by its ID.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use tests::process::{repository, run};

/// The families of IDs whose **M** rows need a test: what the encrypted front-ends, streams and cluster sets promise.
const TESTED: &[&str] = &[
    "PAD", "KEEP", "TCP", "DOT", "TLS", "DOH", "DOQ", "DDR", "SLOW", "H2", "Q", "SMUG", "PRX",
    "MCS",
];

/// A row of the table.
struct Row {
    id: String,
    level: String,
    state: String,
}

/// Reads the table.
fn rows() -> Vec<Row> {
    let text = std::fs::read_to_string(repository().join("docs/conformance.md")).unwrap();
    let lines = text.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ID "));
    lines
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
            assert_eq!(cells.len(), 4, "a row has four cells: {line}");
            let [id, level, _, state] = [0, 1, 2, 3].map(|at| cells[at].to_owned());
            Row { id, level, state }
        })
        .collect()
}

/// The IDs that the names of tests begin with.
fn tested() -> BTreeMap<String, BTreeSet<String>> {
    let files =
        run(Command::new("git").current_dir(repository()).args(["ls-files", "*.rs", "*.py"]));
    let mut found = BTreeMap::<String, BTreeSet<String>>::new();
    for file in files.lines() {
        let text = std::fs::read_to_string(repository().join(file)).unwrap_or_default();
        for name in text.lines().filter_map(function) {
            for id in ids(name) {
                found.entry(id).or_default().insert(format!("{file}: {name}"));
            }
        }
    }
    found
}

/// The name of the function that a line begins.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let rest = ["fn ", "async fn ", "def "].iter().find_map(|begin| line.strip_prefix(begin))?;
    rest.split(['(', '<']).next().map(|name| name.strip_prefix("test_").unwrap_or(name))
}

/// The IDs at the front of a name, of one family or several: `dot_03_tcp_02_and_07_…`, `doh_02_to_07_…`.
fn ids(name: &str) -> Vec<String> {
    let (mut family, mut found, mut last) = (String::new(), Vec::new(), None);
    let mut words = name.split('_').peekable();
    while let Some(word) = words.next() {
        let number = |word: &str| word.parse::<u8>().ok().filter(|_| word.len() == 2);
        let is_followed = words.peek().is_some_and(|next| number(next).is_some());
        match number(word) {
            Some(number) => {
                found.push(format!("{family}-{number:02}"));
                last = Some(number);
            }
            None if word == "and" => {}
            None if word == "to" && is_followed => {
                let end = words.peek().and_then(|next| number(next)).unwrap_or_default();
                let begin = last.unwrap_or(end);
                found.extend((begin + 1..end).map(|number| format!("{family}-{number:02}")));
            }
            None if is_followed => family = word.to_uppercase(),
            None => break,
        }
    }
    found
}

#[test]
fn the_table_says_of_every_row_whether_it_is_kept_and_why_not() {
    let mut seen = BTreeSet::new();
    for Row { id, level, state } in rows() {
        assert!(seen.insert(id.clone()), "{id} is there twice");
        assert!(matches!(&*level, "M" | "S" | "O"), "{id}: {level}");
        let begins = |word: &str| state.strip_prefix(word).is_some_and(|rest| rest.len() > 6);
        let reasoned = ["kept: ", "otherwise: ", "in part: ", "no: ", "not yet: "];
        assert!(state == "kept" || reasoned.iter().any(|word| begins(word)), "{id}: {state}");
        assert!(level != "M" || !state.starts_with("no:"), "{id} must be kept");
    }
    assert!(seen.len() > 190, "only {} rows were read", seen.len());
}

#[test]
fn what_must_be_kept_and_is_has_a_test_by_its_name() {
    let tested = tested();
    let rows = rows();
    let family = |id: &str| id.split('-').next().map(ToOwned::to_owned).unwrap_or_default();
    let missing: Vec<&str> = rows
        .iter()
        .filter(|row| row.level == "M" && !row.state.starts_with("not yet"))
        .filter(|row| TESTED.contains(&&*family(&row.id)) || row.id == "EDNS-09")
        .map(|row| &*row.id)
        .filter(|id| !tested.contains_key(*id))
        .collect();
    assert!(missing.is_empty(), "no test is named by {missing:?}");
    let families: BTreeSet<String> = rows.iter().map(|row| family(&row.id)).collect();
    let known: BTreeSet<&str> = rows.iter().map(|row| &*row.id).collect();
    for (id, names) in &tested {
        let strange = families.contains(&family(id)) && !known.contains(&**id);
        assert!(!strange, "{id} is no row of the table: {names:?}");
    }
}
