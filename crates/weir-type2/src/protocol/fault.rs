// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Faults that are put into the protocol on purpose: the explorer must find each.

named! {
    /// A rule that is left out.
    Fault {
        /// CXL 3.1, 3.2.5.2: a snoop pushes the GO that was sent before it.
        SnoopPassesGo = "snoop-passes-go",
        /// After GO, a snoop waits until the data has come too.
        SnoopBeforeData = "snoop-before-data",
        /// `M2S Req` is in order for a line.
        ReadPassesForward = "read-passes-forward",
        /// A store asks the device for a line that the snoop filter has as shared.
        StoreSkipsSnoop = "store-skips-snoop",
        /// A line that a snoop took is marked bogus when it is pulled.
        BogusWrittenBack = "bogus-written-back",
        /// RdOwn invalidates the LLC.
        OwnerKeepsLlc = "owner-keeps-llc",
        /// What leaves the LLC leaves the cores.
        CoreKeepsLine = "core-keeps-line",
        /// A modified line of the DMC is written back before device memory is read for the host.
        NoWriteBack = "no-write-back",
        /// A request of the host flips a region to host bias.
        BiasStays = "bias-stays",
        /// A region is flushed from the host's caches before it flips to device bias.
        FlipWithoutFlush = "flip-without-flush",
        /// No push is under way while a region flips to device bias.
        PushDuringFlip = "push-during-flip",
        /// The home agent ends a WrInv with GO.
        GoForgotten = "go-forgotten",
    }
}

impl Fault {
    pub fn about(self) -> &'static str {
        match self {
            Fault::SnoopPassesGo => "a snoop may overtake the GO that the host sent before it",
            Fault::SnoopBeforeData => {
                "DCOH answers a snoop of a line that was granted but has not come yet"
            }
            Fault::ReadPassesForward => "a MemRd or MemInv may overtake a MemRdFwd before it",
            Fault::StoreSkipsSnoop => {
                "the home agent does not snoop for a store if the filter says shared"
            }
            Fault::BogusWrittenBack => {
                "an evicted line is written to memory although a snoop has taken it"
            }
            Fault::OwnerKeepsLlc => "RdOwn leaves a shared line in the LLC",
            Fault::CoreKeepsLine => "a request of the device leaves the line in the core's caches",
            Fault::NoWriteBack => {
                "DCOH reads device memory for the host without writing the DMC's line back"
            }
            Fault::BiasStays => "a request of the host leaves its region in device bias",
            Fault::FlipWithoutFlush => "a region flips to device bias without a flush before it",
            Fault::PushDuringFlip => "NC-P goes on while its region flips to device bias",
            Fault::GoForgotten => "the home agent does not send GO at the end of WrInv",
        }
    }
}
