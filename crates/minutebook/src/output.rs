//! Printing: the one place that writes to standard output.

use std::io::{self, IsTerminal as _, Write as _};

use serde::Serialize;

use crate::error::Report;
use crate::render::{Checklist, Glyphs, Size, harmless_line};

/// Prints a line, made harmless and kept to one line.
pub(crate) fn line(text: impl AsRef<str>) -> io::Result<()> {
    verbatim(harmless_line(text.as_ref()))
}

/// Prints a line as it is: painted, or of a format of its own. Whoever made it has made harmless
/// what is of others in it.
pub(crate) fn verbatim(text: impl AsRef<str>) -> io::Result<()> {
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
}

/// What a terminal is taken for that does not say how large it is.
const USUAL: Size = Size {
    columns: 80,
    rows: 24,
};

/// Columns of what is no terminal.
const WIDTH_OF_A_PIPE: usize = 100;

/// How large the terminal is now.
pub(crate) fn size() -> Size {
    known(crossterm::terminal::size().ok())
}

fn known(said: Option<(u16, u16)>) -> Size {
    match said {
        None | Some((0, _) | (_, 0)) => USUAL,
        Some((columns, rows)) => Size {
            columns: columns.into(),
            rows: rows.into(),
        },
    }
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
        let width = if is_terminal {
            size().columns
        } else {
            WIDTH_OF_A_PIPE
        };
        Self {
            is_terminal,
            color,
            glyphs,
            width,
        }
    }

    /// How a whole list is drawn here.
    pub(crate) const fn checklist(&self) -> Checklist {
        Checklist {
            glyphs: self.glyphs,
            color: self.color,
            width: self.width,
            height: usize::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Size, USUAL, known};

    #[test]
    fn a_terminal_that_does_not_know_its_size_is_taken_for_a_usual_one() {
        assert_eq!(known(None), USUAL);
        assert_eq!(known(Some((0, 0))), USUAL);
        assert_eq!(known(Some((0, 50))), USUAL);
        let said = Size {
            columns: 132,
            rows: 50,
        };
        assert_eq!(known(Some((132, 50))), said);
    }
}
