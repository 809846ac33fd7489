// SPDX-License-Identifier: Apache-2.0 OR MIT
use super::*;
use proptest::prelude::*;
use std::fs;
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use weir_core::seam::topology::Group;
use weir_core::{Bytes, DeviceId, GroupId};

const SIZE: u64 = 1 << 30;

fn machine(count: u32) -> Description {
    let mut machine = Description::default();
    for n in 0..count {
        machine.devices.push(Device {
            id: DeviceId(n),
            name: format!("weir_cxl{n}"),
            capacity_bytes_per_sec: None,
            counter_mask_bytes: u64::MAX,
            counted_by: weir_core::seam::topology::CountedBy::AccessCounters,
        });
        machine.groups.push(Group {
            id: GroupId {
                device: DeviceId(n),
                index: 0,
            },
            node: None,
            size_bytes: Bytes(SIZE),
        });
    }
    machine
}

fn profile(device: u32, knee: f64) -> Profile {
    Profile {
        size_bytes: SIZE,
        idle_latency_ns: 300.0,
        complete: true,
        knee: Some(StoredKnee {
            bandwidth_bytes_per_sec: knee,
            latency_ns: 450.0,
            fit_error_ratio: 0.01,
        }),
        points: vec![StoredPoint {
            bandwidth_bytes_per_sec: knee * 1.1,
            latency_ns: 600.0,
            latency_median_ns: 600.0,
            latency_p99_ns: 900.0,
            latency_error_ratio: 0.01,
        }],
        ..Profile::begun(&format!("weir_cxl{device}"))
    }
}

fn keep(state: &Path, profile: &Profile) -> PathBuf {
    let path = path(state, &profile.device);
    ProfilePlace::ready(&path, true)
        .unwrap()
        .keep(profile)
        .unwrap()
}

#[test]
fn what_was_kept_is_read_and_replaced_whole() {
    let dir = tempfile::tempdir().unwrap();
    assert!(read(dir.path(), "weir_cxl0").unwrap().is_none());
    for knee in [1e9, 2.123_456_789e9] {
        let written = profile(0, knee);
        let path = keep(dir.path(), &written);
        assert_eq!(path, dir.path().join("devices/weir_cxl0.toml"));
        assert_eq!(read(dir.path(), "weir_cxl0").unwrap(), Some(written));
    }
    let files = fs::read_dir(dir.path().join("devices")).unwrap().count();
    assert_eq!(files, 1, "something was left behind");
    drop(ProfilePlace::ready(&path(dir.path(), "other"), true).unwrap());
    assert!(read(dir.path(), "other").unwrap().is_none());
}

#[test]
fn no_name_leads_elsewhere() {
    for name in [
        "../../etc/passwd",
        "/etc/passwd",
        "a/b",
        "..",
        "a\nb",
        &"x".repeat(5000),
    ] {
        let path = path(Path::new("/s"), name);
        assert_eq!(path.parent(), Some(Path::new("/s/devices")), "{name:?}");
        assert!(path.as_os_str().len() < 100);
    }
}

#[test]
fn hostile_files_are_named_and_not_used() {
    let dir = tempfile::tempdir().unwrap();
    let path = keep(dir.path(), &profile(0, 1e9));
    let good = fs::read_to_string(&path).unwrap();
    let said = |text: &[u8]| {
        fs::write(&path, text).unwrap();
        let error = read(dir.path(), "weir_cxl0").unwrap_err();
        let error = format!("{error:#}");
        assert!(
            error.contains("weir_cxl0.toml") && error.contains("weir calibrate"),
            "{error}"
        );
        error
    };
    assert!(said(b"").contains("schema_version"));
    assert!(said(b"\xff\xfe").contains("UTF-8"));
    assert!(said(&vec![b'#'; 300 << 10]).contains("256 KiB"));
    for (what, instead, wanted) in [
        (
            "schema_version = 1",
            "schema_version = 2",
            "this weir reads 1",
        ),
        (
            "idle_latency_ns = 300.0",
            "idle_latency_ns = nan",
            "idle_latency_ns",
        ),
        (
            "idle_latency_ns = 300.0",
            "idle_latency_ns = -1.0",
            "idle_latency_ns",
        ),
        (
            "bandwidth_bytes_per_sec = 1000000000.0",
            "bandwidth_bytes_per_sec = 1.0",
            "4096",
        ),
        (
            "bandwidth_bytes_per_sec = 1000000000.0",
            "bandwidth_bytes_per_sec = 1e17",
            "knee",
        ),
        (
            "bandwidth_bytes_per_sec = 1000000000.0",
            "bandwidth_bytes_per_sec = inf",
            "knee",
        ),
        ("latency_ns = 450.0", "latency_ns = 0.0", "knee.latency_ns"),
        ("complete = true", "complete = 7", "line"),
        ("complete = true", "complete = true\nmore = 1", "more"),
        ("complete = true\n", "", "complete"),
    ] {
        assert!(good.contains(what), "{what} in {good}");
        let error = said(good.replacen(what, instead, 1).as_bytes());
        assert!(error.contains(wanted), "{instead}: {error}");
    }
    let point = good.split("[[point]]").nth(1).unwrap();
    let many = format!("{good}{}", format!("[[point]]{point}").repeat(POINTS_MAX));
    assert!(said(many.as_bytes()).contains("1000 points"));
}

