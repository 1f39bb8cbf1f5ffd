//! The files `~/.aws/credentials` and `~/.aws/config`, in which profiles stand.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::shared::environment::Environment;
use crate::shared::fetch::Failure;
use crate::shared::file;

/// The settings of a profile by their names.
pub(super) type Profile = HashMap<String, String>;

/// All profiles of both files; what the file of credentials says counts before the other.
#[derive(Default)]
pub(super) struct Profiles(HashMap<String, Profile>);

impl Profiles {
    /// Reads the files, `credentials` in the place of the usual one if it is named. Others need not be there.
    ///
    /// # Errors
    /// If a file cannot be read.
    pub(super) fn read(env: &Environment, credentials: Option<&Path>) -> Result<Self, Failure> {
        let mut all = Self::default();
        let usual = |variable: &str, name: &str| {
            let home = || env.get("HOME").map(|home| PathBuf::from(home).join(".aws").join(name));
            env.get(variable).map(PathBuf::from).or_else(home)
        };
        if let Some(config) = usual("AWS_CONFIG_FILE", "config") {
            all.add(&config, false, true)?;
        }
        match credentials {
            Some(file) => all.add(file, true, false)?,
            None => {
                if let Some(file) = usual("AWS_SHARED_CREDENTIALS_FILE", "credentials") {
                    all.add(&file, true, true)?;
                }
            }
        }
        Ok(all)
    }

    /// Adds a file. In one of credentials a section is called as its profile, in the other `profile NAME`, but for `default`.
    fn add(
        &mut self,
        path: &Path,
        is_credentials: bool,
        may_be_absent: bool,
    ) -> Result<(), Failure> {
        let text = match file::text(path) {
            Ok(text) => text,
            Err(error) if may_be_absent && error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(());
            }
            Err(error) => {
                return Err(Failure::refused(format!("cannot read {}: {error}", path.display())));
            }
        };
        let mut section: Option<&mut Profile> = None;
        for line in text.lines() {
            // What is indented belongs to the setting above it, and is none of those that count here.
            let is_nested = line.starts_with([' ', '\t']);
            let line = line.trim();
            if line.is_empty() || line.starts_with(['#', ';']) {
                continue;
            }
            if let Some(title) = line.strip_prefix('[') {
                let title = title.split(']').next().unwrap_or_default().trim();
                let name =
                    title.strip_prefix("profile").filter(|name| name.starts_with([' ', '\t']));
                let name = match name {
                    Some(name) => Some(name.trim()),
                    None => Some(title).filter(|title| is_credentials || *title == "default"),
                };
                section = name.map(|name| self.0.entry(name.to_owned()).or_default());
            } else if !is_nested
                && let (Some(section), Some((name, value))) = (&mut section, line.split_once('='))
            {
                let value = value.split(" #").next().unwrap_or_default();
                section.insert(name.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
        }
        Ok(())
    }

    /// A profile.
    pub(super) fn get(&self, name: &str) -> Option<&Profile> {
        self.0.get(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profiles_are_read_from_both_files() {
        let folder = std::env::temp_dir().join(format!("causeway-profiles-{}", std::process::id()));
        std::fs::create_dir_all(folder.join(".aws")).unwrap();
        std::fs::write(
            folder.join(".aws/config"),
            "[default]\nregion = eu-west-1\n[profile two]\nregion=us-west-2 # there\ns3 =\n  region = no\nrole_arn=r\n[sso-session x]\nregion = no\n[odd]\nregion = no\n",
        )
        .unwrap();
        std::fs::write(
            folder.join(".aws/credentials"),
            "# mine\n[default]\nAWS_ACCESS_KEY_ID = a\n; more\naws_secret_access_key = b=c\n[two]\naws_access_key_id=d\n",
        )
        .unwrap();
        let home = folder.to_string_lossy().into_owned();
        let env = Environment::new(move |name| (name == "HOME").then(|| home.clone()));
        let all = Profiles::read(&env, None).unwrap();
        let get = |profile: &str, name: &str| all.get(profile)?.get(name).cloned();
        assert_eq!(get("default", "region").as_deref(), Some("eu-west-1"));
        assert_eq!(get("default", "aws_access_key_id").as_deref(), Some("a"));
        assert_eq!(get("default", "aws_secret_access_key").as_deref(), Some("b=c"));
        assert_eq!(get("two", "region").as_deref(), Some("us-west-2"));
        assert_eq!(get("two", "aws_access_key_id").as_deref(), Some("d"));
        assert_eq!(get("two", "role_arn").as_deref(), Some("r"));
        assert!(all.get("odd").is_none() && all.get("sso-session x").is_none());
        assert!(Profiles::read(&env, Some(&folder.join("absent"))).is_err());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
