//! A turn as it happens: JSON, lines for a pipe, or a screen whose to-do list changes in place.

use std::io::{self, Stdout, Write as _};

use anstyle::{AnsiColor, Style};
use session_core::Event;
use session_core::event::{
    AbortReason, AssistantChunk, EventData as _, StreamChunk, Todo, TodoWrite, ToolCall,
    ToolResult, TurnEnd, TurnEndReason, TurnStart,
};

use crate::output::{self, Terminal};
use crate::render::{Checklist, Screen, call_row, cut, harmless, harmless_line, texts};

/// Shows the events of a turn.
pub(crate) enum View {
    /// Each event as it is on the wire.
    Json,
    /// Lines that stay.
    Pipe(Pipe),
    /// A screen that is drawn over.
    Live(Live),
}

pub(crate) struct Pipe {
    checklist: Checklist,
    todos: Vec<Todo>,
    in_text: bool,
}

pub(crate) struct Live {
    screen: Screen<Stdout>,
}

impl View {
    pub(crate) fn new(json: bool, terminal: Terminal) -> Self {
        if json {
            return Self::Json;
        }
        if terminal.is_terminal {
            let Terminal { glyphs, color, .. } = terminal;
            Self::Live(Live {
                screen: Screen::new(io::stdout(), output::size, glyphs, color),
            })
        } else {
            Self::Pipe(Pipe {
                checklist: terminal.checklist(),
                todos: Vec::new(),
                in_text: false,
            })
        }
    }

    pub(crate) fn event(&mut self, event: &Event) -> io::Result<()> {
        match self {
            Self::Json => output::json(event),
            Self::Pipe(pipe) => pipe.event(event),
            Self::Live(live) => live.event(event),
        }
    }

    /// A word from the program itself.
    pub(crate) fn note(&mut self, text: &str) -> io::Result<()> {
        match self {
            Self::Json => Ok(()),
            Self::Pipe(pipe) => pipe.line(text),
            Self::Live(live) => live.screen.line(text, Style::new().dimmed()),
        }
    }

    /// The turn is over.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        match self {
            Self::Json => Ok(()),
            Self::Pipe(pipe) => pipe.end_text(),
            Self::Live(live) => live.screen.finish(),
        }
    }
}

/// What an event shows a person.
enum Shown {
    Text(String),
    Thought(String),
    TextEnds,
    Todos(Vec<Todo>),
    NewTurn,
    Line(String, Style),
    Nothing,
}

fn shown(event: &Event) -> Shown {
    let failed = AnsiColor::Red.on_default();
    match event.kind() {
        AssistantChunk::TYPE => match event.decode().map(|AssistantChunk { chunk, .. }| chunk) {
            Some(StreamChunk::TextDelta { text, .. }) => Shown::Text(harmless(&text).into_owned()),
            Some(StreamChunk::ReasoningDelta { text, .. }) => {
                Shown::Thought(harmless(&text).into_owned())
            }
            Some(StreamChunk::BlockEnd { .. }) => Shown::TextEnds,
            _ => Shown::Nothing,
        },
        TurnStart::TYPE => Shown::NewTurn,
        TodoWrite::TYPE => event
            .decode()
            .map_or(Shown::Nothing, |TodoWrite { todos }| Shown::Todos(todos)),
        ToolCall::TYPE => match event.decode::<ToolCall>() {
            // The list itself shows what this call did.
            Some(call) if call.name == todo_tool::NAME => Shown::Nothing,
            Some(call) => {
                let row = call_row(&call.name, &call.arguments);
                Shown::Line(cut(&row, 100), Style::new().dimmed())
            }
            None => Shown::Nothing,
        },
        ToolResult::TYPE => match event.decode::<ToolResult>() {
            Some(result) if result.outcome().is_some_and(|(.., is_error)| is_error) => Shown::Line(
                format!("  {}", harmless_line(&first_lines(&result))),
                failed,
            ),
            _ => Shown::Nothing,
        },
        TurnEnd::TYPE => match event.decode::<TurnEnd>() {
            Some(TurnEnd { reason, .. }) => ending(&reason).map_or(Shown::Nothing, |text| {
                Shown::Line(harmless_line(&text).into_owned(), failed)
            }),
            None => Shown::Nothing,
        },
        _ => Shown::Nothing,
    }
}

/// The texts that a tool returned, the first line of each.
fn first_lines(result: &ToolResult) -> String {
    let lines = texts(result).filter_map(|text| text.lines().next());
    lines.collect::<Vec<_>>().join(" ")
}

/// How a turn ended, where it did not simply complete.
pub(crate) fn ending(reason: &TurnEndReason) -> Option<String> {
    Some(match reason {
        TurnEndReason::Completed => return None,
        TurnEndReason::MaxTokens => "the model reached its output limit".into(),
        TurnEndReason::Blocked => "the prompt was not admitted".into(),
        TurnEndReason::Interrupted => "interrupted by a crash".into(),
        TurnEndReason::Aborted {
            reason: AbortReason::User,
        } => "cancelled".into(),
        TurnEndReason::Aborted {
            reason: AbortReason::Budget { steps },
        } => {
            format!("stopped after {steps} steps")
        }
        TurnEndReason::Aborted { .. } => "stopped".into(),
        TurnEndReason::Error { error } => format!("failed ({}): {}", error.code, error.message),
        _ => "ended".into(),
    })
}

impl Pipe {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match shown(event) {
            Shown::Text(text) => {
                self.in_text = !text.ends_with('\n');
                write!(io::stdout(), "{text}")
            }
            Shown::TextEnds => self.end_text(),
            Shown::Todos(todos) => self.todos(todos),
            Shown::NewTurn => {
                self.todos.clear();
                Ok(())
            }
            Shown::Line(line, _) => self.line(&line),
            Shown::Thought(_) | Shown::Nothing => Ok(()),
        }
    }

    /// The whole list once, then only the rows that changed.
    fn todos(&mut self, todos: Vec<Todo>) -> io::Result<()> {
        self.end_text()?;
        let checklist = &self.checklist;
        let mut lines = Vec::new();
        if self.todos.is_empty() || todos.is_empty() {
            lines.extend(checklist.lines(&todos));
        } else {
            lines.push(checklist.counts(&todos));
            let changed = todos.iter().filter(|todo| !self.todos.contains(todo));
            lines.extend(changed.map(|todo| checklist.row(todo)));
        }
        self.todos = todos;
        lines.iter().try_for_each(output::verbatim)?;
        io::stdout().flush()
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.end_text()?;
        output::line(line)
    }

    fn end_text(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_text) {
            output::line("")
        } else {
            Ok(())
        }
    }
}

impl Live {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        match shown(event) {
            Shown::Text(text) => self.screen.text(&text, Style::new()),
            Shown::Thought(text) => self.screen.text(&text, Style::new().dimmed()),
            Shown::TextEnds => self.screen.end_text(),
            Shown::Todos(todos) => self.screen.todos(todos),
            Shown::NewTurn => self.screen.todos(Vec::new()),
            Shown::Line(line, style) => self.screen.line(&line, style),
            Shown::Nothing => Ok(()),
        }
    }
}
