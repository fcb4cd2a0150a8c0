//! Reading logs, page by page.
//!
//! A page is one short read transaction, so that no reader pins the write-ahead log. A long read
//! fetches the next page while the caller is busy with this one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use futures::TryStreamExt as _;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, SqlitePool};
use tokio::task::JoinHandle;

use super::quarantine::gaps;
use super::row::{self, backend, number, seq};
use crate::event::type_name;
use crate::pages::{Pager, flatten};
use crate::store::record::Record;
use crate::store::{Quarantined, ReadError, ReadRange};
use crate::{Event, Seq, SessionId};

/// Events that a page spans: the first one, which may be all that is wanted, and the others.
const FIRST_PAGE: u64 = 64;
const PAGE: u64 = 512;
/// Bytes of rows after which a page is full.
const PAGE_BYTES: usize = 4 << 20;
/// Sessions whose lineage is remembered.
const SESSIONS_KNOWN: usize = 4096;

// The length of the log is read in the same cut, so that an event that is not there can be told
// from one that is yet to come. The first row is the one that holds the first position.
macro_rules! page {
    ($low:literal, $high:literal, $order:literal) => {
        concat!(
            "with log as (select key, max(known_seq, inherited, coalesce((select seq + events ",
            "from record where session = key order by seq desc limit 1), 0)) as length ",
            "from session where key = ?1), ",
            "part as (select key, length, ",
            $low,
            " as low, ",
            $high,
            " as high from log) ",
            "select part.length, r.seq, r.events, r.type, t.name, r.recorded_at_ms, r.data, ",
            "r.surface_op, r.sources, r.ignorable, r.checksum from part left join record r ",
            "on r.session = part.key and r.seq < part.high and r.seq >= coalesce((select max(seq) ",
            "from record where session = part.key and seq <= part.low), 0) ",
            "left join event_type t on t.key = r.type order by r.seq",
            $order
        )
    };
}
const FORWARD: &str = page!("?2", "min(?3, ?2 + ?4)", "");
const BACKWARD: &str = page!("max(?2, min(?3, length) - ?4)", "min(?3, length)", " desc");

/// The logs of a database, and what has been found out of them that never changes.
#[derive(Debug, Clone)]
pub(super) struct Logs {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    pool: SqlitePool,
    lineages: Mutex<HashMap<SessionId, Lineage>>,
}

/// Whose rows hold which part of a log: the session's own last part first, then those that it has
/// inherited.
type Lineage = Arc<[Part]>;

#[derive(Debug, Clone, Copy)]
struct Part {
    key: i64,
    from: Seq,
    /// Whether events of it were given up.
    is_torn: bool,
}

