//! `minutebook todos`: the standing plan, and how it came about.

use futures::StreamExt as _;
use serde::Serialize;
use session_core::event::{Todo, TodoWrite, TurnStart};
use session_core::store::{EventStore as _, ReadRange};
use todo_tool::{TodoChange, diff};

use crate::cli::Global;
use crate::error::Exit;
use crate::output::{self, Terminal};
use crate::render::{Checklist, harmless};
use crate::stored::Stored;
use crate::wiring::Service;

/// What happened to one item.
#[derive(Serialize)]
struct Change<'a> {
    change: &'static str,
    content: &'a str,
}

/// One list that was written, and what it changed.
#[derive(Serialize)]
struct Write<'a> {
    id: &'a str,
    seq: u64,
    time: i64,
    turn: u64,
    todos: &'a [Todo],
    changes: Vec<Change<'a>>,
    /// Whether this list stands now.
    standing: bool,
}

pub(crate) async fn run(global: &Global, id: &str) -> anyhow::Result<Exit> {
    let service = Service::open(global).await?;
    let id = service.resolve(id).await?;
    let standing = standing_seq(&service, &id).await?;
    let terminal = Terminal::detect();
    let checklist = Checklist {
        glyphs: terminal.glyphs,
        color: terminal.color,
        width: terminal.width,
        height: usize::MAX,
    };
    let mut events = Stored::read(&*service.store, &id, ReadRange::ALL);
    let (mut turn, mut before, mut count) = (0, Vec::new(), 0_u64);
    while let Some(event) = events.next_sound().await? {
        if let Some(TurnStart { turn: next }) = event.decode() {
            // A new turn begins without a list.
            (turn, before) = (next, Vec::new());
        }
        let Some(TodoWrite { todos }) = event.decode() else {
            continue;
        };
        count += 1;
        let changes = diff(&before, &todos);
        let standing = Some(event.seq()) == standing;
        if global.json {
            output::json(&Write {
                id: id.as_str(),
                seq: event.seq().get(),
                time: event.time_ms().get(),
                turn,
                todos: &todos,
                changes: changes.iter().map(change).collect(),
                standing,
            })?;
        } else {
            let time = event.time().format("%Y-%m-%d %H:%M:%S");
            let mark = if standing { "  (stands)" } else { "" };
            output::line(format!("{time}  turn {turn}  event {}{mark}", event.seq()))?;
            for change in &changes {
                output::line(harmless(&format!("  {change}")))?;
            }
            for line in checklist.lines(&todos) {
                output::line(format!("  {line}"))?;
            }
            output::line("")?;
        }
        before = todos;
    }
    let exit = events.exit();
    drop(events);
    if !global.json {
        output::line(match (count, standing) {
            (0, _) => "no list was written in this session",
            (_, None) => "no list stands: a turn has begun since the last one",
            (_, Some(_)) => "the last list stands",
        })?;
    }
    service.close().await;
    Ok(exit)
}

fn change(change: &TodoChange) -> Change<'_> {
    Change {
        change: change.verb(),
        content: change.content(),
    }
}

/// Where the standing plan was written: the last write with no later start of a turn.
async fn standing_seq(
    service: &Service,
    id: &session_core::SessionId,
) -> anyhow::Result<Option<session_core::Seq>> {
    let mut events = service.store.read(id, ReadRange::backward_before(None));
    while let Some(event) = events.next().await {
        let event = event?;
        if event.is::<TodoWrite>() {
            return Ok(Some(event.seq()));
        }
        if event.is::<TurnStart>() {
            break;
        }
    }
    Ok(None)
}
