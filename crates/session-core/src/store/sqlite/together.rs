//! Appends that arrived together, written by one call.
//!
//! The usual append crosses to the connection's thread once: begin, the check of leases, all rows,
//! the catalogue and commit are one text. The database itself refuses what does not fit (see the
//! triggers in the migration); nothing is written then, and each append is tried by itself, where
//! the cause is found out.

use std::collections::BTreeMap;

use serde_json::json;
use sqlx::QueryBuilder;
use sqlx::sqlite::{Sqlite, SqliteConnection};

use super::row::number;
use super::write::{Cache, ROWS, Request};
use crate::{CatalogueChange, Event, UnixMillis};

/// Appends whose keys are all known, ready to be written.
#[derive(Debug, Default)]
pub(super) struct Together<'a> {
    rows: Vec<Row<'a>>,
    /// Session and token of each lease that must still be held.
    leases: Vec<(i64, u64)>,
    changes: BTreeMap<i64, CatalogueChange>,
}

#[derive(Debug)]
struct Row<'a> {
    session: i64,
    kind: i64,
    event: &'a Event,
    op: Option<String>,
    sources: Option<String>,
}

impl<'a> Together<'a> {
    /// Plans the requests; `None` when they are not all such appends.
    pub(super) fn plan(cache: &Cache, requests: &[&'a Request]) -> Option<Self> {
        let mut together = Self::default();
        for request in requests {
            let Request::Append {
                session,
                batch,
                fence,
                ..
            } = request
            else {
                return None;
            };
            let session = cache.session(session)?;
            together
                .leases
                .extend(fence.map(|token| (session, token.get())));
            for event in batch {
                let kind = cache.kind(event.kind())?;
                together.rows.push(Row::new(session, kind, event)?);
            }
            let change = CatalogueChange::of(batch);
            if change.title.is_some() {
                // A title may hold characters that JSON in SQL does not give back.
                return None;
            }
            together.changes.entry(session).or_default().merge(change);
        }
        (1..=ROWS)
            .contains(&together.rows.len())
            .then_some(together)
    }

    /// Writes all of it.
    ///
    /// # Errors
    ///
    /// Returns SQLite's account. Nothing is written then, but the transaction may be open.
    pub(super) async fn write(self, connection: &mut SqliteConnection) -> Result<(), sqlx::Error> {
        // IMMEDIATE takes the write lock now, so that nothing moves between check and insert.
        let mut sql = QueryBuilder::<Sqlite>::new("begin immediate; ");
        if !self.leases.is_empty() {
            sql.push("insert into lease_to_check select value ->> 0, value ->> 1 from json_each(");
            sql.push_bind(json!(self.leases).to_string()).push("); ");
        }
        sql.push(super::write::INSERT);
        sql.push_values(
            self.rows,
            |mut row,
             Row {
                 session,
                 kind,
                 event,
                 op,
                 sources,
             }| {
                row.push_bind(session)
                    .push_bind(number(event.seq()))
                    .push_bind(kind)
                    .push_bind(event.time_ms().get())
                    .push_bind(event.data().as_str())
                    .push_bind(op)
                    .push_bind(sources)
                    .push_bind(event.is_ignorable().then_some(1_i64));
            },
        );
        let changes: Vec<_> = self
            .changes
            .into_iter()
            .map(|(session, change)| {
                let prompted_at = change.prompted_at.map(UnixMillis::get);
                let is_open = change.is_open.map(i64::from);
                (session, change.next_seq, prompted_at, is_open)
            })
            .collect();
        sql.push(
            "; update session set next_seq = change.value ->> 1, \
             updated_at_ms = max(updated_at_ms, coalesce(change.value ->> 2, updated_at_ms)), \
             is_blank = is_blank and change.value ->> 3 is null, \
             is_open = coalesce(change.value ->> 3, is_open) from json_each(",
        );
        sql.push_bind(json!(changes).to_string());
        sql.push(") change where key = change.value ->> 0; commit");
        sql.build().execute(connection).await.map(drop)
    }
}

impl<'a> Row<'a> {
    fn new(session: i64, kind: i64, event: &'a Event) -> Option<Self> {
        let surface = event.surface();
        let json = |text: serde_json::Result<String>| text.ok();
        let op = match surface {
            Some(surface) => Some(json(serde_json::to_string(&surface.op))?),
            None => None,
        };
        let sources = match surface.and_then(|surface| surface.sources.as_ref()) {
            Some(sources) => Some(json(serde_json::to_string(sources))?),
            None => None,
        };
        Some(Self {
            session,
            kind,
            event,
            op,
            sources,
        })
    }
}
