// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Settings files (`weir run --config`). What is accepted is in its bounds; what is not is an error that
//! fits a screen.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::fs;
use std::time::Duration;
use weir::input::{LoopArgs, SetPoint, Settings};
use weir_fuzz::desk;

/// What an error may say at most: keys and values of the file are quoted in it.
const ERROR_MAX_CHARS: usize = 2000;

fn check(settings: &Settings) {
    let (ms, sec) = (Duration::from_millis, Duration::from_secs);
    assert!((ms(5)..=sec(10)).contains(&settings.interval));
    assert!((ms(1)..=sec(1)).contains(&settings.period));
    assert!((sec(1)..=sec(3600)).contains(&settings.push_interval));
    let is_amount = |value: f64| value.is_finite() && value > 0.0;
    match settings.set_point {
        Some(SetPoint::Rate(rate)) => assert!(is_amount(rate.0.get())),
        Some(SetPoint::OfCapacity(ratio) | SetPoint::OfKnee(ratio)) => {
            assert!(is_amount(ratio) && ratio <= 1.0);
        }
        None => assert!(!settings.config.limit, "there is nothing to hold"),
    }
    assert!(
        settings
            .capacity
            .is_none_or(|capacity| is_amount(capacity.get()))
    );
    // A set-point is filled in later; limits need one.
    let mut rest = settings.config.clone();
    rest.limit = false;
    rest.validate().expect("what was accepted is sound");
    // Settings stand in recordings, and are read back from there.
    let json = serde_json::to_string(&settings.config).expect("they have a JSON form");
    let again: weir_core::Config = serde_json::from_str(&json).expect("they are read back");
    assert_eq!(again, settings.config);
}

fuzz_target!(|bytes: &[u8]| {
    let path = desk().join("weir.toml");
    fs::write(&path, bytes).expect("a file in memory");
    let args = LoopArgs {
        config: Some(path),
        ..LoopArgs::default()
    };
    match Settings::new(&args) {
        Ok(settings) => check(&settings),
        Err(error) => {
            let said = format!("{error:#}");
            let chars = said.chars().count();
            assert!(chars < ERROR_MAX_CHARS, "{chars} characters: {said:.200}");
        }
    }
});
