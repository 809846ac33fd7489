// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Where results come from: filled in by the program that makes them, shown as lines for people.

use crate::results::{Origin, Results, Run};
use crate::run_rows;
use std::collections::BTreeSet;
use std::io::Read;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use weir_figures::text::{bandwidth_unit, line, number, plain_number, time_unit};
use weir_scenario::ScenarioInfo;

/// The times of more runs than this are not shown.
const RUNS_MAX: usize = 8;

impl Origin {
    /// This program, here and now: version, commit, host and date. The rest is what the caller knows.
    ///
    /// The commit is that of the git checkout with this program in its `target` folder. It is absent
    /// if there is no such checkout or no git. A program that is older than its checkout is not
    /// recognised.
    pub fn of_this_program(world: &str, seed: u64) -> Self {
        Origin {
            weir_version: env!("CARGO_PKG_VERSION").into(),
            commit: std::env::current_exe().ok().and_then(|p| commit(&p)),
            world: world.into(),
            host: host(),
            date_utc: date_utc(SystemTime::now()),
            seed,
            ..Origin::default()
        }
    }
}

/// Bytes of a file in /proc that are read at most: the facts stand at its beginning.
const PROC_BYTES_MAX: u64 = 1 << 16;

/// `Some CPU, 2 CPUs, Linux 6.18.0`; facts that the system does not report are left out.
fn host() -> Option<String> {
    let read = |path: &str| {
        let mut text = Vec::new();
        let file = std::fs::File::open(path).ok()?;
        file.take(PROC_BYTES_MAX).read_to_end(&mut text).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned())
    };
    let cpus = std::thread::available_parallelism().ok();
    let parts = [
        read("/proc/cpuinfo").and_then(|text| cpu_model(&text)),
        cpus.map(|count| format!("{count} CPUs")),
        read("/proc/sys/kernel/osrelease").map(|release| format!("Linux {}", line(&release, 60))),
    ];
    let known: Vec<String> = parts.into_iter().flatten().collect();
    (!known.is_empty()).then(|| known.join(", "))
}

/// The name of the first CPU of `/proc/cpuinfo`, where there is one (x86).
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let model = |l: &str| {
        let (key, value) = l.split_once(':')?;
        (key.trim() == "model name").then(|| line(value, 60))
    };
    cpuinfo.lines().find_map(model)
}

/// `HEAD` of the checkout that a program was built in.
fn commit(program: &Path) -> Option<String> {
    let target = program.ancestors().find(|p| p.ends_with("target"))?;
    let checkout = target.parent().filter(|dir| dir.join(".git").exists())?;
    let mut git = Command::new("git");
    git.arg("-C").arg(checkout);
    git.args(["describe", "--always", "--dirty", "--abbrev=12"]);
    let output = git.output().ok().filter(|o| o.status.success())?;
    let text = String::from_utf8(output.stdout).ok()?;
    Some(line(&text, 60)).filter(|commit| !commit.is_empty())
}

/// RFC 3339 in UTC, to the second; nothing before 1970.
pub fn date_utc(at: SystemTime) -> Option<String> {
    let sec = at.duration_since(UNIX_EPOCH).ok()?.as_secs();
    let (hour, min) = (sec / 3600 % 24, sec / 60 % 60);
    let (year, month, day) = civil(sec / 86400);
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{min:02}:{:02}Z",
        sec % 60
    ))
}

/// Year, month and day of a day counted from 1970-01-01. Years begin in March here, so that the leap day
/// is the last of its year.
fn civil(day_of_unix: u64) -> (u64, u64, u64) {
    // Days from 0000-03-01; 400 years are always as long.
    let day = day_of_unix + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    // Months from March on have 31, 30, 31, 30, 31 days, and again.
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let is_next_year = u64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + is_next_year, month, day)
}

/// World, device and measured time, in a few sentences.
pub fn circumstances(subject: &ScenarioInfo, results: &Results) -> String {
    let capacity = subject.capacity_bytes_per_sec;
    let unit = bandwidth_unit(capacity);
    let worlds: Vec<String> = results.runs.iter().map(|r| line(&r.world, 20)).collect();
    let world = match worlds.first() {
        Some(first) if worlds.iter().all(|w| w == first) => first.clone(),
        Some(_) => "different worlds".into(),
        None => "no runs".into(),
    };
    let mut world = world_name(&world);
    if let Some(first) = world.get_mut(..1) {
        first.make_ascii_uppercase();
    }
    format!(
        "{world}. Capacity {} {}, set-point {} % of it. Measured for {} s, {} s after the start. {}.",
        number(capacity / unit.0),
        unit.1,
        plain_number(subject.set_point_bytes_per_sec / capacity * 100.0),
        plain_number(subject.measure_sec),
        plain_number(subject.settle_sec),
        seeds_sentence(subject, results),
    )
}

/// `Seed 7`, `Seeds 1 to 5`, `Seeds 1, 3`.
fn seeds_sentence(subject: &ScenarioInfo, results: &Results) -> String {
    match seeds(results) {
        Some(seeds) => format!("Seeds {seeds}"),
        None => format!("Seed {}", subject.seed),
    }
}

