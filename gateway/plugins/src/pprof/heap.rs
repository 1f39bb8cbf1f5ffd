//! What memory is resident, by mapping: the kernel's figures, as a profile.

use std::collections::BTreeMap;

use ::pprof::protos::{Function, Line, Location, Message, Profile, Sample, ValueType};

/// What the profile cannot say.
const COMMENT: &str =
    "resident memory by mapping, as the kernel counts it; where it was allocated is not recorded";

/// The octets of a mapping.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Octets {
    /// In memory now.
    resident: i64,
    /// In the address space.
    mapped: i64,
}

/// Takes the profile.
///
/// # Errors
/// In words, if the kernel does not tell.
pub(super) fn take() -> Result<Vec<u8>, String> {
    let maps = std::fs::read_to_string("/proc/self/smaps")
        .map_err(|error| format!("/proc/self/smaps cannot be read: {error}"))?;
    let profile = profile(&read(&maps));
    profile.write_to_bytes().map_err(|error| format!("the profile cannot be written: {error}"))
}

/// Adds the mappings up by name (proc_pid_smaps(5)).
fn read(maps: &str) -> BTreeMap<String, Octets> {
    let mut all: BTreeMap<String, Octets> = BTreeMap::new();
    let mut name = String::new();
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let field = first.strip_suffix(':');
        match field {
            Some(field @ ("Size" | "Rss")) => {
                let kibibytes: i64 = words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
                let own = all.entry(name.clone()).or_default();
                let sum = if field == "Rss" { &mut own.resident } else { &mut own.mapped };
                *sum += kibibytes << 10;
            }
            Some(_) => {}
            None => {
                // ADDRESSES PERMISSIONS OFFSET DEVICE INODE [NAME]
                let permissions = words.next().unwrap_or_default();
                let path = words.skip(3).collect::<Vec<_>>().join(" ");
                let path = if path.is_empty() { "[anonymous]" } else { &path };
                name = format!("{path} {permissions}");
            }
        }
    }
    all
}

/// The figures as a profile: a function for each mapping.
fn profile(all: &BTreeMap<String, Octets>) -> Profile {
    let mut profile = Profile::default();
    let mut strings = vec![String::new()];
    let mut text = |text: &str| {
        strings.push(text.to_owned());
        // There are a few hundred.
        i64::try_from(strings.len() - 1).unwrap_or_default()
    };
    let bytes = text("bytes");
    for name in ["mapped", "resident"] {
        let ty = text(name);
        profile.sample_type.push(ValueType { ty, unit: bytes, ..Default::default() });
        profile.default_sample_type = ty;
    }
    profile.comment.push(text(COMMENT));
    for (id, (name, octets)) in (1..).zip(all) {
        let name = text(name);
        profile.function.push(Function { id, name, system_name: name, ..Default::default() });
        let line = vec![Line { function_id: id, ..Default::default() }];
        profile.location.push(Location { id, line, ..Default::default() });
        let value = vec![octets.mapped, octets.resident];
        profile.sample.push(Sample { location_id: vec![id], value, ..Default::default() });
    }
    profile.string_table = strings;
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    profile.time_nanos =
        since.ok().and_then(|since| i64::try_from(since.as_nanos()).ok()).unwrap_or_default();
    profile
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_add_up() {
        let maps = "\
55d0-55d1 r-xp 00000000 fe:00 123   /usr/bin/some program
Size:                  8 kB
KernelPageSize:        4 kB
Rss:                   4 kB
VmFlags: rd ex mr
55d1-55d2 rw-p 00000000 00:00 0
Size:                 16 kB
Rss:                  12 kB
55d3-55d4 rw-p 00000000 00:00 0
Size:                 16 kB
Rss:                   8 kB
7f00-7f01 rw-p 00000000 00:00 0     [stack]
Size:                132 kB
Rss:                  20 kB
";
        let all = read(maps);
        let shown: Vec<_> =
            all.iter().map(|(name, o)| format!("{name} {} {}", o.resident, o.mapped)).collect();
        assert_eq!(
            shown,
            [
                "/usr/bin/some program r-xp 4096 8192",
                "[anonymous] rw-p 20480 32768",
                "[stack] rw-p 20480 135168",
            ]
        );
        let profile = profile(&all);
        assert_eq!(profile.sample.len(), 3);
        assert_eq!(profile.string_table[profile.function[1].name as usize], "[anonymous] rw-p");
        assert_eq!(profile.sample[1].value, [32768, 20480]);
        let default = &profile.string_table[profile.default_sample_type as usize];
        assert_eq!(default, "resident");
    }
}
