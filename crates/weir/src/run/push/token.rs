// SPDX-License-Identifier: Apache-2.0 OR MIT
//! What a server or a browser must know, from a file: never on the command line, which other users can read.

use anyhow::{Context, Result, bail};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use weir_figures::text;

const TOKEN_MAX_BYTES: u64 = 4096;
/// Rights of other users than the file's owner.
const OTHERS: u32 = 0o077;

/// The token in the file: one line of visible characters.
///
/// # Errors
/// It cannot be read, is no regular file, can be read by other users, or holds something else.
pub fn token(path: &Path) -> Result<String> {
    let shown = text::harmless(&path.to_string_lossy());
    let opened = weir_files::open_regular(path).and_then(|file| Ok((file.metadata()?, file)));
    let (metadata, file) = opened.with_context(|| format!("cannot read the token file {shown}"))?;
    if metadata.mode() & OTHERS != 0 {
        bail!("the token file {shown} is open to other users: `chmod 600 {shown}`");
    }
    let mut bytes = Vec::new();
    file.take(TOKEN_MAX_BYTES + 1)
        .read_to_end(&mut bytes)
        .with_context(|| format!("cannot read the token file {shown}"))?;
    let token = bytes.trim_ascii();
    let is_token = !token.is_empty() && token.iter().all(|byte| (0x20..0x7f).contains(byte));
    if bytes.len() as u64 > TOKEN_MAX_BYTES || !is_token {
        bail!(
            "the token file {shown} must hold one line of at most {TOKEN_MAX_BYTES} visible ASCII \
             characters"
        );
    }
    // Just seen to be ASCII.
    Ok(String::from_utf8_lossy(token).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::PermissionsExt;

    fn write_for_root(path: &Path, text: &[u8]) {
        std::fs::write(path, text).unwrap();
        set_permissions(path, Permissions::from_mode(0o600)).unwrap();
    }

    #[test]
    fn a_token_that_other_users_can_read_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        write_for_root(&path, b"secret\n");
        for (mode, is_taken) in [(0o600, true), (0o400, true), (0o640, false), (0o604, false)] {
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            let read = token(&path);
            assert_eq!(read.is_ok(), is_taken, "{mode:o}: {read:?}");
            if let Err(error) = read {
                let said = format!("{error:#}");
                assert!(
                    said.contains("chmod 600") && !said.contains("secret"),
                    "{said}"
                );
            }
        }
    }

    #[test]
    fn a_token_is_one_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let read = |text: &[u8]| {
            write_for_root(&path, text);
            token(&path)
        };
        assert_eq!(read(b"  abc:d e==\n").unwrap(), "abc:d e==");
        for wrong in [&b""[..], b"\n", b"a\nX-Evil: 1", b"\xff", &[b'a'; 5000]] {
            let error = read(wrong).expect_err("taken").to_string();
            assert!(error.contains("visible ASCII"), "{error}");
        }
        assert!(token(dir.path()).is_err());
        let pipe = dir.path().join("pipe");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(format!("{:#}", token(&pipe).unwrap_err()).contains("FIFO"));
    }
}
