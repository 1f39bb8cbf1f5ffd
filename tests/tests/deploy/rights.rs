//! The roles in `deploy/` are what `causeway rbac` prints for the Corefiles that they are for.

use std::collections::BTreeSet;
use std::process::Command;

use tests::Folder;

use crate::text_of;

/// A right: group, resource and verbs.
type Right = (String, String, String);

/// The words between the brackets behind a key.
fn words<'a>(rule: &'a str, key: &str) -> impl Iterator<Item = &'a str> {
    let (_, rest) = rule.split_once(key).unwrap_or_else(|| panic!("{rule:?} has no {key}"));
    let list = rest.trim_start().strip_prefix('[').and_then(|rest| rest.split(']').next());
    let list = list.unwrap_or_else(|| panic!("{rule:?} has no list of {key}"));
    list.split(',').map(|word| word.trim().trim_matches('"'))
}

/// The rights of all roles of a manifest.
fn rights(manifest: &str) -> BTreeSet<Right> {
    let mut all = BTreeSet::new();
    for rule in manifest.split("- apiGroups:").skip(1) {
        let rule = format!("groups:{}", rule.split("\n---").next().unwrap_or_default());
        for group in words(&rule, "groups:") {
            for resource in words(&rule, "resources:") {
                let verbs: Vec<_> = words(&rule, "verbs:").collect();
                all.insert((group.to_owned(), resource.to_owned(), verbs.join(" ")));
            }
        }
    }
    all
}

/// What the program prints for a Corefile.
fn printed(corefile: &str) -> BTreeSet<Right> {
    let folder = Folder::new("rbac");
    let file = folder.write("Corefile", corefile);
    let mut command = Command::new(tests::gateway::binary());
    let output = command.args(["rbac", "-account", "kube-system/causeway"]).arg(file).output();
    let output = output.expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    rights(&String::from_utf8_lossy(&output.stdout))
}

/// Corefiles, and the file beside the first role that they need.
const ROWS: &[(&str, &str)] = &[
    ("cluster.local {\n kubernetes\n}", ""),
    ("cluster.local {\n kubernetes {\n  pods verified\n }\n}", "pods"),
    (
        "cluster.local clusterset.local {\n kubernetes {\n  multicluster clusterset.local\n }\n}",
        "multicluster",
    ),
    (
        "cluster://here {\n in_cluster\n}\nclusterset.local {\n clusterset {\n  cluster here\n }\n}",
        "clusterset",
    ),
    (
        "cluster://here {\n in_cluster\n}\nclusterset.local {\n clusterset {\n  cluster here\n  source imports\n }\n}",
        "multicluster",
    ),
];

#[test]
fn the_roles_are_those_that_the_program_prints() {
    let first = rights(&text_of("deploy/kubernetes/rbac.yaml"));
    assert_eq!(first.len(), 3, "{first:?}");
    let (mut all, mut seen) = (first.clone(), BTreeSet::new());
    for (corefile, file) in ROWS {
        let mut want = first.clone();
        if !file.is_empty() {
            let more = rights(&text_of(&format!("deploy/kubernetes/optional/{file}.yaml")));
            assert!(!more.is_empty(), "{file}");
            want.extend(more);
            seen.insert(format!("{file}.yaml"));
        }
        assert_eq!(printed(corefile), want, "{corefile}");
        all.extend(want);
    }
    let folder = tests::process::repository().join("deploy/kubernetes/optional");
    let there: BTreeSet<String> = std::fs::read_dir(folder)
        .expect("it is a folder")
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(there, seen, "files without a Corefile that they are for");
    // A gateway outside has the same, in comments.
    let outside = text_of("deploy/remote/rbac.yaml");
    assert_eq!(rights(&outside.replace("\n#-", "\n-").replace("\n#  ", "\n  ")), all);
}

#[test]
fn the_clusters_file_shows_what_several_clusters_have() {
    let text = text_of("deploy/corefiles/clusters.corefile");
    for word in [
        "    clusterset {",
        "    snapshot /",
        "        reach ",
        "    view ",
        "cluster prod staging",
    ] {
        assert!(text.contains(word), "{word}");
    }
    let folder = Folder::new("clusters");
    for name in ["prod", "staging"] {
        folder.write(&format!("{name}.kubeconfig"), crate::KUBECONFIG);
    }
    let here = folder.path().to_string_lossy();
    let text = text.replace("/etc/causeway", &here).replace("/var/lib/causeway", &here);
    // Both clusters of it need what the set needs.
    let mut want = rights(&text_of("deploy/kubernetes/rbac.yaml"));
    want.extend(rights(&text_of("deploy/kubernetes/optional/clusterset.yaml")));
    assert_eq!(printed(&text), want);
}
