//! What the writer does inside a transaction, one request at a time.
//!
//! A request is checked before it writes its first row, so a refused one leaves the transaction as
//! it found it.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::sqlite::SqliteConnection;
use sqlx::{QueryBuilder, Row as _, Sqlite};

use super::row::{number, seq};
use crate::store::{Checkpoint, FenceToken, Lease, Owner};
use crate::{CatalogueChange, CatalogueEntry, Event, Header, Seq, SessionId, UnixMillis};

/// Rows per insert statement; measured best with this driver.
pub(super) const ROWS: usize = 128;
/// Sessions whose keys are remembered.
const SESSIONS_KNOWN: usize = 4096;

pub(super) const INSERT: &str = "\
    insert into event (session, seq, type, recorded_at_ms, data, surface_op, sources, ignorable) ";

/// Something to be written.
#[derive(Debug)]
pub(super) enum Request {
    Create {
        header: Header,
        seed: Vec<Event>,
    },
    Append {
        session: SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    },
    Acquire {
        session: SessionId,
        owner: Owner,
        now: UnixMillis,
    },
    Release {
        lease: Lease,
    },
    Save {
        session: SessionId,
        rows: Vec<Checkpoint>,
    },
    Close,
}

/// A rule that a request breaks. Nothing of it was written.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("no such session")]
    NoSession,
    #[error("the session exists")]
    Exists,
    #[error("the lease is another's")]
    Fenced,
    #[error("the log moved on: actual={actual}")]
    Conflict { actual: Seq },
    #[error("the lease is held")]
    Held {
        owner: Box<Owner>,
        since: UnixMillis,
    },
    #[error("checkpoint {key} is ahead of the log: seq={seq}")]
    Ahead { key: String, seq: Seq },
}

/// The keys of sessions and event types, which never change.
#[derive(Debug, Default)]
pub(super) struct Cache {
    sessions: HashMap<SessionId, i64>,
    types: HashMap<Arc<str>, i64>,
}

impl Cache {
    /// After a rollback, what was learned inside the transaction does not hold.
    pub(super) fn forget(&mut self) {
        self.sessions.clear();
        self.types.clear();
    }

    pub(super) fn session(&self, id: &SessionId) -> Option<i64> {
        self.sessions.get(id).copied()
    }

    pub(super) fn kind(&self, name: &str) -> Option<i64> {
        self.types.get(name).copied()
    }

    fn learn(&mut self, id: &SessionId, key: i64) {
        if self.sessions.len() >= SESSIONS_KNOWN {
            self.sessions.clear();
        }
        self.sessions.insert(id.clone(), key);
    }

    async fn type_key(
        &mut self,
        connection: &mut SqliteConnection,
        name: &str,
    ) -> Result<i64, sqlx::Error> {
        if let Some(key) = self.types.get(name) {
            return Ok(*key);
        }
        sqlx::query("insert into event_type (name) values (?) on conflict do nothing")
            .bind(name)
            .execute(&mut *connection)
            .await?;
        let key = sqlx::query_scalar("select key from event_type where name = ?")
            .bind(name)
            .fetch_one(connection)
            .await?;
        self.types.insert(name.into(), key);
        Ok(key)
    }
}

type Outcome = Result<Result<Option<FenceToken>, Refusal>, sqlx::Error>;

impl Request {
    /// The session whose log or catalogue entry it changes.
    pub(super) const fn changes(&self) -> Option<&SessionId> {
        match self {
            Self::Create { header, .. } => Some(&header.id),
            Self::Append { session, .. } => Some(session),
            Self::Acquire { .. } | Self::Release { .. } | Self::Save { .. } | Self::Close => None,
        }
    }

    pub(super) async fn write(
        &self,
        connection: &mut SqliteConnection,
        cache: &mut Cache,
    ) -> Outcome {
        match self {
            Self::Create { header, seed } => create(connection, cache, header, seed).await,
            Self::Append {
                session,
                expected,
                batch,
                fence,
            } => append(connection, cache, session, *expected, batch, *fence).await,
            Self::Acquire {
                session,
                owner,
                now,
            } => acquire(connection, cache, session, owner, *now).await,
            Self::Release { lease } => release(connection, lease).await,
            Self::Save { session, rows } => save(connection, session, rows).await,
            Self::Close => Ok(Ok(None)),
        }
    }
}

async fn create(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    header: &Header,
    seed: &[Event],
) -> Outcome {
    if find(connection, &header.id).await?.is_some() {
        return Ok(Err(Refusal::Exists));
    }
    let json = serde_json::to_string(header).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let mut entry = CatalogueEntry::new(header.clone());
    entry.apply(CatalogueChange::of(seed));
    let key: i64 = sqlx::query_scalar(
        "insert into session (id, header, cwd, parent, created_at_ms, updated_at_ms, next_seq, \
         title, is_blank, is_open) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning key",
    )
    .bind(header.id.as_str())
    .bind(json)
    .bind(&header.cwd)
    .bind(header.parent_session.as_ref().map(SessionId::as_str))
    .bind(header.created_at.get())
    .bind(entry.updated_at.get())
    .bind(number(entry.next_seq))
    .bind(&entry.title)
    .bind(entry.is_blank)
    .bind(entry.is_open)
    .fetch_one(&mut *connection)
    .await?;
    insert(connection, cache, key, seed).await?;
    cache.learn(&header.id, key);
    Ok(Ok(None))
}

