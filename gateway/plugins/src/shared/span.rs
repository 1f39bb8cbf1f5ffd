//! Durations as Go writes them, for log lines: `1s`, `1m30s`, `250ms`.

use std::fmt;
use std::time::Duration;

/// A duration that is written as Go does: hours, minutes and seconds from a second on, else the largest unit that fits.
#[derive(Clone, Copy, Debug)]
pub struct Span(pub Duration);

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.0.subsec_nanos();
        let all = self.0.as_secs();
        if all == 0 {
            return match nanos {
                0 => f.write_str("0s"),
                1..1_000 => write!(f, "{nanos}ns"),
                1_000..1_000_000 => write!(f, "{}\u{b5}s", f64::from(nanos) / 1e3),
                _ => write!(f, "{}ms", f64::from(nanos) / 1e6),
            };
        }
        let (hours, minutes, seconds) = (all / 3600, all / 60 % 60, all % 60);
        if hours > 0 {
            write!(f, "{hours}h")?;
        }
        if all >= 60 {
            write!(f, "{minutes}m")?;
        }
        match nanos {
            0 => write!(f, "{seconds}s"),
            _ => {
                let part = format!("{nanos:09}");
                write!(f, "{seconds}.{}s", part.trim_end_matches('0'))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_as_in_go() {
        for (nanos, want) in [
            (0, "0s"),
            (7, "7ns"),
            (1_500, "1.5\u{b5}s"),
            (250_000_000, "250ms"),
            (1_000_000_000, "1s"),
            (1_002_500_000, "1.0025s"),
            (60_000_000_000, "1m0s"),
            (5_400_000_000_000, "1h30m0s"),
        ] {
            assert_eq!(Span(Duration::from_nanos(nanos)).to_string(), want);
        }
    }
}
