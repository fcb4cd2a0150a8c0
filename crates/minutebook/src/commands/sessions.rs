//! `minutebook sessions`: the catalogue, newest first.

use std::path::Path;

use acp_adapter::from_acp;
use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use session_core::store::EventStore as _;
use session_core::{CatalogueEntry, Cursor, ListFilter, ListQuery};

use crate::cli::{Global, PAGE, SessionsArgs};
use crate::error::{Exit, InputError};
use crate::output::{self, Terminal};
use crate::place;
use crate::render::{cut, harmless_line, quoted_for_shell};
use crate::wiring::Service;

const NO_SESSIONS: &str = "no sessions yet; `minutebook chat` begins one";

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct SessionLine<'a> {
    id: &'a str,
    title: Option<&'a str>,
    cwd: Option<&'a str>,
    parent_session: Option<&'a str>,
    created_at: i64,
    updated_at: i64,
    events: u64,
    open_turn: bool,
    /// The standing plan as of the last checkpoint.
    todos: Option<Value>,
}

pub(crate) async fn run(global: &Global, args: SessionsArgs) -> anyhow::Result<Exit> {
    let cwd = args.cwd.as_deref().map(folder).transpose()?;
    let is_filtered = cwd.is_some();
    let filter = ListFilter {
        cwd,
        include_blank: args.all,
        ..ListFilter::default()
    };
    let after = args.after.as_deref().map(str::parse).transpose()?;
    let place = place::database(global.db.as_deref())?;
    let Some(service) = Service::existing_to_read(global, &place.path).await? else {
        if place.is_chosen {
            return Err(InputError::NoDatabase(place.path).into());
        }
        // Nobody has begun yet.
        if !global.json {
            output::line(NO_SESSIONS)?;
        }
        return Ok(Exit::Done);
    };
    let query = ListQuery {
        filter,
        after,
        limit: args.limit,
        ..ListQuery::default()
    };
    let page = service.store.list(&query).await?;
    let width = Terminal::detect().width;
    for entry in &page.entries {
        let listed = service.projections.listed(&entry.header.id).await?;
        let todos = listed.and_then(|mut snapshot| snapshot.values.remove("todos"));
        if global.json {
            output::json(&line(entry, todos))?;
        } else {
            output::line(row(entry, todos.as_ref(), width))?;
        }
    }
    let mut exit = Exit::Done;
    for id in &page.damaged {
        if let Err(error) = service.store.entry(id).await {
            output::complaint(&error.into());
            exit = Exit::Database;
        }
    }
    if !global.json {
        if page.entries.iter().any(|entry| entry.is_open) {
            output::line("* a turn is open: it is running, or the next opening closes it")?;
        }
        match &page.next {
            Some(cursor) => output::line(format!("more: {}", command(global, &args, cursor)))?,
            None if page.entries.is_empty() && exit == Exit::Done => {
                output::line(match (&args.after, is_filtered) {
                    (Some(_), _) => "no more sessions",
                    (None, true) => "no sessions in this folder",
                    (None, false) => NO_SESSIONS,
                })?;
            }
            None => {}
        }
    }
    service.close().await;
    Ok(exit)
}

/// The folder as sessions note theirs: absolute, without `.`, `..` and trailing slashes.
fn folder(path: &Path) -> anyhow::Result<String> {
    let path = std::path::absolute(path).context("--cwd")?;
    Ok(from_acp::cwd(&path)?)
}

/// The command that lists on from a place.
fn command(global: &Global, args: &SessionsArgs, after: &Cursor) -> String {
    let mut words = vec!["minutebook".to_owned(), "sessions".to_owned()];
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    if let Some(db) = &global.db {
        option("--db", &db.to_string_lossy());
    }
    if let Some(cwd) = &args.cwd {
        option("--cwd", &cwd.to_string_lossy());
    }
    if args.limit != PAGE {
        option("--limit", &args.limit.to_string());
    }
    option("--after", &after.to_string());
    if args.all {
        words.push("--all".to_owned());
    }
    let words: Vec<_> = words.iter().map(|word| quoted_for_shell(word)).collect();
    words.join(" ")
}

fn line(entry: &CatalogueEntry, todos: Option<Value>) -> SessionLine<'_> {
    let header = &entry.header;
    SessionLine {
        id: header.id.as_str(),
        title: entry.title.as_deref(),
        cwd: header.cwd.as_deref(),
        parent_session: header.parent_session.as_ref().map(|parent| parent.as_str()),
        created_at: header.created_at.get(),
        updated_at: entry.updated_at.get(),
        events: entry.next_seq.get(),
        open_turn: entry.is_open,
        todos,
    }
}

fn row(entry: &CatalogueEntry, todos: Option<&Value>, width: usize) -> String {
    let id: String = entry.header.id.as_str().chars().take(8).collect();
    let id = harmless_line(&id);
    let time = entry.updated_at.datetime().format("%Y-%m-%d %H:%M");
    let plan = todos
        .and_then(Value::as_array)
        .filter(|list| !list.is_empty())
        .map_or_else(String::new, |list| {
            let done = list
                .iter()
                .filter(|todo| todo["status"] == "completed")
                .count();
            format!("{done}/{}", list.len())
        });
    let title = harmless_line(entry.title.as_deref().unwrap_or("untitled"));
    let open = if entry.is_open { "*" } else { " " };
    let events = entry.next_seq.get();
    let noun = if events == 1 { "event " } else { "events" };
    cut(
        &format!("{id:<8}{open} {time}  {events:>6} {noun}  {plan:>5}  {title}"),
        width,
    )
}
