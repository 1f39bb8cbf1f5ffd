//! The rights that a Corefile takes in each of its clusters, found out without asking any.

use config::{Block, Diagnostic, Directive, Word};
use engine::{ClusterBlock, declared_clusters};
use k8s::{Keep, Right};

use super::connection::Connection;

/// What a directive follows.
#[derive(Debug)]
pub(crate) struct Follows {
    /// The declared clusters; none if the directive's own lines say which one.
    pub(crate) clusters: Vec<Word>,
    /// What its own lines say.
    pub(crate) connection: Connection,
    /// What is kept of each.
    pub(crate) keep: Keep,
}

/// Reads what a directive follows.
type Read = fn(&Directive) -> Result<Follows, Diagnostic>;

/// The plugins that follow clusters.
const PLUGINS: [(&str, Read); 2] =
    [("kubernetes", crate::kubernetes::follows), ("clusterset", crate::clusterset::follows)];

/// A cluster, and the rights that a Corefile takes there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demand {
    /// The name that it is declared by, or else how it is reached, in words.
    pub cluster: String,
    /// The rights, in order.
    pub rights: Vec<Right>,
}

/// Gives the clusters of a Corefile's blocks with the rights that these take there, in the order in which they are used. Folders of
/// manifests take none. No file is read but the Corefile: this can be asked anywhere.
///
/// # Errors
/// All that is wrong with the lines that matter to it.
pub fn demands(blocks: &[Block]) -> Result<Vec<Demand>, Vec<Diagnostic>> {
    let mut wrong = Vec::new();
    let mut all: Vec<Demand> = Vec::new();
    let declared = declared_clusters(blocks, &mut wrong);
    for directive in
        blocks.iter().filter(|one| one.cluster().is_none()).flat_map(|one| &one.directives)
    {
        let plugin = PLUGINS.iter().find(|(name, _)| *name == directive.name.text);
        let Some((_, read)) = plugin else { continue };
        match read(directive)
            .and_then(|follows| places(&follows, &declared).map(|places| (places, follows.keep)))
        {
            Ok((places, keep)) => places.iter().for_each(|place| add(&mut all, place, &keep)),
            Err(diagnostic) => wrong.extend(diagnostic.apart()),
        }
    }
    all.iter_mut().for_each(Demand::tidy);
    if wrong.is_empty() { Ok(all) } else { Err(wrong) }
}

/// Where what a directive follows is; nowhere if it is a folder of manifests.
fn places(follows: &Follows, declared: &[ClusterBlock]) -> Result<Vec<String>, Diagnostic> {
    if follows.clusters.is_empty() {
        return Ok(follows.connection.place().into_iter().collect());
    }
    let mut all = Vec::new();
    for word in &follows.clusters {
        let block = ClusterBlock::find(declared, word)?;
        if Connection::declared(block)?.place().is_some() {
            all.push(block.name().to_owned());
        }
    }
    Ok(all)
}

/// Adds what is kept of a cluster.
fn add(all: &mut Vec<Demand>, cluster: &str, keep: &Keep) {
    let rights = keep.rights();
    match all.iter_mut().find(|demand| demand.cluster == cluster) {
        Some(demand) => demand.rights.extend(rights),
        None => all.push(Demand { cluster: cluster.to_owned(), rights }),
    }
}

