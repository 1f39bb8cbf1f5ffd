//! Metric handles: made at set-up or on first use, found by index on the hot path; and their text form.
//!
//! Counters and gauges are those of the `metrics` facade. Histograms are ours: the facade's exporter keeps every sample until
//! somebody scrapes, which allocates on the query path and grows without bound when nobody does.

mod native;
mod protobuf;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

pub use metrics::{Counter, Gauge};
use metrics::{Key, Label, Level, Metadata};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};

use self::native::Native;
pub use self::protobuf::{PROTOBUF, render_protobuf};

/// Buckets for durations: 0.25 ms doubling to 8.192 s.
pub const TIME_BUCKETS: [f64; 16] = [
    0.000_25, 0.000_5, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024,
    2.048, 4.096, 8.192,
];

/// Buckets for durations that need little detail: 0.25 ms, five of them, each ten times the last.
pub const SLIM_TIME_BUCKETS: [f64; 5] = [0.000_25, 0.002_5, 0.025, 0.25, 2.5];

/// Whose metrics these are, for the facade.
static METADATA: Metadata<'static> = Metadata::new("causeway", Level::INFO, None);

/// All histograms of the process by name, and their help.
static HISTOGRAMS: Mutex<BTreeMap<&'static str, Members>> = Mutex::new(BTreeMap::new());

/// The help texts of histograms.
static HELP: Mutex<BTreeMap<&'static str, &'static str>> = Mutex::new(BTreeMap::new());

/// Those which work figures out when somebody scrapes.
static COLLECTORS: Mutex<Vec<Weak<dyn Collect>>> = Mutex::new(Vec::new());

/// The histograms of one name.
type Members = Vec<(Labels, Arc<Histogram>)>;

/// A metric's labels, by name: as Prometheus's own library writes them.
pub type Labels = Vec<(&'static str, String)>;

/// The exporter; installed when first asked for.
fn exporter() -> &'static PrometheusHandle {
    static EXPORTER: OnceLock<PrometheusHandle> = OnceLock::new();
    EXPORTER.get_or_init(|| {
        let recorder = PrometheusBuilder::new().build_recorder();
        let handle = recorder.handle();
        // Nobody else installs one in this process; if somebody did, the handle would show nothing, which is no reason to die.
        if metrics::set_global_recorder(recorder).is_err() {
            log::warn!("another metrics recorder is installed already");
        }
        handle
    })
}

/// Labels in their order.
fn sorted(labels: &[(&'static str, &str)]) -> Labels {
    let mut labels: Labels =
        labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect();
    labels.sort_unstable();
    labels
}

/// Makes a key from a name and labels.
fn key(name: &'static str, labels: &[(&'static str, &str)]) -> Key {
    let labels: Vec<_> =
        sorted(labels).into_iter().map(|(name, value)| Label::new(name, value)).collect();
    Key::from_parts(name, labels)
}

/// The counter of a name and labels; the same for the same ones.
pub fn counter(name: &'static str, labels: &[(&'static str, &str)]) -> Counter {
    exporter();
    metrics::with_recorder(|recorder| recorder.register_counter(&key(name, labels), &METADATA))
}

/// The gauge of a name and labels; the same for the same ones.
pub fn gauge(name: &'static str, labels: &[(&'static str, &str)]) -> Gauge {
    exporter();
    metrics::with_recorder(|recorder| recorder.register_gauge(&key(name, labels), &METADATA))
}

