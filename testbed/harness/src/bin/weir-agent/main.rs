// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Agent of the harness inside the guest: reads commands from a virtio-serial port, runs each in a thread of
//! its own, or waits there until something is so, and writes the results back. The guest's init starts it; it
//! lives as long as the guest. `weir-agent pages FILE` prints the physical addresses of a file, `weir-agent
//! now` the guest's clocks, `weir-agent count` perf's count of an event while a command runs; `weir-agent
//! unpack` unpacks the files that the harness has put into a PCI device; `weir-agent hold` keeps patterns in
//! memory and checks them again and again.

mod count;
mod pages;
mod pattern_holder;
mod unpack;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use weir_testbed::vm::condition::Condition;
use weir_testbed::vm::protocol::{PORT_NAME, Reply, Request, Task};

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [] => serve(),
        ["pages", path] => pages::print(path),
        ["now"] => now(),
        ["unpack"] => unpack::unpack(),
        ["count", pmu, event, field, command] => count::count(pmu, event, field, command),
        ["hold", mib, seed, file] => pattern_holder::hold(mib, seed, file),
        _ => Err(std::io::Error::other(
            "usage: weir-agent [pages FILE | now | unpack | count PMU EVENT FIELD=N COMMAND | hold MIB SEED FILE]",
        )),
    }
}

/// How often `now` reads the clocks: the first reading takes page faults, and an interrupt may fall into any
/// of them.
const READINGS: usize = 16;

/// Print `CLOCK_REALTIME`, `CLOCK_BOOTTIME` and the TSC, as they were read one after the other in the fewest
/// ticks of the TSC.
fn now() -> std::io::Result<()> {
    use rustix::time::{ClockId, clock_gettime};
    let ns = |id| {
        let at = clock_gettime(id);
        i128::from(at.tv_sec) * 1_000_000_000 + i128::from(at.tv_nsec)
    };
    // SAFETY: every x86-64 CPU has the instruction.
    let ticks = || unsafe { core::arch::x86_64::_rdtsc() };
    let readings = (0..READINGS).map(|_| {
        let before = ticks();
        let (real, boot) = (ns(ClockId::Realtime), ns(ClockId::Boottime));
        (ticks().wrapping_sub(before), real, boot, before)
    });
    let shortest = readings.min_by_key(|reading| reading.0);
    let (_, real, boot, ticks) =
        shortest.ok_or_else(|| std::io::Error::other("no reading of the clocks"))?;
    println!("{real} {boot} {ticks}");
    Ok(())
}

/// Answer the harness until the guest ends.
fn serve() -> std::io::Result<()> {
    let path = format!("/dev/virtio-ports/{PORT_NAME}");
    let port = OpenOptions::new().read(true).write(true).open(path)?;
    let out = Arc::new(Mutex::new(port.try_clone()?));
    send(
        &out,
        &Reply {
            id: 0,
            status: Some(0),
            stdout: "ready".into(),
            stderr: String::new(),
        },
    );
    for line in BufReader::new(port).lines() {
        let line = line?;
        match serde_json::from_str::<Request>(&line) {
            Ok(request) => {
                let out = Arc::clone(&out);
                std::thread::spawn(move || send(&out, &run(&request)));
            }
            Err(why) => eprintln!("weir-agent: {why}: {line}"),
        }
    }
    Ok(())
}

/// Replies of any length go out whole: the lock is held for a line.
fn send(out: &Mutex<File>, reply: &Reply) {
    let Ok(mut line) = serde_json::to_vec(reply) else {
        return;
    };
    line.push(b'\n');
    if let Ok(mut file) = out.lock()
        && let Err(why) = file.write_all(&line)
    {
        eprintln!("weir-agent: cannot answer: {why}");
    }
}

fn run(request: &Request) -> Reply {
    let most = Duration::from_millis(request.timeout_ms);
    let done = match &request.task {
        Task::Run(shell) => run_shell(shell, most),
        Task::Await {
            condition,
            every_ms,
        } => Ok(wait_until(
            condition,
            Duration::from_millis(*every_ms),
            most,
        )),
    };
    let (status, stdout, stderr) =
        done.unwrap_or_else(|why| (None, String::new(), format!("weir-agent: {why}")));
    Reply {
        id: request.id,
        status,
        stdout,
        stderr,
    }
}

/// Exit status and both outputs.
type Done = (Option<i32>, String, String);

/// Checks again and again, without a process of its own.
fn wait_until(condition: &Condition, every: Duration, most: Duration) -> Done {
    let begun = Instant::now();
    let status = loop {
        if condition.holds() {
            break 0;
        }
        if begun.elapsed() >= most {
            break 1;
        }
        std::thread::sleep(every);
    };
    (Some(status), String::new(), String::new())
}

fn run_shell(shell: &str, most: Duration) -> std::io::Result<Done> {
    let mut child = Command::new("/bin/sh")
        .args(["-c", shell])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let stdout = drain(child.stdout.take());
    let stderr = drain(child.stderr.take());
    let status = if ends_within(&child, most)? {
        child.wait()?.code()
    } else {
        child.kill()?;
        child.wait()?;
        None
    };
    let text = |t: std::thread::JoinHandle<Vec<u8>>| {
        String::from_utf8_lossy(&t.join().unwrap_or_default()).into_owned()
    };
    Ok((status, text(stdout), text(stderr)))
}

/// Sleeps until a child has ended, or the time is over. There is no poll meanwhile: an idle guest stays idle.
fn ends_within(child: &Child, most: Duration) -> std::io::Result<bool> {
    let process = pidfd_open(Pid::from_child(child), PidfdFlags::empty())?;
    let most = Timespec::try_from(most).map_err(std::io::Error::other)?;
    let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&most))?;
    Ok(ended > 0)
}

/// Read a pipe to its end beside the child, so that it never blocks on a full one.
fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = pipe {
            let _ = pipe.read_to_end(&mut bytes);
        }
        bytes
    })
}
