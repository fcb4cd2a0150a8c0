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
        sql.push(") change where session.key = change.value ->> 0; commit");
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

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::*;
    use crate::given::{log, step_start, turn_start};
    use crate::store::{FenceToken, Owner};
    use crate::{Header, RandomIds, Seq, SessionId};

    /// A leased session of two events, what the writer knows of it, and its lease.
    async fn in_use(session: &SessionId) -> (SqliteConnection, Cache, Option<FenceToken>) {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let migrator = sqlx::migrate!("../../migrations/sqlite");
        migrator.run(&mut connection).await.unwrap();
        let mut cache = Cache::default();
        let header = Header::new(session.clone(), UnixMillis::EPOCH);
        let seed = log([turn_start(1), step_start(1, 1)]);
        let acquire = Request::Acquire {
            session: session.clone(),
            owner: Owner::this_process(&RandomIds),
            now: UnixMillis::EPOCH,
        };
        let mut lease = None;
        for request in [Request::Create { header, seed }, acquire] {
            let written = request.write(&mut connection, &mut cache).await.unwrap();
            lease = written.unwrap();
        }
        (connection, cache, lease)
    }

    fn append(session: &SessionId, fence: Option<FenceToken>) -> Request {
        let event = step_start(1, 2).at(Seq::from(2), UnixMillis::EPOCH);
        Request::Append {
            session: session.clone(),
            expected: event.seq(),
            batch: vec![event],
            fence,
        }
    }

    #[tokio::test]
    async fn a_usual_append_is_written_by_the_one_call() {
        let session = SessionId::from("a");
        let (mut connection, cache, lease) = in_use(&session).await;
        let request = append(&session, lease);
        let together = Together::plan(&cache, &[&request]).unwrap();
        together.write(&mut connection).await.unwrap();

        let counted = "select next_seq, (select count(*) from event) from session";
        let found: (i64, i64) = sqlx::query_as(counted)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(found, (3, 3));
    }

    #[tokio::test]
    async fn an_append_under_another_lease_is_refused_for_that_reason() {
        let session = SessionId::from("a");
        let (mut connection, cache, _) = in_use(&session).await;
        let request = append(&session, Some(FenceToken::new(7)));
        let together = Together::plan(&cache, &[&request]).unwrap();
        let refused = together.write(&mut connection).await.unwrap_err();
        assert!(refused.to_string().contains("the lease is no longer held"));
    }
}
