// SPDX-License-Identifier: Apache-2.0 OR MIT
//! The log on stderr. Its lines leave through a thread of their own, for the same reason as JSON lines do.

use crate::cli::log_format::{LogFormat, json, priority};
use crate::run::lossy::json_lines::Outlet;
use anyhow::{Context, Result, anyhow};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::reload::{self, Handle};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt as lines};

pub struct Log {
    outlet: Outlet,
    filter: Handle<Targets, Registry>,
}

/// What a filter of the log says.
///
/// # Errors
/// It is none; the text says what is allowed.
pub fn targets(filter: &str) -> Result<Targets, String> {
    filter.parse().map_err(|error| {
        format!("log is {filter:?}: {error}; allowed are error, warn, info, debug, trace, or a filter such as weir_linux=debug")
    })
}

impl Log {
    /// Starts it, once in a process.
    ///
    /// # Errors
    /// The filter makes no sense, or no thread can be had.
    pub fn start(filter: &str, format: LogFormat) -> Result<Log> {
        let filter = targets(filter).map_err(|error| anyhow!(error))?;
        let outlet = Outlet::start("weir-log", io::stderr()).context("cannot start the log")?;
        let writer = outlet.clone();
        let plain = lines::layer()
            .with_ansi(false)
            .with_target(false)
            .with_writer(move || writer.clone());
        let (filter, handle) = reload::Layer::new(filter);
        let layer = match format.resolved() {
            LogFormat::Journal => plain.event_format(PlainLines(LogFormat::Journal)).boxed(),
            LogFormat::Json => plain.event_format(PlainLines(LogFormat::Json)).boxed(),
            LogFormat::Text | LogFormat::Auto => plain.boxed(),
        };
        tracing_subscriber::registry()
            .with(filter)
            .with(layer)
            .try_init()
            .map_err(|error| anyhow!("cannot start the log: {error}"))?;
        Ok(Log {
            outlet,
            filter: handle,
        })
    }

    /// Another filter from now on. One that makes no sense changes nothing.
    pub fn follow(&self, filter: &str) {
        if let Ok(targets) = targets(filter) {
            // The log lives as long as its handle.
            let _ = self.filter.reload(targets);
        }
    }

    /// Waits for its last lines, but not for long.
    pub fn flush(&self) {
        self.outlet.flush();
    }
}

/// Events without the time of weir's own, or as JSON.
struct PlainLines(LogFormat);

impl<S, N> FormatEvent<S, N> for PlainLines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let level = *event.metadata().level();
        let mut parts = EventParts::default();
        event.record(&mut parts);
        if self.0 == LogFormat::Json {
            return writeln!(writer, "{}", json(level, &parts.message, &parts.fields));
        }
        let mut text = parts.message;
        for (name, value) in &parts.fields {
            text += &format!(" {name}={value}");
        }
        // The journal takes a line for an entry.
        let text = text.replace('\n', "\\n");
        writeln!(writer, "<{}>{text}", priority(level))
    }
}

/// The message of an event, and what else it has.
#[derive(Default)]
struct EventParts {
    message: String,
    fields: BTreeMap<&'static str, String>,
}

impl EventParts {
    fn take(&mut self, field: &Field, text: String) {
        match field.name() {
            "message" => self.message = text,
            name => {
                self.fields.insert(name, text);
            }
        }
    }
}

impl Visit for EventParts {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.take(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.take(field, format!("{value:?}"));
    }
}
