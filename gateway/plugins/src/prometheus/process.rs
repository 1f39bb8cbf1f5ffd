//! What the system knows of the process: `process_*`, read when somebody scrapes.

use std::fs;
use std::sync::{Arc, OnceLock};

use engine::metrics::{self, Collect, Figures};

/// Ticks of the times in `/proc`, a second: `USER_HZ`, 100 on every platform that Linux has today.
const TICKS: f64 = 100.0;

/// Reads `/proc`.
#[derive(Debug)]
struct Process;

/// The metrics and what they mean.
const HELP: [(&str, &str); 9] = [
    ("process_cpu_seconds_total", "The processor time of the process."),
    ("process_open_fds", "Open file descriptors."),
    ("process_max_fds", "The most file descriptors that may be open."),
    ("process_virtual_memory_bytes", "The size of the address space."),
    ("process_virtual_memory_max_bytes", "The largest that the address space may be."),
    ("process_resident_memory_bytes", "The memory that is in use."),
    ("process_start_time_seconds", "When the process started, in seconds since 1970."),
    ("process_network_receive_bytes_total", "Octets received over the network."),
    ("process_network_transmit_bytes_total", "Octets sent over the network."),
];

/// Has the process's figures shown; asking again changes nothing.
pub(super) fn watch() {
    static PROCESS: OnceLock<Arc<Process>> = OnceLock::new();
    PROCESS.get_or_init(|| {
        HELP.iter().for_each(|(name, help)| metrics::describe(name, help));
        let process = Arc::new(Process);
        metrics::collect(&process);
        process
    });
}

impl Collect for Process {
    /// What the system does not tell is left out.
    fn collect(&self, figures: &mut Figures) {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let stat = read("/proc/self/stat");
        if let Some(ticks) = ticks(&stat) {
            figures.counter("process_cpu_seconds_total", &[], ticks.used / TICKS);
            if let Some(boot) = value(&read("/proc/stat"), "btime ") {
                let start = boot + ticks.start / TICKS;
                figures.gauge("process_start_time_seconds", &[], start);
            }
        }
        let status = read("/proc/self/status");
        for (name, key) in [
            ("process_virtual_memory_bytes", "VmSize:"),
            ("process_resident_memory_bytes", "VmRSS:"),
        ] {
            if let Some(kibibytes) = value(&status, key) {
                figures.gauge(name, &[], kibibytes * 1024.0);
            }
        }
        let limits = read("/proc/self/limits");
        for (name, key) in [
            ("process_max_fds", "Max open files"),
            ("process_virtual_memory_max_bytes", "Max address space"),
        ] {
            if let Some(limit) = value(&limits, key) {
                figures.gauge(name, &[], limit);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // The one that reads the folder is not counted.
            let open = open.count().saturating_sub(1);
            figures.gauge("process_open_fds", &[], open as f64);
        }
        if let Some((received, sent)) = network(&read("/proc/self/net/netstat")) {
            figures.counter("process_network_receive_bytes_total", &[], received);
            figures.counter("process_network_transmit_bytes_total", &[], sent);
        }
    }
}

/// Times of the process, in ticks.
#[derive(Debug, PartialEq)]
struct Ticks {
    used: f64,
    start: f64,
}

/// Reads `/proc/self/stat`; the program's name in it may hold anything.
fn ticks(stat: &str) -> Option<Ticks> {
    let (_, fields) = stat.rsplit_once(')')?;
    // The first field behind the name is the third of proc_pid_stat(5).
    let field = |number: usize| fields.split_whitespace().nth(number - 3)?.parse::<f64>().ok();
    Some(Ticks { used: field(14)? + field(15)?, start: field(22)? })
}

/// The number behind `key` at the start of a line; a limit that is none is the largest number.
fn value(text: &str, key: &str) -> Option<f64> {
    let line = text.lines().find_map(|line| line.strip_prefix(key))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(u64::MAX as f64),
        number => number.parse().ok(),
    }
}

/// Octets received and sent, from two lines of names and numbers.
fn network(netstat: &str) -> Option<(f64, f64)> {
    let mut lines = netstat.lines().filter_map(|line| line.strip_prefix("IpExt:"));
    let (names, numbers) = (lines.next()?, lines.next()?);
    let column = |wanted: &str| {
        let at = names.split_whitespace().position(|name| name == wanted)?;
        numbers.split_whitespace().nth(at)?.parse::<f64>().ok()
    };
    Some((column("InOctets")?, column("OutOctets")?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_files_are_read_as_proc_writes_them() {
        let stat =
            "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 250 50 13 14 15 16 17 18 4200 20 21 22 23 24 25";
        assert_eq!(ticks(stat), Some(Ticks { used: 300.0, start: 4200.0 }));
        assert_eq!(ticks(""), None);
        let limits = "Limit Soft Hard Units\nMax open files            1024  4096  files\nMax address space  unlimited unlimited bytes\n";
        assert_eq!(value(limits, "Max open files"), Some(1024.0));
        assert_eq!(value(limits, "Max address space"), Some(18_446_744_073_709_551_615.0));
        assert_eq!(value("VmRSS:\t  12 kB\n", "VmRSS:"), Some(12.0));
        let netstat = "TcpExt: A B\nTcpExt: 1 2\nIpExt: X InOctets OutOctets\nIpExt: 1 20 30\n";
        assert_eq!(network(netstat), Some((20.0, 30.0)));
    }

    #[test]
    fn this_process_has_figures() {
        watch();
        let text = metrics::render();
        for (name, _) in HELP {
            assert!(text.contains(&format!("\n{name} ")), "{name}");
        }
    }
}
