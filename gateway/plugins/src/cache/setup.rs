//! `cache [TTL] [ZONES…] { … }`.

use std::sync::Arc;
use std::time::Duration;

use config::value::{duration, integer};
use config::{Diagnostic, Prop, Word, Words};
use engine::Setup;
use wire::Name;

use super::figures::Figures;
use super::handler::Cache;
use super::store::Store;
use crate::shared::zones::Zones;

/// The longest that failures may be kept, and that entries may be left alone after a failed refresh (RFC 2308 §7).
const FIVE_MINUTES: Duration = Duration::from_secs(300);

/// The bounds of one kind of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bounds {
    /// How many there may be.
    capacity: usize,
    /// The longest TTL, in seconds.
    most: u32,
    /// The shortest, in seconds.
    least: u32,
}

impl Bounds {
    /// A TTL within the bounds, in seconds.
    pub(super) fn clamp(&self, ttl: u32) -> u32 {
        // As in the original, the upper bound wins where they cross.
        ttl.max(self.least).min(self.most)
    }
}

/// Which entries are refreshed ahead of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Prefetch {
    /// Those with so many hits,
    pub(super) amount: u32,
    /// without a pause longer than this,
    pub(super) window: Duration,
    /// when so much of their time is left, in hundredths.
    pub(super) percent: u8,
}

/// When an entry out of date is refreshed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refresh {
    /// After it was given.
    After,
    /// Before that, for at most so long.
    First(Option<Duration>),
}

/// What is done with entries out of date.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stale {
    /// How long they are given.
    pub(super) up_to: Duration,
    /// When they are refreshed.
    pub(super) refresh: Refresh,
    /// The TTL they are given with, in seconds.
    pub(super) ttl: u32,
    /// How long they are given without asking after a failed refresh.
    pub(super) recheck: Duration,
}

/// What a directive says.
#[derive(Clone, Debug)]
pub(super) struct Config {
    pub(super) zones: Zones,
    pub(super) success: Bounds,
    pub(super) denial: Bounds,
    pub(super) failure: Duration,
    pub(super) prefetch: Option<Prefetch>,
    pub(super) stale: Option<Stale>,
    pub(super) prefer_positive: bool,
    /// Where answers are not kept.
    pub(super) no_success: Zones,
    /// Where denials and failures are not kept.
    pub(super) no_denial: Zones,
    pub(super) keepttl: bool,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            zones: Zones::default(),
            success: Bounds { capacity: 10_000, most: 3600, least: 5 },
            denial: Bounds { capacity: 10_000, most: 1800, least: 5 },
            failure: Duration::from_secs(5),
            prefetch: None,
            stale: None,
            prefer_positive: false,
            no_success: Zones::default(),
            no_denial: Zones::default(),
            keepttl: false,
        }
    }
}

/// The properties of the block.
const PROPS: &[Prop<Config>] = &[
    Prop {
        name: "success",
        words: "CAPACITY [TTL] [MINTTL]",
        set: |c, w| set_bounds(&mut c.success, w),
    },
    Prop {
        name: "denial",
        words: "CAPACITY [TTL] [MINTTL]",
        set: |c, w| set_bounds(&mut c.denial, w),
    },
    Prop { name: "prefetch", words: "AMOUNT [DURATION] [PERCENTAGE%]", set: set_prefetch },
    Prop {
        name: "serve_stale",
        words: "[DURATION] [immediate [TTL [RECHECK]] | verify [TIMEOUT [TTL [RECHECK]]]]",
        set: set_stale,
    },
    Prop { name: "serve_stale_policy", words: "prefer_positive", set: set_policy },
    Prop { name: "servfail", words: "DURATION", set: |c, w| set_short(&mut c.failure, w) },
    Prop { name: "disable", words: "success|denial [ZONES...]", set: set_disable },
    Prop {
        name: "keepttl",
        words: "",
        set: |c, _| {
            c.keepttl = true;
            Ok(())
        },
    },
];

/// Takes a whole number of at least `least`.
fn number<T: TryFrom<i64>>(words: &mut Words<'_>, least: i64) -> Result<T, Diagnostic> {
    number_of(words.one()?, least)
}

/// Reads a whole number of at least `least`.
fn number_of<T: TryFrom<i64>>(word: &Word, least: i64) -> Result<T, Diagnostic> {
    let wrong = || word.wrong(format_args!("is wrong: not a number of {least} or more"));
    let number = integer(&word.text).ok().filter(|number| *number >= least);
    number.and_then(|number| T::try_from(number).ok()).ok_or_else(wrong)
}

/// `CAPACITY [TTL] [MINTTL]`.
fn set_bounds(bounds: &mut Bounds, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    bounds.capacity = number(words, 0)?;
    if !words.is_empty() {
        bounds.most = number(words, 1)?;
    }
    if !words.is_empty() {
        bounds.least = number(words, 0)?;
    }
    Ok(())
}

