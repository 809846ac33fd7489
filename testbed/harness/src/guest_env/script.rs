// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The script `guest-packages`, which makes the environment.

use crate::guest_env::output;
use anyhow::{Context, Result, bail};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(super) fn command() -> Command {
    Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/guest-packages"))
}

/// Runs it: an absolute path is the environment's folder, each other line is said as it comes.
pub(super) fn made(script: &mut Command, say: &mut dyn FnMut(&str)) -> Result<PathBuf> {
    let piped = script.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = piped.spawn();
    let mut child = started.with_context(|| format!("cannot start {script:?}"))?;
    let mut folder = None;
    let lines = child.stdout.take().map(BufReader::new);
    for line in lines.into_iter().flat_map(BufRead::lines) {
        let line = line?;
        if Path::new(&line).is_absolute() {
            folder = Some(PathBuf::from(line))
        } else {
            say(&line)
        }
    }
    // What it writes there is some thirty lines, less than a pipe holds.
    let out = child.wait_with_output()?;
    let said = String::from_utf8_lossy(&out.stderr);
    match folder.filter(|_| out.status.success()) {
        Some(folder) => Ok(folder),
        None => bail!("no guest environment ({}): {}", out.status, said.trim()),
    }
}

pub(super) fn mirror() -> Result<String> {
    Ok(output(command().arg("mirror"))?.trim().to_owned())
}

