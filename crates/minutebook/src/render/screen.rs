//! A terminal with a conversation that scrolls and a to-do list below it that changes in place.

use std::io::{self, Write};

use anstyle::Style;
use crossterm::cursor::{MoveToNextLine, MoveToPreviousLine};
use crossterm::queue;
use crossterm::terminal::{BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate};
use session_core::event::Todo;

use super::{Checklist, Glyphs, paint, rows, wrap};

/// How large a terminal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) columns: usize,
    pub(crate) rows: usize,
}

/// Writes lines, and keeps a list below them up to date. Nothing that is drawn over is ever higher
/// than the terminal.
pub(crate) struct Screen<W> {
    out: W,
    /// Asked at each redraw, since a terminal may change its size at any time.
    size: fn() -> Size,
    glyphs: Glyphs,
    color: bool,
    /// A line of text that has not ended, and its style.
    tail: String,
    style: Style,
    /// What stands below.
    todos: Vec<Todo>,
    /// The lines on the terminal that belong to the tail and the list.
    drawn: Vec<String>,
}

impl<W: Write> Screen<W> {
    /// An empty screen.
    pub(crate) const fn new(out: W, size: fn() -> Size, glyphs: Glyphs, color: bool) -> Self {
        Self {
            out,
            size,
            glyphs,
            color,
            tail: String::new(),
            style: Style::new(),
            todos: Vec::new(),
            drawn: Vec::new(),
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
        let mut wrapped = wrap(&self.tail, (self.size)().columns);
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
    pub(crate) fn line(&mut self, line: &str, style: Style) -> io::Result<()> {
        self.end_text()?;
        let line = paint(self.color, style, line);
        self.redraw(Some(&line))
    }

    /// Puts another list below, or none.
    pub(crate) fn todos(&mut self, todos: Vec<Todo>) -> io::Result<()> {
        if todos == self.todos {
            return Ok(());
        }
        self.todos = todos;
        self.redraw(None)
    }

    /// Leaves what is below where it is; what comes next scrolls under it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.end_text()?;
        self.todos.clear();
        self.drawn.clear();
        self.out.flush()
    }

    fn paint(&self, line: &str) -> String {
        paint(self.color, self.style, line)
    }

    fn redraw(&mut self, scrolled: Option<&str>) -> io::Result<()> {
        let size = (self.size)();
        queue!(self.out, BeginSynchronizedUpdate)?;
        if !self.drawn.is_empty() {
            // A terminal that has become narrower has broken the lines that no longer fit.
            let above: usize = self.drawn.iter().map(|line| rows(line, size.columns)).sum();
            let above = above.min(size.rows.saturating_sub(1));
            match u16::try_from(above) {
                // Terminals take a move by none as a move by one.
                Ok(0) | Err(_) => queue!(self.out, Clear(ClearType::FromCursorDown))?,
                // The first row by itself: some terminals keep a screen that is cleared whole in
                // their history, so that each redraw would leave one there.
                Ok(above) => queue!(
                    self.out,
                    MoveToPreviousLine(above),
                    Clear(ClearType::CurrentLine),
                    MoveToNextLine(1),
                    Clear(ClearType::FromCursorDown),
                    MoveToPreviousLine(1)
                )?,
            }
        }
        if let Some(scrolled) = scrolled {
            writeln!(self.out, "{scrolled}")?;
        }
        self.drawn = self.below(size);
        for line in &self.drawn {
            writeln!(self.out, "{line}")?;
        }
        queue!(self.out, EndSynchronizedUpdate)?;
        self.out.flush()
    }

    /// The tail and the list, as they fit.
    fn below(&self, size: Size) -> Vec<String> {
        let mut below = Vec::new();
        if !self.tail.is_empty() {
            below.push(self.paint(&self.tail));
        }
        if self.todos.is_empty() {
            return below;
        }
        let above: usize = below.iter().map(|line| rows(line, size.columns)).sum();
        // A blank line stands above the list, and the cursor below it.
        let room = size.rows.saturating_sub(above + 2);
        let checklist = Checklist {
            glyphs: self.glyphs,
            color: self.color,
            width: size.columns,
            // Never more than a third of the screen, unless that is too little to be of use.
            height: (size.rows / 3).max(4).min(room),
        };
        let list = checklist.lines(&self.todos);
        if !list.is_empty() {
            below.push(String::new());
            below.extend(list);
        }
        below
    }
}

#[cfg(test)]
mod tests {
    use session_core::event::TodoStatus;

    use super::*;

    fn ten() -> Vec<Todo> {
        (0..10_u32)
            .map(|n| Todo {
                content: format!("item {n} of the list"),
                status: TodoStatus::Pending,
            })
            .collect()
    }

    fn drawn(size: fn() -> Size) -> usize {
        let mut screen = Screen::new(Vec::new(), size, Glyphs::Ascii, true);
        screen.text("on its way", Style::new()).unwrap();
        screen.todos(ten()).unwrap();
        let columns = size().columns;
        screen.drawn.iter().map(|line| rows(line, columns)).sum()
    }

    #[test]
    fn what_is_drawn_over_is_never_higher_than_the_terminal() {
        assert_eq!(
            drawn(|| Size {
                columns: 80,
                rows: 24
            }),
            9
        );
        assert_eq!(
            drawn(|| Size {
                columns: 80,
                rows: 6
            }),
            5
        );
        assert_eq!(
            drawn(|| Size {
                columns: 20,
                rows: 4
            }),
            3
        );
        assert_eq!(
            drawn(|| Size {
                columns: 20,
                rows: 3
            }),
            1
        );
        assert_eq!(
            drawn(|| Size {
                columns: 20,
                rows: 1
            }),
            1
        );
    }

    #[test]
    fn a_terminal_that_became_narrower_is_cleared_of_the_broken_lines() {
        let wide = || Size {
            columns: 80,
            rows: 24,
        };
        let mut screen = Screen::new(Vec::new(), wide, Glyphs::Ascii, false);
        screen.todos(ten()[..1].to_vec()).unwrap();
        assert_eq!(screen.drawn.len(), 3);
        screen.size = || Size {
            columns: 15,
            rows: 24,
        };
        screen.out.clear();
        screen.text("x", Style::new()).unwrap();
        let out = String::from_utf8(screen.out).unwrap();
        // The blank line, two rows of counts, and two of the item.
        assert!(out.contains("\u{1b}[5F"), "{out:?}");
    }
}
