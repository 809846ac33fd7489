// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Do the studies of one scenario have a line for each thing that they vary?

use crate::done;

/// A scenario that takes a moment.
fn small(dir: &std::path::Path) -> String {
    let path = dir.join("small.toml");
    let text = "name = \"small\"\nabout = \"readers\"\n[machine]\ncores = 4\n[[device]]\nprofile = \"agilex-thesis\"\n\
        [control]\nset_point_bytes_per_sec = 2e9\nsettle_sec = 1.0\nmeasure_sec = 1.0\n\
        [[workload]]\nname = \"heavy\"\ncount = 3\nrole = \"heavy\"\nresident_mib = 64\n\
        [[workload.phase]]\nkind = \"access\"\nblock_kib = 4096\n\
        [[workload]]\nname = \"light\"\nrole = \"light\"\nresident_mib = 64\n\
        [[workload.phase]]\nkind = \"access\"\nblock_kib = 64\nrate_bytes_per_sec = 5e6\n";
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn each_study_has_its_lines() {
    let dir = tempfile::tempdir().unwrap();
    let file = small(dir.path());
    let text = done(&["ablation", &file, "--seeds", "1"]);
    for line in [
        "fixed, period 10 ms",
        "weir ",
        "rewrites do not wait",
        "no integral",
    ] {
        assert!(text.lines().any(|l| l.starts_with(line)), "{line}: {text}");
    }
    let text = done(&[
        "controllers",
        &file,
        "none",
        "thesis-scx",
        "weir",
        "--seeds",
        "2",
    ]);
    let rows = |name: &str| {
        text.lines()
            .filter(|l| l.starts_with(&format!("{name} ")))
            .count()
    };
    assert_eq!(
        (rows("none"), rows("thesis-scx"), rows("weir")),
        (2, 2, 2),
        "{text}"
    );
    let light = ["light-users", &file, "none", "weir", "--seeds", "1"];
    let text = done(&light);
    assert_eq!(text.lines().count(), 3, "{text}");
    let rows = done(&[&light[..], &["--json"]].concat());
    let rows: serde_json::Value = serde_json::from_str(&rows).unwrap();
    assert_eq!(rows[1]["controller"], "weir");
    let error = rows[1]["estimate_error_ratio"].as_f64().unwrap() * 100.0;
    let row = text.lines().nth(2).unwrap();
    assert!(row.contains(&format!(" {error:.1} ")), "{row} {rows}");
    assert_eq!(rows[1]["light_p99_by_seed_us"].as_array().unwrap().len(), 1);
}

#[test]
fn the_curve_of_a_device_has_a_row_for_each_delay() {
    let text = done(&[
        "device",
        "--profile",
        "agilex-thesis",
        "--threads",
        "5",
        "--json",
    ]);
    let curve: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(curve["points"].as_array().unwrap().len() > 5, "{curve}");
}

/// The accuracy that the specification asks of residences, on the first of the machines that it is measured
/// on.
#[test]
fn residences_of_a_random_machine_are_the_true_ones() {
    let text = done(&["profile", "--seeds", "1", "--json"]);
    let table: serde_json::Value = serde_json::from_str(&text).unwrap();
    let rows = table["rows"].as_array().unwrap();
    for (counting, least) in [("all", 4), ("turns", 4), ("spread", 3)] {
        let of = rows.iter().filter(|row| row["counting"] == counting);
        let of = of.filter(|row| row["figure"].as_str().unwrap().starts_with("residence"));
        let mut kinds = 0;
        for row in of {
            kinds += 1;
            // Mesh and ingress are a difference of two counts: of one machine it scatters.
            let is_difference = row["figure"].as_str().unwrap().contains("mesh");
            let aim = row["aim_ratio"].as_f64().unwrap() * if is_difference { 1.5 } else { 1.0 };
            let mean = row["mean_ratio"].as_f64().unwrap();
            assert!(mean <= aim && row["figures"].as_u64().unwrap() > 0, "{row}");
        }
        assert!(kinds >= least, "{counting}: {text}");
    }
    let worst = done(&[
        "profile",
        "--seeds",
        "1",
        "--counting",
        "all",
        "--worst",
        "1",
    ]);
    assert!(worst.contains("seed 1 machine tor."), "{worst}");
}
