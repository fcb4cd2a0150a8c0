//! Where a log ends: the next position, and the hash chain up to there.

use sqlx::Row as _;
use sqlx::sqlite::{SqliteConnection, SqliteRow};

use super::row::{self, number, seq};
use crate::{ChainHash, Seq, SessionId};

/// The end of a log, or of the first part of one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Head {
    /// The session whose rows reach to there.
    pub(super) key: i64,
    /// The position after the last event.
    pub(super) next: Seq,
    pub(super) chain: ChainHash,
}

/// The end of the first part of a log.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part {
    pub(super) head: Head,
    /// Whether the chain goes over all events up to there; what is lost has none.
    pub(super) is_whole: bool,
}

/// The end of a session's log; none where there is no such session.
pub(super) async fn load(
    connection: &mut SqliteConnection,
    session: &SessionId,
) -> Result<Option<Head>, sqlx::Error> {
    let row = sqlx::query(
        "select s.key, coalesce(r.seq + r.events, s.inherited), \
         coalesce(r.chain, s.inherited_chain), s.known_seq from session s left join record r \
         on r.session = s.key and r.seq = (select max(seq) from record where session = s.key) \
         where s.id = ?",
    )
    .bind(session.as_str())
    .fetch_optional(connection)
    .await?;
    row.map(|row| {
        let (next, known): (i64, i64) = (row.try_get(1)?, row.try_get(3)?);
        Ok(Head {
            key: row.try_get(0)?,
            // Where its end was lost, nothing fits any more, and that is found out at the insert.
            next: seq(next.max(known)),
            chain: chain(&row, 2)?,
        })
    })
    .transpose()
}

/// The end of the first `until` events of a session, in the rows that hold the last of them: the
/// session's own, or those that it has inherited.
pub(super) async fn at(
    connection: &mut SqliteConnection,
    mut key: i64,
    until: Seq,
) -> Result<Part, sqlx::Error> {
    loop {
        let row =
            sqlx::query("select origin, inherited, inherited_chain from session where key = ?")
                .bind(key)
                .fetch_one(&mut *connection)
                .await?;
        let (origin, inherited) = (row.try_get::<Option<i64>, _>(0)?, seq(row.try_get(1)?));
        match origin {
            Some(origin) if until <= inherited => key = origin,
            _ => {
                let chain = chain(&row, 2)?;
                return within(
                    connection,
                    Head {
                        key,
                        next: inherited,
                        chain,
                    },
                    until,
                )
                .await;
            }
        }
    }
}

/// Goes from where a session's own rows begin to `until`.
async fn within(
    connection: &mut SqliteConnection,
    begin: Head,
    until: Seq,
) -> Result<Part, sqlx::Error> {
    let Some(last) = until.previous().filter(|last| *last >= begin.next) else {
        return Ok(Part {
            head: begin,
            is_whole: true,
        });
    };
    // The row that holds the last event, and the one before it, whose chain it continues.
    let rows = sqlx::query(
        "select r.seq, r.events, r.chain, t.name, r.recorded_at_ms, r.data, r.surface_op, \
         r.sources, r.ignorable, r.checksum from record r left join event_type t on t.key = r.type \
         where r.session = ? and r.seq <= ? order by r.seq desc limit 2",
    )
    .bind(begin.key)
    .bind(number(last))
    .fetch_all(connection)
    .await?;
    let Some(row) = rows.first() else {
        let head = Head {
            next: until,
            ..begin
        };
        return Ok(Part {
            head,
            is_whole: false,
        });
    };
    let (first, events): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
    let end = seq(first.saturating_add(events));
    // Nothing can be told of what is lost: the chain stays where it was last known.
    let (chain, is_whole) = if end <= until {
        (chain(row, 2)?, end == until)
    } else {
        let before = rows.get(1).map_or(Ok(begin.chain), |row| chain(row, 2))?;
        let decoded = row::record(row, 0, row.try_get::<Option<String>, _>(3)?.map(Into::into))
            .and_then(|record| record.decode());
        let known = decoded.iter().flatten();
        let chain = before.over(known.take_while(|event| event.seq() < until));
        (chain, decoded.is_ok())
    };
    let head = Head {
        key: begin.key,
        next: until,
        chain,
    };
    Ok(Part { head, is_whole })
}

/// The chain in a column; null is the beginning of every chain.
fn chain(row: &SqliteRow, column: usize) -> Result<ChainHash, sqlx::Error> {
    let bytes: Option<&[u8]> = row.try_get(column)?;
    bytes.map_or(Ok(ChainHash::GENESIS), |bytes| {
        let bytes = bytes
            .try_into()
            .map_err(|_| sqlx::Error::Decode("a chain has 32 bytes".into()))?;
        Ok(ChainHash::from_bytes(bytes))
    })
}
