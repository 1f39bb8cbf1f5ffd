//! A zone of records and its look-ups; and records as text. No I/O, no clock.

pub mod record;
