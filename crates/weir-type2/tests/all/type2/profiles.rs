// SPDX-License-Identifier: Apache-2.0 OR MIT
//! A wrong profile is refused with the key and the next move.

use weir_type2::TimedStage;
use weir_type2::time::{StageOrigin, Type2Profile};

const GOOD: &str = include_str!("../../../profiles/agilex7-type2.toml");

const LINK: &str = r#"[[stage]]
name = "link"
ns = 35.0
from = "fitted"
why = "NC-wr over nt-st: +67 %; NC-wr crosses the link four times, NC-rd twice"
"#;

fn error(text: &str) -> String {
    match Type2Profile::parse(text, "mine.toml") {
        Ok(profile) => panic!("accepted: {profile:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn the_built_in_profile_says_where_each_stage_comes_from() {
    let profile = Type2Profile::agilex7().expect("built in");
    assert_eq!(profile.stages.len(), TimedStage::ALL.len());
    for origin in [
        StageOrigin::Anchored,
        StageOrigin::Fitted,
        StageOrigin::Published,
        StageOrigin::Assumed,
    ] {
        let count = profile.stages.iter().filter(|s| s.from == origin).count();
        assert!(count > 0, "{}", origin.name());
    }
    assert!(profile.stages.iter().all(|stage| stage.why.len() > 8));
}

#[test]
fn wrong_profiles_are_refused_with_the_key_and_the_next_move() {
    assert!(GOOD.contains(LINK), "the text below replaces it");
    for (from, to, words) in [
        (LINK, "", ["`link` is missing", "add a [[stage]]"]),
        (
            "ns = 35.0\nfrom = \"fitted\"\nwhy = \"NC-wr",
            "ns = -35.0\nfrom = \"fitted\"\nwhy = \"NC-wr",
            ["stage `link`, ns is -35", "0 to 1000000"],
        ),
        (
            "name = \"link\"",
            "name = \"lnik\"",
            ["no stage is called `lnik`", "use one of issue, "],
        ),
        (
            "name = \"link\"",
            "name = \"upi\"",
            ["`upi` stands there twice", "keep one"],
        ),
        ("ns = 35.0", "ns = nan", ["is NaN", "0 to 1000000"]),
        (
            "from = \"published\"",
            "from = \"measured\"",
            ["measured", "mine.toml"],
        ),
        ("dmc_kib = 32", "dmc_kb = 32", ["dmc_kb", "mine.toml"]),
        (
            "dmc_kib = 32",
            "dmc_kib = 0",
            ["sizes.dmc_kib is 0", "1 to 1000000"],
        ),
        ("compute_clocks = 573", "", ["compute_clocks", "mine.toml"]),
        (
            "stored_ratio = 1.409",
            "stored_ratio = 0.5",
            ["offload.stored_ratio", "1 to 4096"],
        ),
    ] {
        assert!(GOOD.contains(from), "{from}");
        let text = error(&GOOD.replacen(from, to, 1));
        let says = words.iter().all(|word| text.contains(word));
        assert!(says, "{from} -> {to}: {text}");
    }
}
