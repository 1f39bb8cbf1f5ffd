//! Corefiles: text in, blocks of directives out.

mod files;
mod key;

pub use files::{Disk, Files, Memory};
pub use key::{Key, Scheme};

use crate::{Diagnostic, Directive, Place};
use std::path::PathBuf;

/// A Corefile as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corefile {
    /// The server blocks and cluster blocks, in the order of the text. There is at least one.
    pub blocks: Vec<Block>,
    /// What is odd but not refused.
    pub warnings: Vec<Diagnostic>,
    /// Every text that was read, imported ones included, for showing lines and for noticing changes.
    pub files: Vec<(PathBuf, String)>,
}

/// A block: its keys and its directives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The keys in order; of a network that needs several reverse zones the others stand behind all written keys.
    pub keys: Vec<Key>,
    /// The directives in order; repeated ones stay apart.
    pub directives: Vec<Directive>,
    /// Where the first key stands.
    pub place: Place,
}
