// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Does the RTL count what a real kernel does? The guest has two devices over the same memory: the
//! emulated one, with its registers in shared memory, and the simulated RTL, fed access by access. The driver
//! reads both; both must say what the emulated device's ground truth says, to the line.
//!
//! Comparisons that must be exact are made with the model switched off, which counts nothing. While it
//! counts, each figure must lie between two others.

use crate::common::both::{GROUPS, LINE_BYTES, RTL, SHARED, bind, fio, ready};
use crate::common::{Questions, ask_one, attempt, ends_with, is, until};
use anyhow::{Context, Result, ensure};
use weir_ipc::access_trace::AccessTrace;
use weir_scenario::testbed::TestbedMachine;
use weir_testbed::vm::{BootOptions, GuestFile, Vm};

/// What must at least be compared: 10^5 accesses and some.
const LINES_MIN: u64 = 500_000;

/// Cores with enough lines outstanding to fill the device's queue.
fn machine() -> TestbedMachine {
    TestbedMachine {
        cpu_count: 2,
        dram_mib: 512,
        groups_mib: vec![128; GROUPS],
        cache_lines: 4096,
        instruction_ps: 2000,
        window_lines: 16,
        cosim: true,
        ..TestbedMachine::default()
    }
}

/// Bytes read and written, by group.
type Bytes = [(u64, u64); GROUPS];

fn numbers(text: &str) -> Result<Vec<u64>> {
    let words: std::result::Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    words.with_context(|| format!("not numbers: {text}"))
}

fn bytes(numbers: &[u64]) -> Result<Bytes> {
    match numbers[..] {
        [a, b, c, d] => Ok([(a, b), (c, d)]),
        _ => anyhow::bail!("not {GROUPS} pairs: {numbers:?}"),
    }
}

fn from_text(vm: &Vm, device: &str) -> Result<Bytes> {
    let files = "group0/read_bytes group0/write_bytes group1/read_bytes group1/write_bytes";
    bytes(&numbers(&vm.run(&format!("cd {device} && cat {files}"))?)?)
}

fn from_binary(vm: &Vm, file: &str) -> Result<Bytes> {
    bytes(&numbers(&vm.run(&format!("od -A n -v -t u8 {file}"))?)?)
}

fn from_ground_truth(vm: &Vm) -> Bytes {
    [0, 1].map(|group| {
        let tally = vm.ground_truth().group(group);
        (
            tally.read_lines * LINE_BYTES,
            tally.write_lines * LINE_BYTES,
        )
    })
}

fn value(vm: &Vm, file: &str) -> Result<u64> {
    let text = vm.run(&format!("cat {RTL}/{file}"))?;
    text.trim()
        .parse()
        .with_context(|| format!("{file}: {text}"))
}

fn take_a_snapshot(vm: &Vm) -> Result<()> {
    vm.run(&format!("echo 1 > {RTL}/snapshot/trigger"))
        .map(drop)
}

/// The counts, once all sources of them agree. The model must be off.
fn agreed(vm: &Vm) -> Result<Bytes> {
    let ground_truth = from_ground_truth(vm);
    take_a_snapshot(vm)?;
    let views = [
        ("shared memory, text", from_text(vm, SHARED)?),
        (
            "shared memory, binary",
            from_binary(vm, &format!("{SHARED}/counters"))?,
        ),
        ("RTL, text", from_text(vm, RTL)?),
        ("RTL, binary", from_binary(vm, &format!("{RTL}/counters"))?),
        (
            "RTL, snapshot",
            from_binary(vm, &format!("{RTL}/snapshot/counters"))?,
        ),
    ];
    for (name, view) in views {
        ensure!(
            view == ground_truth,
            "{name} {view:?}, ground truth {ground_truth:?}"
        );
    }
    ensure!(
        from_ground_truth(vm) == ground_truth,
        "lines were counted with the model off"
    );
    Ok(ground_truth)
}

/// Starts a reader of each group that does not end by itself.
fn start_readers(vm: &Vm) -> Result<()> {
    for group in 0..GROUPS {
        let reader = fio(
            group,
            "--rw=randread --size=16m --norandommap --time_based --runtime=3600",
        );
        vm.run(&format!("{reader} > /run/fio{group} 2>&1 < /dev/null &"))?;
    }
    let before = from_ground_truth(vm);
    // Until both move data.
    for _ in 0..600 {
        let now = from_ground_truth(vm);
        if (0..GROUPS).all(|g| now[g].0 > before[g].0 + (1 << 21)) {
            return Ok(());
        }
        vm.sleep(std::time::Duration::from_millis(100))?;
    }
    anyhow::bail!(
        "the readers do not begin: {:?} after {before:?}",
        from_ground_truth(vm)
    )
}

