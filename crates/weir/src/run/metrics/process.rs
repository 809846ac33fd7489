// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What the kernel says of weir's own process, read when a client asks. A file of /proc/self that cannot be
//! read or parsed leaves out its figures.

use crate::run::tick::self_cost::process_cpu;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs;
use std::time::{SystemTime, UNIX_EPOCH};
use weir_core::Bytes;
use weir_store::metrics::OwnProcess;

/// Ticks of a second in /proc/PID/stat, on all of Linux's architectures (proc_pid_stat(5), `USER_HZ`).
const USER_HZ: f64 = 100.0;
/// Where the start is behind the name in parentheses (proc_pid_stat(5), field 22).
const START_FIELD: usize = 19;

pub fn own_process() -> OwnProcess {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // One of them is the folder that is being read.
    let open = fs::read_dir("/proc/self/fd").map(|fds| fds.count().saturating_sub(1) as u64);
    OwnProcess {
        cpu: process_cpu(),
        resident: bytes_of(&status, "VmRSS:"),
        address_space: bytes_of(&status, "VmSize:"),
        open_fds: open.ok(),
        max_fds: getrlimit(Resource::Nofile).current,
        start_unix_secs: started(&stat),
        server_restarts: None,
    }
}

/// A line of /proc/self/status in kB.
fn bytes_of(status: &str, name: &str) -> Option<Bytes> {
    let mut lines = status.lines();
    let kib = lines.find_map(|line| line.strip_prefix(name)?.trim().strip_suffix(" kB"))?;
    kib.parse::<u64>().ok()?.checked_mul(1024).map(Bytes)
}

/// The start, which is counted from the machine's, in seconds since the Unix epoch.
fn started(stat: &str) -> Option<f64> {
    let start = start_since_boot(stat)?;
    let boot = clock_gettime(ClockId::Boottime);
    let since_boot = boot.tv_sec as f64 + boot.tv_nsec as f64 / 1e9;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?;
    // To the hundredth, as the kernel has it: the difference of two clocks must not move it.
    let unix_secs = now.as_secs_f64() - since_boot + start;
    Some((unix_secs * USER_HZ).round() / USER_HZ)
}

/// A process may be called `) 1 2`: what stands behind the last parenthesis is the kernel's.
fn start_since_boot(stat: &str) -> Option<f64> {
    let (_, fields) = stat.rsplit_once(')')?;
    let ticks: u64 = fields.split_whitespace().nth(START_FIELD)?.parse().ok()?;
    Some(ticks as f64 / USER_HZ)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known() {
        let own = own_process();
        assert!(own.cpu.0 > 0);
        let (resident, space) = (own.resident.unwrap(), own.address_space.unwrap());
        assert!(resident.0 > 1 << 20 && space > resident, "{own:?}");
        assert!(
            own.open_fds.unwrap() >= 3 && own.open_fds <= own.max_fds,
            "{own:?}"
        );
        let file = fs::metadata("/proc/self").unwrap().modified().unwrap();
        let made = file.duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        let start = own.start_unix_secs.unwrap();
        assert!(
            start > 1.7e9 && start <= made + 1.0,
            "{start}, not before {made}"
        );
    }

    #[test]
    fn what_the_kernel_does_not_say_is_left_out() {
        assert_eq!(
            bytes_of("VmRSS:\t   12 kB\nVmSize:\t1 MB\n", "VmRSS:"),
            Some(Bytes(12 << 10))
        );
        assert_eq!(
            bytes_of("VmRSS:\t   12 kB\nVmSize:\t1 MB\n", "VmSize:"),
            None
        );
        assert_eq!(bytes_of("VmRSS: 18446744073709551615 kB", "VmRSS:"), None);
        let fields: Vec<String> = (3..30).map(|field| format!("{field}00")).collect();
        let stat = format!("7 (a) 1 2 (b) {}", fields.join(" "));
        assert_eq!(start_since_boot(&stat), Some(22.0));
        assert_eq!(start_since_boot("7 (a) 1 2"), None);
        assert_eq!(start_since_boot(""), None);
    }
}
