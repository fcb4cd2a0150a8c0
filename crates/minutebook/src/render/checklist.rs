//! The to-do list as text: a line of counts, then a row for each item.

use anstyle::{AnsiColor, Style};
use session_core::event::{Todo, TodoStatus};

use super::{cut, harmless, paint};

/// The marks of the three statuses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Glyphs {
    /// For terminals that show them.
    Unicode,
    /// For everything else.
    Ascii,
}

impl Glyphs {
    /// The mark of a status.
    pub(crate) const fn mark(self, status: TodoStatus) -> &'static str {
        match (self, status) {
            (Self::Unicode, TodoStatus::Completed) => "✔",
            (Self::Unicode, TodoStatus::InProgress) => "▶",
            (Self::Unicode, TodoStatus::Pending) => "○",
            (Self::Ascii, TodoStatus::Completed) => "[x]",
            (Self::Ascii, TodoStatus::InProgress) => "[~]",
            (Self::Ascii, TodoStatus::Pending) => "[ ]",
        }
    }

    const fn separator(self) -> &'static str {
        match self {
            Self::Unicode => " · ",
            Self::Ascii => ", ",
        }
    }
}

/// What the title takes of the line of counts, with the gap behind it.
const TITLE_COLUMNS: usize = "To-dos  ".len();

/// How a list is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Checklist {
    /// The marks.
    pub(crate) glyphs: Glyphs,
    /// Whether to colour.
    pub(crate) color: bool,
    /// Columns to fill at most.
    pub(crate) width: usize,
    /// Lines to fill at most, the line of counts included.
    pub(crate) height: usize,
}

impl Checklist {
    /// The line of counts: those that are not zero, in the order of a list that fills up.
    pub(crate) fn counts(&self, todos: &[Todo]) -> String {
        let count = |status| todos.iter().filter(|todo| todo.status == status).count();
        let parts: Vec<String> = [
            (count(TodoStatus::Completed), "completed"),
            (count(TodoStatus::InProgress), "in progress"),
            (count(TodoStatus::Pending), "pending"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, name)| format!("{count} {name}"))
        .collect();
        let parts = if parts.is_empty() {
            vec!["none".to_owned()]
        } else {
            parts
        };
        let title = cut("To-dos", self.width);
        let room = self.width.saturating_sub(TITLE_COLUMNS);
        let parts = cut(&parts.join(self.glyphs.separator()), room);
        let title = self.paint(Style::new().bold(), &title);
        format!("{title}  {parts}").trim_end().to_owned()
    }

    /// One row.
    pub(crate) fn row(&self, todo: &Todo) -> String {
        let mark = self.glyphs.mark(todo.status);
        let room = self.width.saturating_sub(mark.chars().count() + 3);
        let content = cut(&harmless(&todo.content), room);
        let (on_mark, on_content) = match todo.status {
            TodoStatus::Completed => (AnsiColor::Green.on_default(), Style::new().dimmed()),
            TodoStatus::InProgress => (AnsiColor::Cyan.on_default(), Style::new().bold()),
            TodoStatus::Pending => (Style::new().dimmed(), Style::new()),
        };
        format!(
            "  {} {}",
            self.paint(on_mark, mark),
            self.paint(on_content, &content)
        )
    }

    /// The whole list, cut to the height around what is in progress; what is left out is counted.
    pub(crate) fn lines(&self, todos: &[Todo]) -> Vec<String> {
        let Some(room) = self.height.checked_sub(1) else {
            return Vec::new();
        };
        let mut lines = vec![self.counts(todos)];
        if todos.len() <= room {
            lines.extend(todos.iter().map(|todo| self.row(todo)));
            return lines;
        }
        // Where there is no room for both, items come before the count of what is left out.
        let marks = if room > 2 { 2 } else { 0 };
        let shown = room - marks;
        let active = todos
            .iter()
            .position(|todo| todo.status == TodoStatus::InProgress)
            .or_else(|| {
                todos
                    .iter()
                    .position(|todo| todo.status == TodoStatus::Pending)
            })
            .unwrap_or(todos.len());
        let first = active.saturating_sub(shown / 2).min(todos.len() - shown);
        let left_out = |count: usize, place: &str| {
            let line = || cut(&format!("    … {count} {place}"), self.width);
            (count > 0 && marks > 0).then(|| self.paint(Style::new().dimmed(), &line()))
        };
        lines.extend(left_out(first, "before"));
        lines.extend(
            todos[first..first + shown]
                .iter()
                .map(|todo| self.row(todo)),
        );
        lines.extend(left_out(todos.len() - first - shown, "more"));
        lines
    }

    fn paint(&self, style: Style, text: &str) -> String {
        paint(self.color, style, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(items: &[(&str, TodoStatus)]) -> Vec<Todo> {
        items
            .iter()
            .map(|(text, status)| Todo {
                content: (*text).into(),
                status: *status,
            })
            .collect()
    }

    const PLAIN: Checklist = Checklist {
        glyphs: Glyphs::Ascii,
        color: false,
        width: 60,
        height: 10,
    };

    #[test]
    fn a_list_has_a_line_of_counts_and_a_row_for_each_item() {
        use TodoStatus::{Completed, InProgress, Pending};
        let todos = list(&[
            ("A", Completed),
            ("B", InProgress),
            ("C", InProgress),
            ("D", Pending),
        ]);
        insta::assert_snapshot!(PLAIN.lines(&todos).join("\n"), @r"
        To-dos  1 completed, 2 in progress, 1 pending
          [x] A
          [~] B
          [~] C
          [ ] D
        ");
        let unicode = Checklist {
            glyphs: Glyphs::Unicode,
            ..PLAIN
        };
        assert_eq!(
            unicode.counts(&todos),
            "To-dos  1 completed · 2 in progress · 1 pending"
        );
        assert_eq!(PLAIN.counts(&[]), "To-dos  none");
    }

    #[test]
    fn a_long_list_is_cut_around_what_is_in_progress() {
        let todos: Vec<Todo> = (0..50_u32)
            .map(|n| Todo {
                content: format!("item {n}"),
                status: match n {
                    0..20 => TodoStatus::Completed,
                    20 => TodoStatus::InProgress,
                    _ => TodoStatus::Pending,
                },
            })
            .collect();
        let short = Checklist { height: 6, ..PLAIN };
        insta::assert_snapshot!(short.lines(&todos).join("\n"), @r"
        To-dos  20 completed, 1 in progress, 29 pending
            … 19 before
          [x] item 19
          [~] item 20
          [ ] item 21
            … 28 more
        ");
    }

    #[test]
    fn no_height_or_width_is_overrun() {
        let todos: Vec<Todo> = (0..50_u32)
            .map(|n| Todo {
                content: format!("item {n}"),
                status: TodoStatus::Pending,
            })
            .collect();
        for height in 0..60 {
            for width in [0, 3, 7, 12, 30] {
                let small = Checklist {
                    height,
                    width,
                    ..PLAIN
                };
                let lines = small.lines(&todos);
                assert!(lines.len() <= height, "{height}: {lines:?}");
                // The mark of a status and the space around it are always there.
                let widest = lines.iter().map(|line| line.chars().count()).max();
                assert!(widest.unwrap_or(0) <= width.max(6), "{width}: {lines:?}");
            }
        }
    }

    #[test]
    fn text_that_could_move_the_cursor_is_shown_harmlessly() {
        let todos = list(&[("a\u{1b}[2Jb\nc", TodoStatus::Pending)]);
        assert_eq!(PLAIN.row(&todos[0]), "  [ ] a␛[2Jb c");
    }
}
