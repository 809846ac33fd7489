// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The co-simulated device of a guest: the library with the simulated RTL, and the program that serves it
//! to QEMU (`testbed/cosim`).

use crate::vm::beside;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};
use weir_ipc::CosimSummary;
use weir_scenario::testbed::TestbedMachine;

/// Memory channels of the simulated block.
const CHANNELS: usize = 2;
/// `rtl/build-model` says with this status that a program is lacking.
const LACKING: i32 = 3;
/// The server comes up in milliseconds.
const PATIENCE: Duration = Duration::from_secs(60);

/// The simulated RTL for a machine, or what is lacking to build it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Library {
    Built(PathBuf),
    Lacking(String),
}

/// The library for a machine: kept by what it is made of, built if need be (half a minute).
///
/// # Errors
/// It does not build, or the machine cannot be had.
pub fn library(machine: &TestbedMachine) -> Result<Library> {
    machine.validate()?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rtl/build-model");
    let group_log2 = (machine.groups_mib[0] << 20).trailing_zeros();
    let mut command = Command::new(&script);
    let out = command
        .args([machine.groups_mib.len(), CHANNELS].map(|n| n.to_string()))
        .arg(group_log2.to_string())
        .output()
        .with_context(|| format!("cannot start {}", script.display()))?;
    let said = String::from_utf8_lossy(&out.stderr).trim().to_string();
    match out.status.code() {
        Some(0) => Ok(Library::Built(
            String::from_utf8(out.stdout)?.trim_end().into(),
        )),
        Some(LACKING) => Ok(Library::Lacking(said)),
        _ => bail!("{} failed ({}):\n{said}", script.display(), out.status),
    }
}

/// A running server; killed when dropped.
pub struct Cosim {
    child: Child,
    socket: PathBuf,
    trace: PathBuf,
    log: PathBuf,
}

impl Cosim {
    /// Start the server of a machine's simulated RTL and wait until QEMU can connect. `name` is unique
    /// on the host, `dir` is the guest's.
    ///
    /// # Errors
    /// A program is lacking, or the server does not come up: with what it said.
    pub fn start(machine: &TestbedMachine, name: &str, dir: &Path) -> Result<Self> {
        let library = match library(machine)? {
            Library::Built(library) => library,
            Library::Lacking(what) => bail!("no simulated RTL: {what}"),
        };
        let socket = dir.join("cosim.sock");
        let trace = Path::new("/dev/shm").join(format!("{name}.trace"));
        let log = dir.join("cosim.log");
        let mut command = Command::new(beside("weir-cosim")?);
        command.arg("--json").arg("--library").arg(library);
        command.arg("--socket").arg(&socket);
        command.arg("--trace").arg(&trace);
        let numbers = [
            ("--rings", machine.cpu_count as u64),
            ("--ring-records", machine.cosim_ring_records),
            ("--groups", machine.groups_mib.len() as u64),
            ("--group-bytes", machine.groups_mib[0] << 20),
            ("--base-bytes", machine.device_base_bytes()),
        ];
        for (option, number) in numbers {
            command.args([option, &number.to_string()]);
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let child = command.stderr(File::create(&log)?).spawn();
        let mut cosim = Cosim {
            child: child.context("cannot start weir-cosim")?,
            socket,
            trace,
            log,
        };
        cosim.wait_for_socket()?;
        Ok(cosim)
    }

    fn wait_for_socket(&mut self) -> Result<()> {
        let end = Instant::now() + PATIENCE;
        while !self.socket.exists() {
            if let Some(status) = self.child.try_wait()? {
                bail!("weir-cosim ended at once ({status}): {}", self.said());
            }
            if Instant::now() > end {
                bail!("weir-cosim does not come up: {}", self.said());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub(crate) fn device_arguments(&self) -> [String; 2] {
        let socket = serde_json::json!({"type": "unix", "path": self.socket});
        let device = serde_json::json!({"driver": "vfio-user-pci", "socket": socket});
        ["-device".into(), device.to_string()]
    }

    pub(crate) fn trace(&self) -> &Path {
        &self.trace
    }

    /// The words of the access trace as they are now.
    ///
    /// # Errors
    /// The file is gone.
    pub fn trace_words(&self) -> Result<Vec<AtomicU64>> {
        let bytes = std::fs::read(&self.trace)
            .with_context(|| format!("cannot read {}", self.trace.display()))?;
        let (words, _) = bytes.as_chunks();
        Ok(words
            .iter()
            .map(|word| AtomicU64::new(u64::from_le_bytes(*word)))
            .collect())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What the server complained of so far.
    pub fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Kills the server unexpectedly.
    ///
    /// # Errors
    /// It cannot be waited for.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// What the server did; it ends when its guest has.
    pub(crate) fn finish(mut self) -> Result<CosimSummary> {
        let mut text = String::new();
        let mut out = self.child.stdout.take().context("its output is taken")?;
        out.read_to_string(&mut text)?;
        let status = self.child.wait()?;
        if !status.success() {
            bail!("weir-cosim ended with {status}: {}", self.said());
        }
        serde_json::from_str(&text).with_context(|| format!("weir-cosim said no summary: '{text}'"))
    }
}

impl Drop for Cosim {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // What a server that was killed leaves.
        let _ = std::fs::remove_file(&self.trace);
        let _ = std::fs::remove_file(&self.socket);
    }
}
