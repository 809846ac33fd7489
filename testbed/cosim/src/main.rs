// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Co-simulation: the RTL of the access counters (`rtl/`), in its simulator, as a PCI device of a virtual
//! machine, counting what that machine's CPUs do to its CXL memory.
//!
//! ```text
//!  guest:  accesses to CXL memory        weir_cxl driver
//!               │                             │ readq, writel on BAR 0
//!  QEMU:   weir-device-model                   vfio-user-pci
//!               │ shared file (trace)         │ socket (vfio-user)
//!  here:        └────────────► device ◄───────┘
//!                                │ taps, bus
//!                    library: Verilated AccessCounters
//! ```
//!
//! In data order: [`shared`] → [`device`] ([`library`]) ← [`pci`]. It is ready when its socket is there, and
//! ends when QEMU does, on SIGINT and on SIGTERM.

mod device;
mod library;
mod pci;
mod shared;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use device::{Device, PendingRequest, Setup};
use library::Block;
use pci::Function;
use shared::TraceFile;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use vfio_user::Server;
use weir_ipc::CosimSummary;
use weir_ipc::access_trace::TraceLayout;

/// The simulated RTL of the access counters as a PCI device of a virtual machine.
///
/// Start it before QEMU; it is ready when its socket is there. QEMU takes the device with
/// -device '{"driver":"vfio-user-pci","socket":{"type":"unix","path":"SOCKET"}}' and the device model the
/// trace with trace=TRACE.
#[derive(Parser)]
#[command(name = "weir-cosim", version)]
struct Args {
    /// The simulated block: what rtl/build-model prints.
    #[arg(long)]
    library: PathBuf,
    /// The socket QEMU connects to; must not exist.
    #[arg(long)]
    socket: PathBuf,
    /// The shared file the device model puts accesses into; must not exist.
    #[arg(long)]
    trace: PathBuf,
    /// Rings of the trace: one for each vCPU.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=4096))]
    rings: u16,
    /// Accesses that each ring holds; a power of two.
    #[arg(long, default_value_t = 65_536)]
    ring_records: u32,
    /// Groups of the machine.
    #[arg(long)]
    groups: u32,
    /// Size of each.
    #[arg(long)]
    group_bytes: u64,
    /// Host-physical address of the first.
    #[arg(long)]
    base_bytes: u64,
    /// Queue entries above which the load is optimal, moderate and severe, and the hysteresis: how far it
    /// must fall below to be less again.
    #[arg(long, value_delimiter = ',', default_values_t = [2, 8, 16, 1])]
    devload_entries: Vec<u8>,
    /// Print a summary as JSON at the end.
    #[arg(long)]
    json: bool,
}

impl Args {
    fn setup(&self) -> Result<Setup> {
        let entries = &self.devload_entries;
        ensure!(
            entries.len() == 4,
            "--devload-entries: {} numbers, not 4",
            entries.len()
        );
        // Each is 16 bits of the register, in 1/256 entries.
        let thresholds = entries.iter().rev();
        Ok(Setup {
            group_count: self.groups,
            group_bytes: self.group_bytes,
            base_bytes: self.base_bytes,
            devload_thresholds: thresholds.fold(0, |all, n| all << 16 | u64::from(*n) << 8),
        })
    }
}

fn main() -> Result<()> {
    // Values are `warn`, or `info,vfio_user=debug`.
    let levels = std::env::var("RUST_LOG").ok().and_then(|l| l.parse().ok());
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    tracing_subscriber::registry()
        .with(to_stderr)
        .with(levels.unwrap_or_else(|| Targets::new().with_default(LevelFilter::WARN)))
        .init();
    let args = Args::parse();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let summary = run(&args, &stop)?;
    if args.json {
        println!("{}", serde_json::to_string(&summary)?);
    }
    Ok(())
}

fn run(args: &Args, stop: &AtomicBool) -> Result<CosimSummary> {
    let layout = TraceLayout {
        ring_count: args.rings.into(),
        ring_records: args.ring_records as usize,
    };
    ensure!(
        args.ring_records.is_power_of_two() && args.ring_records <= 1 << 24,
        "--ring-records {}: a power of two up to {}",
        args.ring_records,
        1 << 24
    );
    let setup = args.setup()?;
    let block = Block::load(&args.library)?;
    let file = TraceFile::create(&args.trace, layout)?;
    let device = Device::new(block, file.trace()?, &setup)
        .with_context(|| args.library.display().to_string())?;
    // Last: a program that sees the socket can use the rest.
    let (listener, _socket) = listen(&args.socket)?;
    device.serve(&serve(listener), stop)
}

/// A socket that appears at `path` only when it listens: a program that sees it can connect.
fn listen(path: &Path) -> Result<(UnixListener, SocketFile<'_>)> {
    let mut early = path.as_os_str().to_owned();
    early.push(format!(".{}", std::process::id()));
    let early = Path::new(&early);
    let cannot = || format!("cannot listen on {}", early.display());
    let listener = UnixListener::bind(early).with_context(cannot)?;
    let _early = SocketFile(early);
    // Not a rename: that would replace the socket of another program.
    std::fs::hard_link(early, path).with_context(|| {
        format!(
            "cannot serve on {}: if it is left from a weir-cosim that was killed, remove it",
            path.display()
        )
    })?;
    Ok((listener, SocketFile(path)))
}

/// Serve vfio-user in a thread; its requests to the device come out here, until QEMU has gone.
fn serve(listener: UnixListener) -> Receiver<PendingRequest> {
    let server = Server::from_owned_fd(listener.into(), false, pci::irqs(), pci::regions());
    let (device, requests) = channel();
    std::thread::spawn(move || {
        let mut function = Function::new(device);
        if let Err(why) = server.run(&mut function) {
            tracing::error!("QEMU is gone: {why}");
        }
    });
    requests
}

/// Removes a socket at its end, also when the thread that serves it does not end.
struct SocketFile<'a>(&'a Path);

impl Drop for SocketFile<'_> {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(self.0);
    }
}
