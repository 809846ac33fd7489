// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The protocol in time. Latency is a sum of named stages; a profile says how long each takes.
//!
//! ```text
//!  profile ─► machine ─► microbenchmark ─┬─► comparison   (V-A to V-C)
//!  (stages)   (caches,   (bursts of      ├─► transfer     (V-D: CXL, MMIO, DMA, RDMA)
//!              queues)    accesses)      └─► offload      (Table IV)
//! ```

mod line_cache;
mod machine;
mod microbenchmark;
mod offload;
mod profile;
mod trace;
mod transfer;

pub use line_cache::{CachedLine, LINE_BYTES, LineCache};
pub use machine::{Finished, MachineCounts, Type2Machine};
pub use microbenchmark::{
    Burst, DevicePlace, HostAccesses, device_burst, host_burst, latency, remote_burst,
};
pub use offload::{OffloadTimes, PageLines, lines_into_llc, offload_times};
pub use profile::{
    CacheSizes, OffloadFigures, Paces, StageFigure, StageOrigin, Type2Profile, Type2ProfileError,
};
pub use trace::{TimedEvent, timed_chart};
pub use transfer::{TransferWay, device_to_host_ns, host_to_device_ns};