#[test]
fn files_of_others_and_no_files_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = keep(dir.path(), &profile(0, 1e9));
    let said = || format!("{:#}", read(dir.path(), "weir_cxl0").unwrap_err());
    fs::set_permissions(&path, Permissions::from_mode(0o666)).unwrap();
    assert!(said().contains("others may write it"));
    fs::rename(&path, dir.path().join("real")).unwrap();
    std::os::unix::fs::symlink(dir.path().join("real"), &path).unwrap();
    said();
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(said().contains("directory"));
}

#[test]
fn a_knee_is_that_of_the_same_device() {
    let dir = tempfile::tempdir().unwrap();
    let said =
        |machine: &Description| format!("{:#}", common_knee(dir.path(), machine, &[]).unwrap_err());
    let one = machine(1);
    assert!(said(&one).contains("`weir calibrate --device cxl0`"));
    // Without the node that the operator names, calibrate may not find the device.
    let said_of = |machine: &Description, nodes: &[u32]| {
        let nodes: Vec<DeviceNode> = nodes.iter().map(|n| DeviceNode(*n)).collect();
        common_knee(dir.path(), machine, &nodes)
            .unwrap_err()
            .to_string()
    };
    assert!(said_of(&one, &[2]).contains("`weir calibrate --device node:2`"));
    let both = "`weir calibrate --device node:2 --device node:3 --device cxl0`";
    assert!(said_of(&machine(2), &[2, 3]).contains(both));
    keep(dir.path(), &profile(0, 4e9));
    assert_eq!(common_knee(dir.path(), &one, &[]).unwrap().get(), 4e9);
    let shown = |machine: &Description| knee_and_idle(dir.path(), machine, &machine.devices[0]);
    assert!(shown(&one).is_some_and(|(knee, idle_ns)| knee.get() == 4e9 && idle_ns > 0.0));
    let mut larger = machine(1);
    larger.groups[0].size_bytes = Bytes(2 * SIZE);
    assert!(said(&larger).contains("another device"));
    assert_eq!(shown(&larger), None);
    keep(
        dir.path(),
        &Profile {
            knee: None,
            ..profile(0, 4e9)
        },
    );
    assert!(said(&one).contains("has no knee"));
    assert!(said(&Description::default()).contains("no device"));
}

#[test]
fn several_devices_have_one_set_point_only_if_they_are_alike() {
    let dir = tempfile::tempdir().unwrap();
    keep(dir.path(), &profile(0, 4e9));
    let said = || {
        format!(
            "{:#}",
            common_knee(dir.path(), &machine(2), &[]).unwrap_err()
        )
    };
    assert!(said().contains("--device cxl1"));
    keep(dir.path(), &profile(1, 3.8e9));
    assert_eq!(
        common_knee(dir.path(), &machine(2), &[]).unwrap().get(),
        3.8e9
    );
    keep(dir.path(), &profile(1, 9e9));
    assert!(said().contains("differ"), "{}", said());
}

#[test]
fn the_doctor_says_what_there_is() {
    let dir = tempfile::tempdir().unwrap();
    let fact = || facts(dir.path(), &machine(1)).remove(0);
    assert_eq!(fact().value, Err(Missing::NotYetRead));
    assert_eq!(
        fact().next_move.unwrap().act.to_string(),
        "weir calibrate --device cxl0"
    );
    let old = wall_unix_ms() / 1000 - 3 * DAY_SEC - 10;
    let path = keep(
        dir.path(),
        &Profile {
            measured_unix_sec: old,
            ..profile(0, 4e9)
        },
    );
    let said = fact().value.unwrap();
    assert!(
        said.contains("3 days old") && said.contains("3.73 GiB/s"),
        "{said}"
    );
    fs::write(path, "nonsense").unwrap();
    assert!(matches!(fact().value, Err(Missing::Lost(_))));
}

proptest! {
    #[test]
    fn no_file_panics(text in "(?s).{0,300}|schema_version = 1\n([a-z_]{1,24} = [-0-9a-z.\"]{1,12}\n){0,12}") {
        if let Ok(profile) = Profile::parse(&text) {
            prop_assert!(profile.idle_latency_ns > 0.0);
        }
    }
}
