//! Tables of properties: one row a property reads a plugin's block.

use crate::value::known;
use crate::{Diagnostic, Directive, Words};

/// One property of a block: a row of its table.
pub struct Prop<T: 'static> {
    /// The first word of its line.
    pub name: &'static str,
    /// The words behind it as the plugin's README writes them, `CAPACITY [TTL]`: the help of a wrong line. Where their number
    /// is fixed, the brace that closes the block may stand behind them; else it would be one of them.
    pub words: &'static str,
    /// Sets it from the words behind its name; those that are left over are refused.
    pub set: fn(&mut T, &mut Words<'_>) -> Result<(), Diagnostic>,
}

impl Directive {
    /// Reads the block by a table: each line sets its property. A directive without a block sets none.
    ///
    /// # Errors
    ///
    /// Every line that has an unknown property, wrong words, words left over, a block that its row did not ask for, or
    /// a closing brace that could be a word.
    pub fn read_block<T>(&self, table: &[Prop<T>], into: &mut T) -> Result<(), Diagnostic> {
        let wrong: Vec<_> =
            self.lines().iter().filter_map(|line| line.read_line(table, into).err()).collect();
        Diagnostic::joined(wrong).map_or(Ok(()), Err)
    }

    /// Reads the block by two tables: each line sets its property of either.
    ///
    /// # Errors
    ///
    /// As [`read_block`](Self::read_block).
    pub fn read_block_of<T, U>(
        &self,
        (table, into): (&[Prop<T>], &mut T),
        (other, beside): (&[Prop<U>], &mut U),
    ) -> Result<(), Diagnostic> {
        let read = |line: &Self| {
            let name = &line.name;
            if table.iter().any(|prop| prop.name == name.text) {
                return line.read_line(table, into);
            }
            if other.iter().any(|prop| prop.name == name.text) {
                return line.read_line(other, beside);
            }
            let names =
                table.iter().map(|prop| prop.name).chain(other.iter().map(|prop| prop.name));
            let names: Vec<_> = names.collect();
            Err(name.wrong("is not a property").help(known(&name.text, &names)))
        };
        let wrong: Vec<_> = self.lines().iter().map(read).filter_map(Result::err).collect();
        Diagnostic::joined(wrong).map_or(Ok(()), Err)
    }

    /// Reads this one line by a table, for blocks that hold other lines as well.
    ///
    /// # Errors
    ///
    /// As [`read_block`](Self::read_block).
    pub fn read_line<T>(&self, table: &[Prop<T>], into: &mut T) -> Result<(), Diagnostic> {
        let Some(prop) = table.iter().find(|prop| prop.name == self.name.text) else {
            let names: Vec<_> = table.iter().map(|prop| prop.name).collect();
            return Err(self.name.wrong("is not a property").help(known(&self.name.text, &names)));
        };
        if let Some(brace) = &self.brace
            && prop.words.contains(['[', '{', '…', '.'])
        {
            return Err(brace.shares_line(&self.name));
        }
        let mut words = self.words();
        (prop.set)(into, &mut words).and_then(|()| words.finish()).map_err(|wrong| {
            match wrong.help {
                Some(_) => wrong,
                None => wrong.help(format!("write: {} {}", prop.name, prop.words).trim_end()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