impl Logs {
    pub(super) fn new(pool: SqlitePool) -> Self {
        let shared = Shared {
            pool,
            lineages: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    pub(super) fn read(
        &self,
        session: SessionId,
        range: ReadRange,
    ) -> BoxStream<'static, Result<Event, ReadError>> {
        let span = range
            .until
            .map(|until| until.get().saturating_sub(range.from.get()));
        flatten(LogPager {
            logs: self.clone(),
            session,
            rest: Some(range),
            // Known to be short, it is one page.
            window: span.filter(|span| *span <= PAGE).unwrap_or(FIRST_PAGE),
            ahead: None,
        })
    }

    /// The beginning of a range, none when the log has nothing there. Ends before a damaged event,
    /// so that the next page is the one to report it.
    async fn page(
        &self,
        session: &SessionId,
        range: ReadRange,
        window: u64,
    ) -> Result<Vec<Event>, ReadError> {
        let known = self.known(session);
        let is_known = known.is_some();
        let lineage = match known {
            Some(lineage) => lineage,
            None => self.lineage(session).await?,
        };
        match self.page_of(session, &lineage, range, window).await {
            // Another process may have deleted it, and made another one of the same id, or have
            // given up what is damaged.
            Err(ReadError::NotFound { .. } | ReadError::Damaged { .. }) if is_known => {
                let lineage = self.lineage(session).await?;
                self.page_of(session, &lineage, range, window).await
            }
            page => page,
        }
    }

    async fn page_of(
        &self,
        session: &SessionId,
        lineage: &[Part],
        range: ReadRange,
        window: u64,
    ) -> Result<Vec<Event>, ReadError> {
        let mut range = range;
        loop {
            let wanted = match (range.backward, range.until) {
                (true, Some(until)) => until.previous(),
                (true, None) => Some(Seq::MAX),
                (false, _) => Some(range.from),
            };
            let Some(wanted) = wanted else {
                return Ok(Vec::new());
            };
            let nth = lineage
                .iter()
                .position(|part| part.from <= wanted)
                .unwrap_or(0);
            let part = lineage[nth];
            // Where the part after this one begins, this one has an event for each position.
            let inherited = nth.checked_sub(1).map(|after| lineage[after].from);
            let (page, end) = self.torn(session, part, inherited, range, window).await?;
            if page.is_empty() && range.backward && end > range.from && part.from > Seq::ZERO {
                // Nothing of its own there: on with what it has inherited.
                range.until = Some(end.min(part.from));
                continue;
            }
            return Ok(page);
        }
    }

    /// Reads from the rows of one session, and gaps in place of what was given up. Returns where its
    /// part ends, too.
    async fn torn(
        &self,
        session: &SessionId,
        part: Part,
        inherited: Option<Seq>,
        range: ReadRange,
        window: u64,
    ) -> Result<(Vec<Event>, Seq), ReadError> {
        if !part.is_torn {
            return self.part(session, part, inherited, range, window).await;
        }
        let own = ReadRange {
            from: range.from.max(part.from),
            until: range.until.into_iter().chain(inherited).min(),
            ..range
        };
        let gaps = gaps(&self.shared.pool, part.key, own).await?;
        let Some(first) = gaps.first().map(|gap| gap.seq) else {
            return self.part(session, part, inherited, range, window).await;
        };
        // What can be read up to there goes first.
        let until_there = if range.backward {
            ReadRange {
                from: first.next(),
                ..own
            }
        } else {
            ReadRange {
                until: Some(first),
                ..own
            }
        };
        if range.backward || own.from < first {
            let (page, end) = self
                .part(session, part, inherited, until_there, window)
                .await?;
            if !range.backward || !page.is_empty() {
                return Ok((page, end));
            }
        }
        let end = first.next();
        Ok((gaps.iter().map(Quarantined::gap).collect(), end))
    }

    /// Reads from the rows of one session. Returns where its part ends, too.
    async fn part(
        &self,
        session: &SessionId,
        part: Part,
        inherited: Option<Seq>,
        range: ReadRange,
        window: u64,
    ) -> Result<(Vec<Event>, Seq), ReadError> {
        let low = range.from.max(part.from);
        let until = range.until.into_iter().chain(inherited).min();
        let mut rows = sqlx::query(if range.backward { BACKWARD } else { FORWARD })
            .bind(part.key)
            .bind(number(low))
            .bind(until.map_or(i64::MAX, number))
            .bind(i64::try_from(window).unwrap_or(i64::MAX))
            .fetch(&self.shared.pool);
        let mut page: Vec<Event> = Vec::new();
        let mut bytes = 0;
        let mut left: Option<ReadRange> = None;
        let mut end = None;
        while let Some(row) = rows.try_next().await.map_err(backend)? {
            let length = inherited.unwrap_or(seq(row.try_get(0).map_err(backend)?));
            let until = until.map_or(length, |until| until.min(length));
            end = Some(until);
            if low >= until {
                break;
            }
            let rest = left.unwrap_or(ReadRange {
                from: low,
                until: Some(until),
                backward: range.backward,
            });
            let due = rest.first();
            let events = match record(&row) {
                Some(Ok(record)) => events(&record, due, rest),
                Some(Err(reason)) => Err(reason),
                None => Err("it is missing".into()),
            };
            match events {
                Ok(events) => {
                    bytes += events
                        .iter()
                        .map(|event| event.data().as_str().len())
                        .sum::<usize>();
                    page.extend(events);
                }
                Err(reason) if page.is_empty() => {
                    let session = session.clone();
                    return Err(ReadError::Damaged {
                        session,
                        seq: due,
                        reason,
                    });
                }
                Err(_) => break,
            }
            left = page.last().and_then(|last| rest.after(last.seq()));
            if left.is_none() || bytes >= PAGE_BYTES {
                break;
            }
        }
        let session = session.clone();
        let end = end.ok_or(ReadError::NotFound { session })?;
        Ok((page, end))
    }

    /// The key of the session whose rows hold a position.
    pub(super) async fn holder(&self, session: &SessionId, seq: Seq) -> Result<i64, ReadError> {
        let lineage = self.lineage(session).await?;
        let holder = lineage.iter().find(|part| part.from <= seq);
        let session = session.clone();
        holder
            .map(|part| part.key)
            .ok_or(ReadError::NotFound { session })
    }

    /// Forgets what was found out, since events were given up.
    pub(super) fn forget(&self) {
        let lineages = &self.shared.lineages;
        lineages
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    fn known(&self, session: &SessionId) -> Option<Lineage> {
        let lineages = &self.shared.lineages;
        let lineages = lineages.lock().unwrap_or_else(PoisonError::into_inner);
        lineages.get(session).cloned()
    }

    async fn lineage(&self, session: &SessionId) -> Result<Lineage, ReadError> {
        let rows = sqlx::query(
            "with recursive line (key, origin, inherited) as ( \
             select key, origin, inherited from session where id = ? union all \
             select s.key, s.origin, s.inherited from line join session s on s.key = line.origin \
             where s.inherited < line.inherited) select key, inherited, \
             exists (select 1 from quarantine where session = key) from line",
        )
        .bind(session.as_str())
        .fetch_all(&self.shared.pool)
        .await
        .map_err(backend)?;
        let part = |row: &SqliteRow| -> Result<Part, sqlx::Error> {
            Ok(Part {
                key: row.try_get(0)?,
                from: seq(row.try_get(1)?),
                is_torn: row.try_get(2)?,
            })
        };
        let parts: Result<Vec<Part>, sqlx::Error> = rows.iter().map(part).collect();
        let lineage: Lineage = parts.map_err(backend)?.into();
        if lineage.is_empty() {
            let session = session.clone();
            return Err(ReadError::NotFound { session });
        }
        let lineages = &self.shared.lineages;
        let mut lineages = lineages.lock().unwrap_or_else(PoisonError::into_inner);
        if lineages.len() >= SESSIONS_KNOWN {
            lineages.clear();
        }
        lineages.insert(session.clone(), Arc::clone(&lineage));
        Ok(lineage)
    }
}

/// The record in a row of a page; none where the row holds none.
fn record(row: &SqliteRow) -> Option<Result<Record, String>> {
    if matches!(row.try_get::<Option<i64>, _>(1), Ok(None)) {
        return None;
    }
    let kind = match (row.try_get::<Option<i64>, _>(3), row::text(row, 4)) {
        (Ok(None), _) => None,
        (Ok(Some(_)), Ok(Some(name))) => Some(type_name(&name)),
        _ => return Some(Err("its type is missing".into())),
    };
    Some(row::record(row, 1, kind))
}

/// The events of a record that lie in `range`, in its order, of which `due` must be the first.
fn events(record: &Record, due: Seq, range: ReadRange) -> Result<Vec<Event>, String> {
    if !(record.seq..record.end()).contains(&due) {
        return Err("it is missing".into());
    }
    let mut events = record.decode()?;
    let within = |event: &Event| {
        event.seq() >= range.from && range.until.is_none_or(|until| event.seq() < until)
    };
    events.retain(within);
    if range.backward {
        events.reverse();
    }
    Ok(events)
}

/// Reads a range page by page.
struct LogPager {
    logs: Logs,
    session: SessionId,
    rest: Option<ReadRange>,
    window: u64,
    ahead: Option<Ahead>,
}

/// A page that is being fetched, given up with its reader.
struct Ahead(JoinHandle<Result<Vec<Event>, ReadError>>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl LogPager {
    fn fetch(
        &self,
        range: ReadRange,
    ) -> impl Future<Output = Result<Vec<Event>, ReadError>> + use<> {
        let (logs, session, window) = (self.logs.clone(), self.session.clone(), self.window);
        async move { logs.page(&session, range, window).await }
    }
}

impl Pager for LogPager {
    fn page(&mut self) -> BoxFuture<'_, Result<Option<Vec<Event>>, ReadError>> {
        Box::pin(async move {
            let Some(range) = self.rest.take() else {
                return Ok(None);
            };
            let page = match self.ahead.take() {
                Some(mut ahead) => {
                    let page = (&mut ahead.0).await;
                    page.map_err(|error| ReadError::Backend(error.into()))??
                }
                None => self.fetch(range).await?,
            };
            self.rest = page.last().and_then(|last| range.after(last.seq()));
            if let Some(rest) = self.rest {
                let is_first = std::mem::replace(&mut self.window, PAGE) != PAGE;
                // Who asks for a second page is likely to ask for a third.
                if !is_first {
                    self.ahead = Some(Ahead(tokio::spawn(self.fetch(rest))));
                }
            }
            Ok(Some(page))
        })
    }
}