fn stop_readers(vm: &Vm) -> Result<()> {
    vm.run("killall fio")?;
    until(vm, "! pidof fio")
}

fn both_are_the_same_groups(vm: &Vm) -> Result<()> {
    for group in 0..GROUPS {
        let of = |device: &str| {
            vm.run(&format!(
                "cd {device}/group{group} && cat node base size_bytes"
            ))
        };
        let base = vm.machine.device_base_bytes() + ((group as u64) << 27);
        let wanted = format!("{}\n{base:#x}\n{}\n", group + 1, 128 << 20);
        for device in [SHARED, RTL] {
            let is = of(device)?;
            ensure!(is == wanted, "{device}, group {group}: {is}");
        }
    }
    Ok(())
}

/// Different sizes and directions, so that no two counters are alike.
fn fio_is_counted_alike(vm: &Vm) -> Result<()> {
    let before = agreed(vm)?;
    let read = fio(0, "--rw=randread --size=16m --loops=2");
    let write = fio(1, "--rw=randrw --size=12m");
    vm.switch_model_on()?;
    vm.run(&format!("{read} > /dev/null & {write} > /dev/null; wait"))?;
    vm.switch_model_off();
    let after = agreed(vm)?;
    let lines = [0, 1].map(|g| {
        (
            (after[g].0 - before[g].0) / LINE_BYTES,
            (after[g].1 - before[g].1) / LINE_BYTES,
        )
    });
    println!("lines read and written, by group: {lines:?}");
    let all: u64 = lines.iter().map(|(read, written)| read + written).sum();
    ensure!(all >= LINES_MIN, "{all} lines are few");
    ensure!(lines[0].0 >= 2 * (16 << 20) / LINE_BYTES, "{lines:?}");
    ensure!(lines[1].0 >= (12 << 20) / LINE_BYTES, "{lines:?}");
    ensure!(lines[1].1 >= (2 << 20) / LINE_BYTES, "{lines:?}");
    Ok(())
}

/// Whether each count is at least the other's.
fn at_least(later: &Bytes, earlier: &Bytes) -> bool {
    later
        .iter()
        .zip(earlier)
        .all(|(l, e)| l.0 >= e.0 && l.1 >= e.1)
}

/// The emulated device, a register of the RTL, the emulated device again: as time goes on, so do counts. The
/// RTL may have an access of each vCPU that the other has not counted yet.
fn while_counting_neither_is_behind(vm: &Vm) -> Result<()> {
    let one = |device: &str| format!("od -A n -v -t u8 {device}/counters");
    let script = format!(
        "for i in $(seq 50); do {}; {}; {}; done",
        one(SHARED),
        one(RTL),
        one(SHARED)
    );
    let all = numbers(&vm.run(&script)?)?;
    ensure!(all.len() == 50 * 3 * 4, "{} numbers", all.len());
    let mut moved = false;
    for texts in all.chunks(12) {
        let (a, rtl, b) = (
            bytes(&texts[..4])?,
            bytes(&texts[4..8])?,
            bytes(&texts[8..])?,
        );
        ensure!(at_least(&rtl, &a), "RTL {rtl:?} is behind {a:?}");
        let ahead = vm.machine.cpu_count as u64 * LINE_BYTES;
        let b = b.map(|(r, w)| (r + ahead, w + ahead));
        ensure!(at_least(&b, &rtl), "RTL {rtl:?} is ahead of {b:?}");
        moved |= a[0].0 + ahead < b[0].0 - ahead;
    }
    ensure!(moved, "nothing was counted meanwhile");
    Ok(())
}

/// A snapshot lies between the counters before and after it, and stays while they go on.
fn a_snapshot_is_kept_while_counting(vm: &Vm) -> Result<()> {
    let (live, snapshot) = (
        format!("{RTL}/counters"),
        format!("{RTL}/snapshot/counters"),
    );
    let mut last: Bytes = [(0, 0); GROUPS];
    for _ in 0..20 {
        let count = value(vm, "snapshot/count")?;
        let before = from_binary(vm, &live)?;
        take_a_snapshot(vm)?;
        let after = from_binary(vm, &live)?;
        let kept = from_binary(vm, &snapshot)?;
        ensure!(
            value(vm, "snapshot/count")? == count + 1,
            "not one snapshot more"
        );
        ensure!(
            at_least(&kept, &before) && at_least(&after, &kept),
            "{before:?}, snapshot {kept:?}, {after:?}"
        );
        ensure!(
            at_least(&kept, &last) && kept != last,
            "{last:?}, then {kept:?}"
        );
        let again = from_binary(vm, &snapshot)?;
        ensure!(again == kept, "the snapshot {kept:?} became {again:?}");
        last = kept;
    }
    Ok(())
}

