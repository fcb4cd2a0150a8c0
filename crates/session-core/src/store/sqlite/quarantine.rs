//! Giving damaged events up: what is damaged, and what is read in its place.

use futures::TryStreamExt as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row as _, SqlitePool};

use super::log::Logs;
use super::reader;
use super::row::{backend, number, seq};
use crate::store::{QuarantineError, Quarantined, ReadError, ReadRange};
use crate::{Seq, SessionId, UnixMillis};

/// Gaps that are read at once.
const PAGE: i64 = 512;

/// A damaged event, and whose rows should have held it.
#[derive(Debug)]
pub(super) struct Damaged {
    key: i64,
    event: Quarantined,
}

impl Damaged {
    pub(super) const fn event(&self) -> &Quarantined {
        &self.event
    }
}

/// Looks at each position, and makes sure that it is damaged.
pub(super) async fn examine(
    readers: &SqlitePool,
    logs: &Logs,
    session: &SessionId,
    positions: &[Seq],
) -> Result<Vec<Damaged>, QuarantineError> {
    let mut damaged: Vec<Damaged> = Vec::with_capacity(positions.len());
    for &seq in positions {
        let session = session.clone();
        let range = ReadRange {
            until: Some(seq.next()),
            ..ReadRange::from(seq)
        };
        let reason = match logs.read(session.clone(), range).try_next().await {
            Err(ReadError::Damaged { reason, .. }) => reason,
            Err(error) => return Err(error.into()),
            Ok(Some(_)) => return Err(QuarantineError::NotDamaged { session, seq }),
            Ok(None) => return Err(QuarantineError::Beyond { session, seq }),
        };
        let before = damaged.last().map(|last| &last.event);
        let time = match before.filter(|last| Some(last.seq) == seq.previous()) {
            Some(last) => last.time,
            None => time_before(readers, logs, &session, seq).await?,
        };
        damaged.push(Damaged {
            key: logs.holder(&session, seq).await?,
            event: Quarantined { seq, reason, time },
        });
    }
    Ok(damaged)
}

/// The time of the last event before `until` that can be read.
async fn time_before(
    readers: &SqlitePool,
    logs: &Logs,
    session: &SessionId,
    mut until: Seq,
) -> Result<UnixMillis, ReadError> {
    loop {
        if until == Seq::ZERO {
            return Ok(reader::entry(readers, session).await?.header.created_at);
        }
        let range = ReadRange::backward_before(Some(until));
        match logs.read(session.clone(), range).try_next().await {
            Ok(Some(event)) => return Ok(event.time_ms()),
            Ok(None) => until = Seq::ZERO,
            Err(ReadError::Damaged { seq, .. }) => until = seq,
            Err(error) => return Err(error),
        }
    }
}

/// Writes down what is given up, and drops the checkpoints that may reflect it.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    damaged: &[Damaged],
    now: UnixMillis,
) -> Result<(), sqlx::Error> {
    for Damaged { key, event } in damaged {
        sqlx::query(
            "insert into quarantine (session, seq, reason, recorded_at_ms, found_at_ms) \
             values (?, ?, ?, ?, ?)",
        )
        .bind(key)
        .bind(number(event.seq))
        .bind(&event.reason)
        .bind(event.time.get())
        .bind(now.get())
        .execute(&mut *connection)
        .await?;
        sqlx::query(
            "with recursive heir (key) as (select ?1 union select s.key from heir \
             join session s on s.origin = heir.key where s.inherited > ?2) \
             delete from checkpoint where seq >= ?2 and session in (select key from heir)",
        )
        .bind(key)
        .bind(number(event.seq))
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

/// What is read in place of the events that were given up, in the direction of `range` and from
/// the first of them in it, as long as they follow each other.
pub(super) async fn gaps(
    readers: &SqlitePool,
    key: i64,
    range: ReadRange,
) -> Result<Vec<Quarantined>, ReadError> {
    const FORWARD: &str = "select seq, reason, recorded_at_ms from quarantine \
        where session = ? and seq >= ? and seq < ? order by seq limit ?";
    const BACKWARD: &str = "select seq, reason, recorded_at_ms from quarantine \
        where session = ? and seq >= ? and seq < ? order by seq desc limit ?";
    let rows = sqlx::query(if range.backward { BACKWARD } else { FORWARD })
        .bind(key)
        .bind(number(range.from))
        .bind(range.until.map_or(i64::MAX, number))
        .bind(PAGE)
        .fetch_all(readers)
        .await
        .map_err(backend)?;
    let read = |row: &SqliteRow| -> Result<Quarantined, sqlx::Error> {
        Ok(Quarantined {
            seq: seq(row.try_get(0)?),
            reason: row.try_get(1)?,
            time: UnixMillis::new(row.try_get(2)?),
        })
    };
    let all: Vec<Quarantined> = rows
        .iter()
        .map(read)
        .collect::<Result<_, _>>()
        .map_err(backend)?;
    let follows = |pair: &[Quarantined]| {
        let (low, high) = if range.backward { (1, 0) } else { (0, 1) };
        pair[low].seq.next() == pair[high].seq
    };
    let run = 1 + all.windows(2).take_while(|pair| follows(pair)).count();
    Ok(all.into_iter().take(run).collect())
}
