//! `minutebook sessions`: the catalogue, newest first.

use anyhow::Context as _;
use serde::Serialize;
use serde_json::Value;
use session_core::store::EventStore as _;
use session_core::{CatalogueEntry, ListFilter, ListQuery};

use crate::cli::{Global, SessionsArgs};
use crate::error::Exit;
use crate::output::{self, Terminal};
use crate::render::{cut, harmless};
use crate::wiring::Service;

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
    let cwd = args
        .cwd
        .map(std::path::absolute)
        .transpose()
        .context("--cwd")?;
    let filter = ListFilter {
        cwd: cwd.map(|path| path.to_string_lossy().into_owned()),
        include_blank: args.all,
        ..ListFilter::default()
    };
    let after = args.after.map(|cursor| cursor.parse()).transpose()?;
    let service = Service::open(global).await?;
    let query = ListQuery {
        filter,
        after,
        limit: args.limit,
        ..ListQuery::default()
    };
    let page = service.store.list(&query).await?;
    for entry in &page.entries {
        let listed = service.projections.listed(&entry.header.id).await?;
        let todos = listed.and_then(|mut snapshot| snapshot.values.remove("todos"));
        if global.json {
            output::json(&line(entry, todos))?;
        } else {
            output::line(row(entry, todos.as_ref(), Terminal::detect().width))?;
        }
    }
    let mut exit = Exit::Done;
    for id in &page.damaged {
        if let Err(error) = service.store.entry(id).await {
            output::complaint(&error.into());
            exit = Exit::Database;
        }
    }
    match &page.next {
        Some(cursor) if !global.json => {
            output::line(format!("more: minutebook sessions --after {cursor}"))?;
        }
        None if page.entries.is_empty() && exit == Exit::Done && !global.json => {
            output::line("no sessions yet; `minutebook chat` begins one")?;
        }
        _ => {}
    }
    service.close().await;
    Ok(exit)
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
    let title = harmless(entry.title.as_deref().unwrap_or("untitled"));
    let open = if entry.is_open { "*" } else { " " };
    let events = entry.next_seq.get();
    cut(
        &format!("{id:<8}{open} {time}  {events:>6} events  {plan:>5}  {title}"),
        width,
    )
}