const CLASSES: [&str; 4] = ["light", "optimal", "moderate", "severe"];

fn clocks_at(vm: &Vm) -> Result<[u64; 4]> {
    let files = CLASSES.map(|c| format!("devload/{c}_clocks")).join(" ");
    let all = numbers(&vm.run(&format!("cd {RTL} && cat {files}"))?)?;
    all.try_into().map_err(|all| anyhow::anyhow!("{all:?}"))
}

/// Both readers together demand more than the device has: its queue fills, and DevLoad says so.
fn devload_rises_under_load(vm: &Vm) -> Result<()> {
    let before = clocks_at(vm)?;
    let mut seen = [0; 4];
    let mut fill_max = 0;
    for _ in 0..100 {
        let load = value(vm, "devload/load")?;
        ensure!(load < 4, "load is {load}");
        seen[load as usize] += 1;
        fill_max = fill_max.max(value(vm, "devload/fill_256ths")?);
    }
    let after = clocks_at(vm)?;
    println!("loads seen {seen:?}, fill at most {fill_max}/256, clocks {before:?} to {after:?}");
    ensure!(seen[1] + seen[2] + seen[3] > 0, "always light: {seen:?}");
    ensure!(fill_max > 2 * 256, "the queue had at most {fill_max}/256");
    let heavy = |clocks: [u64; 4]| clocks[1..].iter().sum::<u64>();
    ensure!(heavy(after) > heavy(before), "{before:?}, {after:?}");
    ensure!(
        value(vm, "devload/clock_khz")? == 0,
        "this clock has no pace"
    );
    Ok(())
}

fn devload_falls_without_load(vm: &Vm) -> Result<()> {
    until(vm, is(&format!("{RTL}/devload/load"), "0"))?;
    until(vm, is(&format!("{RTL}/devload/fill_256ths"), "0"))?;
    let before = clocks_at(vm)?;
    let after = clocks_at(vm)?;
    ensure!(after[0] > before[0], "light for {} clocks", after[0]);
    ensure!(after[1..] == before[1..], "{before:?}, {after:?}");
    Ok(())
}

/// The events of perf count from when they are enabled; their counts must be those of the ground truth.
fn perf_counts_the_rtl(vm: &Vm) -> Result<()> {
    let before = agreed(vm)?;
    vm.switch_model_on()?;
    let read = "dd if=/cxl1/file of=/dev/null bs=1M 2> /dev/null";
    let said = vm.run(&format!("weir-agent count weir_cxl1 read group=1 '{read}'"))?;
    vm.switch_model_off();
    let counted: u64 = numbers(said.split_whitespace().next().unwrap_or_default())?[0];
    let moved = agreed(vm)?[1].0 - before[1].0;
    ensure!(
        counted <= moved && counted >= 16 << 20,
        "perf counted {counted} bytes of {moved}"
    );
    Ok(())
}

/// The kfunc reads a node; two devices count its memory, and it must not add them up.
fn bpf_counts_memory_once(vm: &Vm) -> Result<()> {
    let ground_truth = agreed(vm)?;
    let slots = "/sys/fs/bpf/weir_slots";
    vm.run("bpftool prog loadall /tests/kfunc.bpf.o /sys/fs/bpf/weir autoattach")?;
    for (group, counted) in ground_truth.iter().enumerate() {
        let node = group + 1;
        ensure!(
            counted.0 > 0 && counted.1 > 0,
            "nothing to count: {ground_truth:?}"
        );
        let script = format!(
            "bpftool map update pinned {slots} key 0 0 0 0 value {node} 0 0 0 0 0 0 0; usleep 1000
             for slot in 1 2 3; do bpftool map lookup pinned {slots} key $slot 0 0 0 |
                 grep value | tr -dc 0-9; echo; done"
        );
        let answer = numbers(&vm.run(&script)?)?;
        ensure!(
            answer == [0, counted.0, counted.1],
            "node {node}: {answer:?}, ground truth {counted:?}"
        );
    }
    vm.run(&format!("rm -r /sys/fs/bpf/weir {slots}")).map(drop)
}

