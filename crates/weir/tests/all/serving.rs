// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Can the process that the network speaks to hurt the one that limits? What happens to it, the loop makes
//! its ticks, limits stand, and it comes back.

use crate::metrics::{OPEN_METRICS, scrape, value};
use crate::world::server::free_address;
use crate::world::{Daemon, HEAVY, World};
use rustix::process::{
    Gid, Pid, Resource, Rlimit, Signal, Uid, getrlimit, kill_process, prlimit, setrlimit,
};
use rustix::thread::{set_thread_res_gid, set_thread_res_uid};
use std::fs;
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;

/// A weir process that limits and offers metrics.
struct Serving {
    world: World,
    daemon: Daemon,
    address: SocketAddr,
}

impl Serving {
    fn start(more: &[&str]) -> Serving {
        let world = World::new();
        let address = free_address();
        let offer = format!("--metrics={address}");
        let limit = ["run", "--limit", "--set-point", "300MiB/s", &offer];
        let daemon = world.start(&[&limit[..], more].concat());
        let serving = Serving {
            world,
            daemon,
            address,
        };
        serving.world.wait("limits", || serving.has_limits());
        serving
    }

    fn has_limits(&self) -> bool {
        HEAVY
            .iter()
            .all(|cgroup| self.world.cpu_max(cgroup) != "max 100000")
    }

    fn server(&self) -> Option<Pid> {
        let pid = self.daemon.pid();
        // Its parent is a thread that is not the first.
        let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?;
        let lists = threads
            .filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
        let all: String = lists.collect();
        Pid::from_raw(all.split_whitespace().next()?.parse().ok()?)
    }

    fn restarts(&self) -> Option<f64> {
        let (_, page) = scrape(self.address, OPEN_METRICS)?;
        value(&page, "weir_server_restarts_total")
    }

    /// Limits stand, and the loop turns now.
    fn goes_on(&self, what: &str) {
        for _ in 0..10 {
            self.world.wait_for_ticks(3);
            assert!(self.has_limits(), "after {what}");
        }
    }

    /// The same, and the server is there again, once more than it was.
    fn comes_back(&self, what: &str, restarts: f64) {
        self.goes_on(what);
        self.world
            .wait(what, || self.restarts().is_some_and(|now| now > restarts));
        assert!(self.has_limits(), "after {what}");
    }

    fn ends(self) {
        self.daemon.signal(Signal::TERM);
        let ended = self.daemon.end();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        for cgroup in HEAVY {
            assert_eq!(self.world.cpu_max(cgroup), "max 100000");
        }
    }
}

fn status_of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{}/status", pid.as_raw_nonzero())).unwrap_or_default()
}

#[test]
fn what_the_network_speaks_to_has_no_rights() {
    let serving = Serving::start(&[]);
    serving
        .world
        .wait("metrics", || serving.restarts() == Some(0.0));
    let status = status_of(serving.server().expect("a process of its own"));
    let has = |line: &str| status.lines().any(|of| of == line);
    if rustix::process::geteuid().is_root() {
        assert!(has("Uid:\t65534\t65534\t65534\t65534"), "{status}");
        assert!(has("Gid:\t65534\t65534\t65534\t65534"), "{status}");
    }
    for line in [
        "CapPrm:\t0000000000000000",
        "CapEff:\t0000000000000000",
        "NoNewPrivs:\t1",
        "Seccomp:\t2",
    ] {
        assert!(has(line), "no {line} in {status}");
    }
    let writer = Pid::from_raw(i32::try_from(serving.daemon.pid()).unwrap()).unwrap();
    let status = status_of(writer);
    assert!(
        status.contains("NoNewPrivs:\t1\n") && status.contains("Seccomp:\t2\n"),
        "{status}"
    );
    serving.ends();
}

