//! Tests over the whole crate.

mod choice;
mod clients;
mod files;
mod resumption;
mod upstream;
