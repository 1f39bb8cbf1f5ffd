//! A zone of records and its look-ups.
