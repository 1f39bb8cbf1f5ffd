//! What requests are taken for, and what is told of answers.
