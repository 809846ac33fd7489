// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What `perf stat` printed, or did not: windows made of it are a file that is read back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use weir_core::window::CountProvenance;
use weir_profile::recipes::{Recipe, Recipes, windows};
use weir_profile::{WindowFile, perf_stat};

/// Events a and b make a role, and their difference another.
fn recipes() -> Recipes {
    let recipe = |role: &str, plus: &[&str], minus: &[&str]| Recipe {
        role: role.parse().expect("a role"),
        plus: plus.iter().map(|name| (*name).to_owned()).collect(),
        minus: minus.iter().map(|name| (*name).to_owned()).collect(),
        provenance: CountProvenance::Documented,
        capacity: Some(16),
        ns: None,
    };
    Recipes {
        family: None,
        all: vec![
            recipe("tor.drd.cxl.inserts", &["a"], &[]),
            recipe("tor.drd.cxl.occupancy", &["a", "b"], &[]),
            recipe("tor.drd.dram.inserts", &["a"], &["b"]),
        ],
    }
}

fuzz_target!(|bytes: &[u8]| {
    let text = String::from_utf8_lossy(bytes);
    for separator in [None, Some(';')] {
        let Ok(counted) = perf_stat::read(&text, separator) else {
            continue;
        };
        let naming = |_: Option<&str>, inside: &str| Some(inside.to_owned());
        let file = windows(&counted, &recipes(), &naming, None);
        let written = file.to_text().expect("windows are JSON");
        assert_eq!(WindowFile::parse(&written), Ok(file));
    }
});
