// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Machine files, good and hostile.

use weir_hw::host_path::{HostMachine, HostStream, StreamOp, compile, solve};

fn text() -> String {
    HostMachine::text("paper-b").unwrap().to_owned()
}

fn refused(text: &str) -> String {
    match HostMachine::parse(text, "my.toml") {
        Ok(_) => panic!("accepted"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn built_in_machines_are_sound_and_have_their_names() {
    for name in HostMachine::names() {
        let machine = HostMachine::named(name).unwrap();
        assert_eq!(machine.name, name);
        let streams = [
            HostStream::new("mmem", StreamOp::Ld, 1),
            HostStream::new("cxl", StreamOp::Ntst, 1),
            HostStream::new("ssd", StreamOp::RandRead, 1),
        ];
        assert!(solve(&compile(&machine, &streams).unwrap()).flows[2].lines_per_ns > 0.0);
    }
}

/// What is replaced in the file, by what, and what the error says.
const WRONG: &[(&str, &str, &str)] = &[
    (
        "count = 32",
        "count = 0",
        "my.toml: cores.count is 0: 1 to 256",
    ),
    ("ghz = 2.0", "ghz = nan", "cores.ghz is NaN: 0.1 to 10"),
    ("ghz = 2.0", "ghz = 1e308", "cores.ghz is 1e308: 0.1 to 10"),
    (
        "lines = 19",
        "lines = 1000000",
        "cores.load.lines is 1000000: 1 to 1024",
    ),
    (
        "count = 523",
        "count = 100000",
        "trackers.count is 100000: 1 to 65536",
    ),
    (
        "target = \"cxl\"",
        "target = \"hbm\"",
        "memory[1].target is hbm: mmem or cxl",
    ),
    (
        "target = \"cxl\"",
        "target = \"mmem\"",
        "another memory has this target",
    ),
    (
        "profile = \"agilex-i\"",
        "profile = \"x\"",
        "no profile is called `x`",
    ),
    (
        "profile = \"agilex-i\"",
        "",
        "read_bytes_per_sec is missing",
    ),
    (
        "write_bytes_per_sec = 13.2e9",
        "write_bytes_per_sec = 0.0",
        "memory[1].write_bytes_per_sec",
    ),
    (
        "cached_write_part = 0.5",
        "cached_write_part = 1.5",
        "iio.cached_write_part is 1.5: 0 to 1",
    ),
    (
        "block_bytes = 4096",
        "block_bytes = 100",
        "ssd.block_bytes is 100: 512 to",
    ),
    (
        "depth = 16",
        "depth = 100000",
        "ssd.depth is 100000: 1 to 256",
    ),
    (
        "mba_law = \"linear\"",
        "mba_law = \"square\"",
        "levers.mba_law is square: linear, steps or floor",
    ),
    (
        "least_ghz = 0.8",
        "least_ghz = 3.0",
        "levers.least_ghz is 3: at most cores.ghz",
    ),
    ("path_ns = 10.0", "path_ns = 200.0", "memory[0].idle_ns"),
    (
        "[cores.load]",
        "[cores.load]\nis_fenced = true",
        "cores.load.is_fenced is true",
    ),
    (
        "[trackers]",
        "[trackers]\nslices = 999",
        "trackers.slices is 999: at most trackers.count",
    ),
    ("[iio]", "[iio]\ncolour = 1", "unknown field `colour`"),
    ("[iio]", "[pairs]", "unknown field `pairs`"),
];

#[test]
fn each_wrong_figure_is_named_with_its_range() {
    for (from, to, said) in WRONG {
        let changed = text().replacen(from, to, 1);
        assert_ne!(changed, text(), "{from} is not in the file");
        let error = refused(&changed);
        assert!(error.contains(said), "{to}: {error}");
    }
}

#[test]
fn cut_and_broken_files_are_errors_and_no_panics() {
    let whole = text();
    let bytes = whole.as_bytes();
    for end in (0..bytes.len()).step_by(97) {
        let cut = String::from_utf8_lossy(&bytes[..end]);
        // Only what still has every table is a machine.
        if let Ok(machine) = HostMachine::parse(&cut, "cut") {
            assert!(!machine.memory.is_empty());
        }
    }
    for garbage in ["\u{0}", "[[memory]]\n", "name = 1", "= =", "\u{202e}"] {
        refused(garbage);
    }
}

#[test]
fn a_machine_without_ssd_or_cxl_says_so() {
    let mut machine = HostMachine::named("paper-b").unwrap();
    machine.ssd = None;
    machine.memory.truncate(1);
    for (stream, said) in [
        (
            HostStream::new("ssd", StreamOp::Read, 1),
            "no target `ssd`: it has mmem",
        ),
        (HostStream::new("cxl", StreamOp::Ld, 1), "no target `cxl`"),
        (
            HostStream::new("mmem", StreamOp::Read, 1),
            "mmem cannot do `read`: mmem does ld",
        ),
        (
            HostStream::new("mmem", StreamOp::Ld, 33),
            "33 threads on the 32 cores",
        ),
    ] {
        let error = compile(&machine, &[stream]).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
