//! The rules of the house that a program can check: who may depend on whom, and what may stand in a file.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::process::{repository, run};

/// Our crates from the leaves up: which of our own each may use, and which of the heavy outside ones.
///
/// A new edge is a decision about the architecture, so it is made here first. `*` stands for any.
const LAYERS: &[(&str, &[&str], &[&str])] = &[
    ("wire", &[], &[]),
    ("config", &[], &["figment", "serde"]),
    (
        "certs",
        &[],
        &[
            "http-body-util",
            "hyper",
            "hyper-util",
            "instant-acme",
            "rcgen",
            "rustls",
            "serde",
            "serde_json",
            "tokio",
            "tokio-rustls",
        ],
    ),
    (
        "k8s",
        &[],
        &[
            "h2",
            "http-body-util",
            "hyper",
            "hyper-util",
            "k8s-openapi",
            "kube",
            "rustls",
            "serde",
            "serde_json",
            "tokio",
        ],
    ),
    ("zone", &["wire"], &["hickory-proto"]),
    ("engine", &["config", "wire"], &["metrics-exporter-prometheus", "tokio"]),
    (
        "transports",
        &["certs", "engine", "wire"],
        &[
            "h2",
            "h3",
            "h3-quinn",
            "http-body-util",
            "hyper",
            "hyper-util",
            "quinn",
            "quinn-udp",
            "rustls",
            "tokio",
            "tokio-rustls",
        ],
    ),
    ("plugins", &["certs", "config", "engine", "k8s", "transports", "wire", "zone"], &["*"]),
    ("gateway", &["*"], &["*"]),
    ("tests", &["*"], &["*"]),
    ("bench", &["*"], &["*"]),
];

/// Outside crates that bring much with them, or that decide what a crate is about: I/O, TLS, HTTP, DNS messages.
const HEAVY: &[&str] = &[
    "async-std",
    "figment",
    "h2",
    "h3",
    "h3-quinn",
    "hickory-net",
    "hickory-proto",
    "hickory-recursor",
    "hickory-resolver",
    "hickory-server",
    "http-body-util",
    "hyper",
    "hyper-util",
    "instant-acme",
    "k8s-openapi",
    "kube",
    "metrics-exporter-prometheus",
    "native-tls",
    "openssl",
    "prost",
    "quinn",
    "quinn-udp",
    "rcgen",
    "reqwest",
    "ring",
    "rustls",
    "serde",
    "serde_json",
    "tokio",
    "tokio-rustls",
    "tonic",
    "tower",
];

/// The sections that the README of a plugin has, besides its title.
const SECTIONS: &[&str] = &["## Description", "## Syntax", "## Examples"];

/// The longest that a source file may be, in lines.
const LONGEST: usize = 1000;

