//! The facts `autopath.*`.