/// The histogram of a name and labels; the same for the same ones, with the buckets of the first.
pub fn histogram(
    name: &'static str,
    labels: &[(&'static str, &str)],
    buckets: &'static [f64],
) -> Arc<Histogram> {
    let mut all = HISTOGRAMS.lock().unwrap_or_else(PoisonError::into_inner);
    let family = all.entry(name).or_default();
    let labels = sorted(labels);
    if let Some((_, known)) = family.iter().find(|(own, _)| *own == labels) {
        return Arc::clone(known);
    }
    let made = Arc::new(Histogram::new(buckets));
    family.push((labels, Arc::clone(&made)));
    made
}

/// Says what a metric means, for the `# HELP` line.
pub fn describe(name: &'static str, help: &'static str) {
    exporter();
    HELP.lock().unwrap_or_else(PoisonError::into_inner).insert(name, help);
    metrics::with_recorder(|recorder| recorder.describe_counter(name.into(), None, help.into()));
}

/// All metrics in Prometheus's text format.
pub fn render() -> String {
    let mut out = exporter().render();
    let figures = figures();
    let help = HELP.lock().unwrap_or_else(PoisonError::into_inner);
    for (name, family) in &figures.0 {
        if let Some(help) = help.get(name) {
            line(&mut out, format_args!("# HELP {name} {help}"));
        }
        line(&mut out, format_args!("# TYPE {name} {}", family.kind));
        for (labels, value) in &family.members {
            line(&mut out, format_args!("{name}{} {value}", braced(&written(labels))));
        }
        out.push('\n');
    }
    for (name, family) in &*HISTOGRAMS.lock().unwrap_or_else(PoisonError::into_inner) {
        if let Some(help) = help.get(name) {
            line(&mut out, format_args!("# HELP {name} {help}"));
        }
        line(&mut out, format_args!("# TYPE {name} histogram"));
        for (labels, histogram) in family {
            histogram.render(name, labels, &mut out);
        }
        out.push('\n');
    }
    out
}

/// All figures that collectors have now.
fn figures() -> Figures {
    let mut all = COLLECTORS.lock().unwrap_or_else(PoisonError::into_inner);
    all.retain(|one| one.strong_count() > 0);
    let alive: Vec<_> = all.iter().filter_map(Weak::upgrade).collect();
    drop(all);
    let mut figures = Figures::default();
    alive.iter().for_each(|one| one.collect(&mut figures));
    figures
}

/// Labels as they are written between braces, each with a comma behind.
fn written(labels: &Labels) -> String {
    labels.iter().fold(String::new(), |mut text, (name, value)| {
        let value = value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n");
        // Writing to a string cannot fail.
        let _unfailing = write!(text, "{name}=\"{value}\",");
        text
    })
}

/// Written labels in braces; nothing if there are none.
fn braced(written: &str) -> String {
    match written.trim_end_matches(',') {
        "" => String::new(),
        labels => format!("{{{labels}}}"),
    }
}

/// Appends a line.
fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string cannot fail.
    let _unfailing = out.write_fmt(text);
    out.push('\n');
}

/// Works figures out when somebody scrapes: for what is known elsewhere (the process's memory), and for what must go away
/// again (a configuration's plugins).
pub trait Collect: Send + Sync {
    /// Writes its figures; must not block for long.
    fn collect(&self, figures: &mut Figures);
}

/// Asks `from` at every scrape, as long as it lives.
pub fn collect<T: Collect + 'static>(from: &Arc<T>) {
    let weak: Weak<T> = Arc::downgrade(from);
    COLLECTORS.lock().unwrap_or_else(PoisonError::into_inner).push(weak);
}

/// The figures of one scrape. A name has one kind, and is none of the counters' and gauges' that have handles; where two
/// collectors have the same name and labels, the later one's figure stays.
#[derive(Debug, Default)]
pub struct Figures(BTreeMap<&'static str, Family>);

/// The figures of one name.
#[derive(Debug)]
struct Family {
    kind: &'static str,
    members: BTreeMap<Labels, f64>,
}

impl Figures {
    /// A figure that only grows.
    pub fn counter(&mut self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.put("counter", name, labels, value);
    }

    /// A figure that goes up and down.
    pub fn gauge(&mut self, name: &'static str, labels: &[(&'static str, &str)], value: f64) {
        self.put("gauge", name, labels, value);
    }

    /// The figures of each name.
    fn families(&self) -> impl Iterator<Item = (&'static str, &Family)> {
        self.0.iter().map(|(name, family)| (*name, family))
    }

    /// Adds a figure.
    fn put(
        &mut self,
        kind: &'static str,
        name: &'static str,
        labels: &[(&'static str, &str)],
        value: f64,
    ) {
        let labels = sorted(labels);
        let family =
            self.0.entry(name).or_insert_with(|| Family { kind, members: BTreeMap::new() });
        family.members.insert(labels, value);
    }
}

/// A histogram with fixed buckets, and with fine ones for those who read them. Observing is three atomic additions.
#[derive(Debug)]
pub struct Histogram {
    bounds: &'static [f64],
    /// One for each bound, and one for what is above them all.
    counts: Box<[AtomicU64]>,
    /// The sum of all values, in millionths.
    sum: AtomicU64,
    /// The fine buckets.
    native: Native,
}

impl Histogram {
    /// An empty one.
    fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0), native: Native::new() }
    }

    /// Counts a value, in the metric's unit; it must not be negative.
    pub fn record(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
        self.native.record(value);
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// Appends the lines of this histogram.
    fn render(&self, name: &str, labels: &Labels, out: &mut String) {
        let own = written(labels);
        let mut sum = 0;
        for (at, count) in self.counts.iter().enumerate() {
            sum += count.load(Ordering::Relaxed);
            match self.bounds.get(at) {
                Some(bound) => {
                    line(out, format_args!("{name}_bucket{{{own}le=\"{bound}\"}} {sum}"))
                }
                None => line(out, format_args!("{name}_bucket{{{own}le=\"+Inf\"}} {sum}")),
            }
        }
        let total = self.sum.load(Ordering::Relaxed) as f64 / 1e6;
        let braced = braced(&own);
        line(out, format_args!("{name}_sum{braced} {total}"));
        line(out, format_args!("{name}_count{braced} {sum}"));
    }
}

/// Handles by number, each made when it is first used: for label sets that are closed.
#[derive(Debug)]
pub struct Table<T> {
    slots: Box<[OnceLock<T>]>,
}

impl<T> Table<T> {
    /// A table of `len` handles, none of them made.
    pub fn new(len: usize) -> Self {
        Self { slots: (0..len).map(|_| OnceLock::new()).collect() }
    }

    /// The handle at `index`, made if need be; none past the end.
    pub fn get(&self, index: usize, make: impl FnOnce() -> T) -> Option<&T> {
        self.slots.get(index).map(|slot| slot.get_or_init(make))
    }
}
