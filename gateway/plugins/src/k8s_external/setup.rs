//! From the directive's words to the plugin.

use std::sync::{Arc, OnceLock};

use config::{Diagnostic, Prop, Word};
use engine::{Role, Setup};
use wire::Name;

use super::{External, Outside};
use crate::shared::cluster::View;
use crate::shared::cluster::address::is_reverse;
use crate::shared::fall::Fall;
use crate::shared::journal::Journals;
use crate::shared::ttl;
use crate::shared::zones::Zones;

/// The time to live of records where none is stated, in seconds.
const TTL: u32 = 5;
/// The label of a zone's own names where none is stated, in wire form.
const APEX: &[u8] = b"\x03dns";

/// What a directive says.
#[derive(Debug)]
struct Config {
    /// The labels of the zones' own names, in wire form.
    apex: Box<[u8]>,
    /// The time to live of records, in seconds.
    ttl: u32,
    /// Whether headless services are shown by their endpoints.
    headless: bool,
    /// The zones that fall through; all if it names none.
    fall: Option<Vec<Word>>,
}

/// The properties.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "apex",
        words: "LABEL",
        set: |config, words| {
            let word = words.one()?;
            let name = Name::parse(&word.text).filter(|name| !name.is_root());
            let Some(name) = name else {
                return Err(word.wrong("is no label").help("write a label such as dns"));
            };
            // Without the root's octet at the end.
            config.apex =
                name.wire().split_last().map(|(_, labels)| labels.into()).unwrap_or_default();
            Ok(())
        },
    },
    Prop {
        name: "ttl",
        words: "TTL",
        set: |config, words| ttl::read(words).map(|ttl| config.ttl = ttl),
    },
    Prop {
        name: "headless",
        words: "",
        set: |config, _| {
            config.headless = true;
            Ok(())
        },
    },
    Prop {
        name: "fallthrough",
        words: "[ZONES...]",
        set: |config, words| {
            config.fall = Some(words.rest().to_vec());
            Ok(())
        },
    },
];

/// Sets the plugin up.
///
/// # Errors
/// What is wrong with the directive, and that the block has no *kubernetes*.
pub(super) fn set_up(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut config = Config { apex: APEX.into(), ttl: TTL, headless: false, fall: None };
    directive.read_block(PROPS, &mut config)?;
    let zones = setup.zones_of(&directive.args);
    let forward = zones.iter().find(|zone| !is_reverse(zone));
    let Some(primary) = forward.or_else(|| zones.first()).cloned() else {
        let wrong = directive.name.wrong("has no zone");
        return Err(wrong.help("write: k8s_external ZONE"));
    };
    let fall = Fall::of_zones(setup, config.fall.as_deref(), &zones);
    let view: Arc<OnceLock<Arc<View>>> = Arc::default();
    let settings = format!("k8s_external {}", setup.block_text());
    let journals = Journals::set_up(setup, &zones, &settings)?;
    let plugin = External(Arc::new(Outside {
        zones: Zones::new(zones),
        primary,
        apex: config.apex,
        fall,
        ttl: config.ttl,
        headless: config.headless,
        view: Arc::clone(&view),
        journals,
    }));
    plugin.0.journals.keep_up(setup, Arc::<Outside>::clone(&plugin.0));
    let name = directive.name.clone();
    setup.later(move |roles| {
        let Some(known) = roles.known::<View>() else {
            let wrong = name.fault("kubernetes plugin not loaded");
            return Err(
                wrong.help("add kubernetes to the server block: its services are answered from")
            );
        };
        view.get_or_init(|| known);
        Ok(())
    });
    setup.offer(Role::Transfer(Arc::new(plugin.clone())));
    setup.install(plugin);
    Ok(())
}
