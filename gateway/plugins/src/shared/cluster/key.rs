//! Keys of services, `\x03web\x04shop`.

use std::fmt::{self, Write as _};

use wire::Name;

use super::address::Label;

/// The key of a service; none if one of its names is no label.
pub(crate) fn key(name: &[u8], namespace: &[u8]) -> Option<Box<[u8]>> {
    let (name, namespace) = (Label::of(name)?, Label::of(namespace)?);
    Some([name.wire(), namespace.wire()].concat().into_boxed_slice())
}

/// Writes a key as people do, `shop/web`.
pub(crate) struct Shown<'k>(pub(crate) &'k [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let labels: Vec<_> = Name::labels_of(self.0).collect();
        for (index, label) in labels.iter().rev().enumerate() {
            if index > 0 {
                f.write_char('/')?;
            }
            write!(f, "{}", label.escape_ascii())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_shown_as_people_write_them() {
        let key = key(b"web", b"shop").unwrap();
        assert_eq!(&*key, b"\x03web\x04shop");
        assert_eq!(Shown(&key).to_string(), "shop/web");
    }
}
