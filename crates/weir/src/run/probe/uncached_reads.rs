// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Lines of a device, so and so many, for events that are to be compared with what they should count.

use super::placement::{self, LOADS};
use weir_bench::cpu;
use weir_core::Missing;
use weir_linux::Roots;

/// About 4 MiB: some tens of milliseconds, and far more than what others do in that time on an idle device.
const BATCHES: u32 = 228;

/// Takes memory of a node and pins the calling thread next to it. Each call of what it gives reads lines that
/// are in no cache, and says how many.
///
/// # Errors
/// There is no memory, or no CPU.
pub fn reads(roots: &Roots, node: u32) -> Result<Box<dyn FnMut() -> u64>, Missing> {
    let allowed = cpu::allowed().map_err(placement::refused)?;
    let (mut ring, place) = placement::take(roots, &[node], &allowed)?;
    cpu::pin(place.cpu).map_err(placement::refused)?;
    // They were just written: once around, and all of them are given up.
    for _ in 0..=ring.lines() / LOADS as usize {
        ring.flushed_batch_ns();
    }
    Ok(Box::new(move || {
        for _ in 0..BATCHES {
            ring.flushed_batch_ns();
        }
        u64::from(BATCHES * LOADS)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_it_reads_or_why_it_cannot() {
        // On a thread of its own, because it stays pinned.
        let thread = std::thread::spawn(|| {
            let far = reads(&Roots::default(), 4000).err().map(|e| e.to_string());
            assert!(far.is_some_and(|why| why.contains("no node")));
            match reads(&Roots::default(), 0) {
                Ok(mut work) => assert_eq!(work(), 65_664),
                Err(why) => eprintln!("SKIP reads of node 0: {why}"),
            }
        });
        thread.join().unwrap();
    }
}
