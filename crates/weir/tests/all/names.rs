// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Is a cgroup called the same everywhere, and as the kernel, systemd and cadvisor call it?

use crate::metrics::{OPEN_METRICS, scrape};
use crate::world::desk::{Desk, done};
use crate::world::server::free_address;
use crate::world::{HEAVY, World, stderr, stdout};
use rustix::process::Signal;
use serde_json::Value;

const VM: &str = r"/machine.slice/machine-qemu\x2d1\x2dvm.scope";
const POD: &str = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod2f4c1a7e_0b1d_4c3e_9f5a_6b7c8d9e0f1a.slice/\
                   cri-containerd-0d1f2a3b4c5d6e7f80919293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7.scope";

/// Ids in all lines of `--json`.
fn ids(lines: &str) -> Vec<String> {
    let line: Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
    let all = line["plan"]["workloads"].as_array().unwrap();
    all.iter()
        .map(|w| w["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn what_is_excluded_as_systemd_writes_it_is_not_limited() {
    let world = World::with(&[VM]);
    let args = [
        "run",
        "--limit",
        "--set-point",
        "200MiB/s",
        "--exclude",
        VM,
        "--json",
    ];
    let daemon = world.start(&args);
    world.wait("others are limited", || {
        world.cpu_max(HEAVY[0]) != "max 100000"
    });
    world.wait_for_ticks(20);
    assert_eq!(world.cpu_max(VM), "max 100000");
    let why = stdout(&world.weir(&["explain", VM]));
    assert!(why.contains("matches") && why.contains(VM), "{why}");
    daemon.signal(Signal::TERM);
    let ended = daemon.end();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("warning"), "{}", ended.stderr);
    assert!(
        ids(&ended.stdout).iter().any(|id| id == VM),
        "{:?}",
        ids(&ended.stdout)
    );
}

#[test]
fn a_pattern_that_fits_nothing_is_reported_at_the_start_and_by_doctor() {
    let world = World::new();
    let slip = "light.service";
    let hint = "perhaps */light.service is meant, which fits /system.slice/light.service";
    let output = world.weir(&[
        "run",
        "--duration",
        "100ms",
        "--exclude",
        slip,
        "--exclude",
        HEAVY[0],
    ]);
    let said = stderr(&output);
    assert!(
        said.contains("warning: exclude: \"light.service\" fits no workload"),
        "{said}"
    );
    assert!(said.contains(hint) && !said.contains("heavy-a"), "{said}");

    let settings = world.path("weir.toml");
    let text = format!(
        "exclude = ['{slip}']\n[controller.weights]\n'/absent' = 200\n'{}' = 50\n",
        HEAVY[0]
    );
    std::fs::write(&settings, text).unwrap();
    let file = settings.to_str().unwrap();
    let page = stdout(&world.weir(&["doctor", "--config", file]));
    assert!(page.contains(slip) && page.contains(hint), "{page}");
    assert!(page.contains("\"/absent\" fits no workload"), "{page}");
    let page = stdout(&world.weir(&["doctor", "--exclude", HEAVY[0]]));
    assert!(page.contains("1 given, and each fits a workload"), "{page}");

    // What a running weir was given is known without its settings.
    let daemon = world.start(&["run", "--exclude", slip]);
    world.wait_for_ticks(5);
    let page = stdout(&world.weir(&["doctor"]));
    assert!(
        page.contains("running weir") && page.contains(slip),
        "{page}"
    );
    daemon.signal(Signal::TERM);
    daemon.end();
}

#[test]
fn two_names_are_never_one_and_each_is_found_by_what_is_shown() {
    // A line break, and a name that has its escape in it.
    let (line, literal) = (
        "/system.slice/a\nb.service",
        r"/system.slice/a\012b.service",
    );
    let (line_shown, literal_shown) = (
        r"/system.slice/a\012b.service",
        r"/system.slice/a\134012b.service",
    );
    let world = World::with(&[line, literal]);
    let desk = Desk::new();
    let file = desk.text("names.weir");
    let ended = world.weir_for_ticks(20, &["run", "--json", "--record", &file]);
    let ids = ids(&ended.stdout);
    for shown in [line_shown, literal_shown] {
        assert_eq!(ids.iter().filter(|id| *id == shown).count(), 1, "{ids:?}");
    }
    let rows = done(&["export", &file]);
    for shown in [line_shown, literal_shown] {
        assert!(
            rows.lines()
                .any(|row| row.split(',').any(|cell| cell == shown)),
            "{shown}: {rows}"
        );
    }
    let daemon = world.start(&["run", "--exclude", literal_shown]);
    world.wait_for_ticks(5);
    let page = stdout(&world.weir(&["explain", literal_shown]));
    assert!(page.contains("the exclude list"), "{page}");
    let page = stdout(&world.weir(&["explain", line_shown]));
    assert!(
        page.contains(line_shown) && !page.contains("the exclude list"),
        "{page}"
    );
    daemon.signal(Signal::TERM);
    assert!(!daemon.end().stderr.contains("warning"));
}

/// The files that a kubelet and its runtime make for the logs of [`POD`].
fn named_by_the_kubelet(world: &World) {
    let id = POD.rsplit_once('-').unwrap().1.trim_end_matches(".scope");
    let uid = "2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";
    std::fs::create_dir_all(world.path(&format!("var/log/pods/shop_web-0_{uid}/app"))).unwrap();
    world.write(&format!("var/log/containers/web-0_shop_app-{id}.log"), "");
}

#[test]
fn pods_have_the_names_that_the_kubelet_gives_their_logs() {
    let world = World::with(&[POD]);
    named_by_the_kubelet(&world);
    // Names that the kubelet does not make reach no screen.
    let hostile = "evil\u{1b}[2J_x_2f4c1a7e-0b1d-4c3e-9f5a-6b7c8d9e0f1a";
    std::fs::create_dir_all(world.path(&format!("var/log/pods/{hostile}"))).unwrap();
    let address = free_address();
    let daemon = world.start(&["run", &format!("--metrics={address}")]);
    let labels = "namespace=\"shop\",pod=\"web-0\",container=\"app\",pod_uid=\"2f4c1a7e";
    world.wait("its samples have names", || {
        let page = scrape(address, OPEN_METRICS).map(|(_, page)| page);
        page.is_some_and(|page| page.contains(labels))
    });
    let table = stdout(&world.weir(&["top", "--once"]));
    assert!(table.contains("pod:shop/web-0/app /kub"), "{table}");
    assert!(!table.contains("evil"), "{table}");
    for name in ["shop/web-0", "pod:shop/web-0/app", "2f4c1a7e-0b1d"] {
        let page = stdout(&world.weir(&["explain", name]));
        assert!(
            page.contains(POD) && page.contains("pod:shop/web-0/app"),
            "{page}"
        );
    }
    // A pod that is gone has no name any more.
    std::fs::remove_dir_all(world.path("var/log/pods")).unwrap();
    world.wait("the names end with the files", || {
        let page = scrape(address, OPEN_METRICS).map(|(_, page)| page);
        page.is_some_and(|page| page.contains("pod_uid=") && !page.contains("namespace="))
    });
    daemon.signal(Signal::TERM);
    daemon.end();
}
