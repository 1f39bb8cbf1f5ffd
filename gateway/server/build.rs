//! Notes the commit that is built.

use std::process::Command;

fn main() {
    let asked = Command::new("git").args(["rev-parse", "--short=12", "HEAD"]).output();
    let commit = asked.ok().filter(|done| done.status.success()).map(|done| done.stdout);
    if let Some(commit) = commit.and_then(|commit| String::from_utf8(commit).ok()) {
        println!("cargo:rustc-env=GATEWAY_COMMIT={}", commit.trim());
    }
    println!("cargo:rerun-if-changed=../../.git/HEAD");
    println!("cargo:rerun-if-env-changed=GATEWAY_COMMIT");
}
