#![doc = include_str!("../README.md")]

pub mod corefile;
pub mod diagnostic;
pub mod directive;
pub mod props;
pub mod settings;
pub mod value;
pub mod word;

pub use corefile::{Block, Corefile, Key, Scheme};
pub use diagnostic::Diagnostic;
pub use directive::{Directive, Words};
pub use props::Prop;
pub use settings::Settings;
pub use word::{Place, Word};
