//! Rows and what they become, converted in one place.

use std::sync::Arc;

use sqlx::sqlite::SqliteRow;
use sqlx::{Row as _, TypeInfo as _, ValueRef as _};

use crate::store::ReadError;
use crate::store::record::{Data, Record};
use crate::{CatalogueEntry, Cursor, Header, HeaderError, ListOrder, Seq, UnixMillis};

/// The record in a row, as it was made; anything else is damage. From the column `at` on the row
/// holds: seq, events, (another column), (another), time, data, surface operation, sources,
/// ignorable and checksum. The name of its type is given.
pub(super) fn record(row: &SqliteRow, at: usize, kind: Option<Arc<str>>) -> Result<Record, String> {
    let integer = |column: usize, name: &str| {
        let number = row.try_get::<i64, _>(at + column);
        number.map_err(|error| format!("{name}: {error}"))
    };
    let events =
        u32::try_from(integer(1, "events")?).map_err(|error| format!("events: {error}"))?;
    let raw = row
        .try_get_raw(at + 5)
        .map_err(|error| format!("data: {error}"))?;
    let data = if raw.type_info().name() == "BLOB" {
        Data::Zstd(
            row.try_get(at + 5)
                .map_err(|error| format!("data: {error}"))?,
        )
    } else {
        Data::Text(text(row, at + 5)?.unwrap_or_default())
    };
    let record = Record {
        seq: seq(integer(0, "seq")?),
        events,
        kind,
        time: UnixMillis::new(integer(4, "recorded_at_ms")?),
        data,
        surface_op: text(row, at + 6)?,
        sources: text(row, at + 7)?,
        ignorable: row
            .try_get::<Option<i64>, _>(at + 8)
            .map_err(|error| format!("ignorable: {error}"))?
            .is_some(),
    };
    if integer(9, "checksum")? == i64::from(record.checksum()) {
        Ok(record)
    } else {
        Err("its checksum does not fit what it holds".into())
    }
}

/// A text, which a damaged file may hold in no encoding at all.
pub(super) fn text(row: &SqliteRow, column: usize) -> Result<Option<String>, String> {
    row.try_get(column)
        .map_err(|error| format!("column {column}: {error}"))
}

/// The columns that [`entry`] reads, in its order.
pub(super) const ENTRY_COLUMNS: &str = "header, updated_at_ms, max(known_seq, inherited, coalesce((select seq + events from record \
    where session = key order by seq desc limit 1), 0)), title, is_blank, is_open, id, \
    created_at_ms";

pub(super) fn entry(row: &SqliteRow) -> Result<CatalogueEntry, ReadError> {
    let id: String = row.try_get(6).map_err(backend)?;
    let damaged = |source| ReadError::Header {
        session: id.as_str().into(),
        source,
    };
    let header = text(row, 0)
        .map_err(|reason| damaged(HeaderError::Invalid { reason }))?
        .unwrap_or_default();
    let header = Header::from_json(&header).map_err(damaged)?;
    let read = || -> Result<CatalogueEntry, sqlx::Error> {
        Ok(CatalogueEntry {
            header,
            updated_at: UnixMillis::new(row.try_get(1)?),
            next_seq: seq(row.try_get(2)?),
            title: row.try_get(3)?,
            is_blank: row.try_get(4)?,
            is_open: row.try_get(5)?,
        })
    };
    read().map_err(backend)
}

/// The place of a session in a listing, whatever its header holds.
pub(super) fn place(row: &SqliteRow, order: ListOrder) -> Result<Cursor, ReadError> {
    let time = match order {
        ListOrder::Updated => row.try_get(1),
        ListOrder::Created => row.try_get(7),
    };
    let id: String = row.try_get(6).map_err(backend)?;
    let time = UnixMillis::new(time.map_err(backend)?);
    Ok(Cursor::new(order, time, id.into()))
}

pub(super) fn backend(error: sqlx::Error) -> ReadError {
    ReadError::Backend(error.into())
}

/// A position as SQLite keeps it.
pub(super) fn number(seq: Seq) -> i64 {
    i64::try_from(seq.get()).unwrap_or(i64::MAX)
}

/// A position as SQLite kept it; the schema allows no negative one.
pub(super) fn seq(number: i64) -> Seq {
    u64::try_from(number)
        .ok()
        .and_then(Seq::new)
        .unwrap_or(Seq::MAX)
}
