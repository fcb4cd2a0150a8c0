//! Appends that arrived together, written by one statement, and the checkpoints among them.
//!
//! The usual append crosses to the connection's thread once. The database itself refuses what does
//! not fit (see the triggers in the migration); nothing is written then, and each append is tried
//! by itself, where the cause is found out.

use std::collections::HashMap;

use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;

use super::checkpoints;
use super::head::Head;
use super::rows::{self, ROWS, Row};
use super::write::{Cache, Request};
use crate::SessionId;
use crate::store::Checkpoint;

/// Appends, and checkpoints behind them, whose places are all known, ready to be written.
#[derive(Debug)]
pub(super) struct Together<'a> {
    rows: Vec<Row<'a>>,
    /// Each with the key of its session.
    checkpoints: Vec<(i64, &'a Checkpoint)>,
    /// Where the logs end afterwards.
    heads: HashMap<&'a SessionId, Head>,
}

impl<'a> Together<'a> {
    /// Plans the requests; `None` when they are not all such appends.
    pub(super) fn plan(cache: &Cache, requests: &[&'a Request]) -> Option<Self> {
        let mut planned = Vec::with_capacity(requests.len());
        let mut heads: HashMap<&SessionId, Head> = HashMap::with_capacity(requests.len());
        let mut checkpoints = Vec::new();
        let head_of = |heads: &HashMap<&SessionId, Head>, session: &SessionId| {
            heads.get(session).copied().or_else(|| cache.head(session))
        };
        for request in requests {
            match request {
                Request::Append {
                    session,
                    expected,
                    batch,
                    fence,
                } => {
                    let head = head_of(&heads, session).filter(|head| head.next == *expected)?;
                    let (rows, head) = rows::rows(head, batch, *fence, |name| cache.kind(name))?;
                    heads.insert(session, head);
                    planned.extend(rows);
                }
                Request::Save { session, rows } => {
                    let head = head_of(&heads, session)?;
                    if rows.iter().any(|row| row.seq >= head.next) {
                        return None;
                    }
                    checkpoints.extend(rows.iter().map(|row| (head.key, row)));
                }
                _ => return None,
            }
        }
        (1..=ROWS).contains(&planned.len()).then_some(Self {
            rows: planned,
            checkpoints,
            heads,
        })
    }

    /// Writes all of it.
    ///
    /// # Errors
    ///
    /// Returns SQLite's account. Nothing is written then.
    pub(super) async fn write(
        self,
        connection: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> Result<(), sqlx::Error> {
        if self.checkpoints.is_empty() {
            rows::write(connection, self.rows).await?;
        } else {
            // IMMEDIATE takes the write lock now, where a wait for it is no deadlock.
            let mut transaction = connection.begin_with("begin immediate").await?;
            rows::write(&mut transaction, self.rows).await?;
            checkpoints::save(&mut transaction, &self.checkpoints).await?;
            transaction.commit().await?;
        }
        for (session, head) in self.heads {
            cache.learn(session, head);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use sqlx::Connection as _;

    use super::super::batch::Batch;
    use super::*;
    use crate::UnixMillis;
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
        let events = log([turn_start(1), step_start(1, 1)]);
        let seed = Batch::share(&events[..1]).unwrap();
        let first_of_its_type = Request::Append {
            session: session.clone(),
            expected: Seq::from(1),
            batch: Batch::share(&events[1..]).unwrap(),
            fence: None,
        };
        let acquire = Request::Acquire {
            session: session.clone(),
            owner: Owner::this_process(&RandomIds),
            now: UnixMillis::EPOCH,
        };
        let mut lease = None;
        for request in [Request::Create { header, seed }, first_of_its_type, acquire] {
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
            batch: Batch::share(&[event]).unwrap(),
            fence,
        }
    }

    #[tokio::test]
    async fn a_usual_append_is_written_by_the_one_call() {
        let session = SessionId::from("a");
        let (mut connection, mut cache, lease) = in_use(&session).await;
        let request = append(&session, lease);
        let together = Together::plan(&cache, &[&request]).unwrap();
        together.write(&mut connection, &mut cache).await.unwrap();

        let counted = "select max(seq + events), count(*) from record";
        let found: (i64, i64) = sqlx::query_as(counted)
            .fetch_one(&mut connection)
            .await
            .unwrap();
        assert_eq!(found, (3, 3));
    }

    #[tokio::test]
    async fn an_append_under_another_lease_is_refused_for_that_reason() {
        let session = SessionId::from("a");
        let (mut connection, mut cache, _) = in_use(&session).await;
        let request = append(&session, Some(FenceToken::new(7)));
        let together = Together::plan(&cache, &[&request]).unwrap();
        let refused = together
            .write(&mut connection, &mut cache)
            .await
            .unwrap_err();
        assert!(refused.to_string().contains("the lease is no longer held"));
    }
}
