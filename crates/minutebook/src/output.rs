//! Printing: the one place that writes to standard output.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::error::Report;
use crate::render::Glyphs;

/// Prints a line.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    writeln!(io::stdout().lock(), "{}", text.as_ref())
}

/// Prints a JSON document on a line of its own.
pub(crate) fn json<T: Serialize + ?Sized>(value: &T) -> io::Result<()> {
    let text = serde_json::to_string(value)?;
    let mut out = io::stdout().lock();
    writeln!(out, "{text}")?;
    out.flush()
}

/// Says on standard error what went wrong.
pub(crate) fn complaint(error: &anyhow::Error) {
    // Nobody is left to hear that standard error is closed.
    let _ = writeln!(io::stderr(), "{}", Report(error));
}

/// What standard output can show.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terminal {
    /// Whether it is a terminal that can draw over itself.
    pub(crate) is_terminal: bool,
    pub(crate) color: bool,
    pub(crate) glyphs: Glyphs,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl Terminal {
    /// Looks at standard output and the environment.
    pub(crate) fn detect() -> Self {
        let variable = |name: &str| {
            #[expect(
                clippy::disallowed_methods,
                reason = "the program reads the environment"
            )]
            std::env::var(name).ok().filter(|value| !value.is_empty())
        };
        let is_dumb = variable("TERM").is_none_or(|term| term == "dumb");
        let is_terminal = io::stdout().is_terminal() && !is_dumb;
        // https://no-color.org: present and not empty.
        let color = is_terminal && variable("NO_COLOR").is_none();
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .find_map(variable);
        let utf8 = locale.is_some_and(|locale| {
            let locale = locale.to_ascii_lowercase();
            locale.contains("utf-8") || locale.contains("utf8")
        });
        let glyphs = if is_terminal && utf8 {
            Glyphs::Unicode
        } else {
            Glyphs::Ascii
        };
        let (width, height) = match crossterm::terminal::size() {
            Ok((columns, rows)) if is_terminal => (columns.into(), rows.into()),
            _ => (100, 1000),
        };
        Self {
            is_terminal,
            color,
            glyphs,
            width,
            height,
        }
    }
}
