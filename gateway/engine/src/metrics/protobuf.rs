//! All metrics in Prometheus's protobuf format, the one that has native histograms: messages `io.prometheus.client.MetricFamily`,
//! each with its length in front.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;

use super::native::{SCHEMA, ZERO_THRESHOLD};
use super::{HELP, HISTOGRAMS, Histogram, exporter, figures};

/// The media type.
pub const PROTOBUF: &str =
    "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited";

/// A message under construction.
#[derive(Debug, Default)]
struct Message(Vec<u8>);

impl Message {
    /// Appends a number, seven bits an octet.
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            // The lower bits, and that there are more.
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends a field that is a number.
    fn number(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// Appends a field that is a number which may be negative (`sint32`, `sint64`).
    fn signed(&mut self, field: u32, value: i64) {
        self.number(field, ((value << 1) ^ (value >> 63)) as u64);
    }

    /// Appends a field that is a `double`.
    fn double(&mut self, field: u32, value: f64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a field that is octets, a text or a message.
    fn octets(&mut self, field: u32, value: &[u8]) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(value.len() as u64);
        self.0.extend_from_slice(value);
    }
}

/// The kinds of metrics, by the format's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Only grows.
    Counter = 0,
    /// Goes up and down.
    Gauge = 1,
    /// Has buckets.
    Histogram = 4,
}

/// The metrics of one name.
#[derive(Debug)]
struct Family {
    kind: Kind,
    /// Each a message.
    members: Vec<Message>,
}

/// All families by name.
type Families = BTreeMap<String, Family>;

/// All metrics in the protobuf format.
pub fn render_protobuf() -> Vec<u8> {
    let mut families = Families::new();
    read(&exporter().render(), &mut families);
    for (name, family) in figures().families() {
        let kind = if family.kind == "counter" { Kind::Counter } else { Kind::Gauge };
        for (labels, value) in &family.members {
            let labels = labels.iter().map(|(name, value)| (*name, &**value));
            add(&mut families, name, kind, simple(kind, labels, *value));
        }
    }
    for (name, family) in &*HISTOGRAMS.lock().unwrap_or_else(PoisonError::into_inner) {
        for (own, histogram) in family {
            let mut metric = labels(own.iter().map(|(name, value)| (*name, &**value)));
            metric.octets(7, &buckets(histogram).0);
            add(&mut families, name, Kind::Histogram, metric);
        }
    }
    let help = HELP.lock().unwrap_or_else(PoisonError::into_inner);
    let mut out = Message::default();
    for (name, family) in families {
        let mut message = Message::default();
        message.octets(1, name.as_bytes());
        if let Some(help) = help.get(&*name) {
            message.octets(2, help.as_bytes());
        }
        message.number(3, family.kind as u64);
        family.members.iter().for_each(|metric| message.octets(4, &metric.0));
        out.varint(message.0.len() as u64);
        out.0.extend_from_slice(&message.0);
    }
    out.0
}

/// Adds a metric to its family.
fn add(families: &mut Families, name: &str, kind: Kind, metric: Message) {
    let family = families.entry(name.to_owned());
    family.or_insert_with(|| Family { kind, members: Vec::new() }).members.push(metric);
}

/// A metric with its labels, and nothing else yet.
fn labels<'a>(labels: impl Iterator<Item = (&'a str, &'a str)>) -> Message {
    let mut metric = Message::default();
    for (name, value) in labels {
        let mut label = Message::default();
        label.octets(1, name.as_bytes());
        label.octets(2, value.as_bytes());
        metric.octets(1, &label.0);
    }
    metric
}

/// A metric that is one number.
fn simple<'a>(kind: Kind, own: impl Iterator<Item = (&'a str, &'a str)>, value: f64) -> Message {
    let mut metric = labels(own);
    let mut number = Message::default();
    number.double(1, value);
    metric.octets(if kind == Kind::Counter { 3 } else { 2 }, &number.0);
    metric
}

/// A histogram with its coarse buckets and its fine ones.
fn buckets(histogram: &Histogram) -> Message {
    // The fine buckets are read first and once: the message has to agree with itself, while others count.
    let (zero, fine) = histogram.native.counts();
    let total = zero + fine.iter().map(|(_, count)| count).sum::<u64>();
    let mut message = Message::default();
    message.number(1, total);
    message.double(2, histogram.sum.load(Ordering::Relaxed) as f64 / 1e6);
    let mut cumulative = 0;
    for (bound, count) in histogram.bounds.iter().zip(&histogram.counts) {
        cumulative = total.min(cumulative + count.load(Ordering::Relaxed));
        let mut bucket = Message::default();
        bucket.number(1, cumulative);
        bucket.double(2, *bound);
        message.octets(3, &bucket.0);
    }
    message.signed(5, i64::from(SCHEMA));
    message.double(6, ZERO_THRESHOLD);
    message.number(7, zero);
    spans(&fine, &mut message);
    message
}