#[test]
fn a_server_that_is_killed_aborts_hangs_or_has_no_memory_leaves_the_loop_and_limits() {
    let serving = Serving::start(&[]);
    serving
        .world
        .wait("metrics", || serving.restarts() == Some(0.0));
    for (restarts, signal) in [(0.0, Signal::KILL), (1.0, Signal::ABORT)] {
        kill_process(serving.server().unwrap(), signal).unwrap();
        serving.comes_back(&format!("{signal:?}"), restarts);
    }
    without_memory(&serving);
    let restarts = serving.restarts().unwrap();
    kill_process(serving.server().unwrap(), Signal::STOP).unwrap();
    serving.comes_back("it was stopped", restarts);
    // Also one that is stopped does not keep weir from its end.
    kill_process(serving.server().unwrap(), Signal::STOP).unwrap();
    serving.ends();
}

/// It gets no more memory from the kernel, and clients make it want some. Whether it dies of that is its own.
fn without_memory(serving: &Serving) {
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    let server = serving.server();
    // A thread of the same user does it: root may lack CAP_SYS_RESOURCE.
    let limited = thread::spawn(move || {
        if rustix::process::geteuid().is_root() {
            let (user, group) = (Uid::from_raw(65_534), Gid::from_raw(65_534));
            set_thread_res_gid(group, group, group)?;
            set_thread_res_uid(user, user, user)?;
        }
        prlimit(server, Resource::As, none)
    });
    limited.join().unwrap().expect("it may be limited further");
    let heads: Vec<_> = (0..32)
        .filter_map(|_| {
            let mut stream = TcpStream::connect(serving.address).ok()?;
            stream.write_all(&[b'x'; 8000]).ok()?;
            Some(stream)
        })
        .collect();
    serving.goes_on("a limit on its memory");
    drop(heads);
    // Gone already, if it died.
    let _ = server.map(|pid| kill_process(pid, Signal::KILL));
    serving.comes_back("a limit on its memory", 2.0);
}

#[test]
fn ten_thousand_connections_cost_no_tick_and_no_scrape() {
    let serving = Serving::start(&[]);
    serving
        .world
        .wait("metrics", || serving.restarts() == Some(0.0));
    let limits = getrlimit(Resource::Nofile);
    let most = Rlimit {
        current: limits.maximum,
        maximum: limits.maximum,
    };
    let _ = setrlimit(Resource::Nofile, most);
    let room = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let before = serving.world.seq().unwrap();
    let connections = usize::try_from(room.saturating_sub(1000).min(10_000)).unwrap();
    let mut idle = Vec::new();
    for number in 0..connections {
        let Ok(mut stream) = TcpStream::connect(serving.address) else {
            continue;
        };
        let _ = stream.write_all(&b"GET /metrics HTTP/1.1\r\n"[..number % 23]);
        idle.push(stream);
    }
    assert!(
        idle.len() > connections / 2,
        "{} of {connections}",
        idle.len()
    );
    for round in 0..20 {
        assert!(
            scrape(serving.address, OPEN_METRICS).is_some(),
            "scrape {round}"
        );
    }
    serving.world.wait_for_ticks(20);
    assert!(serving.has_limits() && serving.world.seq().unwrap() > before);
    assert_eq!(serving.restarts(), Some(0.0));
    drop(idle);
    serving.ends();
}

#[test]
fn metrics_with_a_token_are_for_those_that_have_it() {
    let token = tempfile::NamedTempFile::new().unwrap();
    fs::write(token.path(), "0123456789abcdef\n").unwrap();
    fs::set_permissions(token.path(), fs::Permissions::from_mode(0o600)).unwrap();
    let file = token.path().to_str().unwrap();
    let serving = Serving::start(&["--metrics-token-file", file]);
    let with = "*/*\r\nAuthorization: Bearer 0123456789abcdef";
    serving
        .world
        .wait("metrics", || scrape(serving.address, with).is_some());
    assert!(scrape(serving.address, "*/*").is_none());
    serving.ends();
}
