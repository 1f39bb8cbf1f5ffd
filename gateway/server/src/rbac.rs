//! `causeway rbac`: the roles that a Corefile takes, as manifests.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use config::corefile::{self, Failure, Source};
use config::value::is_label;
use plugins::{Demand, Right, demands};

/// The account that is bound where none is named: that of deploy/remote.
pub(crate) const ACCOUNT: &str = "causeway/causeway-remote";

/// Gives the manifests of the roles that the Corefile at `source` takes, with bindings to a ServiceAccount, of one cluster or of all.
///
/// # Errors
/// What is wrong, ready to be printed.
pub(crate) fn manifests(
    source: &Source,
    account: &str,
    cluster: Option<&str>,
) -> Result<String, String> {
    let Some((namespace, name)) =
        account.split_once('/').filter(|(namespace, name)| is_label(namespace) && is_name(name))
    else {
        return Err(format!("'{account}' is no account: write -account NAMESPACE/NAME"));
    };
    let corefile = corefile::load(source).map_err(|failure| failure.to_string())?;
    let mut all = demands(&corefile.blocks)
        .map_err(|errors| Failure { errors, files: corefile.files.clone() }.to_string())?;
    if all.is_empty() {
        return Err("the Corefile follows no cluster, so that it needs no rights".to_owned());
    }
    if let Some(wanted) = cluster {
        let known: Vec<String> = all.iter().map(|demand| format!("'{}'", demand.cluster)).collect();
        all.retain(|demand| demand.cluster == wanted);
        if all.is_empty() {
            return Err(format!(
                "the Corefile follows no cluster '{wanted}', but {}",
                known.join(", ")
            ));
        }
    }
    Ok(all
        .iter()
        .map(|demand| of_cluster(demand, (namespace, name)))
        .collect::<Vec<_>>()
        .join("---\n"))
}

/// The roles of one cluster.
fn of_cluster(demand: &Demand, account: (&str, &str)) -> String {
    let namespaces: BTreeSet<&str> = demand.rights.iter().map(|right| &*right.namespace).collect();
    let roles = namespaces.into_iter().map(|namespace| {
        let rights = demand.rights.iter().filter(|right| right.namespace == namespace);
        role(namespace, rights, account)
    });
    format!(
        "# What the account {}/{} needs in the cluster '{}', and nothing else.\n{}",
        account.0,
        account.1,
        demand.cluster.escape_debug(),
        roles.collect::<Vec<_>>().join("---\n")
    )
}

/// A role of these rules and its binding; a ClusterRole if the namespace is empty.
fn role<'r>(
    namespace: &str,
    rights: impl Iterator<Item = &'r Right>,
    (home, name): (&str, &str),
) -> String {
    let (kind, place) = match namespace {
        "" => ("ClusterRole", String::new()),
        _ => ("Role", format!("  namespace: {namespace}\n")),
    };
    let head = |kind: &str| {
        format!(
            "apiVersion: rbac.authorization.k8s.io/v1\nkind: {kind}\nmetadata:\n  name: {name}\n{place}"
        )
    };
    let mut text = head(kind) + "rules:\n";
    for right in rights {
        // Writing to a string cannot fail.
        let _unfailing = write!(
            text,
            "- apiGroups: [\"{}\"]\n  resources: [{}]\n  verbs: [{}]\n",
            right.group,
            right.resource,
            right.verbs.join(", ")
        );
        if !right.name.is_empty() {
            let _unfailing = writeln!(text, "  resourceNames: [{}]", right.name);
        }
    }
    text + "---\n"
        + &head(&format!("{kind}Binding"))
        + &format!(
            "roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: {kind}\n  name: {name}\nsubjects:\n- kind: ServiceAccount\n  name: {name}\n  namespace: {home}\n"
        )
}

/// Whether a text is the name of an object.
fn is_name(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let all = text.bytes().all(|byte| inner(byte) || byte == b'-' || byte == b'.');
    let ends = text.bytes().next().is_some_and(inner) && text.bytes().last().is_some_and(inner);
    all && ends && text.len() <= 253
}
