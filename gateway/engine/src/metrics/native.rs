//! The fine buckets of a histogram, which Prometheus calls native: sixteen to each doubling, so that neighbours differ by 4.4 %.

use std::sync::atomic::{AtomicU64, Ordering};

/// The resolution by Prometheus's count: 2⁴ buckets to each doubling, the coarsest that is finer than a factor of 1.05.
pub(super) const SCHEMA: i32 = 4;

/// Values up to this are zero: 2⁻¹²⁸, as Prometheus's own library has it.
pub(super) const ZERO_THRESHOLD: f64 = 2.938_735_877_055_719e-39;

/// How many buckets there are to each doubling.
const EACH: usize = 1 << SCHEMA;

/// The smallest and the largest power of two with buckets of its own: from a microsecond to a day, from an octet to a message.
const EXPONENTS: std::ops::Range<i32> = -20..17;

/// The upper bounds of the buckets between 1 and 2, the last one left out: 2^(n/16).
#[expect(clippy::excessive_precision, reason = "they are rounded to the nearest number")]
const BOUNDS: [f64; EACH - 1] = [
    1.044_273_782_427_413_8,
    1.090_507_732_665_257_7,
    1.138_788_634_756_691_6,
    1.189_207_115_002_721_1,
    1.241_857_812_073_484_1,
    1.296_839_554_651_009_7,
    1.354_255_546_936_892_7,
    std::f64::consts::SQRT_2,
    1.476_826_145_939_499_3,
    1.542_210_825_407_940_8,
    1.610_490_331_949_254_3,
    1.681_792_830_507_429_1,
    1.756_252_160_373_299_5,
    1.834_008_086_409_342_5,
    1.915_206_561_397_147_3,
];

/// The counts of one histogram.
#[derive(Debug)]
pub(super) struct Native {
    zero: AtomicU64,
    counts: Box<[AtomicU64]>,
}

/// A count, and the number of its bucket by Prometheus's count: the one up to 1 is number 0.
pub(super) type Bucket = (i32, u64);

impl Native {
    /// An empty one.
    pub(super) fn new() -> Self {
        let counts = (0..EXPONENTS.len() * EACH).map(|_| AtomicU64::new(0)).collect();
        Self { zero: AtomicU64::new(0), counts }
    }

    /// Counts a value, which must not be negative. Those that are too small or too large count in the first or the last bucket.
    pub(super) fn record(&self, value: f64) {
        let count = match index(value) {
            None => &self.zero,
            Some(index) => &self.counts[index],
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// How many values were zero, and the buckets that are not empty, in their order.
    pub(super) fn counts(&self) -> (u64, Vec<Bucket>) {
        let first = EXPONENTS.start * (1 << SCHEMA) + 1;
        let counts = self.counts.iter().map(|count| count.load(Ordering::Relaxed));
        let buckets = (first..).zip(counts).filter(|(_, count)| *count > 0).collect();
        (self.zero.load(Ordering::Relaxed), buckets)
    }
}

/// The index of a value's bucket; none for zero. A bucket has its upper bound in it, and its lower one not.
fn index(value: f64) -> Option<usize> {
    if value <= ZERO_THRESHOLD {
        return None;
    }
    let bits = value.to_bits();
    // A number is its fraction, from 1 to 2, times a power of two (IEEE 754).
    let exponent = i32::try_from(bits >> 52 & 0x7ff).unwrap_or_default() - 1023;
    let fraction = f64::from_bits(bits & 0xf_ffff_ffff_ffff | 1023 << 52);
    let place = exponent - EXPONENTS.start;
    if place < 0 {
        return Some(0);
    }
    let last = EXPONENTS.len() * EACH - 1;
    let place = usize::try_from(place).unwrap_or_default();
    let within = BOUNDS.partition_point(|bound| *bound < fraction);
    // A power of two is the upper bound of the bucket before.
    let index =
        if fraction == 1.0 { (place * EACH).saturating_sub(1) } else { place * EACH + within };
    Some(index.min(last))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_in_the_bucket_that_bounds_them() {
        let number = |value: f64| {
            let native = Native::new();
            native.record(value);
            let (zero, buckets) = native.counts();
            assert_eq!(zero + buckets.iter().map(|(_, count)| count).sum::<u64>(), 1);
            buckets.first().map(|(number, _)| *number)
        };
        for (value, want) in [
            (0.0, None),
            (1e-300, None),
            (1.0, Some(0)),
            (1.01, Some(1)),
            (1.044_273_782_427_413_8, Some(1)),
            (1.05, Some(2)),
            (1.99, Some(16)),
            (2.0, Some(16)),
            (2.01, Some(17)),
            (0.5, Some(-16)),
            (0.000_25, Some(-191)),
            (65535.0, Some(256)),
            (65536.0, Some(256)),
            // What is out of range is in the outermost bucket.
            (1e-9, Some(-319)),
            (1e12, Some(272)),
            (f64::INFINITY, Some(272)),
        ] {
            assert_eq!(number(value), want, "{value}");
        }
        // Each bucket n is for values over 2^((n-1)/16) up to 2^(n/16).
        for step in 1..4000 {
            let value = f64::from(step) * 0.013;
            let number = f64::from(number(value).unwrap());
            let (low, high) = (((number - 1.0) / 16.0).exp2(), (number / 16.0).exp2());
            assert!(
                low < value * (1.0 + 1e-12) && value <= high * (1.0 + 1e-12),
                "{value} {number}"
            );
        }
    }
}
