//! A store that lasts as long as its process.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use futures::stream::BoxStream;
use tokio::sync::broadcast;

use super::watch::local;
use super::{
    AppendError, Checkpoint, CheckpointError, CheckpointStore, CreateError, EventStore, FenceToken,
    Lease, LeaseError, LeaseStore, Owner, Prefix, QuarantineError, QuarantineStore, Quarantined,
    ReadError, ReadRange, Scope, Wakeups, misnumbered, paged,
};
use crate::catalogue::sort_time;
use crate::{
    CatalogueChange, CatalogueEntry, Cursor, Event, Header, InvalidCursor, ListQuery, Page, Seq,
    SessionId, UnixMillis,
};

/// Keeps everything in memory. For tests, and for harnesses that keep no logs.
#[derive(Debug)]
pub struct MemoryStore {
    sessions: Mutex<BTreeMap<SessionId, Kept>>,
    changes: broadcast::Sender<SessionId>,
}

#[derive(Debug)]
struct Kept {
    entry: CatalogueEntry,
    /// Where the events before its own are: in a session that holds the last of them itself.
    origin: Option<Prefix>,
    events: Vec<Event>,
    checkpoints: BTreeMap<String, Checkpoint>,
    lease: Option<(Owner, UnixMillis)>,
    token: u64,
}

impl Kept {
    fn new(entry: CatalogueEntry, origin: Option<Prefix>, events: Vec<Event>) -> Self {
        Self {
            entry,
            origin,
            events,
            checkpoints: BTreeMap::new(),
            lease: None,
            token: 0,
        }
    }

    /// The position of the first event that is its own.
    fn first(&self) -> Seq {
        self.origin
            .as_ref()
            .map_or(Seq::ZERO, |origin| origin.until)
    }

    /// Where an event is that it inherited; `None` for one of its own.
    fn inherits(&self, seq: Seq) -> Option<&Prefix> {
        self.origin.as_ref().filter(|origin| seq < origin.until)
    }
}

const WAKEUPS_HELD: usize = 256;
const PAGE: usize = 256;

impl MemoryStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        let (changes, _) = broadcast::channel(WAKEUPS_HELD);
        Self {
            sessions: Mutex::default(),
            changes,
        }
    }

    /// An empty store, ready to be shared.
    #[must_use]
    pub fn shared() -> Arc<Self> {
        Arc::new(Self::new())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, Kept>> {
        // No code below panics between two changes that belong together.
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn changed(&self, session: &SessionId) {
        // Fails only when nobody listens.
        let _ = self.changes.send(session.clone());
    }

    /// The beginning of a range, as far as one session holds it.
    fn page(&self, session: &SessionId, range: ReadRange) -> Result<Vec<Event>, ReadError> {
        let sessions = self.lock();
        let mut kept = find(&sessions, session)?;
        let length = kept.entry.next_seq;
        let mut until = range.until.map_or(length, |until| until.min(length));
        let Some(last) = until.previous().filter(|last| *last >= range.from) else {
            return Ok(Vec::new());
        };
        let due = if range.backward { last } else { range.from };
        while let Some(origin) = kept.inherits(due) {
            until = until.min(origin.until);
            kept = find(&sessions, &origin.session)?;
        }
        let first = kept.first();
        let within = |seq: Seq| usize::try_from(seq.get().saturating_sub(first.get()));
        let (from, until) = (within(range.from), within(until));
        let (from, until) = (from.unwrap_or(usize::MAX), until.unwrap_or(usize::MAX));
        let events = kept.events.get(from..until).unwrap_or_default();
        Ok(if range.backward {
            events.iter().rev().take(PAGE).cloned().collect()
        } else {
            events.iter().take(PAGE).cloned().collect()
        })
    }
}

fn find<'a>(
    sessions: &'a BTreeMap<SessionId, Kept>,
    session: &SessionId,
) -> Result<&'a Kept, ReadError> {
    sessions.get(session).ok_or_else(|| ReadError::NotFound {
        session: session.clone(),
    })
}

impl Default for MemoryStore {
    fn default() -> Self {
        Self::new()
    }
}

#[async_trait]
impl EventStore for MemoryStore {
    async fn create(&self, header: &Header, seed: Vec<Event>) -> Result<(), CreateError> {
        let session = header.id.clone();
        if let Some((expected, found)) = misnumbered(Seq::ZERO, &seed) {
            return Err(CreateError::Misnumbered {
                session,
                expected,
                found,
            });
        }
        let mut sessions = self.lock();
        if sessions.contains_key(&session) {
            return Err(CreateError::Exists { session });
        }
        let mut entry = CatalogueEntry::new(header.clone());
        entry.apply(CatalogueChange::of(&seed));
        sessions.insert(session.clone(), Kept::new(entry, None, seed));
        drop(sessions);
        self.changed(&session);
        Ok(())
    }

    async fn fork(
        &self,
        header: &Header,
        origin: &Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        let session = header.id.clone();
        if let Some((expected, found)) = misnumbered(origin.until, &seed) {
            return Err(CreateError::Misnumbered {
                session,
                expected,
                found,
            });
        }
        let mut sessions = self.lock();
        if sessions.contains_key(&session) {
            return Err(CreateError::Exists { session });
        }
        let mut holder = origin.clone();
        let Some(mut kept) = sessions.get(&holder.session) else {
            let origin = holder.session;
            return Err(CreateError::NoOrigin { session, origin });
        };
        let length = kept.entry.next_seq;
        if origin.until > length {
            return Err(CreateError::Beyond {
                session,
                origin: holder.session,
                until: origin.until,
                length,
            });
        }
        // Straight to the session that holds the last event, so that no read walks further than it
        // has to.
        while let Some(above) = origin.until.previous().and_then(|last| kept.inherits(last))
            && let Some(next) = sessions.get(&above.session)
        {
            holder.session = above.session.clone();
            kept = next;
        }
        let mut entry = CatalogueEntry::new(header.clone());
        entry.apply(inherited);
        entry.next_seq = origin.until;
        entry.apply(CatalogueChange::of(&seed));
        sessions.insert(session.clone(), Kept::new(entry, Some(holder), seed));
        drop(sessions);
        self.changed(&session);
        Ok(())
    }

