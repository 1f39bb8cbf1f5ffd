//! `causeway secret`: new secrets for a client, shown this once.

use std::process::ExitCode;

use plugins::identity::{Minted, mint};

use crate::{fail, print, say};

/// Makes secrets for `name`, who is in `groups`. The lines for the file go to standard output, so that they can be appended to
/// it; the secrets themselves go to standard error, so that they are not.
pub(crate) fn make(name: &str, groups: &[String]) -> ExitCode {
    let Minted { token, label, lines } = match mint(name, groups) {
        Ok(minted) => minted,
        Err(wrong) => return fail(&wrong),
    };
    say(&format!(
        "Secrets of {name}. They are shown this once; of each, one is enough:
  path    /dns-query/{token}    the end of an https:// address
  bearer  {token}               \"Authorization: Bearer\", or the password of any user
  label   {label}    what stands for * in `names`: the host name of a phone
The lines for the file that `secrets` names:"
    ));
    print(&lines.join("\n"));
    ExitCode::SUCCESS
}