/// A duration of five minutes at most.
fn set_short(field: &mut Duration, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let word = words.clone().one()?.clone();
    *field = words.duration()?;
    if *field > FIVE_MINUTES {
        return Err(word.wrong("is wrong: longer than 5m"));
    }
    Ok(())
}

/// `prefetch AMOUNT [DURATION] [PERCENTAGE%]`.
fn set_prefetch(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let mut prefetch =
        Prefetch { amount: number(words, 0)?, window: Duration::from_secs(60), percent: 10 };
    if words.peek().is_some_and(|word| !word.text.ends_with('%')) {
        prefetch.window = words.duration()?;
    }
    if let Some(word) = words.maybe() {
        let percent = word.text.strip_suffix('%').and_then(|text| text.parse().ok());
        let percent = percent.filter(|percent| (10..=90).contains(percent));
        prefetch.percent = percent.ok_or_else(|| word.wrong("is wrong: not one of 10% to 90%"))?;
    }
    config.prefetch = Some(prefetch).filter(|prefetch| prefetch.amount > 0);
    Ok(())
}

/// `serve_stale [DURATION] [immediate … | verify …]`.
fn set_stale(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let mut stale = Stale {
        up_to: Duration::from_secs(3600),
        refresh: Refresh::After,
        ttl: 0,
        recheck: Duration::ZERO,
    };
    let is_mode = |word: &Word| matches!(&*word.text, "immediate" | "verify");
    if words.peek().is_some_and(|word| !is_mode(word)) {
        stale.up_to = words.duration()?;
    }
    if !words.is_empty() {
        stale.refresh =
            words.choice(&[("immediate", Refresh::After), ("verify", Refresh::First(None))])?;
    }
    if let (Refresh::First(wait), false) = (&mut stale.refresh, words.is_empty()) {
        *wait = Some(words.duration()?).filter(|wait| !wait.is_zero());
    }
    if let Some(word) = words.maybe() {
        let read = duration(&word.text).ok().filter(|ttl| ttl.subsec_nanos() == 0);
        let seconds = read.and_then(|ttl| u32::try_from(ttl.as_secs()).ok());
        let wrong = || word.wrong("is wrong: not a duration of whole seconds, such as 30s");
        stale.ttl = seconds.or_else(|| word.text.parse().ok()).ok_or_else(wrong)?;
    }
    if !words.is_empty() {
        set_short(&mut stale.recheck, words)?;
    }
    config.stale = Some(stale).filter(|stale| !stale.up_to.is_zero());
    Ok(())
}

/// `serve_stale_policy prefer_positive`.
fn set_policy(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    if config.prefer_positive {
        return Err(words.name().wrong("can only be used once"));
    }
    words.choice(&[("prefer_positive", ())])?;
    config.prefer_positive = true;
    Ok(())
}

/// `disable success|denial [ZONES…]`.
fn set_disable(config: &mut Config, words: &mut Words<'_>) -> Result<(), Diagnostic> {
    let is_success = words.choice(&[("success", true), ("denial", false)])?;
    let mut zones = Vec::new();
    if words.is_empty() {
        zones.push(Name::ROOT);
    }
    for word in words.rest() {
        let named = config::value::zone_argument(&word.text).unwrap_or_default();
        zones.extend(named.iter().filter_map(|zone| Name::parse(zone)));
    }
    let field = if is_success { &mut config.no_success } else { &mut config.no_denial };
    *field = Zones::new(zones);
    Ok(())
}

/// Makes the block's cache.
pub(super) fn setup(setup: &mut Setup<'_>) -> Result<(), Diagnostic> {
    let directive = setup.once()?;
    let mut config = Config::default();
    let mut words = directive.words();
    if let Some(word) = words.peek()
        && integer(&word.text).is_ok()
    {
        let ttl = number(&mut words, 1)?;
        (config.success.most, config.denial.most) = (ttl, ttl);
    }
    let zones = setup.zones_of(words.rest());
    let names: Vec<String> = zones.iter().map(Name::to_string).collect();
    config.zones = Zones::new(zones);
    directive.read_block(PROPS, &mut config)?;
    if config.prefer_positive && config.stale.is_none() {
        let wrong = directive.name.fault("serve_stale_policy needs serve_stale");
        return Err(wrong.help("add a line with serve_stale"));
    }
    let (success, denial) = (config.success.capacity, config.denial.capacity);
    // What a cache holds is right as long as everything behind it says the same: it is the whole block's.
    let key = format!("cache\n{}", setup.block_text());
    let store = setup.share(&key, || Ok(Arc::new(Store::new(success, denial))))?;
    let figures = Figures::new(setup.routes(), names.join(","));
    setup.install(Cache { config, store, figures });
    Ok(())
}
