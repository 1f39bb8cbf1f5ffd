//! What one block's plugin does in all blocks of a configuration.

use std::fmt;

use crate::exchange::Exchange;
use crate::live::Link;
use crate::plugin::Plugin;
use crate::setup::{Setup, SiteBuilder};

/// Makes a link for each block.
type MakeLink = Box<dyn Fn() -> Box<dyn Plugin>>;

/// Says whether a query is for such a link.
type Takes = Box<dyn Fn(&Exchange) -> bool + Send + Sync>;

/// A link of all chains that is yet to be put there.
pub(crate) struct Everywhere {
    name: &'static str,
    make: MakeLink,
}

/// Queries that are answered for everybody who asks.
#[derive(Default)]
pub(crate) struct Pass(Vec<(&'static str, Takes)>);

impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pass").finish_non_exhaustive()
    }
}

impl Pass {
    /// Whether a query is one of them.
    pub(crate) fn takes(&self, x: &Exchange) -> bool {
        self.0.iter().any(|(_, takes)| takes(x))
    }
}

impl Setup<'_> {
    /// Has a link of the chain in all blocks, at this plugin's place, whether they have its directive or not; blocks without any
    /// plugin stay so. What `takes` says yes to passes the listener's door, so the link has to answer it. In a configuration the
    /// first call of a plugin counts.
    pub fn install_everywhere(
        &mut self,
        make: impl Fn() -> Box<dyn Plugin> + 'static,
        takes: impl Fn(&Exchange) -> bool + Send + Sync + 'static,
    ) {
        if self.whole.pass.0.iter().any(|(name, _)| *name == self.name) {
            return;
        }
        self.whole.everywhere.push(Everywhere { name: self.name, make: Box::new(make) });
        self.whole.pass.0.push((self.name, Box::new(takes)));
    }

    /// Notes `text` under `key` for the configuration that is being built: what is noted there already stays, and is given.
    pub fn note(&mut self, key: String, text: String) -> &str {
        self.whole.notes.entry((self.name, key)).or_insert(text)
    }
}

/// Puts the links of one plugin into the chains of these blocks.
pub(crate) fn place<'a>(links: &[Everywhere], sites: impl Iterator<Item = &'a mut SiteBuilder>) {
    if links.is_empty() {
        return;
    }
    for site in sites {
        for Everywhere { name, make } in links {
            site.chain.push(Link { name, plugin: make() });
            site.foreign += 1;
            if site.parts.last() != Some(name) {
                site.parts.push(name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use wire::Name;

    use super::*;
    use crate::plugin::Step;
    use crate::testing::Bench;
    use crate::{Admission, Descriptor, Door, Http, Session};

    /// Answers for one name.
    #[derive(Debug)]
    struct Here;

    /// Whether a query is for it.
    fn is_here(x: &Exchange) -> bool {
        Name::parse("here.test").is_some_and(|name| x.request().name == name)
    }

    impl Plugin for Here {
        fn query(&self, x: &mut Exchange) -> Step {
            if !is_here(x) {
                return Step::Next;
            }
            let name = x.request().name.clone();
            x.answer_mut().a(&name, 0, [198, 51, 100, 9].into());
            Step::Done
        }
    }

    /// Lets nobody in.
    #[derive(Debug)]
    struct Shut(tokio::sync::watch::Sender<u64>);

    impl Door for Shut {
        fn name(&self, _: Option<&str>) -> bool {
            true
        }

        fn connection(&self, _: &Session) -> bool {
            true
        }

        fn request(&self, _: Option<&Session>, _: &Http) -> bool {
            true
        }

        fn admit(&self, _: &mut Exchange) -> Admission {
            Admission::Refused
        }

        fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
            self.0.subscribe()
        }
    }

    static HERE: Descriptor = Descriptor {
        name: "here",
        readme: "",
        setup: |setup| {
            assert_eq!(setup.note("key".to_owned(), "one".to_owned()), "one");
            assert_eq!(setup.note("key".to_owned(), "two".to_owned()), "one");
            setup.install_everywhere(|| Box::new(Here), is_here);
            Ok(())
        },
    };

    static SHUT: Descriptor = Descriptor {
        name: "shut",
        readme: "",
        setup: |setup| {
            setup.door(std::sync::Arc::new(Shut(tokio::sync::watch::Sender::new(0))));
            Ok(())
        },
    };

    static ELSE: Descriptor = Descriptor {
        name: "else",
        readme: "",
        setup: |setup| {
            setup.install(Here);
            Ok(())
        },
    };

    #[test]
    fn a_link_of_one_block_is_in_all_and_passes_doors() {
        static PLUGINS: &[&Descriptor] = &[&SHUT, &HERE, &ELSE];
        let corefile = "a.test:5301 {\n here\n}\ntest:5302 {\n else\n}\ntest:5303 {\n shut\n else\n}\ntest:5304 {\n}";
        let bench = Bench::new(PLUGINS, corefile);
        let found = "NOERROR rd | here.test. 0 A 198.51.100.9";
        assert_eq!(bench.now("here.test +port=5302"), found);
        assert_eq!(bench.now("here.test +port=5303"), found);
        assert!(bench.now("other.test +port=5303").starts_with("REFUSED"));
        assert!(bench.now("other.test +port=5302").starts_with("SERVFAIL"));
        assert!(bench.now("here.test +port=5304").starts_with("REFUSED"), "it has no plugins");
        let live = bench.gateway.live();
        let names: Vec<_> = live.sites()[1].chain.iter().map(|link| link.name).collect();
        assert_eq!(names, ["here", "else"]);
    }
}
