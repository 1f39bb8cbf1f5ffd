//! Plugins of which only the first directive in a block counts.

use config::Directive;
use engine::Setup;

/// The first directive; each further one is named in a warning.
pub fn first<'a>(setup: &mut Setup<'a>) -> &'a Directive {
    let directives = setup.directives();
    for other in directives.iter().skip(1) {
        setup.warn(other.name.wrong("is passed over: only the first one in a server block counts"));
    }
    setup.directive()
}
