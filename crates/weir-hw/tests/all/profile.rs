// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Profiles: what is built in can be read, and what is wrong is named.

use weir_description::DescriptionError;
use weir_hw::memory_device::Profile;

const GOOD: &str = include_str!("../../profiles/agilex-i.toml");

fn error(text: &str) -> String {
    match Profile::parse(text, "mine.toml") {
        Ok(profile) => panic!("accepted: {profile:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn built_in_profiles_are_sound_and_say_where_they_come_from() {
    for name in Profile::names() {
        let profile = Profile::named(name).expect("built in");
        assert_eq!(profile.name, name);
        assert!(profile.provenance.len() >= 3, "{name}");
        let text = profile.to_toml().expect("TOML");
        assert_eq!(Profile::parse(&text, name), Ok(profile));
    }
}

#[test]
fn an_unknown_name_is_answered_with_the_known_ones() {
    let error = Profile::named("optane").expect_err("no such profile");
    assert!(matches!(error, DescriptionError::Unknown { .. }));
    let text = error.to_string();
    assert!(
        text.contains("optane") && text.contains("asic-x16, ddr5-2ch"),
        "{text}"
    );
}

#[test]
fn wrong_files_are_refused_with_reason_and_place() {
    let unknown = error(&GOOD.replace("queue_lines", "queue_line"));
    assert!(
        unknown.contains("mine.toml") && unknown.contains("queue_line"),
        "{unknown}"
    );
    assert!(unknown.contains("line "), "names the line: {unknown}");
    for (from, to, words) in [
        (
            "idle_ns = 355.3",
            "idle_ns = 0.0",
            ["device.idle_ns", "1 to 1000000"],
        ),
        (
            "idle_ns = 355.3",
            "idle_ns = nan",
            ["device.idle_ns", "NaN"],
        ),
        (
            "burst_ns = 102.8",
            "burst_ns = -1.0",
            ["mix[0].burst_ns", "-1"],
        ),
        (
            "write_ratio = 0.5",
            "write_ratio = 1.5",
            ["mix[1].write_ratio", "0 to 1"],
        ),
        (
            "write_ratio = 0.0",
            "write_ratio = 0.7",
            ["mix[1].write_ratio", "rise"],
        ),
        (
            "[15.0, 8.3]",
            "[15.0, 8000.0]",
            ["mix[0].loader_ns", "rising"],
        ),
    ] {
        let text = error(&GOOD.replacen(from, to, 1));
        assert!(
            words.iter().all(|word| text.contains(word)),
            "{from} -> {to}: {text}"
        );
    }
}
