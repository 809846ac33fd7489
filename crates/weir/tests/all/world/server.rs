// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real servers, each with its data in a folder of its own and on ports of its own. They are programs
//! that `servers.sh` unpacked, or that are installed; where there are none, a test says so and ends.

use super::wait;
use std::env;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Prometheus { target: SocketAddr },
    VictoriaMetrics,
    InfluxDb,
}

pub struct Server {
    pub address: SocketAddr,
    child: Child,
    dir: tempfile::TempDir,
}

/// An address that stays free until it is taken: on this machine only, and no other process has one of that
/// network. If another process has the port on all addresses, the next one is taken.
pub fn free_address() -> SocketAddr {
    static NEXT: AtomicU16 = AtomicU16::new(20_000);
    let [_, a, b, c] = process::id().to_be_bytes();
    let host = Ipv4Addr::new(127, 64 + a, b, c);
    loop {
        let address = SocketAddr::from((host, NEXT.fetch_add(1, Ordering::Relaxed)));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

impl Kind {
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Prometheus { .. } => ("prometheus", "prometheus"),
            Kind::VictoriaMetrics => ("victoria-metrics", "victoria-metrics"),
            Kind::InfluxDb => ("influxdb", "influxd"),
        }
    }

    fn health(self) -> &'static str {
        match self {
            Kind::Prometheus { .. } => "/-/ready",
            Kind::VictoriaMetrics => "/health",
            Kind::InfluxDb => "/ping",
        }
    }

    fn command(self, program: &Path, dir: &Path, address: SocketAddr) -> Command {
        let mut command = Command::new(program);
        let data = dir.join("data").display().to_string();
        match self {
            Kind::Prometheus { target } => {
                let config = format!(
                    "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\n\
                     rule_files: ['{}/rules/*.yml']\n\
                     scrape_configs:\n- job_name: weir\n  static_configs:\n  \
                     - targets: ['{target}']\n",
                    dir.display()
                );
                fs::write(dir.join("prometheus.yml"), config).unwrap();
                command
                    .arg(format!("--config.file={}/prometheus.yml", dir.display()))
                    .arg(format!("--storage.tsdb.path={data}"))
                    // Recordings of the simulator lie in the past.
                    .arg("--storage.tsdb.retention.time=100y")
                    .arg("--web.enable-remote-write-receiver")
                    .arg(format!("--web.listen-address={address}"));
            }
            Kind::VictoriaMetrics => {
                command
                    .arg(format!("-storageDataPath={data}"))
                    .arg(format!("-httpListenAddr={address}"))
                    // It may have little of the machine's memory and disk.
                    .args([
                        "-memory.allowedBytes=256MB",
                        "-storage.minFreeDiskSpaceBytes=1",
                        "-retentionPeriod=100y",
                    ]);
            }
            Kind::InfluxDb => {
                let config = format!(
                    "reporting-disabled = true\nbind-address = \"{}\"\n\
                     [meta]\ndir = \"{data}/meta\"\n\
                     [data]\ndir = \"{data}/data\"\nwal-dir = \"{data}/wal\"\n\
                     [monitor]\nstore-enabled = false\n\
                     [http]\nbind-address = \"{address}\"\nlog-enabled = false\n",
                    free_address()
                );
                let path = dir.join("influxdb.conf");
                fs::write(&path, config).unwrap();
                command.arg("run").arg("-config").arg(path);
            }
        }
        command
    }
}

impl Server {
    /// Starts it, or says why this test is left out.
    pub fn start(kind: Kind) -> Option<Server> {
        Server::start_with(kind, |_| ())
    }

    /// The same, in a folder that was prepared: `data` has what it stores, `rules` its rules.
    pub fn start_with(kind: Kind, prepare: impl FnOnce(&Path)) -> Option<Server> {
        let program = program(kind)?;
        let dir = tempfile::tempdir().unwrap();
        prepare(dir.path());
        let log = dir.path().join("log");
        let address = free_address();
        let child = kind
            .command(&program, dir.path(), address)
            .env("HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log).unwrap())
            .stderr(fs::File::options().append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let mut server = Server {
            address,
            child,
            dir,
        };
        wait("the server answers", &mut || {
            let ended = server.child.try_wait().unwrap();
            assert!(ended.is_none(), "{} ended: {ended:?}", program.display());
            server.get(kind.health(), &[]).is_some()
        });
        Some(server)
    }

    /// What it says of itself.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The answer, if there is a good one.
    pub fn get(&self, path: &str, query: &[(&str, &str)]) -> Option<String> {
        let agent = agent();
        let request = agent.get(format!("http://{}{path}", self.address));
        let pairs = query.iter().copied();
        let mut answer = request.query_pairs(pairs).call().ok()?;
        answer.body_mut().read_to_string().ok()
    }

    pub fn post(&self, path: &str, query: &[(&str, &str)]) -> Option<String> {
        self.send(path, query, "")
    }

    pub fn send(&self, path: &str, query: &[(&str, &str)], body: &str) -> Option<String> {
        let agent = agent();
        let request = agent.post(format!("http://{}{path}", self.address));
        let mut answer = request.query_pairs(query.iter().copied()).send(body).ok()?;
        answer.body_mut().read_to_string().ok()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("{}", self.log());
        }
    }
}

fn agent() -> ureq::Agent {
    let config = ureq::Agent::config_builder()
        .proxy(None)
        .timeout_global(Some(Duration::from_secs(10)));
    config.build().new_agent()
}

fn program(kind: Kind) -> Option<PathBuf> {
    let (package, name) = kind.names();
    program_of(package, name)
}

/// A program of one of the servers' packages, or nothing, and why.
pub fn program_of(package: &str, name: &str) -> Option<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| Some(PathBuf::from(env::var_os("HOME")?).join(".cache")));
    let unpacked = cache.map(|dir| {
        dir.join("weir/servers")
            .join(package)
            .join("usr/bin")
            .join(name)
    });
    let path = env::var_os("PATH").unwrap_or_default();
    let installed = env::split_paths(&path).map(|dir| dir.join(name));
    let found = unpacked
        .into_iter()
        .chain(installed)
        .find(|program| program.is_file());
    if found.is_none() {
        let why = format!("{name} is not here (crates/weir/tests/servers.sh fetches it)");
        assert!(
            env::var_os("WEIR_SERVER_TESTS").is_none_or(|value| value != "required"),
            "{why}"
        );
        eprintln!("SKIP {name}: {why}");
    }
    found
}
