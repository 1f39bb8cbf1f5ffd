//! The documents say what the code does: their Corefiles start, their metrics and properties are the code's.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use config::corefile::Disk;
use engine::{Build, Common, Limits, Origin, Process};
use tests::Folder;
use tests::pki::{Leaf, Pki};
use transports::Fronts;

/// What a kubeconfig must have to be read; nobody is asked.
const KUBECONFIG: &str = "\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]
users: [{name: u, user: {token: t}}]
contexts: [{name: c, context: {cluster: c, user: u}}, {name: prod-admin, context: {cluster: c, user: u}}]
current-context: c
";

/// The repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_path_buf()
}

/// All files below `folder` with this ending.
fn files(folder: &Path, ending: &str, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap().flatten() {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            files(&path, ending, into);
        } else if name.ends_with(ending) {
            into.push(path);
        }
    }
}

/// A database of the recorded cases.
fn database(name: &str) -> Vec<u8> {
    let case = std::fs::read_to_string(root().join("tests/cases/corpus/geoip.yaml")).unwrap();
    let (_, rest) = case.split_once(&format!("  {name}: |\n")).unwrap();
    let lines = rest.lines().take_while(|line| line.starts_with("    ")).map(str::trim);
    STANDARD.decode(lines.collect::<String>()).unwrap()
}

/// The plugins' folders.
fn plugins() -> Vec<(&'static str, PathBuf)> {
    let folder = root().join("gateway/plugins/src");
    plugins::CHAIN.iter().map(|plugin| (plugin.name, folder.join(plugin.name))).collect()
}

/// The code of a plugin without its tests, in one text.
fn code(folder: &Path) -> String {
    let mut sources = Vec::new();
    files(folder, ".rs", &mut sources);
    let is_test = |path: &Path| {
        path.components().any(|part| part.as_os_str().to_string_lossy().starts_with("tests"))
    };
    let texts = sources.iter().filter(|path| !is_test(path.strip_prefix(folder).unwrap()));
    texts.map(|path| std::fs::read_to_string(path).unwrap()).collect()
}

