//! What stands before the plugins that ask others for names.

use wire::Name;

use crate::live::Link;
use crate::plugin::Plugin;
use crate::setup::Setup;

/// The names that a plugin asks others for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Those below this zone,
    pub from: Name,
    /// but for those below these; `from` itself is always among them.
    pub except: Vec<Name>,
}

impl Reach {
    /// Whether `name` is among them.
    pub fn takes(&self, name: &Name) -> bool {
        name.is_below(&self.from)
            && (*name == self.from || !self.except.iter().any(|except| name.is_below(except)))
    }
}

/// Makes what stands before a plugin that asks others, if anything has to.
pub(crate) type MakeGate = Box<dyn Fn(&Reach) -> Option<Box<dyn Plugin>>>;

impl Setup<'_> {
    /// Has what `make` makes stand right before each plugin of the block that asks others for names, so that it meets what
    /// is about to leave, and nothing else: a link of the chain by the name of this plugin.
    pub fn gate(&mut self, make: impl Fn(&Reach) -> Option<Box<dyn Plugin>> + 'static) {
        self.site.gate = Some((self.name, Box::new(make)));
        self.take_part();
    }

    /// Appends `plugin`, which asks others for the names in `reach`, to the chain, behind the block's gate.
    pub fn install_upstream(&mut self, reach: &Reach, plugin: impl Plugin) {
        if let Some((name, make)) = &self.site.gate
            && let Some(gate) = make(reach)
        {
            self.site.chain.push(Link { name, plugin: gate });
        }
        self.install(plugin);
    }
}
