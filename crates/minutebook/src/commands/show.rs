//! `minutebook show`: a session as a person reads it.

use std::collections::BTreeMap;

use projection::{FoldError, Snapshot};
use serde::Serialize;
use serde_json::Value;
use session_core::event::{
    AssistantMessage, ContentBlock, EventData as _, Gap, Message, MessageSource, ToolResult,
    TurnEnd, UserMessage,
};
use session_core::store::{EventStore as _, ReadRange};
use session_core::{CatalogueEntry, Event, is_transcript};

use super::chat::ending;
use crate::cli::Global;
use crate::error::Exit;
use crate::output::{self, Terminal};
use crate::render::{call_row, counted, cut, harmless, harmless_line, texts};
use crate::stored::Stored;
use crate::wiring::Service;

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Overview<'a> {
    id: &'a str,
    header: &'a session_core::Header,
    title: Option<&'a str>,
    updated_at: i64,
    events: u64,
    open_turn: bool,
    as_of_seq: Option<session_core::Seq>,
    values: &'a BTreeMap<String, Value>,
}

pub(crate) async fn run(global: &Global, id: &str) -> anyhow::Result<Exit> {
    let service = Service::open_to_read(global).await?;
    let id = service.resolve(id).await?;
    let entry = service.store.entry(&id).await?;
    let snapshot = match service.projections.cold_snapshot(service.log(), &id).await {
        Ok(snapshot) => snapshot,
        // What can be read is shown below, and the damage named.
        Err(FoldError::Read(error)) if error.at().is_some() => Snapshot::default(),
        Err(error) => return Err(error.into()),
    };
    let terminal = Terminal::detect();
    if global.json {
        output::json(&Overview {
            id: id.as_str(),
            header: &entry.header,
            title: entry.title.as_deref(),
            updated_at: entry.updated_at.get(),
            events: entry.next_seq.get(),
            open_turn: entry.is_open,
            as_of_seq: snapshot.as_of_seq,
            values: &snapshot.values,
        })?;
    } else {
        heading(&entry)?;
    }
    let mut events = Stored::read(service.log(), &id, ReadRange::ALL);
    while let Some(event) = events.next_sound().await? {
        if !global.json {
            for line in lines(&event, terminal.width) {
                output::verbatim(line)?;
            }
        } else if is_transcript(&event) {
            output::json(&event)?;
        }
    }
    let exit = events.exit();
    drop(events);
    if !global.json {
        let todos = snapshot.values.get("todos").cloned().unwrap_or_default();
        let todos: Vec<session_core::event::Todo> =
            serde_json::from_value(todos).unwrap_or_default();
        if !todos.is_empty() {
            output::line("")?;
            let lines = terminal.checklist().lines(&todos);
            lines.iter().try_for_each(output::verbatim)?;
        }
    }
    service.close().await;
    Ok(exit)
}

fn heading(entry: &CatalogueEntry) -> std::io::Result<()> {
    output::line(entry.title.as_deref().unwrap_or("untitled"))?;
    let header = &entry.header;
    output::line(format!("session {}", header.id))?;
    if let Some(cwd) = &header.cwd {
        output::line(format!("in {cwd}"))?;
    }
    if let Some(parent) = &header.parent_session {
        output::line(format!("from session {parent}"))?;
    }
    let open = if entry.is_open {
        ", a turn is open"
    } else {
        ""
    };
    output::line(format!(
        "created {}, {}{open}",
        header.created_at,
        counted(entry.next_seq.get(), "event")
    ))
}

/// What a person reads of one event, made harmless.
fn lines(event: &Event, width: usize) -> Vec<String> {
    if !is_transcript(event) {
        let reason = match event.decode() {
            Some(Gap { reason }) => Some(format!("a damaged event was given up here: {reason}")),
            None => event
                .decode()
                .and_then(|TurnEnd { reason, .. }| ending(&reason)),
        };
        return reason
            .map(|text| format!("! {}", harmless_line(&text)))
            .into_iter()
            .collect();
    }
    match event.kind() {
        UserMessage::TYPE => match event.decode::<UserMessage>() {
            Some(UserMessage(message)) if message.source == MessageSource::User => {
                spaced(quoted(&message.text(), "> "))
            }
            Some(UserMessage(message)) => {
                vec![cut(
                    &format!(
                        "  ({}) {}",
                        harmless_line(message.source.kind()),
                        harmless(&message.text())
                    ),
                    width,
                )]
            }
            None => unreadable(event),
        },
        AssistantMessage::TYPE => match event.decode::<AssistantMessage>() {
            Some(AssistantMessage { message, .. }) => assistant(&message, width),
            None => unreadable(event),
        },
        ToolResult::TYPE => match event.decode::<ToolResult>() {
            Some(result) => {
                let failed = result.outcome().is_some_and(|(.., is_error)| is_error);
                let mark = if failed { "  ✗ " } else { "  → " };
                let text = texts(&result).collect::<Vec<_>>().join(" ");
                vec![cut(&format!("{mark}{}", harmless(&text)), width)]
            }
            None => unreadable(event),
        },
        _ => Vec::new(),
    }
}

fn assistant(message: &Message, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for block in &message.content {
        match block {
            ContentBlock::Text { text } => lines.extend(spaced(quoted(text, ""))),
            ContentBlock::ToolCall {
                name, arguments, ..
            } => {
                lines.push(cut(&call_row(name, arguments), width));
            }
            _ => {}
        }
    }
    lines
}

fn quoted(text: &str, mark: &str) -> Vec<String> {
    harmless(text)
        .lines()
        .map(|line| format!("{mark}{line}"))
        .collect()
}

fn spaced(mut lines: Vec<String>) -> Vec<String> {
    lines.insert(0, String::new());
    lines
}

fn unreadable(event: &Event) -> Vec<String> {
    vec![format!(
        "! event {} ({}) cannot be read",
        event.seq(),
        harmless_line(event.kind())
    )]
}