    async fn append(
        &self,
        session: &SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        let session = session.clone();
        if let Some((expected, found)) = misnumbered(expected, &batch) {
            return Err(AppendError::Misnumbered {
                session,
                expected,
                found,
            });
        }
        let mut sessions = self.lock();
        let Some(kept) = sessions.get_mut(&session) else {
            return Err(AppendError::NotFound { session });
        };
        if fence.is_some_and(|token| kept.lease.is_none() || token.get() != kept.token) {
            return Err(AppendError::Fenced { session });
        }
        let actual = kept.entry.next_seq;
        if actual != expected {
            return Err(AppendError::Conflict {
                session,
                expected,
                actual,
            });
        }
        kept.entry.apply(CatalogueChange::of(&batch));
        kept.events.extend(batch);
        drop(sessions);
        self.changed(&session);
        Ok(())
    }

    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>> {
        let session = session.clone();
        let read = move |range| std::future::ready(self.page(&session, range));
        paged(range, read)
    }

    async fn entry(&self, session: &SessionId) -> Result<CatalogueEntry, ReadError> {
        find(&self.lock(), session).map(|kept| kept.entry.clone())
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        if let Some(cursor) = query
            .after
            .as_ref()
            .filter(|cursor| cursor.order() != query.order)
        {
            return Err(InvalidCursor(cursor.to_string()).into());
        }
        let sessions = self.lock();
        let mut entries: Vec<_> = sessions
            .values()
            .map(|kept| &kept.entry)
            .filter(|entry| query.filter.admits(entry))
            .filter(|entry| {
                query
                    .after
                    .as_ref()
                    .is_none_or(|cursor| cursor.precedes(entry))
            })
            .cloned()
            .collect();
        // The map is in the order of ids, and the sort keeps it among equal times.
        entries.sort_by_key(|entry| std::cmp::Reverse(sort_time(query.order, entry)));
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        let more = entries.len() > limit;
        entries.truncate(limit);
        let last = entries.last().filter(|_| more);
        let next = last.map(|last| Cursor::at(query.order, last));
        Ok(Page {
            entries,
            damaged: Vec::new(),
            next,
        })
    }

    fn watch(&self, scope: Scope) -> Wakeups {
        Wakeups::new(local(scope, self.changes.subscribe()))
    }
}

#[async_trait]
impl LeaseStore for MemoryStore {
    async fn acquire(
        &self,
        session: &SessionId,
        owner: &Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError> {
        let mut sessions = self.lock();
        let Some(kept) = sessions.get_mut(session) else {
            return Err(LeaseError::NotFound {
                session: session.clone(),
            });
        };
        if let Some((holder, since)) = &kept.lease
            && holder.id != owner.id
            && !holder.is_gone()
        {
            let owner = Box::new(holder.clone());
            return Err(LeaseError::Held {
                session: session.clone(),
                owner,
                since: *since,
            });
        }
        kept.token += 1;
        kept.lease = Some((owner.clone(), now));
        Ok(Lease {
            session: session.clone(),
            token: FenceToken::new(kept.token),
        })
    }

    async fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        let mut sessions = self.lock();
        if let Some(kept) = sessions.get_mut(&lease.session)
            && kept.token == lease.token.get()
        {
            kept.lease = None;
        }
        Ok(())
    }
}

/// Nothing in memory is ever damaged.
#[async_trait]
impl QuarantineStore for MemoryStore {
    async fn quarantine(
        &self,
        session: &SessionId,
        positions: &[Seq],
        _now: UnixMillis,
    ) -> Result<Vec<Quarantined>, QuarantineError> {
        let length = find(&self.lock(), session)?.entry.next_seq;
        let session = session.clone();
        match positions.first() {
            None => Ok(Vec::new()),
            Some(&seq) if seq < length => Err(QuarantineError::NotDamaged { session, seq }),
            Some(&seq) => Err(QuarantineError::Beyond { session, seq }),
        }
    }
}

#[async_trait]
impl CheckpointStore for MemoryStore {
    async fn load(&self, session: &SessionId) -> Result<Vec<Checkpoint>, ReadError> {
        let sessions = self.lock();
        let kept = sessions.get(session);
        Ok(kept
            .map(|kept| kept.checkpoints.values().cloned().collect())
            .unwrap_or_default())
    }

    async fn save(
        &self,
        session: &SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        let mut sessions = self.lock();
        let session = session.clone();
        let Some(kept) = sessions.get_mut(&session) else {
            return Err(CheckpointError::NotFound { session });
        };
        if let Some(row) = rows.iter().find(|row| row.seq >= kept.entry.next_seq) {
            let (key, seq) = (row.key.clone(), row.seq);
            return Err(CheckpointError::Ahead { session, key, seq });
        }
        for row in rows {
            let newer = kept
                .checkpoints
                .get(&row.key)
                .is_none_or(|old| old.state_version != row.state_version || old.seq <= row.seq);
            if newer {
                kept.checkpoints.insert(row.key.clone(), row);
            }
        }
        Ok(())
    }
}