/// Pack a folder as an initramfs archive. The same files make the same archive, to the byte.
///
/// # Errors
/// `cpio` missing or failing.
pub fn pack(stage: &Path, to: &Path) -> Result<()> {
    output(command().arg("pack").arg(stage).arg(to)).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest_env::lock;
    use std::os::unix::fs::PermissionsExt;

    /// Stands for mmdebstrap: a tree with the programs, noted in `calls`.
    const TREE: &str = r#"
        for root; do case "$root" in */root) break ;; esac; done
        echo "$root" >> "$WORK/calls"
        mkdir -p "$root/usr/bin" "$root/usr/sbin" "$root/lib/x86_64-linux-gnu" "$root/boot"
        for file in usr/bin/{fio,stress-ng,numactl,migratepages,ps,chrt,busybox,qemu-system-x86_64} \
            usr/sbin/bpftool boot/vmlinuz-7.2 lib/x86_64-linux-gnu/{libc.so.6,libgcc_s.so.1}; do
            echo "$file" > "$root/$file"
        done
        printf 'fio 1 aa\nps 2 bb\n' > "$root.packages"
    "#;

    /// The script with programs in place of those that it calls, and a cache of its own.
    struct Faked {
        work: tempfile::TempDir,
    }

    impl Faked {
        fn new(mmdebstrap: &str) -> Self {
            let faked = Faked {
                work: tempfile::tempdir().unwrap(),
            };
            faked.program("mmdebstrap", mmdebstrap);
            faked.program("id", "echo 0");
            let listing = r"printf '\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x1)\n'";
            faked.program("chroot", listing);
            faked
        }

        fn program(&self, name: &str, body: &str) {
            let path = self.work.path().join(name);
            std::fs::write(&path, format!("#!/bin/bash\nset -eu\n{body}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        }

        /// A copy of the script has a lock file of its own beside it.
        fn lock(&self, text: &str) {
            let lock = self.work.path().join("guest-packages.lock");
            std::fs::write(lock, text).unwrap();
        }

        fn script(&self) -> Command {
            let copy = self.work.path().join("guest-packages");
            if !copy.exists() {
                std::fs::copy(command().get_program(), &copy).unwrap();
            }
            let mut script = Command::new(copy);
            let path = std::env::var("PATH").unwrap();
            script
                .env("PATH", format!("{}:{path}", self.work.path().display()))
                .env("WORK", self.work.path())
                .env("XDG_CACHE_HOME", self.work.path());
            script
        }

        fn made(&self) -> (Result<PathBuf>, Vec<String>) {
            let mut said = Vec::new();
            let dir = made(&mut self.script(), &mut |line| said.push(line.to_owned()));
            (dir, said)
        }

        fn calls(&self) -> usize {
            let calls = std::fs::read_to_string(self.work.path().join("calls"));
            calls.unwrap_or_default().lines().count()
        }
    }

    #[test]
    fn two_at_once_make_it_once() {
        let faked = Faked::new(TREE);
        let (first, second) = std::thread::scope(|scope| {
            let other = scope.spawn(|| faked.made().0.unwrap());
            (faked.made().0.unwrap(), other.join().unwrap())
        });
        assert_eq!((&first, faked.calls()), (&second, 1));
        for file in ["complete", "base.cpio", "build", "root/usr/bin/fio"] {
            assert!(first.join(file).exists(), "{file}");
        }
        let listed = std::fs::read_to_string(first.join("base.files")).unwrap();
        assert!(listed.contains("usr/bin/chrt\nlib/x86_64-linux-gnu/libc.so.6\n"));
        let archive = std::fs::read(first.join("base.cpio")).unwrap();
        let archive = String::from_utf8_lossy(&archive);
        for part in [
            "libgcc_s.so.1",
            "sbin/bpftool",
            "\nweir-agent\npoweroff -f\n",
        ] {
            assert!(archive.contains(part), "{part}");
        }
        let (again, said) = faked.made();
        assert_eq!((again.unwrap(), said.len(), faked.calls()), (first, 0, 1));
    }

    #[test]
    fn what_failed_is_made_anew() {
        let faked = Faked::new("echo E: no such suite; exit 100");
        let (failed, said) = faked.made();
        let why = format!("{:#}", failed.unwrap_err());
        assert!(
            why.contains("mmdebstrap failed (100): E: no such suite"),
            "{why}"
        );
        assert!(said[0].starts_with("fetching"), "{said:?}");
        faked.program("mmdebstrap", TREE);
        assert!(faked.made().0.unwrap().join("complete").exists());
        // A tree without one of the programs.
        let faked = Faked::new(&format!("{TREE}\nrm \"$root/usr/bin/fio\""));
        let why = format!("{:#}", faked.made().0.unwrap_err());
        assert!(why.contains("usr/bin/fio"), "{why}");
        faked.program("mmdebstrap", TREE);
        assert!(faked.made().0.is_ok());
        let user = Faked::new(TREE);
        user.program("id", "echo 1000");
        let why = format!("{:#}", user.made().0.unwrap_err());
        assert!(why.contains("needs root") && user.calls() == 0, "{why}");
    }

    #[test]
    fn what_boots_is_what_was_fetched() {
        let faked = Faked::new(TREE);
        let dir = faked.made().0.unwrap();
        for file in [
            "base.cpio",
            "root/boot/vmlinuz-7.2",
            "root/usr/bin/qemu-system-x86_64",
            "root/lib/x86_64-linux-gnu/libc.so.6",
        ] {
            let before = faked.calls();
            std::fs::write(dir.join(file), "something else").unwrap();
            let (again, said) = faked.made();
            assert_eq!((again.unwrap(), faked.calls()), (dir.clone(), before + 1));
            assert!(
                said[0].contains("has changed since it was made"),
                "{file}: {said:?}"
            );
        }
        // Where others may write, they may write sums too.
        for folder in [&dir, &faked.work.path().join("weir")] {
            let rights = |mode| std::fs::Permissions::from_mode(mode);
            std::fs::set_permissions(folder, rights(0o777)).unwrap();
            let why = format!("{:#}", faked.made().0.unwrap_err());
            assert!(why.contains("others may write"), "{why}");
            std::fs::set_permissions(folder, rights(0o755)).unwrap();
        }
        assert!(faked.made().0.is_ok());
    }

    #[test]
    fn packages_are_compared_with_the_lock_file() {
        let faked = Faked::new(TREE);
        faked.lock("fio 1 aa\nps 2 cc\n");
        let why = format!("{:#}", faked.made().0.unwrap_err());
        assert!(
            why.contains("refused: not the bytes") && why.contains("ps 2"),
            "{why}"
        );
        // A mirror with another version of it stops no work.
        faked.lock("fio 1 aa\nps 1 cc\n");
        let (made, said) = faked.made();
        assert!(
            said.iter()
                .any(|l| l.starts_with("1 of 2 guest packages are")),
            "{said:?}"
        );
        let kept = made.unwrap().join("packages");
        assert_eq!(
            std::fs::read_to_string(kept).unwrap(),
            "fio 1 aa\nps 2 bb\n"
        );
    }

    #[test]
    fn the_fetch_ends_with_the_script() {
        // In Perl as mmdebstrap is: bash may look at a signal only after what it waits for.
        let faked = Faked::new(
            r#"exec perl -e '
                sub touch { open(my $file, ">", "$ENV{WORK}/$_[0]") or die }
                touch("began"); sleep 60; touch("went-on")'"#,
        );
        let began = faked.work.path().join("began");
        output(Command::new("mkfifo").arg(&began)).unwrap();
        let mut script = faked.script().stdout(Stdio::null()).spawn().unwrap();
        // Opening it waits for the other end.
        std::fs::read(&began).unwrap();
        script.kill().unwrap();
        script.wait().unwrap();
        let entries = std::fs::read_dir(faked.work.path().join("weir")).unwrap();
        let mut paths = entries.map(|e| e.unwrap().path());
        let lock = paths.find(|p| p.extension().is_some_and(|e| e == "lock"));
        let _free = lock::hold(&lock.unwrap()).unwrap();
        assert!(!faked.work.path().join("went-on").exists());
    }
}
