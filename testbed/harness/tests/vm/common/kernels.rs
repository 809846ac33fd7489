// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The same guest with another kernel.

use super::{Bench, skip};
use anyhow::{Context, Result};
use weir_testbed::guest_env::kernel_modules::{self, Driver};
use weir_testbed::guest_env::other_kernels::KernelSeries;

impl Bench {
    /// The same with another kernel; nothing, said aloud, where that is not to be had or cannot be fetched.
    /// The driver comes along where there are headers.
    ///
    /// # Errors
    /// The driver does not build against it.
    pub fn with_kernel(&self, test: &str, series: KernelSeries) -> Result<Option<Bench>> {
        let say = &mut |line: &str| println!("{line}");
        // A package source that fails for a moment is no fault of weir's.
        let env = match self.env.with_kernel(series, say) {
            Ok(Some(env)) => env,
            Ok(None) => return skip(test, &format!("no Linux {} to be had", series.version)),
            Err(why) => return skip(test, &format!("{why:#}")),
        };
        let driver = match env.headers() {
            Some(_) => Some(kernel_modules::build(&env, say)?),
            None => None,
        };
        Ok(Some(Bench {
            driver,
            weir: self.weir.clone(),
            env,
        }))
    }

    /// The counter driver of this checkout.
    ///
    /// # Errors
    /// There are no headers of this kernel.
    pub fn driver(&self) -> Result<&Driver> {
        let lacking = || format!("no driver for Linux {}", self.env.kernel_release);
        self.driver.as_ref().with_context(lacking)
    }
}