#[test]
fn crates_depend_only_on_what_the_layers_allow() {
    let metadata = run(Command::new("cargo")
        .args(["metadata", "--format-version=1", "--no-deps"])
        .current_dir(repository()));
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    let packages = metadata["packages"].as_array().unwrap();
    let layers: BTreeMap<&str, (&[&str], &[&str])> =
        LAYERS.iter().map(|&(name, own, heavy)| (name, (own, heavy))).collect();
    let mut wrong = Vec::new();
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let Some((own, heavy)) = layers.get(name) else {
            wrong.push(format!("{name} has no row in LAYERS"));
            continue;
        };
        // What only the tests or the build of a crate use does not shape it.
        for dependency in
            package["dependencies"].as_array().unwrap().iter().filter(|d| d["kind"].is_null())
        {
            let other = dependency["name"].as_str().unwrap();
            let ours = packages.iter().any(|p| p["name"] == other);
            let allowed = if ours { own } else { heavy };
            let checked = ours || HEAVY.contains(&other) || name == "wire";
            if checked && !allowed.contains(&other) && !allowed.contains(&"*") {
                wrong.push(format!("{name} may not depend on {other}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_crate_takes_the_lints_of_the_workspace() {
    let root = read("Cargo.toml");
    assert!(root.contains("unsafe_code = \"forbid\""), "the workspace has to forbid unsafe code");
    let mut wrong = Vec::new();
    for manifest in
        files(&["toml"]).into_iter().filter(|f| f.ends_with("/Cargo.toml") && !f.contains("/fuzz/"))
    {
        if !read(&manifest).contains("[lints]\nworkspace = true") {
            wrong.push(manifest);
        }
    }
    assert!(wrong.is_empty(), "`[lints] workspace = true` is missing in {wrong:?}");
}

#[test]
fn every_dependency_says_what_it_is_for() {
    let root = read("Cargo.toml");
    let table = root.split("[workspace.dependencies]").nth(1).unwrap().split("\n[").next().unwrap();
    let silent: Vec<&str> = table
        .lines()
        .filter(|l| l.contains(" = ") && !l.contains("path = ") && !l.contains(" # "))
        .collect();
    assert!(silent.is_empty(), "no comment what it is for: {silent:#?}");
}

#[test]
fn dependencies_have_licences_that_we_accept_and_none_is_banned() {
    let mut cargo = Command::new("cargo");
    // Offline, as the build before this test has fetched all that there is.
    cargo.args([
        "metadata",
        "--format-version=1",
        "--offline",
        "--locked",
        "--filter-platform=x86_64-unknown-linux-gnu",
    ]);
    let metadata: Value = serde_json::from_str(&run(cargo.current_dir(repository()))).unwrap();
    let rules = read(".cargo/deny.toml");
    let list = rules.split("allow = [").nth(1).unwrap().split(']').next().unwrap();
    let accepted: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
    // A crate with `wrappers` may be in the list of packages through a feature that nobody turns on.
    let bans = rules.lines().filter(|l| !l.contains("wrappers"));
    let banned: Vec<&str> =
        bans.filter_map(|l| l.split_once("{ crate = \"")?.1.split('"').next()).collect();
    assert!(accepted.contains(&"MIT") && banned.contains(&"openssl"), "{accepted:?} {banned:?}");
    let mut wrong = Vec::new();
    for package in metadata["packages"].as_array().unwrap() {
        let (name, licence) =
            (package["name"].as_str().unwrap(), package["license"].as_str().unwrap_or("none"));
        if !licence_fits(licence, &accepted) {
            wrong.push(format!("{name}: {licence}"));
        }
        if banned.contains(&name) {
            wrong.push(format!("{name} is banned"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn licence_expressions_are_understood() {
    let accepted = ["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"];
    for yes in [
        "MIT",
        "GPL-3.0 OR MIT",
        "MIT/GPL-3.0",
        "(GPL-3.0 OR MIT) AND ISC",
        "GPL-3.0 OR Apache-2.0 WITH LLVM-exception",
    ] {
        assert!(licence_fits(yes, &accepted), "{yes}");
    }
    for no in
        ["GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "ISC AND (GPL-3.0 OR Apache-2.0)", "none", ""]
    {
        assert!(!licence_fits(no, &accepted), "{no}");
    }
}

#[test]
fn code_blocks_are_tagged() {
    let mut wrong = Vec::new();
    for file in files(&["md"]) {
        let text = read(&file);
        let mut open = false;
        for (number, line) in text.lines().enumerate() {
            let Some(tag) = line.trim_start().strip_prefix("```") else { continue };
            if !open && tag.trim().is_empty() {
                wrong.push(format!("{file}:{}: a code block without a tag", number + 1));
            }
            open = !open;
        }
        if open {
            wrong.push(format!("{file}: a code block without an end"));
        }
        // rustdoc takes an indented block for Rust and compiles it.
        if file.ends_with("README.md") {
            wrong.extend(
                indented(&text)
                    .map(|n| format!("{file}:{n}: an indented code block, write ``` and a tag")),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn plugins_are_documented() {
    let plugins = repository().join("gateway/plugins/src");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(plugins).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        let is_plugin = !matches!(&*name, "shared" | "tests");
        if !entry.path().is_dir() || !is_plugin || !entry.path().join("mod.rs").exists() {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(entry.path().join("README.md")) else {
            wrong.push(format!("{name} has no README.md"));
            continue;
        };
        let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
        if lines.first() != Some(&format!("# {name}").as_str()) {
            wrong.push(format!("{name}/README.md does not begin with `# {name}`"));
        }
        wrong.extend(
            SECTIONS
                .iter()
                .filter(|s| !lines.contains(s))
                .map(|s| format!("{name}/README.md has no section `{s}`")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn files_stay_readable() {
    let sources = files(&["rs", "py", "go", "sh"]);
    let long: Vec<String> =
        sources.into_iter().filter(|f| read(f).lines().count() > LONGEST).collect();
    assert!(long.is_empty(), "longer than {LONGEST} lines: {long:?}");
}

#[test]
fn nothing_is_left_undone() {
    // Spelled so that this file does not find itself.
    let marks = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("#[", "ignore"),
        concat!("dbg", "!("),
    ];
    refuse(&["rs", "py", "go", "sh", "yml", "toml", "md"], &marks, |_| false);
}

#[test]
fn no_path_of_a_machine_is_written_down() {
    let marks = [concat!("/wo", "rk/"), concat!("/ho", "me/")];
    // Such a path begins a word: `network/` and `$HOME/` are none, and a URL may have any.
    let begins = |line: &str| {
        marks.iter().any(|m| {
            line.match_indices(m).any(|(at, _)| {
                !line[..at].ends_with(|c: char| c.is_alphanumeric() || "./-_}@".contains(c))
            })
        })
    };
    let wrong = lines(&["rs", "py", "go", "sh", "yml", "yaml", "toml", "md", "json"])
        .filter(|(_, _, line)| begins(line));
    let wrong: Vec<String> =
        wrong.map(|(file, number, line)| format!("{file}:{number}: {line}")).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn test_addresses_are_ones_that_nobody_has() {
    // 192.0.2.0/24 is for documentation too, but some virtual machines have it on their network card.
    refuse(&["rs", "py", "go", "yaml", "json", "md"], &[concat!("192.0", ".2.")], |line| {
        line.contains("192.0.2.0/24")
    });
}

/// Fails on each line that contains one of the marks, unless it is excepted.
fn refuse(extensions: &[&str], marks: &[&str], excepted: impl Fn(&str) -> bool) {
    let wrong =
        lines(extensions).filter(|(_, _, l)| marks.iter().any(|m| l.contains(m)) && !excepted(l));
    let wrong: Vec<String> =
        wrong.map(|(file, number, line)| format!("{file}:{number}: {}", line.trim())).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each line of the files: file, number, text.
fn lines(extensions: &[&str]) -> impl Iterator<Item = (String, usize, String)> {
    files(extensions).into_iter().flat_map(|file| {
        let text = read(&file);
        let numbered: Vec<_> =
            text.lines().enumerate().map(|(n, l)| (file.clone(), n + 1, l.to_owned())).collect();
        numbered
    })
}

/// The files under version control, and new ones that will be, whose names end so.
fn files(extensions: &[&str]) -> Vec<String> {
    let list = run(Command::new("git")
        .args(["ls-files", "-co", "--exclude-standard"])
        .current_dir(repository()));
    let wanted =
        |f: &&str| Path::new(f).extension().is_some_and(|e| extensions.iter().any(|x| e == *x));
    // A file that was deleted stays in the index until the commit.
    list.lines()
        .filter(wanted)
        .filter(|f| repository().join(f).exists())
        .map(str::to_owned)
        .collect()
}

/// The text of a file of the repository.
fn read(file: &str) -> String {
    std::fs::read_to_string(repository().join(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// Whether an SPDX expression can be met with the accepted licences alone; AND binds closer than OR.
fn licence_fits(expression: &str, accepted: &[&str]) -> bool {
    split_outside(expression, &[" OR ", "/"]).into_iter().any(|choice| {
        split_outside(choice, &[" AND "]).into_iter().all(|part| {
            let part = part.trim();
            match part.strip_prefix('(').and_then(|p| p.strip_suffix(')')) {
                Some(inner) => licence_fits(inner, accepted),
                None => accepted.contains(&part),
            }
        })
    })
}

/// Splits a text at separators that no parenthesis encloses.
fn split_outside<'a>(text: &'a str, separators: &[&str]) -> Vec<&'a str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        let separator = separators.iter().find(|s| depth == 0 && text[at..].starts_with(**s));
        if let Some(separator) = separator {
            parts.push(&text[begin..at]);
            begin = at + separator.len();
        }
    }
    parts.push(&text[begin..]);
    parts
}

/// The numbers of the lines that begin an indented code block: four spaces after an empty line that no list item precedes.
fn indented(text: &str) -> impl Iterator<Item = usize> {
    let (mut fenced, mut list, mut empty) = (false, false, true);
    let mut found = Vec::new();
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        } else if !fenced && line.starts_with("    ") && !line.trim().is_empty() {
            if empty && !list {
                found.push(number + 1);
            }
        } else if !fenced && !line.trim().is_empty() {
            let item = line.trim_start();
            let numbered = item.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(". ");
            list = item.starts_with("- ")
                || item.starts_with("* ")
                || numbered
                || (list && line.starts_with(' '));
        }
        empty = line.trim().is_empty();
    }
    found.into_iter()
}
