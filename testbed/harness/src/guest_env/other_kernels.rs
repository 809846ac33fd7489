// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Other kernels than the environment's own, from other suites: the image, and the headers where they are to
//! be had. The guest loads no module but weir's, so an image is enough to boot; everything else is the
//! environment's.
//!
//! ```text
//! env-KEY/kernel-VERSION-KEY/
//!     vmlinuz
//!     release          as in `uname -r`
//!     headers/         empty; there if the headers lie in root/usr/src/linux-headers-RELEASE
//!     build/           what is built against it
//! ```

use crate::guest_env::lock;
use crate::guest_env::script::mirror;
use crate::guest_env::{Environment, output};
use anyhow::{Context, Result};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

#[derive(Clone, Copy, Debug, Hash)]
pub struct KernelSeries {
    /// The suite that has it.
    pub suite: &'static str,
    /// How its release begins; the newest one that does is taken.
    pub version: &'static str,
    /// Its headers are fetched too, if there are any.
    pub with_headers: bool,
}

/// The first that weir's scheduler can do with.
pub const FIRST: KernelSeries = KernelSeries {
    suite: "trixie-backports",
    version: "7.0",
    with_headers: true,
};

/// Newer than the environment's own.
pub const NEWER: KernelSeries = KernelSeries {
    suite: "trixie-backports",
    version: "7.3",
    with_headers: true,
};

/// The last that is too old for weir's scheduler.
pub const TOO_OLD: KernelSeries = KernelSeries {
    suite: "trixie-backports",
    version: "6.19",
    with_headers: false,
};

/// Its packager left sched_ext out; the driver does not build against it either.
pub const WITHOUT: KernelSeries = KernelSeries {
    suite: "trixie",
    version: "6.12",
    with_headers: false,
};

/// Fetches packages by name where mmdebstrap would install them, and installs nothing.
const FETCH: &str = r#"set -e
export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"
cd "$WEIR_INTO"
newest() {
    apt-cache pkgnames "linux-$1-$WEIR_VERSION." | grep -E '^linux-[a-z]+-[0-9.]+[^-]*-cloud-amd64$' | sort -V | tail -n 1
}
# Since 6.19 the image is in a package of its own.
package=$(newest binary)
[ -n "$package" ] || package=$(newest image)
[ -n "$package" ] || exit 0
release=${package#linux-*-}
apt-get -qq download "$package"
echo "$release" > release
headers=linux-headers-$release
if $WEIR_WITH_HEADERS && apt-cache pkgnames "$headers" | grep -Fqx "$headers"; then
    common=${release%-cloud-amd64}
    mkdir headers
    cd headers
    apt-get -qq download "$headers" "linux-headers-$common-common" "linux-kbuild-$common"
fi
"#;

/// Unpacks what was fetched. Of headers, `usr/lib/modules` stays out: that is how the tree's own kernel is
/// found.
const UNPACK: &str = r#"set -e
cd "$WEIR_INTO"
for package in *.deb; do
    dpkg-deb -x "$package" image
done
find image -name 'vmlinuz*' -type f -exec mv {} vmlinuz ';'
[ -e vmlinuz ]
if [ -d headers ]; then
    for package in headers/*.deb; do
        dpkg-deb --fsys-tarfile "$package" |
            tar -x -C "$WEIR_ROOT" --exclude=./usr/lib/modules --exclude=./usr/share
    done
    rm headers/*.deb
fi
rm -r image ./*.deb
mkdir build
"#;

impl Environment {
    /// This environment with another kernel, fetched if need be (15 MB, with headers 30); nothing if the
    /// suite has none of the series any more.
    ///
    /// # Errors
    /// No package source, disk full.
    pub fn with_kernel(
        &self,
        series: KernelSeries,
        say: &mut dyn FnMut(&str),
    ) -> Result<Option<Environment>> {
        let mut hasher = DefaultHasher::new();
        (series, FETCH, UNPACK).hash(&mut hasher);
        let name = format!("kernel-{}-{:016x}", series.version, hasher.finish());
        let dir = self.dir.join(&name);
        let _lock = lock::hold(&self.dir.join(format!("{name}.lock")))?;
        if !dir.exists() {
            say(&format!(
                "fetching Linux {} from {}",
                series.version, series.suite
            ));
            let stage = self.dir.join(format!("{name}-{}", std::process::id()));
            let fetched = fetch(&self.root(), series, &stage)
                .with_context(|| format!("cannot fetch Linux {}", series.version))?;
            if !fetched {
                return Ok(None);
            }
            std::fs::rename(&stage, &dir)?;
        }
        let release = std::fs::read_to_string(dir.join("release"))?;
        Ok(Some(Environment {
            kernel_release: release.trim().to_owned(),
            other_kernel: Some(dir),
            dir: self.dir.clone(),
        }))
    }
}

fn fetch(root: &Path, series: KernelSeries, into: &PathBuf) -> Result<bool> {
    std::fs::create_dir_all(into)?;
    output(
        Command::new("mmdebstrap")
            .args(["--quiet", "--variant=custom", "--format=null"])
            .arg("--components=main")
            // The same as in guest-packages: a mirror may be older than a suite's lists are valid.
            .arg("--aptopt=Acquire::Min-ValidTime \"31536000\"")
            .arg("--aptopt=Acquire::Retries \"3\"")
            .arg(format!("--customize-hook={FETCH}"))
            .env("WEIR_INTO", into)
            .env("WEIR_VERSION", series.version)
            .env("WEIR_WITH_HEADERS", series.with_headers.to_string())
            .args([series.suite, "/dev/null"])
            .arg(mirror()?),
    )?;
    if !into.join("release").exists() {
        std::fs::remove_dir_all(into)?;
        return Ok(false);
    }
    let mut unpack = Command::new("sh");
    unpack
        .args(["-c", UNPACK])
        .env("WEIR_INTO", into)
        .env("WEIR_ROOT", root);
    output(&mut unpack)?;
    Ok(true)
}
