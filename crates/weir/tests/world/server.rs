// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Real servers, each with its data in a folder of its own and on ports of its own. They are programs
//! that `servers.sh` unpacked, or that are installed; where there are none, a test says so and ends.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);
/// Somebody else may take a port between our looking and the server's.
const TRIES: usize = 5;

/// Which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Scrapes this address.
    Prometheus {
        target_port: u16,
    },
    VictoriaMetrics,
    InfluxDb,
}

pub struct Server {
    pub port: u16,
    child: Child,
    dir: tempfile::TempDir,
}

/// A port that is free just now.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
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

    fn command(self, program: &Path, dir: &Path, port: u16) -> Command {
        let mut command = Command::new(program);
        let data = dir.join("data").display().to_string();
        match self {
            Kind::Prometheus { target_port } => {
                let config = format!(
                    "global: {{scrape_interval: 300ms, scrape_timeout: 300ms}}\n\
                     scrape_configs:\n- job_name: weir\n  static_configs:\n  \
                     - targets: ['127.0.0.1:{target_port}']\n"
                );
                fs::write(dir.join("prometheus.yml"), config).unwrap();
                command
                    .arg(format!("--config.file={}/prometheus.yml", dir.display()))
                    .arg(format!("--storage.tsdb.path={data}"))
                    .arg(format!("--web.listen-address=127.0.0.1:{port}"));
            }
            Kind::VictoriaMetrics => {
                command
                    .arg(format!("-storageDataPath={data}"))
                    .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
                    // Of the machine's memory and disk it may have little.
                    .args([
                        "-memory.allowedBytes=256MB",
                        "-storage.minFreeDiskSpaceBytes=1",
                    ]);
            }
            Kind::InfluxDb => {
                let config = format!(
                    "reporting-disabled = true\nbind-address = \"127.0.0.1:{}\"\n\
                     [meta]\ndir = \"{data}/meta\"\n\
                     [data]\ndir = \"{data}/data\"\nwal-dir = \"{data}/wal\"\n\
                     [monitor]\nstore-enabled = false\n\
                     [http]\nbind-address = \"127.0.0.1:{port}\"\nlog-enabled = false\n",
                    free_port()
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
        let program = program(kind)?;
        for _ in 0..TRIES {
            if let Some(server) = Server::try_start(kind, &program) {
                return Some(server);
            }
        }
        panic!("{} did not start in {TRIES} tries", program.display());
    }

    fn try_start(kind: Kind, program: &Path) -> Option<Server> {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let port = free_port();
        let child = kind
            .command(program, dir.path(), port)
            .env("HOME", dir.path())
            .stdin(Stdio::null())
            .stdout(fs::File::create(&log).unwrap())
            .stderr(fs::File::options().append(true).open(&log).unwrap())
            .spawn()
            .unwrap();
        let mut server = Server { port, child, dir };
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if server.child.try_wait().unwrap().is_some() {
                break;
            }
            if server.get(kind.health(), &[]).is_some() {
                return Some(server);
            }
            thread::sleep(Duration::from_millis(50));
        }
        eprintln!("{}", server.log());
        None
    }

    /// What it says of itself.
    pub fn log(&self) -> String {
        let bytes = fs::read(self.dir.path().join("log")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// The answer, if there is a good one.
    pub fn get(&self, path: &str, query: &[(&str, &str)]) -> Option<String> {
        let agent = agent();
        let request = agent.get(format!("http://127.0.0.1:{}{path}", self.port));
        let pairs = query.iter().copied();
        let mut answer = request.query_pairs(pairs).call().ok()?;
        answer.body_mut().read_to_string().ok()
    }

    pub fn post(&self, path: &str, query: &[(&str, &str)]) -> Option<String> {
        let agent = agent();
        let request = agent.post(format!("http://127.0.0.1:{}{path}", self.port));
        let mut answer = request.query_pairs(query.iter().copied()).send("").ok()?;
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
