// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Exit codes, and the one place where errors are printed.

use crate::cli::failure::{Failed, TROUBLE};
use crate::cli::log_format::LogFormat;
use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;
use tracing::Level;
use weir_figures::text;

/// How a command ended that could print its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// The command did what its arguments say.
    Done,
    /// It is done, and the operator should read the result.
    Finding,
    /// A part of it did not work, and the output says which.
    Trouble,
    /// It is done, and the command that it started ended with this code.
    OfCommand(u8),
}

/// The process's exit code, after an error was printed with the program's name: 0 done, 1 finding, 2
/// trouble, or one of `run::service::failure`. A reader that closes the pipe is no trouble:
/// `weir top --once | head -1` got its line.
pub fn code(program: &str, result: anyhow::Result<Exit>) -> ExitCode {
    match result {
        Ok(Exit::Done) => ExitCode::SUCCESS,
        Ok(Exit::Finding) => ExitCode::from(1),
        Ok(Exit::Trouble) => ExitCode::from(2),
        Ok(Exit::OfCommand(code)) => ExitCode::from(code),
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let failed: Option<&Failed> = error.downcast_ref();
            let format = failed.map_or(LogFormat::Auto, |failed| failed.format);
            let code = failed.map_or(TROUBLE, |failed| failed.code);
            // The chain may quote names from the outside.
            let links: Vec<String> = error
                .chain()
                .map(|link| text::harmless(&link.to_string()))
                .collect();
            // If stderr is closed too, the message is lost.
            let line = format!("{program}: {}", links.join(": "));
            let _ = writeln!(io::stderr(), "{}", format.line(Level::ERROR, &line));
            ExitCode::from(code)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|link| {
        let io = link.downcast_ref::<io::Error>().map(io::Error::kind);
        let json = link
            .downcast_ref::<serde_json::Error>()
            .and_then(serde_json::Error::io_error_kind);
        io.or(json) == Some(ErrorKind::BrokenPipe)
    })
}

/// Prints a value as indented JSON.
///
/// # Errors
/// Stdout cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, value)?;
    out.write_all(b"\n")?;
    out.flush()?;
    Ok(())
}

/// Prints text to stdout.
///
/// # Errors
/// Stdout cannot be written.
pub fn print(text: &str) -> anyhow::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}
