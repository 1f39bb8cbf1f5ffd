//! Tests over the whole crate.

mod choice;
mod clients;
mod files;
mod own;
mod resumption;
mod upstream;