async fn append(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    session: &SessionId,
    expected: Seq,
    batch: &[Event],
    fence: Option<FenceToken>,
) -> Outcome {
    let Some((key, actual)) = find(connection, session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    if let Some(token) = fence {
        let held: bool = sqlx::query_scalar(
            "select exists (select 1 from lease where session = ? and token = ? and owner is not null)",
        )
        .bind(key)
        .bind(i64::try_from(token.get()).unwrap_or(i64::MAX))
        .fetch_one(&mut *connection)
        .await?;
        if !held {
            return Ok(Err(Refusal::Fenced));
        }
    }
    if actual != expected {
        return Ok(Err(Refusal::Conflict { actual }));
    }
    insert(connection, cache, key, batch).await?;
    cache.learn(session, key);
    let change = CatalogueChange::of(batch);
    sqlx::query(
        "update session set next_seq = ?, title = coalesce(?, title), \
         updated_at_ms = max(updated_at_ms, coalesce(?, updated_at_ms)), \
         is_blank = is_blank and ? is null, is_open = coalesce(?, is_open) where key = ?",
    )
    .bind(change.next_seq.map_or(number(actual), number))
    .bind(change.title)
    .bind(change.prompted_at.map(UnixMillis::get))
    .bind(change.is_open)
    .bind(change.is_open)
    .bind(key)
    .execute(connection)
    .await?;
    Ok(Ok(None))
}

async fn find(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> Result<Option<(i64, Seq)>, sqlx::Error> {
    let row = sqlx::query("select key, next_seq from session where id = ?")
        .bind(session.as_str())
        .fetch_optional(connection)
        .await?;
    row.map(|row| Ok((row.try_get(0)?, seq(row.try_get(1)?))))
        .transpose()
}

async fn insert(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    session: i64,
    events: &[Event],
) -> Result<(), sqlx::Error> {
    let json = |value: serde_json::Result<String>| {
        value.map_err(|error| sqlx::Error::Encode(error.into()))
    };
    for chunk in events.chunks(ROWS) {
        let mut rows = Vec::with_capacity(chunk.len());
        for event in chunk {
            let kind = cache.type_key(connection, event.kind()).await?;
            let surface = event.surface();
            let op = surface
                .map(|surface| json(serde_json::to_string(&surface.op)))
                .transpose()?;
            let sources = surface.and_then(|surface| surface.sources.as_ref());
            let sources = sources
                .map(|seqs| json(serde_json::to_string(seqs)))
                .transpose()?;
            rows.push((event, kind, op, sources));
        }
        let mut sql = QueryBuilder::<Sqlite>::new(INSERT);
        sql.push_values(rows, |mut row, (event, kind, op, sources)| {
            row.push_bind(session)
                .push_bind(number(event.seq()))
                .push_bind(kind)
                .push_bind(event.time_ms().get())
                .push_bind(event.data().as_str())
                .push_bind(op)
                .push_bind(sources)
                .push_bind(event.is_ignorable().then_some(1_i64));
        });
        sql.build().execute(&mut *connection).await?;
    }
    Ok(())
}

async fn acquire(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    session: &SessionId,
    owner: &Owner,
    now: UnixMillis,
) -> Outcome {
    let Some((key, _)) = find(connection, session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    cache.learn(session, key);
    let row = sqlx::query(
        "select owner, host, process, process_started, since_ms from lease \
         where session = ? and owner is not null",
    )
    .bind(key)
    .fetch_optional(&mut *connection)
    .await?;
    if let Some(row) = row {
        let holder = Owner {
            id: row.try_get(0)?,
            host: row.try_get(1)?,
            process: row.try_get(2)?,
            started: row.try_get(3)?,
        };
        if holder.id != owner.id && !holder.is_gone() {
            let since = UnixMillis::new(row.try_get(4)?);
            return Ok(Err(Refusal::Held {
                owner: Box::new(holder),
                since,
            }));
        }
    }
    let token: i64 = sqlx::query_scalar(
        "insert into lease (session, token, owner, host, process, process_started, since_ms) \
         values (?1, 1, ?2, ?3, ?4, ?5, ?6) \
         on conflict (session) do update set token = token + 1, owner = ?2, host = ?3, \
         process = ?4, process_started = ?5, since_ms = ?6 returning token",
    )
    .bind(key)
    .bind(&owner.id)
    .bind(&owner.host)
    .bind(owner.process)
    .bind(&owner.started)
    .bind(now.get())
    .fetch_one(connection)
    .await?;
    Ok(Ok(Some(FenceToken::new(u64::try_from(token).unwrap_or(0)))))
}

async fn release(connection: &mut SqliteConnection, lease: &Lease) -> Outcome {
    sqlx::query(
        "update lease set owner = null where token = ? \
         and session = (select key from session where id = ?)",
    )
    .bind(i64::try_from(lease.token.get()).unwrap_or(i64::MAX))
    .bind(lease.session.as_str())
    .execute(connection)
    .await?;
    Ok(Ok(None))
}

async fn save(
    connection: &mut SqliteConnection,
    session: &SessionId,
    rows: &[Checkpoint],
) -> Outcome {
    let Some((key, next)) = find(connection, session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    if let Some(row) = rows.iter().find(|row| row.seq >= next) {
        return Ok(Err(Refusal::Ahead {
            key: row.key.clone(),
            seq: row.seq,
        }));
    }
    for row in rows {
        sqlx::query(
            "insert into checkpoint (session, unit, state_version, seq, state) \
             values (?1, ?2, ?3, ?4, ?5) \
             on conflict (session, unit) do update set state_version = ?3, seq = ?4, state = ?5 \
             where state_version <> ?3 or seq <= ?4",
        )
        .bind(key)
        .bind(&row.key)
        .bind(row.state_version)
        .bind(number(row.seq))
        .bind(row.state.as_str())
        .execute(&mut *connection)
        .await?;
    }
    Ok(Ok(None))
}
