//! The XML of Amazon's replies, element by element.

use quick_xml::Reader;
use quick_xml::events::Event;

use crate::shared::fetch::Failure;

/// How deep elements may lie in one another.
const DEEPEST: usize = 32;

/// What is met on the way through a document.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Met<'a> {
    /// An element begins.
    Begin,
    /// An element ends, with its text.
    End(&'a str),
}

/// Goes through a document. `each` is called with the names of the element and of those around it, the outermost first.
///
/// # Errors
/// If it is no XML, and what `each` says.
pub(crate) fn walk(
    text: &str,
    mut each: impl FnMut(&[String], Met<'_>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let garbled = || Failure::away("the reply is no XML that can be read");
    let mut reader = Reader::from_str(text);
    let (mut path, mut content, mut any) = (Vec::<String>::new(), String::new(), false);
    loop {
        match reader.read_event().map_err(|_| garbled())? {
            Event::Start(start) => {
                if path.len() >= DEEPEST {
                    return Err(garbled());
                }
                path.push(start.local_name().as_ref().to_owned());
                content.clear();
                any = true;
                each(&path, Met::Begin)?;
            }
            Event::Empty(start) => {
                path.push(start.local_name().as_ref().to_owned());
                each(&path, Met::Begin)?;
                each(&path, Met::End(""))?;
                path.pop();
                any = true;
            }
            Event::End(_) => {
                each(&path, Met::End(&content))?;
                path.pop();
                content.clear();
            }
            Event::Text(text) => content.push_str(&text),
            Event::CData(text) => content.push_str(&text),
            Event::GeneralRef(entity) => {
                let resolved = match entity.resolve_char_ref().map_err(|_| garbled())? {
                    Some(sign) => Some(sign),
                    None => match &*entity {
                        "lt" => Some('<'),
                        "gt" => Some('>'),
                        "amp" => Some('&'),
                        "apos" => Some('\''),
                        "quot" => Some('"'),
                        _ => None,
                    },
                };
                content.push(resolved.ok_or_else(garbled)?);
            }
            Event::Eof => {
                let whole = path.is_empty() && any;
                return if whole { Ok(()) } else { Err(garbled()) };
            }
            Event::Decl(_) | Event::PI(_) | Event::DocType(_) | Event::Comment(_) => {}
        }
    }
}

/// The texts of the first elements with these names, wherever they lie.
pub(crate) fn texts<const N: usize>(
    text: &str,
    names: [&str; N],
) -> Result<[Option<String>; N], Failure> {
    let mut found = [const { None }; N];
    walk(text, |path, met| {
        if let Met::End(text) = met
            && let Some(at) =
                names.iter().position(|name| path.last().is_some_and(|own| own == name))
            && let Some(slot @ None) = found.get_mut(at)
        {
            *slot = Some(text.to_owned());
        }
        Ok(())
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_read() {
        let text = "<?xml version=\"1.0\"?>\n<A xmlns=\"x\"><B>one &amp; &quot;two&#34;</B><C/><B>2</B><D><![CDATA[<raw>]]></D></A>";
        let [b, c, d, e] = texts(text, ["B", "C", "D", "E"]).unwrap();
        assert_eq!(b.as_deref(), Some("one & \"two\""));
        assert_eq!((c.as_deref(), d.as_deref(), e), (Some(""), Some("<raw>"), None));
    }

    #[test]
    fn what_is_no_xml_is_refused() {
        for text in
            ["", "no", "<a>", "<a></b>", "<a>&x;</a>", "<a>&#xffffffff;</a>", &"<a>".repeat(50)]
        {
            assert!(texts(text, ["a"]).is_err(), "{text}");
        }
    }
}
