//! The one statement by which events get into a log.

use sqlx::QueryBuilder;
use sqlx::sqlite::{Sqlite, SqliteConnection};

use super::batch::Batch;
use super::head::Head;
use super::row::number;
use super::write::Cache;
use crate::store::FenceToken;
use crate::store::record::{Data, Record};
use crate::{CatalogueChange, ChainHash, UnixMillis};

/// Rows per statement; measured best with this driver.
pub(super) const ROWS: usize = 128;

const INSERT: &str = "insert into append (session, token, seq, events, type, recorded_at_ms, data, \
    surface_op, sources, ignorable, checksum, chain, prompted_at_ms, title, is_open) ";

/// A record with what it depends on and changes.
#[derive(Debug)]
pub(super) struct Row<'a> {
    session: i64,
    /// The lease that must still be held.
    token: Option<u64>,
    record: &'a Record,
    kind: Option<i64>,
    chain: ChainHash,
    /// What the catalogue is told.
    change: Option<&'a CatalogueChange>,
}

/// The rows of a batch that goes on from `head`, and where the log ends then. `kind` looks up the
/// key of a type; none of it comes of one that is not known.
pub(super) fn rows<'a>(
    head: Head,
    batch: &'a Batch,
    fence: Option<FenceToken>,
    kind: impl Fn(&str) -> Option<i64>,
) -> Option<(Vec<Row<'a>>, Head)> {
    let mut hashes = batch.hashes.iter();
    let mut chain = head.chain;
    let mut rows = Vec::with_capacity(batch.records.len());
    for record in &batch.records {
        let own = hashes.by_ref().take(record.events as usize);
        chain = own.fold(chain, |chain, hash| chain.then(*hash));
        let kind = match &record.kind {
            Some(name) => Some(kind(name)?),
            None => None,
        };
        rows.push(Row {
            session: head.key,
            token: None,
            record,
            kind,
            chain,
            change: None,
        });
    }
    if let Some(first) = rows.first_mut() {
        first.token = fence.map(FenceToken::get);
    }
    if let Some(last) = rows.last_mut() {
        last.change = Some(&batch.change);
    }
    let next = batch.records.last().map_or(head.next, Record::end);
    Some((
        rows,
        Head {
            chain,
            next,
            ..head
        },
    ))
}

/// Inserts the rows of a batch inside a transaction.
pub(super) async fn insert(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    head: Head,
    batch: &Batch,
    fence: Option<FenceToken>,
) -> Result<Head, sqlx::Error> {
    for name in batch
        .records
        .iter()
        .filter_map(|record| record.kind.as_ref())
    {
        cache.type_key(connection, name).await?;
    }
    let planned = rows(head, batch, fence, |name| cache.kind(name));
    let (mut rest, end) = planned.ok_or(sqlx::Error::RowNotFound)?;
    while !rest.is_empty() {
        let after = rest.split_off(rest.len().min(ROWS));
        write(connection, rest).await?;
        rest = after;
    }
    Ok(end)
}

/// Writes rows, at most [`ROWS`], by one statement.
pub(super) async fn write(
    connection: &mut SqliteConnection,
    rows: Vec<Row<'_>>,
) -> Result<(), sqlx::Error> {
    let mut sql = QueryBuilder::<Sqlite>::new(INSERT);
    sql.push_values(rows, |mut values, row| {
        let Row {
            session,
            token,
            record,
            kind,
            chain,
            change,
        } = row;
        values
            .push_bind(session)
            .push_bind(token.map(|token| i64::try_from(token).unwrap_or(i64::MAX)))
            .push_bind(number(record.seq))
            .push_bind(i64::from(record.events))
            .push_bind(kind)
            .push_bind(record.time.get());
        match &record.data {
            Data::Text(text) => values.push_bind(text.as_str()),
            Data::Zstd(bytes) => values.push_bind(bytes.as_slice()),
        };
        values
            .push_bind(record.surface_op.as_deref())
            .push_bind(record.sources.as_deref())
            .push_bind(record.ignorable.then_some(1_i64))
            .push_bind(i64::from(record.checksum()))
            .push_bind(chain.as_bytes().to_vec())
            .push_bind(
                change
                    .and_then(|change| change.prompted_at)
                    .map(UnixMillis::get),
            )
            .push_bind(change.and_then(|change| change.title.as_deref()))
            .push_bind(change.and_then(|change| change.is_open));
    });
    sql.build().execute(connection).await.map(drop)
}
