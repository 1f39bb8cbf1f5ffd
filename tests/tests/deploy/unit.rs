//! The unit for systemd is one that systemd takes, with either way to what not everybody may read.

use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::process::Command;

use tests::Folder;

use crate::{KUBECONFIG, printed, script, text_of};

/// What `systemd-analyze` has to say of the unit with lines that an operator adds.
fn verified(added: &str) -> String {
    let folder = Folder::new("unit");
    let program = tests::gateway::binary().display().to_string();
    let unit = text_of("deploy/systemd/causeway.service");
    let unit = unit.replace("/usr/local/bin/causeway", &program);
    let file = folder.write("causeway.service", unit);
    folder.write("causeway.service.d/added.conf", added);
    let mut command = Command::new("systemd-analyze");
    let output = command.args(["verify", "--man=no", "--recursive-errors=no"]).arg(file).output();
    let output = output.expect("systemd-analyze is there (Debian's package systemd)");
    format!("{}{}", output.status, String::from_utf8_lossy(&output.stderr))
}

/// The drop-ins that the comment of the unit shows.
fn shown() -> Vec<String> {
    let text = text_of("deploy/systemd/causeway.service");
    let comment = text.split("\n\n").next().unwrap_or_default();
    let parts = comment.split("#   [Service]\n").skip(1);
    parts
        .map(|part| {
            let lines = part.lines().map_while(|line| line.strip_prefix("#   "));
            lines.fold("[Service]\n".to_owned(), |all, line| all + line + "\n")
        })
        .collect()
}

#[test]
fn systemd_takes_the_unit_and_what_its_comment_adds() {
    assert_eq!(verified(""), "exit status: 0");
    let shown = shown();
    assert_eq!(shown.len(), 2, "{shown:?}");
    assert!(shown[0].contains("SupplementaryGroups=") && shown[1].contains("LoadCredential="));
    for added in &shown {
        assert_eq!(verified(added), "exit status: 0", "{added}");
    }
    assert_ne!(verified("[Service]\nNoSuchThing=1\n"), "exit status: 0");
    // A group of the made-up user's own name would keep the service from starting.
    assert!(!shown[0].contains("=causeway\n"));
    let guide = text_of("docs/kubernetes.md");
    assert!(shown[0].lines().all(|line| guide.contains(line)), "the guide has other lines");
}

/// Whether the program can use a kubeconfig as a user that systemd has made up, in a group or in none.
fn readable(folder: &Folder, group: Option<u32>) -> bool {
    let corefile = folder.path().join("Corefile");
    let mut command = Command::new("unshare");
    let groups =
        group.map_or_else(|| "--clear-groups".to_owned(), |group| format!("--groups {group}"));
    // The program is mounted where that user can come to it.
    let line = format!(
        "mount --bind '{}' program; exec setpriv --reuid 61184 --regid 61184 {groups} --no-new-privs ./program check '{}'",
        tests::gateway::binary().display(),
        corefile.display()
    );
    command.args(["--mount", "sh", "-ec", &line]).current_dir(folder.path());
    command.output().expect("there is unshare").status.success()
}

#[test]
fn a_kubeconfig_for_a_group_is_read_by_who_joins_it_also_when_it_is_renewed() {
    let (folder, group) = (Folder::new("group"), 61_999);
    let out = folder.path().join("kubeconfig");
    folder.write("program", "");
    folder.write(
        "Corefile",
        format!("cluster.local {{\n kubernetes {{\n  kubeconfig {}\n }}\n}}\n", out.display()),
    );
    let server = KUBECONFIG.split('\'').nth(1).expect("it has a server");
    let kubectl = format!(
        "#!/bin/sh\ncase \"$*\" in\n *cluster.server*) printf %s '{server}' ;;\n *certificate-authority-data*) ;;\n 'create token '*) echo \"token-$$\" ;;\n *) exit 1 ;;\nesac\n"
    );
    let number = group.to_string();
    let renew = |more: &[&str]| {
        let arguments = [more, &["-o", out.to_str().expect("a path of ours"), "prod"]].concat();
        printed(&script("remote/kubeconfig.sh", &folder, &kubectl, &arguments));
        let found = std::fs::metadata(&out).expect("it was written");
        (found.permissions().mode() & 0o777, found.gid())
    };
    assert_eq!(renew(&[]).0, 0o600);
    assert!(!readable(&folder, Some(group)), "it is its owner's alone");
    for _ in 0..2 {
        let before = std::fs::metadata(&out).expect("it is there").ino();
        assert_eq!(renew(&["-g", &number]), (0o640, group));
        assert_ne!(std::fs::metadata(&out).expect("it is there").ino(), before, "by a rename");
        assert!(readable(&folder, Some(group)));
        assert!(!readable(&folder, None), "and nobody else's");
    }
    for (arguments, said) in [
        (&["-g", &*number, "prod"][..], "-g needs -o"),
        (&["-g", "no such group", "-o", out.to_str().expect("a path of ours")], "is it there?"),
    ] {
        let output = script("remote/kubeconfig.sh", &folder, &kubectl, arguments);
        let told = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && told.contains(said), "{arguments:?}: {told}");
    }
}
