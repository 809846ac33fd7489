// SPDX-License-Identifier: Apache-2.0 OR MIT

use super::*;
use weir_core::BytesPerSec;

/// Settings by a file of this text.
fn settings(text: &str) -> Settings {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weir.toml");
    std::fs::write(&path, text).unwrap();
    let args = LoopArgs {
        config: Some(path),
        ..LoopArgs::default()
    };
    Settings::new(&args).unwrap()
}

#[test]
fn what_is_opened_at_the_start_stays_and_is_named() {
    let old = settings("");
    for (line, key) in [
        ("capacity = '8GiB/s'", "capacity"),
        ("device = ['node:3']", "device"),
        ("workloads = 'process'", "workloads"),
        ("backend = 'auto'", "backend"),
        ("counters = 'perf'", "counters"),
        ("attribution = 'sampling'", "attribution"),
        ("attribution-event = 'sw:cpu-clock'", "attribution-event"),
        ("probe = true", "probe"),
        ("interval = '60ms'", "interval"),
        ("period = '30ms'", "period"),
        ("trust-cpu-max = true", "trust-cpu-max"),
        ("limit-domains = true", "limit-domains"),
        ("split-delegated = ['/a']", "split-delegated"),
        ("duration = '1h'", "duration"),
        ("json = true", "json"),
        ("record = '/a'", "record"),
        ("metrics = '127.0.0.1:1'", "metrics"),
        ("push = 'http://a/write'", "push"),
        ("push-interval = '20s'", "push-interval"),
        ("log-format = 'json'", "log-format"),
        ("wait-for-devices = true", "wait-for-devices"),
    ] {
        let mut new = settings(line);
        assert_eq!(new.keep(&old), [key], "{line}");
        assert_eq!(new.keep(&old), [""; 0], "{line} did not stay as it was");
        assert_eq!(changed(&old, &new), [""; 0], "{line}");
    }
}

#[test]
fn what_counts_at_once_is_named() {
    let mut old = settings("");
    old.config.set_point_bytes_per_sec = Some(BytesPerSec::new(5000.0));
    for (line, key) in [
        ("limit = true\nset-point = '5000'", "limit"),
        ("policy = 'drf'", "policy"),
        ("limited-weight = 'off'", "limited-weight"),
        ("exclude = ['/a']", "exclude"),
        ("[controller]\nkp = 0.2", "controller"),
        ("[controller.weights]\n'/a' = 200", "controller"),
        ("log = 'debug'", "log"),
    ] {
        let mut new = settings(line);
        new.config.set_point_bytes_per_sec = old.config.set_point_bytes_per_sec;
        assert_eq!(new.keep(&old), [""; 0], "{line}");
        assert_eq!(changed(&old, &new), [key], "{line}");
    }
    let mut new = settings("");
    new.config.set_point_bytes_per_sec = Some(BytesPerSec::new(6000.0));
    assert_eq!(changed(&old, &new), ["set-point"]);
}

/// A setting that neither counts at once nor needs a restart would be passed over in silence.
#[test]
fn each_key_of_the_file_is_one_or_the_other() {
    let source = include_str!("reload.rs");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("weir.toml");
    std::fs::write(&path, "zzz = 1\n").unwrap();
    let args = LoopArgs {
        config: Some(path),
        ..LoopArgs::default()
    };
    let said = Settings::new(&args).unwrap_err().to_string();
    let (_, keys) = said.split_once("expected one of ").unwrap();
    let keys: Vec<&str> = keys.split('`').skip(1).step_by(2).collect();
    assert!(keys.len() > 20, "{said}");
    for key in keys {
        let is_kept = Settings::KEPT.contains(&key.replace('-', "_").as_str());
        assert!(is_kept || source.contains(&format!("\"{key}\"")), "{key}");
    }
}

#[test]
fn a_file_that_cannot_be_read_twice_is_refused() {
    let said = |config: Option<&str>| {
        let args = LoopArgs {
            config: config.map(Into::into),
            ..LoopArgs::default()
        };
        let source = SettingsSource {
            args: &args,
            interval: Duration::from_millis(50),
        };
        format!("{:#}", source.read_again().unwrap_err())
    };
    assert!(said(None).contains("without a settings file"));
    assert!(said(Some("/dev/null")).contains("it is a device"));
    assert!(said(Some("/nowhere/weir.toml")).contains("/nowhere/weir.toml: No such file"));
}
