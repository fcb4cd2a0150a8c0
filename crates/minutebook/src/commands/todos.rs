//! `minutebook todos`: the standing plan, and how it came about.

use serde::Serialize;
use session_core::event::{Todo, TodoWrite, TurnStart};
use session_core::store::ReadRange;
use session_core::{Seq, SessionId};
use todo_tool::{TodoChange, diff};

use crate::cli::Global;
use crate::error::Exit;
use crate::output::{self, Terminal};
use crate::stored::Stored;
use crate::wiring::Service;

/// What happened to one item.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Change<'a> {
    change: &'static str,
    content: &'a str,
}

/// One list that was written, and what it changed.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
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
    let service = Service::open_to_read(global).await?;
    let id = service.resolve(id).await?;
    let last = Last::find(&service, &id).await?;
    let checklist = Terminal::detect().checklist();
    let mut events = Stored::read(service.log(), &id, ReadRange::ALL);
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
        let standing = Some(event.seq()) == last.standing;
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
                output::line(format!("  {change}"))?;
            }
            for line in checklist.lines(&todos) {
                output::verbatim(format!("  {line}"))?;
            }
            output::line("")?;
        }
        before = todos;
    }
    let exit = events.exit();
    drop(events);
    if !global.json {
        output::line(match (count, last.standing, last.is_certain) {
            (0, ..) => "no list was written in this session",
            (_, None, _) => "no list stands: a turn has begun since the last one",
            (_, Some(_), true) => "the last list stands",
            (_, Some(_), false) => {
                "the last list stands, unless a damaged event behind it began a turn"
            }
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

/// What became of the last list.
struct Last {
    /// Where it was written, if no later start of a turn is known.
    standing: Option<Seq>,
    /// Whether everything behind it could be read.
    is_certain: bool,
}

impl Last {
    async fn find(service: &Service, id: &SessionId) -> anyhow::Result<Self> {
        let mut is_certain = true;
        let mut events = Stored::read(service.log(), id, ReadRange::backward_before(None));
        let standing = loop {
            match events.next().await {
                Some(Ok(event)) if event.is::<TodoWrite>() => break Some(event.seq()),
                Some(Ok(event)) if event.is::<TurnStart>() => break None,
                Some(Ok(_)) => {}
                // Reading forward names it.
                Some(Err(damage)) if damage.at().is_some() => is_certain = false,
                Some(Err(error)) => return Err(error.into()),
                None => break None,
            }
        };
        Ok(Self {
            standing,
            is_certain,
        })
    }
}
