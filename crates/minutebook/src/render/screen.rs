//! A terminal with a conversation that scrolls and a few lines below it that change in place.

use std::io::{self, Write};

use anstyle::Style;
use crossterm::cursor::MoveToPreviousLine;
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};

use super::wrap;

/// Writes lines, and keeps some lines below them up to date.
pub(crate) struct Screen<W> {
    out: W,
    width: usize,
    /// A line of text that has not ended, and its style.
    tail: String,
    style: Style,
    /// What stands below.
    footer: Vec<String>,
    /// How many lines on the terminal belong to `tail` and `footer`.
    drawn: u16,
}

impl<W: Write> Screen<W> {
    /// A screen of `width` columns.
    pub(crate) const fn new(out: W, width: usize) -> Self {
        Self {
            out,
            width,
            tail: String::new(),
            style: Style::new(),
            footer: Vec::new(),
            drawn: 0,
        }
    }

    /// Text goes on; whole lines of it scroll away. A change of style begins a new line.
    pub(crate) fn text(&mut self, text: &str, style: Style) -> io::Result<()> {
        if style != self.style {
            self.end_text()?;
            self.style = style;
        }
        self.tail.push_str(text);
        let mut whole: Vec<String> = Vec::new();
        if let Some(end) = self.tail.rfind('\n') {
            whole.push(self.tail[..end].to_owned());
            self.tail.drain(..=end);
        }
        // What stays must not outgrow the screen, or it could not be drawn over.
        let mut wrapped = wrap(&self.tail, self.width);
        if let (true, Some(rest)) = (wrapped.len() > 1, wrapped.pop()) {
            whole.append(&mut wrapped);
            self.tail = rest;
        }
        let painted: Vec<String> = whole
            .iter()
            .flat_map(|text| text.lines())
            .map(|line| self.paint(line))
            .collect();
        let scrolled = painted.join("\n");
        self.redraw((!whole.is_empty()).then_some(scrolled.as_str()))
    }

    /// Ends the line of text, if one has begun.
    pub(crate) fn end_text(&mut self) -> io::Result<()> {
        if self.tail.is_empty() {
            Ok(())
        } else {
            self.text("\n", self.style)
        }
    }

    /// A line of its own.
    pub(crate) fn line(&mut self, line: &str) -> io::Result<()> {
        self.end_text()?;
        self.redraw(Some(line))
    }

    /// Puts other lines below.
    pub(crate) fn footer(&mut self, footer: Vec<String>) -> io::Result<()> {
        if footer == self.footer {
            return Ok(());
        }
        self.footer = footer;
        self.redraw(None)
    }

    /// Leaves what is below where it is; what comes next scrolls under it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.end_text()?;
        self.footer.clear();
        self.drawn = 0;
        self.out.flush()
    }

    fn paint(&self, line: &str) -> String {
        let style = self.style;
        format!("{style}{line}{style:#}")
    }

    fn redraw(&mut self, scrolled: Option<&str>) -> io::Result<()> {
        queue!(self.out, BeginSynchronizedUpdate)?;
        if self.drawn > 0 {
            queue!(
                self.out,
                MoveToPreviousLine(self.drawn),
                Clear(ClearType::FromCursorDown)
            )?;
        }
        if let Some(scrolled) = scrolled {
            writeln!(self.out, "{scrolled}")?;
        }
        let mut below = Vec::new();
        if !self.tail.is_empty() {
            below.push(self.paint(&self.tail));
        }
        if !self.footer.is_empty() {
            below.push(String::new());
            below.extend(self.footer.iter().cloned());
        }
        for line in &below {
            writeln!(self.out, "{line}")?;
        }
        self.drawn = u16::try_from(below.len()).unwrap_or(u16::MAX);
        queue!(self.out, EndSynchronizedUpdate)?;
        self.out.flush()
    }
}