impl Demand {
    /// Puts the rights in order, each once, and takes out those in a namespace that a right on the whole cluster has in it.
    fn tidy(&mut self) {
        let everywhere: Vec<(&str, &str)> = self
            .rights
            .iter()
            .filter(|right| right.namespace.is_empty())
            .map(|right| (right.group, right.resource))
            .collect();
        self.rights.retain(|right| {
            right.namespace.is_empty() || !everywhere.contains(&(right.group, right.resource))
        });
        self.rights.sort_unstable();
        self.rights.dedup();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// What a Corefile takes, a line a cluster; or what is wrong with it.
    fn of(corefile: &str) -> String {
        let parsed = config::corefile::parse(
            Path::new("Corefile"),
            corefile,
            &|_| None,
            &config::corefile::Disk,
        );
        let right = |right: &Right| {
            let place = if right.namespace.is_empty() { "*" } else { &*right.namespace };
            format!("{place}:{}:{}", right.resource, right.verbs.join("+"))
        };
        match demands(&parsed.unwrap().blocks) {
            Ok(all) => {
                let line = |demand: &Demand| {
                    let rights: Vec<_> = demand.rights.iter().map(right).collect();
                    format!("{}: {}", demand.cluster, rights.join(" "))
                };
                all.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            Err(wrong) => wrong.iter().map(|one| one.what.clone()).collect::<Vec<_>>().join("\n"),
        }
    }

    #[test]
    fn options_decide_which_rights_are_needed() {
        let block = |properties: &str| {
            of(&format!(
                "cluster.local clusterset.local {{\n kubernetes {{\n {properties}\n }}\n k8s_external lb.example.org\n}}\n"
            ))
        };
        let basic = "*:namespaces:list+watch *:services:list+watch";
        let slices = "*:endpointslices:list+watch";
        for (properties, want) in [
            ("", format!("in-cluster: {basic} {slices}")),
            ("noendpoints", format!("in-cluster: {basic}")),
            ("kubeconfig /nosuch", format!("/nosuch: {basic} {slices}")),
            ("kubeconfig /nosuch prod", format!("prod: {basic} {slices}")),
            (
                "endpoint https://user:secret@198.51.100.1:6443",
                format!("198.51.100.1:6443: {basic} {slices}"),
            ),
            ("namespace_labels a=b", format!("in-cluster: {basic} {slices}")),
            ("pods insecure", format!("in-cluster: {basic} {slices}")),
            (
                "pods verified",
                format!("in-cluster: *:namespaces:list+watch *:pods:list+watch *:services:list+watch {slices}"),
            ),
            (
                "multicluster clusterset.local",
                format!("in-cluster: {basic} {slices} *:serviceimports:list+watch"),
            ),
            (
                "namespaces shop edge\n noendpoints",
                "in-cluster: edge:namespaces:get edge:services:list+watch shop:namespaces:get shop:services:list+watch"
                    .to_owned(),
            ),
            ("manifests .", String::new()),
        ] {
            assert_eq!(block(properties), want, "{properties}");
        }
    }

    #[test]
    fn blocks_of_one_cluster_add_up() {
        let got = of("cluster://prod {
    kubeconfig /nosuch
}
cluster://desk {
    manifests /nosuch
}
a.test {
    kubernetes {
        cluster prod
        namespaces shop
        noendpoints
    }
}
b.test {
    kubernetes {
        cluster desk
    }
}
c.test {
    kubernetes {
        cluster prod
        namespaces edge
        pods verified
        noendpoints
    }
}
");
        assert_eq!(
            got,
            "prod: edge:namespaces:get edge:pods:list+watch edge:services:list+watch shop:namespaces:get shop:services:list+watch"
        );
        // What the whole cluster shows need not be granted in a namespace.
        let got = of("cluster://prod {
    kubeconfig /nosuch
}
a.test {
    kubernetes {
        cluster prod
        namespaces shop
        pods verified
    }
}
b.test {
    kubernetes {
        cluster prod
        noendpoints
    }
}
clusterset.local {
    clusterset {
        cluster prod
        namespaces shop
    }
}
");
        assert_eq!(
            got,
            "prod: *:namespaces:list+watch *:services:list+watch shop:pods:list+watch shop:endpointslices:list+watch \
             shop:serviceexports:list+watch shop:serviceimports:list+watch"
        );
    }

    #[test]
    fn wrong_lines_are_told() {
        for (corefile, want) in [
            ("a.test {\n kubernetes {\n cluster prod\n }\n}\n", "is no declared cluster"),
            (
                "cluster://prod {\n}\na.test {\n kubernetes {\n cluster prod\n }\n}\n",
                "says no way to connect",
            ),
            ("a.test {\n kubernetes {\n foo\n }\n}\n", "'foo' is not a property"),
            ("a.test {\n clusterset\n}\n", "names no cluster"),
        ] {
            let got = of(corefile);
            assert!(got.contains(want), "{corefile}: {got}");
        }
    }
}
