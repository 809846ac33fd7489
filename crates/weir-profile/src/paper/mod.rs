// SPDX-License-Identifier: Apache-2.0 OR MIT
//! PathFinder's algorithms, as printed and mended (*PathFinder: a CXL.mem profiler*, sections 4.3 to 4.5 and
//! appendix A.3), and shares of a stall that counts alone give. They are yardsticks: each accuracy of weir's
//! own method is shown beside theirs.

pub mod analyzer;
pub mod estimator;
pub mod path_classes;
pub mod stall_share;
