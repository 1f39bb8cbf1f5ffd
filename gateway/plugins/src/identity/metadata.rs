//! What is told of a client to other plugins.

use engine::{Exchange, Provider};

/// Gives the metadata `identity/name`, `identity/groups` and `identity/method`.
#[derive(Debug)]
pub(super) struct Who;

/// The labels.
const LABELS: [&str; 3] = ["name", "groups", "method"];

impl Provider for Who {
    fn metadata(&self, x: &Exchange, label: &str, out: &mut String) -> Option<()> {
        let label = LABELS.into_iter().find(|own| *own == label)?;
        // That nobody is known is something that is known of the client, too.
        x.note_personal();
        let identity = x.identity()?;
        match label {
            "name" => out.push_str(&identity.name),
            "groups" => {
                for (at, group) in identity.groups.iter().enumerate() {
                    out.push_str(if at == 0 { "" } else { "," });
                    out.push_str(group);
                }
            }
            _ => out.push_str(identity.method.name()),
        }
        Some(())
    }

    fn labels(&self, each: &mut dyn FnMut(&str)) {
        LABELS.into_iter().for_each(each);
    }
}