/// The words of `text` that begin with one of these prefixes and consist of small letters, digits and underscores.
fn words_with(text: &str, prefixes: &[&str]) -> BTreeSet<String> {
    let words = text
        .split(|sign: char| !(sign.is_ascii_lowercase() || sign.is_ascii_digit() || sign == '_'));
    words
        // What ends so is the beginning of names, which code may cut off.
        .filter(|word| !word.ends_with('_'))
        .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_corefile_of_every_document_starts() {
    let folder = Folder::new("readme");
    for name in ["kubeconfig", "prod.kubeconfig", "staging.kubeconfig"] {
        folder.write(name, KUBECONFIG);
    }
    let pki = Pki::new();
    for (chain, key, pair) in [
        ("cert.pem", "key.pem", pki.server("server", &["dns.example.org", "127.0.0.1"])),
        ("client.pem", "client.key", pki.issue("client", Leaf::client("gateway", &[]))),
    ] {
        folder.write(chain, std::fs::read(pair.chain).unwrap());
        folder.write(key, std::fs::read(pair.key).unwrap());
    }
    for name in ["cacert.pem", "ca.pem"] {
        folder.write(name, std::fs::read(pki.ca()).unwrap());
    }
    for name in ["Kexample.org.+013+17122.key", "Kexample.org.+013+17122.private"] {
        let key = root().join("gateway/plugins/src/shared/dnssec/samples").join(name);
        folder.write(name, std::fs::read(key).unwrap());
    }
    folder.write("manifests/one.yaml", "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}");
    folder.write("secrets", "# none\n");
    let pair = "tls_server_config: {cert_file: cert.pem, key_file: key.pem}\n";
    folder.write("web.yml", pair);
    for name in ["city.mmdb", "asn.mmdb"] {
        folder.write(name, database(name));
    }
    folder.write("hosts", "198.51.100.1 www.example.org\n");
    folder.write("weights", "www.example.org\n198.51.100.1 3\n");
    folder.write("resolv.conf", "nameserver 127.0.0.1\nsearch example.org\n");
    let mut documents = Vec::new();
    files(&root(), ".md", &mut documents);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let _inside = runtime.enter();
    let (mut count, mut wrong) = (0, Vec::new());
    for document in documents {
        let text = std::fs::read_to_string(&document).unwrap();
        let shown = document.strip_prefix(root()).unwrap().display().to_string();
        for block in text.split("```corefile\n").skip(1).filter_map(|rest| rest.split("```").next())
        {
            count += 1;
            let here = folder.path().to_string_lossy();
            let block = block
                .replace("/etc/resolv.conf", &format!("{here}/resolv.conf"))
                .replace("/etc/causeway", &here)
                .replace("/etc/hosts", &format!("{here}/hosts"))
                .replace("./manifests", &format!("{here}/manifests"));
            let process = Process::new(
                folder.path().to_path_buf(),
                "test".to_owned(),
                1,
                Duration::from_secs(1),
            );
            let build = Build {
                plugins: plugins::CHAIN,
                transports: Fronts::TRANSPORTS,
                check_cluster: plugins::check_cluster,
                port: 53,
                process: Arc::new(process),
                common: Common::new(Limits::default()),
                origin: Arc::new(Origin::default()),
                previous: None,
            };
            let name = folder.path().join("Corefile");
            let parsed = config::corefile::parse(&name, &block, &|_| None, &Disk);
            if let Err(diagnostics) = parsed.and_then(|corefile| build.build(&corefile.blocks)) {
                let why: Vec<String> = diagnostics.iter().map(|one| one.what.clone()).collect();
                wrong.push(format!("{shown}: {}\n{block}", why.join("; ")));
            }
        }
    }
    assert!(count > 45, "some are not found any more: {count}");
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn metrics_in_the_readme_are_those_of_the_code() {
    let prefixes = ["coredns_", "causeway_"];
    let clusters = root().join("gateway/plugins/src/shared/cluster");
    let mut wrong = Vec::new();
    for (name, folder) in plugins() {
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        // What the README denies, such as metrics of another runtime, stands in its table of differences.
        let (own, differences) = readme.split_once("## Differences").unwrap_or((&readme, ""));
        let (mut code, told) = (words_with(&code(&folder), &prefixes), words_with(own, &prefixes));
        // What it shares with others that follow clusters is told of in one place.
        if name == "kubernetes" {
            code.extend(words_with(&self::code(&clusters), &prefixes));
        }
        for metric in code
            .difference(&told)
            .filter(|metric| !words_with(differences, &prefixes).contains(*metric))
        {
            wrong.push(format!("{name}: the README does not name {metric}"));
        }
        for metric in told.difference(&code) {
            let elsewhere = [
                root().join("transports/src"),
                root().join("gateway/engine/src"),
                clusters.clone(),
            ];
            if !elsewhere
                .iter()
                .any(|folder| words_with(&self::code(folder), &prefixes).contains(metric))
            {
                wrong.push(format!("{name}: nothing counts {metric}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn properties_in_the_code_are_in_the_readme() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (name, folder) in plugins() {
        let readme = std::fs::read_to_string(folder.join("README.md")).unwrap();
        let code = code(&folder);
        for row in code.split("Prop {").skip(1) {
            let Some((_, rest)) = row.split_once("name: \"") else { continue };
            let Some((property, rest)) = rest.split_once('"') else { continue };
            let words = rest
                .split_once("words: \"")
                .and_then(|(_, rest)| rest.split_once('"'))
                .map_or("", |(words, _)| words);
            count += 1;
            let syntax = format!("{property} {words}");
            let syntax = syntax.trim();
            if !readme.contains(syntax) {
                wrong.push(format!("{name}: the README does not have `{syntax}`"));
            }
        }
    }
    assert!(count > 30, "some are not found any more: {count}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
