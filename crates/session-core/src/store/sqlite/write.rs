//! What the writer does inside a transaction, one request at a time.
//!
//! A request is checked before it writes its first row, so a refused one leaves the transaction as
//! it found it.

use std::collections::HashMap;
use std::sync::Arc;

use sqlx::Row as _;
use sqlx::sqlite::SqliteConnection;

use super::batch::Batch;
use super::checkpoints;
use super::head::{self, Head};
use super::quarantine::{self, Damaged};
use super::row::number;
use super::rows;
use crate::store::{Checkpoint, FenceToken, Lease, Owner, Prefix};
use crate::{CatalogueChange, CatalogueEntry, Header, Seq, SessionId, UnixMillis};

/// Sessions whose heads are remembered.
const SESSIONS_KNOWN: usize = 4096;

/// Something to be written.
#[derive(Debug)]
pub(super) enum Request {
    Create {
        header: Header,
        seed: Batch,
    },
    Fork {
        header: Header,
        origin: Prefix,
        inherited: CatalogueChange,
        seed: Batch,
    },
    Append {
        session: SessionId,
        expected: Seq,
        batch: Batch,
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
    Quarantine {
        session: SessionId,
        damaged: Vec<Damaged>,
        now: UnixMillis,
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
    #[error("the origin has {length} events")]
    Beyond { length: Seq },
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

/// Where the logs end, as long as nobody else writes, and the keys of event types.
#[derive(Debug, Default)]
pub(super) struct Cache {
    heads: HashMap<SessionId, Head>,
    types: HashMap<Arc<str>, i64>,
}

impl Cache {
    /// After a rollback, what was learned inside the transaction does not hold.
    pub(super) fn forget(&mut self) {
        self.heads.clear();
        self.types.clear();
    }

    pub(super) fn head(&self, id: &SessionId) -> Option<Head> {
        self.heads.get(id).copied()
    }

    pub(super) fn kind(&self, name: &str) -> Option<i64> {
        self.types.get(name).copied()
    }

    pub(super) fn learn(&mut self, id: &SessionId, head: Head) {
        match self.heads.get_mut(id) {
            Some(known) => *known = head,
            None => {
                if self.heads.len() >= SESSIONS_KNOWN {
                    self.heads.clear();
                }
                self.heads.insert(id.clone(), head);
            }
        }
    }

    pub(super) async fn type_key(
        &mut self,
        connection: &mut SqliteConnection,
        name: &Arc<str>,
    ) -> Result<i64, sqlx::Error> {
        if let Some(key) = self.types.get(name) {
            return Ok(*key);
        }
        sqlx::query("insert into event_type (name) values (?) on conflict do nothing")
            .bind(&**name)
            .execute(&mut *connection)
            .await?;
        let key = sqlx::query_scalar("select key from event_type where name = ?")
            .bind(&**name)
            .fetch_one(connection)
            .await?;
        self.types.insert(Arc::clone(name), key);
        Ok(key)
    }
}

type Outcome = Result<Result<Option<FenceToken>, Refusal>, sqlx::Error>;

impl Request {
    /// The session whose log or catalogue entry it changes.
    pub(super) const fn changes(&self) -> Option<&SessionId> {
        match self {
            Self::Create { header, .. } | Self::Fork { header, .. } => Some(&header.id),
            Self::Append { session, .. } | Self::Quarantine { session, .. } => Some(session),
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
            Self::Fork {
                header,
                origin,
                inherited,
                seed,
            } => fork(connection, cache, header, origin, inherited, seed).await,
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
            Self::Quarantine { damaged, now, .. } => {
                quarantine::insert(connection, damaged, *now).await?;
                Ok(Ok(None))
            }
            Self::Close => Ok(Ok(None)),
        }
    }
}

async fn create(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    header: &Header,
    seed: &Batch,
) -> Outcome {
    if exists(connection, &header.id).await? {
        return Ok(Err(Refusal::Exists));
    }
    begin(
        connection,
        cache,
        header,
        None,
        CatalogueChange::default(),
        seed,
    )
    .await
}

async fn fork(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    header: &Header,
    origin: &Prefix,
    inherited: &CatalogueChange,
    seed: &Batch,
) -> Outcome {
    if exists(connection, &header.id).await? {
        return Ok(Err(Refusal::Exists));
    }
    let Some(head) = head::load(connection, &origin.session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    if origin.until > head.next {
        return Ok(Err(Refusal::Beyond { length: head.next }));
    }
    let base = head::at(connection, head.key, origin.until).await?.head;
    let base = Some(base).filter(|base| base.next > Seq::ZERO);
    begin(connection, cache, header, base, inherited.clone(), seed).await
}

/// Writes the row of a session, and the events that are its own.
async fn begin(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    header: &Header,
    origin: Option<Head>,
    inherited: CatalogueChange,
    seed: &Batch,
) -> Outcome {
    let json = serde_json::to_string(header).map_err(|error| sqlx::Error::Encode(error.into()))?;
    let mut entry = CatalogueEntry::new(header.clone());
    entry.apply(inherited);
    entry.apply(seed.change.clone());
    let base = origin.map_or(Seq::ZERO, |origin| origin.next);
    let key: i64 = sqlx::query_scalar(
        "insert into session (id, header, cwd, parent, created_at_ms, origin, inherited, \
         inherited_chain, updated_at_ms, known_seq, title, is_blank, is_open) \
         values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) returning key",
    )
    .bind(header.id.as_str())
    .bind(json)
    .bind(&header.cwd)
    .bind(header.parent_session.as_ref().map(SessionId::as_str))
    .bind(header.created_at.get())
    .bind(origin.map(|origin| origin.key))
    .bind(number(base))
    .bind(origin.map(|origin| origin.chain.as_bytes().to_vec()))
    .bind(entry.updated_at.get())
    .bind(number(seed.change.next_seq.unwrap_or(base)))
    .bind(&entry.title)
    .bind(entry.is_blank)
    .bind(entry.is_open)
    .fetch_one(&mut *connection)
    .await?;
    let head = Head {
        key,
        next: base,
        chain: origin.map_or(crate::ChainHash::GENESIS, |origin| origin.chain),
    };
    let head = rows::insert(connection, cache, head, seed, None).await?;
    cache.learn(&header.id, head);
    Ok(Ok(None))
}

async fn append(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    session: &SessionId,
    expected: Seq,
    batch: &Batch,
    fence: Option<FenceToken>,
) -> Outcome {
    let Some(head) = head::load(connection, session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    if let Some(token) = fence {
        let held: bool = sqlx::query_scalar(
            "select exists (select 1 from lease where session = ? and token = ? and owner is not null)",
        )
        .bind(head.key)
        .bind(i64::try_from(token.get()).unwrap_or(i64::MAX))
        .fetch_one(&mut *connection)
        .await?;
        if !held {
            return Ok(Err(Refusal::Fenced));
        }
    }
    if head.next != expected {
        let actual = head.next;
        return Ok(Err(Refusal::Conflict { actual }));
    }
    let head = rows::insert(connection, cache, head, batch, fence).await?;
    cache.learn(session, head);
    Ok(Ok(None))
}

async fn exists(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> Result<bool, sqlx::Error> {
    sqlx::query_scalar("select exists (select 1 from session where id = ?)")
        .bind(session.as_str())
        .fetch_one(connection)
        .await
}

async fn acquire(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    session: &SessionId,
    owner: &Owner,
    now: UnixMillis,
) -> Outcome {
    let Some(head) = head::load(connection, session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    cache.learn(session, head);
    let row = sqlx::query(
        "select owner, host, process, process_started, since_ms from lease \
         where session = ? and owner is not null",
    )
    .bind(head.key)
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
    .bind(head.key)
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
    let Some(Head { key, next, .. }) = head::load(connection, session).await? else {
        return Ok(Err(Refusal::NoSession));
    };
    if let Some(row) = rows.iter().find(|row| row.seq >= next) {
        return Ok(Err(Refusal::Ahead {
            key: row.key.clone(),
            seq: row.seq,
        }));
    }
    let rows: Vec<_> = rows.iter().map(|row| (key, row)).collect();
    checkpoints::save(connection, &rows).await?;
    Ok(Ok(None))
}
