//! Durations: with units as Go writes them, or as bare seconds.

use std::time::Duration;

/// The units and their nanoseconds; the micro sign comes in two code points.
const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// Why a text is no duration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotDuration {
    /// It has no number, no unit, or an unknown unit.
    Form,
    /// It has a number without a unit.
    Bare,
    /// It is longer than 292 years.
    Long,
    /// It is negative where only a positive one makes sense.
    Negative,
    /// It is not a number of whole seconds.
    Seconds,
}

impl std::fmt::Display for NotDuration {
    /// Writes what would be right.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Form => "not a duration such as 30s, 1h30m or 500ms (units: ns, us, ms, s, m, h)",
            Self::Bare => "a duration needs a unit, such as 30s or 5m",
            Self::Long => "longer than 292 years",
            Self::Negative => "a duration cannot be negative here",
            Self::Seconds => "not a number of whole seconds, such as 30",
        })
    }
}

impl std::error::Error for NotDuration {}

/// Reads a duration that is not negative, as Go writes it: numbers with units one after the other, `1h30m`, `1.5s`, `0`.
///
/// # Errors
///
/// If it is none, longer than 292 years, or negative.
pub fn duration(text: &str) -> Result<Duration, NotDuration> {
    let nanoseconds = nanoseconds(text)?;
    u64::try_from(nanoseconds).map(Duration::from_nanos).map_err(|_| NotDuration::Negative)
}

/// Reads a duration with an optional sign, in nanoseconds.
///
/// # Errors
///
/// If it is none, or longer than 292 years.
pub fn nanoseconds(text: &str) -> Result<i64, NotDuration> {
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(NotDuration::Form);
    }
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let (value, after) = step(rest)?;
        total = total.checked_add(value).ok_or(NotDuration::Long)?;
        rest = after;
    }
    match (negative, i64::try_from(total)) {
        (false, Ok(total)) => Ok(total),
        (true, Ok(total)) => Ok(-total),
        (true, Err(_)) if total == i64::MIN.unsigned_abs() => Ok(i64::MIN),
        (_, Err(_)) => Err(NotDuration::Long),
    }
}

/// Reads one number with its unit and gives its nanoseconds and what follows.
fn step(text: &str) -> Result<(u64, &str), NotDuration> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(NotDuration::Form);
    }
    let end = rest.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(rest.len());
    let (unit, rest) = rest.split_at(end);
    if unit.is_empty() {
        return Err(NotDuration::Bare);
    }
    let (_, scale) = UNITS.iter().find(|(name, _)| *name == unit).ok_or(NotDuration::Form)?;
    let whole: u64 =
        if whole.is_empty() { 0 } else { whole.parse().map_err(|_| NotDuration::Long)? };
    let whole = whole.checked_mul(*scale).ok_or(NotDuration::Long)?;
    // More than 15 digits after the point are below a nanosecond of any unit.
    let kept = &fraction[..fraction.len().min(15)];
    let part = u128::from(kept.parse::<u64>().unwrap_or(0)) * u128::from(*scale);
    let part = kept.bytes().fold(part, |part, _| part / 10);
    let part = u64::try_from(part).map_err(|_| NotDuration::Long)?;
    Ok((whole.checked_add(part).ok_or(NotDuration::Long)?, rest))
}

/// Splits the leading decimal digits off.
fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// Reads bare whole seconds.
///
/// # Errors
///
/// If it is no number, or more than 292 years.
pub fn seconds(text: &str) -> Result<Duration, NotDuration> {
    let seconds: u64 = text.parse().map_err(|_| NotDuration::Seconds)?;
    if i64::try_from(u128::from(seconds) * 1_000_000_000).is_err() {
        return Err(NotDuration::Long);
    }
    Ok(Duration::from_secs(seconds))
}
