//! Clusters that a Corefile declares, for plugins to use by name.

use std::sync::atomic::{AtomicBool, Ordering};

use config::{Block, Diagnostic, Directive, Word};

use crate::setup::Setup;

/// A block `cluster://NAME { … }`: it has no listener and no plugins, and its lines are for those who use it.
#[derive(Debug)]
pub struct ClusterBlock {
    key: Word,
    name: String,
    lines: Vec<Directive>,
    used: AtomicBool,
}

impl ClusterBlock {
    /// The name that it is used by.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The key, for diagnostics.
    pub fn key(&self) -> &Word {
        &self.key
    }

    /// What it says, line by line.
    pub fn lines(&self) -> &[Directive] {
        &self.lines
    }

    /// The one of a name.
    ///
    /// # Errors
    /// If there is none; the help names the nearest.
    pub fn find<'a>(all: &'a [Self], name: &Word) -> Result<&'a Self, Diagnostic> {
        all.iter().find(|cluster| cluster.name == name.text).ok_or_else(|| {
            let names: Vec<&str> = all.iter().map(Self::name).collect();
            name.wrong("is no declared cluster").help(match &names[..] {
                [] => format!("declare it beside the server blocks: cluster://{name} {{ … }}"),
                names => config::value::known(&name.text, names),
            })
        })
    }

    /// Reads a block, unless it is a server block.
    fn read(block: &Block) -> Option<Self> {
        let key = block.cluster()?;
        Some(Self {
            key: key.word.clone(),
            name: key.zone.clone(),
            lines: block.directives.clone(),
            used: AtomicBool::new(false),
        })
    }
}

/// Says what is wrong with a declared cluster that nobody uses; who uses one says so itself.
pub type CheckCluster = fn(&ClusterBlock) -> Result<(), Diagnostic>;

impl<'a> Setup<'a> {
    /// The cluster that the Corefile declares by this name, which is used from now on.
    ///
    /// # Errors
    /// If there is none; the help names the nearest.
    pub fn cluster(&self, name: &Word) -> Result<&'a ClusterBlock, Diagnostic> {
        let found = ClusterBlock::find(self.clusters, name)?;
        found.used.store(true, Ordering::Relaxed);
        Ok(found)
    }

    /// All clusters that the Corefile declares.
    pub fn clusters(&self) -> &'a [ClusterBlock] {
        self.clusters
    }
}

/// Takes the declared clusters out of a Corefile's blocks. A name may be there once; `wrong` gets those that are there again.
pub fn declared(blocks: &[Block], wrong: &mut Vec<Diagnostic>) -> Vec<ClusterBlock> {
    let mut all: Vec<ClusterBlock> = Vec::new();
    for cluster in blocks.iter().filter_map(ClusterBlock::read) {
        match all.iter().find(|other| other.name == cluster.name) {
            Some(other) => wrong.push(
                cluster
                    .key
                    .wrong("is declared already")
                    .help(format!("the other block is at {}", other.key.place)),
            ),
            None => all.push(cluster),
        }
    }
    all
}

/// Tells of those that nobody uses, and of what is wrong with them.
pub(crate) fn unused(
    clusters: &[ClusterBlock],
    check: CheckCluster,
    wrong: &mut Vec<Diagnostic>,
    warnings: &mut Vec<Diagnostic>,
) {
    for cluster in clusters.iter().filter(|cluster| !cluster.used.load(Ordering::Relaxed)) {
        match check(cluster) {
            Ok(()) => {
                let help = format!("write `cluster {}` in a plugin's block", cluster.name);
                warnings.push(cluster.key.wrong("is declared, but nothing uses it").help(help));
            }
            Err(diagnostic) => wrong.extend(diagnostic.apart()),
        }
    }
}

/// Whether a block is a server block.
pub(crate) fn serves(block: &&Block) -> bool {
    block.cluster().is_none()
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use crate::{Descriptor, Setup};

    /// Says which cluster it uses, and which there are.
    fn set_up(setup: &mut Setup<'_>) -> Result<(), config::Diagnostic> {
        for word in &setup.directive().args {
            let cluster = setup.cluster(word)?;
            let lines: Vec<_> = cluster.lines().iter().map(|line| line.fingerprint()).collect();
            let odd = cluster
                .key()
                .wrong(format_args!("of {} is used: {lines:?}", setup.clusters().len()));
            setup.warn(odd);
        }
        Ok(())
    }

    static USES: Descriptor = Descriptor { name: "uses", readme: "", setup: set_up };
    static PLUGINS: &[&Descriptor] = &[&USES];

    #[test]
    fn clusters_are_no_server_blocks_and_are_used_by_name() {
        let corefile = "cluster://prod {\n kubeconfig a b\n}\n. {\n uses prod\n}\ncluster://desk {\n manifests .\n}\ntest {\n uses prod\n}\n";
        let bench = Bench::new(PLUGINS, corefile);
        assert_eq!(bench.gateway.live().sites().len(), 2);
        let warnings: Vec<_> = bench.built.warnings.iter().map(|odd| &*odd.what).collect();
        let used = r#"plugin/uses: 'cluster://prod' of 2 is used: ["\"kubeconfig\" \"a\" \"b\" "]"#;
        assert_eq!(warnings, [used, "'cluster://desk' is declared, but nothing uses it"]);
    }

    #[test]
    fn wrong_names_are_told_with_the_nearest() {
        for (corefile, want) in [
            (
                ". {\n uses prod\n}",
                "'prod' is no declared cluster (declare it beside the server blocks: cluster://prod { … })",
            ),
            (
                "cluster://prod {\n}\ncluster://desk {\n}\n. {\n uses prdo\n}",
                "'prdo' is no declared cluster (did you mean 'prod'? (known: prod, desk))",
            ),
            (
                "cluster://prod {\n}\ncluster://prod {\n}\n. {\n uses prod\n}",
                "'cluster://prod' is declared already (the other block is at Corefile:1:1)",
            ),
            ("cluster://prod test {\n}\n", "does not stand alone"),
            ("cluster://prod:53 {\n}\n", "names no cluster"),
        ] {
            let refused = Bench::refused(PLUGINS, corefile);
            assert!(refused.contains(want), "{refused}");
        }
    }
}