#[test]
fn rtl_driver_and_ground_truth_count_the_same() -> Result<()> {
    let Some(bench) = ready("cosim", &machine())? else {
        return Ok(());
    };
    let kfunc = GuestFile::new(&bench.driver()?.kfunc_test, "tests/kfunc.bpf.o");
    let vm = bench.boot(&machine(), vec![kfunc], &BootOptions::default())?;
    bind(&vm)?;
    let mut questions = Questions::default();
    questions.ask("both devices are the same groups", || {
        both_are_the_same_groups(&vm)
    });
    questions.ask("fio on two groups is counted alike, exactly", || {
        fio_is_counted_alike(&vm)
    });
    questions.ask("perf counts the RTL", || perf_counts_the_rtl(&vm));
    questions.ask("BPF counts memory once", || bpf_counts_memory_once(&vm));
    vm.switch_model_on()?;
    start_readers(&vm)?;
    questions.ask("while counting, neither is behind", || {
        while_counting_neither_is_behind(&vm)
    });
    questions.ask("a snapshot is kept while counting", || {
        a_snapshot_is_kept_while_counting(&vm)
    });
    questions.ask("DevLoad rises under load", || devload_rises_under_load(&vm));
    stop_readers(&vm)?;
    vm.switch_model_off();
    questions.ask("DevLoad falls without load", || {
        devload_falls_without_load(&vm)
    });
    questions.ask("after all that they still agree", || agreed(&vm).map(drop));
    let ground_truth = from_ground_truth(&vm);
    let summary = vm.finish_cosim()?;
    println!("{summary:?}");
    questions.ask("the RTL took every access, and no other", || {
        let lines: u64 = ground_truth.iter().map(|(r, w)| (r + w) / LINE_BYTES).sum();
        ensure!(
            summary.accesses == lines,
            "{summary:?}, ground truth {lines}"
        );
        Ok(())
    });
    questions.done()
}

/// Rings far too small for what comes in the pauses of the server: vCPUs wait, and nothing is lost.
#[test]
fn a_full_ring_makes_its_cpu_wait() -> Result<()> {
    let machine = TestbedMachine {
        cosim_ring_records: 64,
        ..machine()
    };
    let Some(bench) = ready("cosim, full ring", &machine)? else {
        return Ok(());
    };
    let vm = bench.boot(&machine, vec![], &BootOptions::default())?;
    ask_one("nothing is lost", || its_cpu_waits(vm))
}

fn its_cpu_waits(vm: Vm) -> Result<()> {
    bind(&vm)?;
    vm.switch_model_on()?;
    vm.run("for i in 0 1; do dd if=/cxl$i/file of=/dev/null bs=1M; done 2> /dev/null")?;
    vm.switch_model_off();
    let ground_truth = agreed(&vm)?;
    let summary = vm.finish_cosim()?;
    println!("ground truth {ground_truth:?}, {summary:?}");
    ensure!(summary.lost == 0 && summary.waits > 0, "{summary:?}");
    Ok(())
}

/// QEMU goes on without its device: the driver says so, the guest lives, and what it does is counted as lost.
#[test]
fn a_server_that_dies_is_a_lost_device() -> Result<()> {
    let Some(bench) = ready("cosim, lost", &machine())? else {
        return Ok(());
    };
    let vm = bench.boot(&machine(), vec![], &BootOptions::default())?;
    ask_one("the guest lives", || its_device_is_lost(vm))
}

fn its_device_is_lost(mut vm: Vm) -> Result<()> {
    bind(&vm)?;
    vm.cosim().context("it has one")?.kill()?;
    for file in [
        "group0/read_bytes",
        "counters",
        "snapshot/count",
        "devload/load",
    ] {
        let said = ends_with(&vm, 1, &format!("cat {RTL}/{file}"))?;
        ensure!(said.contains("No such device"), "{file}: {said}");
    }
    ends_with(&vm, 1, &format!("echo 1 > {RTL}/snapshot/trigger"))?;

    vm.switch_model_on()?;
    vm.run("for i in 0 1; do dd if=/cxl$i/file of=/dev/null bs=1M; done 2> /dev/null")?;
    vm.switch_model_off();
    let said = vm.console_tail();
    ensure!(said.contains("from now on they are lost"), "{said}");
    let ground_truth = from_ground_truth(&vm);
    let shared = from_text(&vm, SHARED)?;
    ensure!(
        shared == ground_truth,
        "shared memory {shared:?}, ground truth {ground_truth:?}"
    );

    let words = vm.cosim().context("it has one")?.trace_words()?;
    let trace = AccessTrace::open(&words).context("a trace")?;
    let pushed: u64 = (0..machine().cpu_count)
        .map(|ring| trace.pushed(ring))
        .sum();
    let lines: u64 = ground_truth.iter().map(|(r, w)| (r + w) / LINE_BYTES).sum();
    println!(
        "{lines} lines, {pushed} in the rings, {} lost",
        trace.lost()
    );
    ensure!(
        trace.lost() > 0 && trace.lost() + pushed == lines,
        "not all are accounted for"
    );

    vm.run(&format!(
        "echo $(basename $(readlink -f {RTL}/device)) > {RTL}/device/driver/unbind"
    ))?;
    ensure!(
        attempt(&vm, &format!("[ -e {RTL} ]"))?.status == Some(1),
        "still there"
    );
    Ok(())
}