/// `1 to 5`, or `1, 3`; nothing where all runs have one seed.
pub fn seeds(results: &Results) -> Option<String> {
    let seeds: BTreeSet<u64> = results.runs.iter().map(|run| run.seed).collect();
    let (first, last) = (*seeds.first()?, *seeds.last()?);
    if first == last {
        return None;
    }
    let is_whole = last - first == seeds.len() as u64 - 1;
    Some(if is_whole {
        format!("{first} to {last}")
    } else {
        let all: Vec<String> = seeds.iter().map(ToString::to_string).collect();
        line(&all.join(", "), 60)
    })
}

/// How the results came about, a line each: what, and its value. Empty if it is not known.
pub fn facts(results: &Results) -> Vec<(&'static str, String)> {
    let Some(origin) = &results.origin else {
        return Vec::new();
    };
    let version = line(&origin.weir_version, 40);
    let weir = match &origin.commit {
        Some(commit) => format!("{version}, commit {}", line(commit, 60)),
        None => format!("{version}, commit not known"),
    };
    let date = match &origin.date_utc {
        Some(date) => line(date, 40),
        None => "not recorded".into(),
    };
    let mut facts = vec![
        ("weir", weir),
        ("world", world(origin)),
        (
            "host",
            origin
                .host
                .as_deref()
                .map_or("not recorded".into(), |host| line(host, 200)),
        ),
        ("date", date),
        match seeds(results) {
            Some(seeds) => ("seeds", seeds),
            None => ("seed", origin.seed.to_string()),
        },
        ("time", times(origin.virtual_sec, origin.wall_sec)),
    ];
    if let Some(window_ns) = origin.window_ns {
        let window_ns = Duration::from_nanos(window_ns).as_secs_f64() * 1e9;
        let (divisor, unit) = time_unit(window_ns);
        let window = format!(
            "{} {unit} of virtual time",
            plain_number(window_ns / divisor)
        );
        facts.push(("window", window));
    }
    facts.extend(runs(results).map(|runs| ("runs", runs)));
    facts
}

/// The times of each run, where they were measured and the runs are few.
fn runs(results: &Results) -> Option<String> {
    let has_time = results.runs.iter().any(|run| run.wall_sec.is_some());
    if !has_time || results.runs.len() > RUNS_MAX {
        return None;
    }
    let named = results.runs.iter().zip(run_rows::names(results));
    let of = |(run, name): (&Run, String)| {
        let times = times(run.virtual_sec, run.wall_sec);
        format!("{name}: {times}")
    };
    Some(named.map(of).collect::<Vec<_>>().join("; "))
}

/// What a person calls the world, with what it runs.
pub fn world(origin: &Origin) -> String {
    let mut text = world_name(&origin.world);
    for (what, version) in [
        ("Linux", &origin.kernel_release),
        ("QEMU", &origin.qemu_version),
    ] {
        if let Some(version) = version {
            text += &format!(", {what} {}", line(version, 40));
        }
    }
    text
}

/// What a person calls a world.
pub fn world_name(world: &str) -> String {
    match world {
        "vm" => "real kernel in a virtual machine, emulated device".into(),
        "sim" => "simulated host and device".into(),
        other => format!("world: {}", line(other, 20)),
    }
}

/// `138 s virtual, 251 s wall`
fn times(virtual_sec: Option<f64>, wall_sec: Option<f64>) -> String {
    let parts = [("virtual", virtual_sec), ("wall", wall_sec)];
    let part = |(name, sec): (&str, Option<f64>)| {
        let sec = sec.filter(|s| s.is_finite())?;
        Some(format!("{} s {name}", plain_number(sec)))
    };
    let known: Vec<String> = parts.into_iter().filter_map(part).collect();
    if known.is_empty() {
        "not recorded".into()
    } else {
        known.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let at = |sec| date_utc(UNIX_EPOCH + Duration::from_secs(sec)).unwrap();
        for (sec, date) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (951_868_799, "2000-02-29T23:59:59Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_709_164_800, "2024-02-29T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (1_735_689_600, "2025-01-01T00:00:00Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(at(sec), date, "{sec}");
        }
        let before = UNIX_EPOCH - Duration::from_secs(1);
        assert_eq!(date_utc(before), None);
    }

    #[test]
    fn days_follow_each_other() {
        let mut last = civil(0);
        for day in 1..200_000 {
            let next = civil(day);
            assert!(next > last, "{last:?} before {next:?}");
            assert!((1..=12).contains(&next.1) && (1..=31).contains(&next.2));
            last = next;
        }
    }

    #[test]
    fn the_cpu_is_the_first_that_has_a_name() {
        let text = "processor\t: 0\nmodel name\t: A  CPU\u{1b}[2J @ 2 GHz\nmodel name\t: B\n";
        assert_eq!(cpu_model(text).as_deref(), Some("A CPU [2J @ 2 GHz"));
        assert_eq!(cpu_model("processor\t: 0\nFeatures\t: fp\n"), None);
    }

    #[test]
    fn a_program_outside_of_a_checkout_has_no_commit() {
        let dir = tempfile::tempdir().unwrap();
        let program = dir.path().join("target/release/weir");
        assert_eq!(commit(&program), None, "no .git beside target");
        assert_eq!(commit(Path::new("/usr/bin/weir")), None);
        let own = Origin::of_this_program("sim", 3);
        assert_eq!(own.weir_version, env!("CARGO_PKG_VERSION"));
        assert_eq!((own.world.as_str(), own.seed), ("sim", 3));
        assert!(own.date_utc.is_some_and(|d| d.starts_with("20")));
        assert!(own.host.is_some_and(|host| host.contains(" CPUs, Linux ")));
    }
}