/// The fine buckets: runs of those in a row, and each count as its difference to the one before. A histogram without any has an
/// empty run, which tells it from one without fine buckets.
fn spans(fine: &[(i32, u64)], message: &mut Message) {
    let span = |message: &mut Message, offset: i64, length: u64| {
        let mut span = Message::default();
        span.signed(1, offset);
        span.number(2, length);
        message.octets(12, &span.0);
    };
    if fine.is_empty() {
        span(message, 0, 0);
    }
    let mut end = 0;
    for run in fine.chunk_by(|(one, _), (next, _)| one + 1 == *next) {
        let first = run.first().map_or(0, |(number, _)| *number);
        span(message, i64::from(first - end), run.len() as u64);
        end = first + i32::try_from(run.len()).unwrap_or(i32::MAX);
    }
    let mut before = 0;
    for (_, count) in fine {
        let count = i64::try_from(*count).unwrap_or(i64::MAX);
        message.signed(13, count - before);
        before = count;
    }
}

/// Reads counters and gauges in the text format, as the facade's exporter writes them.
fn read(text: &str, families: &mut Families) {
    let mut kind = None;
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            kind = match rest.rsplit_once(' ') {
                Some((_, "counter")) => Some(Kind::Counter),
                Some((_, "gauge")) => Some(Kind::Gauge),
                _ => None,
            };
        } else if let (false, Some(kind)) = (line.starts_with('#'), kind)
            && let Some((name, labels, value)) = sample(line)
        {
            let own = labels.iter().map(|(name, value)| (*name, &**value));
            add(families, name, kind, simple(kind, own, value));
        }
    }
}

/// A sample: its name, its labels and its value.
type Sample<'a> = (&'a str, Vec<(&'a str, String)>, f64);

/// Reads a line of the text format: `name{label="value",…} number`.
fn sample(line: &str) -> Option<Sample<'_>> {
    let (before, value) = line.rsplit_once(' ')?;
    let value = value.parse().ok()?;
    let Some((name, mut rest)) = before.split_once('{') else {
        return Some((before, Vec::new(), value));
    };
    let mut labels = Vec::new();
    while rest != "}" {
        let (label, behind) = rest.split_once("=\"")?;
        let mut text = String::new();
        let mut signs = behind.char_indices();
        let end = loop {
            match signs.next()? {
                (at, '"') => break at,
                (_, '\\') => text.push(match signs.next()?.1 {
                    'n' => '\n',
                    other => other,
                }),
                (_, sign) => text.push(sign),
            }
        };
        labels.push((label, text));
        rest = behind.get(end + 1..)?;
        rest = rest.strip_prefix(',').unwrap_or(rest);
    }
    Some((name, labels, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_read_as_they_are_written() {
        let labels = |labels: &[(&'static str, &str)]| {
            labels.iter().map(|(name, value)| (*name, (*value).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(sample("a_total 5"), Some(("a_total", Vec::new(), 5.0)));
        assert_eq!(
            sample(r#"a{b="c",d="e \"f\" \\ \n} , 1"} 0.5"#),
            Some(("a", labels(&[("b", "c"), ("d", "e \"f\" \\ \n} , 1")]), 0.5))
        );
        for wrong in ["", "a", "a{b} 1", "a{b=\"c} 1", "a b c"] {
            assert!(sample(wrong).is_none() || wrong == "a b c", "{wrong}");
        }
    }

    #[test]
    fn runs_and_differences() {
        let mut message = Message::default();
        spans(&[(-3, 2), (-2, 5), (4, 1)], &mut message);
        // Spans: offset -3 length 2, then offset 5 (4 - -1) length 1; deltas 2, 3, -4.
        assert_eq!(
            message.0,
            [0x62, 4, 8, 5, 16, 2, 0x62, 4, 8, 10, 16, 1, 0x68, 4, 0x68, 6, 0x68, 7]
        );
        let mut empty = Message::default();
        spans(&[], &mut empty);
        assert_eq!(empty.0, [0x62, 4, 8, 0, 16, 0]);
    }

    #[test]
    fn a_histogram_agrees_with_itself() {
        static BOUNDS: [f64; 2] = [1.0, 2.0];
        let histogram = Histogram::new(&BOUNDS);
        for value in [0.0, 0.5, 1.5, 9.0] {
            histogram.record(value);
        }
        let message = buckets(&histogram).0;
        // sample_count 4, sample_sum 11.
        assert_eq!(message[..2], [0x08, 4]);
        assert_eq!(message[2..11], [&[0x11][..], &11f64.to_le_bytes()].concat());
        // The coarse buckets are cumulative: 2 up to 1, 3 up to 2.
        assert_eq!(message[11..15], [0x1a, 11, 0x08, 2]);
        assert_eq!(message[24..28], [0x1a, 11, 0x08, 3]);
    }
}
