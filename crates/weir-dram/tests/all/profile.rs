// SPDX-License-Identifier: Apache-2.0 OR MIT
//! DRAM profiles: what is built in can be read, and what is wrong is named.

use weir_description::DescriptionError;
use weir_dram::DramProfile;

const GOOD: &str = include_str!("../../profiles/ddr4-3200.toml");

fn error(text: &str) -> String {
    match DramProfile::parse(text, "mine.toml") {
        Ok(profile) => panic!("accepted: {profile:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn built_in_profiles_are_sound_and_say_where_they_come_from() {
    for name in DramProfile::names() {
        let profile = DramProfile::named(name).unwrap();
        assert_eq!(profile.name, name);
        assert!(profile.provenance.len() >= 2, "{name}");
    }
    let unknown = DramProfile::named("ddr9").unwrap_err();
    assert!(matches!(unknown, DescriptionError::Unknown { .. }));
    assert!(
        unknown
            .to_string()
            .contains("ddr4-3200, ddr5-4800, lpddr2-1066"),
        "{unknown}"
    );
}

#[test]
fn an_unknown_or_missing_key_is_an_error_with_its_line() {
    // DRAMsim3 takes such a slip for a part with its default interval.
    let unknown = error(&GOOD.replace("refi_clocks", "REFI_clocks"));
    assert!(
        unknown.contains("mine.toml") && unknown.contains("REFI_clocks"),
        "{unknown}"
    );
    assert!(
        unknown.contains("line ") && unknown.contains("docs/reference/dram.md"),
        "{unknown}"
    );
    let missing = error(&GOOD.replace("faw_clocks = 34\n", ""));
    assert!(missing.contains("missing field `faw_clocks`"), "{missing}");
    assert!(error("").contains("missing field"), "an empty file");
    assert!(
        error(&GOOD.replace("= 34", "= -34")).contains("invalid value"),
        "a negative time"
    );
}

#[test]
fn a_part_without_refresh_needs_no_figures_of_it() {
    let (timings, _) = GOOD.split_once("[refresh]").unwrap();
    let profile = DramProfile::parse(&format!("{timings}[refresh]\nkind = \"none\"\n"), "mine");
    assert_eq!(profile.unwrap().refresh.refi_clocks, 0);
    // Every figure of the other kinds is needed.
    let said = error(&format!(
        "{timings}[refresh]\nkind = \"all-bank\"\nrefi_clocks = 12480\n"
    ));
    assert!(said.contains("refresh.rfc_clocks is 0"), "{said}");
    let said = error(&format!(
        "{timings}[refresh]\nkind = \"all-bank\"\nrfc_clocks = 576\n"
    ));
    assert!(said.contains("refresh.refi_clocks is 0"), "{said}");
}

/// A figure, an impossible one in its place, and what the error says.
const IMPOSSIBLE: [(&str, &str, [&str; 2]); 15] = [
    (
        "rc_clocks = 74",
        "rc_clocks = 73",
        ["timing.rc_clocks is 73", "ras_clocks + rp_clocks = 74"],
    ),
    (
        "ras_clocks = 52",
        "ras_clocks = 21",
        ["timing.ras_clocks is 21", "rcd_clocks = 22"],
    ),
    (
        "ccd_s_clocks = 4",
        "ccd_s_clocks = 3",
        ["timing.ccd_s_clocks is 3", "bl_clocks = 4"],
    ),
    (
        "ccd_l_clocks = 8",
        "ccd_l_clocks = 3",
        ["timing.ccd_l_clocks is 3", "ccd_s_clocks = 4"],
    ),
    (
        "rrd_l_clocks = 8",
        "rrd_l_clocks = 1",
        ["timing.rrd_l_clocks is 1", "rrd_s_clocks = 4"],
    ),
    (
        "wtr_l_clocks = 12",
        "wtr_l_clocks = 1",
        ["timing.wtr_l_clocks is 1", "wtr_s_clocks = 4"],
    ),
    (
        "faw_clocks = 34",
        "faw_clocks = 3",
        ["timing.faw_clocks is 3", "rrd_s_clocks = 4"],
    ),
    (
        "rtw_clocks = 12",
        "rtw_clocks = 9",
        ["timing.rtw_clocks is 9", "bl_clocks - cwl_clocks = 10"],
    ),
    (
        "cl_clocks = 22",
        "cl_clocks = 0",
        ["timing.cl_clocks is 0", "1 to 100000"],
    ),
    (
        "rfc_clocks = 576",
        "rfc_clocks = 12479",
        ["refresh.rfc_clocks is 12479", "below 12480"],
    ),
    (
        "rfc_clocks = 576",
        "rfc_clocks = 0",
        ["refresh.rfc_clocks is 0", "1 to 1000000"],
    ),
    (
        "all-bank",
        "same-bank",
        ["refresh.rfc_same_bank_clocks is 0", "1 to 1000000"],
    ),
    (
        "rows = 65536",
        "rows = 65535",
        ["organisation.rows is 65535", "power of two"],
    ),
    (
        "ranks = 1",
        "ranks = 8",
        ["organisation.ranks is 8", "128 banks, 64 are allowed"],
    ),
    (
        "clock_ps = 625",
        "clock_ps = 0",
        ["clock_ps is 0", "1 to 1000000"],
    ),
];

#[test]
fn impossible_timings_are_refused_with_what_is_allowed() {
    for (from, to, words) in IMPOSSIBLE {
        assert!(GOOD.contains(from), "{from}");
        let said = error(&GOOD.replace(from, to));
        for word in words {
            assert!(said.contains(word), "{from} -> {to}: {said}");
        }
    }
}
