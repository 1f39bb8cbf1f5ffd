//! Corefiles: text in, blocks of directives out.

mod env;
mod files;
mod key;
mod lexer;
mod load;
mod parser;
mod stream;

pub use files::{Disk, Files, Memory};
pub use key::{Key, Scheme};
pub use load::{Failure, Source, load};

use crate::{Diagnostic, Directive, Place};
use std::path::{Path, PathBuf};
use stream::Stream;

/// What is served where nothing is configured.
const DEFAULT: &str = ". {\n    whoami\n    log\n}\n";

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

impl Block {
    /// The key of a block that declares a cluster; none of a server block.
    pub fn cluster(&self) -> Option<&Key> {
        self.keys.first().filter(|key| key.scheme == Scheme::Cluster)
    }
}

impl Corefile {
    /// Shows a diagnostic with the line that it means.
    pub fn render(&self, diagnostic: &Diagnostic) -> String {
        diagnostic.render(&|path| source(&self.files, path))
    }

    /// Shows what is odd with the line that it means.
    pub fn render_warning(&self, diagnostic: &Diagnostic) -> String {
        diagnostic.render_warning(&|path| source(&self.files, path))
    }
}

/// The text of a file.
fn source(files: &[(PathBuf, String)], path: &Path) -> Option<String> {
    files.iter().find(|(file, _)| file == path).map(|(_, text)| text.clone())
}

/// Reads a Corefile. `name` stands in diagnostics, and paths of imports are relative to its directory. A text without blocks is
/// served as `. { whoami; log }`, with a warning.
///
/// # Errors
///
/// All that is wrong, in the order of the text.
pub fn parse(
    name: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    read: &dyn Files,
) -> Result<Corefile, Vec<Diagnostic>> {
    parse_all(name, text, env, read).map_err(|failure| failure.errors)
}

/// Reads one directive, for tests of those who read it further.
///
/// # Errors
///
/// All that is wrong with it; also if it is none, or more than one.
pub fn directive(text: &str) -> Result<Directive, Vec<Diagnostic>> {
    let text = format!(". {{\n{text}\n}}\n");
    let corefile = parse(Path::new("Corefile"), &text, &|_| None, &Memory::default())?;
    let mut directives = corefile.blocks.into_iter().flat_map(|block| block.directives);
    match (directives.next(), directives.next()) {
        (Some(directive), None) => Ok(directive),
        _ => Err(vec![Diagnostic::new("the text is not one directive")]),
    }
}

/// Reads a Corefile, and keeps its texts if it is wrong.
fn parse_all(
    name: &Path,
    text: &str,
    env: &dyn Fn(&str) -> Option<String>,
    read: &dyn Files,
) -> Result<Corefile, Failure> {
    let mut stream = Stream::new(name, text, env, read);
    let mut blocks = parser::blocks(&mut stream);
    let rest = stream.finish();
    if !rest.errors.is_empty() {
        return Err(Failure { errors: rest.errors, files: rest.texts });
    }
    let mut corefile = Corefile { blocks: Vec::new(), warnings: rest.warnings, files: rest.texts };
    if blocks.is_empty() {
        let odd =
            format!("{} has no block: every zone is answered by whoami and logged", name.display());
        corefile.warnings.push(Diagnostic::new(odd));
        let mut stream = Stream::new(name, DEFAULT, env, read);
        blocks = parser::blocks(&mut stream);
    }
    corefile.blocks = blocks;
    Ok(corefile)
}

#[cfg(test)]
mod tests;
