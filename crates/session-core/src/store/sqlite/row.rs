//! Rows and what they become, converted in one place.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::store::ReadError;
use crate::{
    CatalogueEntry, Cursor, Event, Header, HeaderError, ListOrder, NewEvent, Payload, Seq,
    SessionId, SurfaceMeta, UnixMillis,
};

/// The event at `due`. The row holds, from its second column on: seq, type, time, data, surface
/// operation, sources and ignorable, all null where no event was found.
pub(super) fn event(row: &SqliteRow, session: &SessionId, due: Seq) -> Result<Event, ReadError> {
    let damaged = |reason: String| ReadError::Damaged {
        session: session.clone(),
        seq: due,
        reason,
    };
    match row.try_get::<Option<i64>, _>(1) {
        Ok(Some(found)) if found == number(due) => {}
        Ok(_) => return Err(damaged("it is missing".into())),
        Err(error) => return Err(damaged(format!("seq: {error}"))),
    }
    let kind: Option<String> = text(row, 2).map_err(damaged)?;
    let kind = kind.ok_or_else(|| damaged("its type is missing".into()))?;
    let time: i64 = row
        .try_get(3)
        .map_err(|error| damaged(format!("recorded_at_ms: {error}")))?;
    let data = text(row, 4).map_err(damaged)?.unwrap_or_default();
    let data = Payload::from_text(&data).map_err(|error| damaged(format!("data: {}", error.0)))?;
    let sources = text(row, 6)
        .map_err(damaged)?
        .map(|text| serde_json::from_str::<Vec<Seq>>(&text))
        .transpose()
        .map_err(|error| damaged(format!("sources: {error}")))?;
    let surface = text(row, 5)
        .map_err(damaged)?
        .map(|text| serde_json::from_str(&text).map(|op| SurfaceMeta { op, sources }))
        .transpose()
        .map_err(|error| damaged(format!("surface_op: {error}")))?;
    let ignorable: Option<i64> = row
        .try_get(7)
        .map_err(|error| damaged(format!("ignorable: {error}")))?;
    let event = NewEvent::raw(kind, data, surface, ignorable.is_some());
    Ok(event.at(due, UnixMillis::new(time)))
}

/// A text, which a damaged file may hold in no encoding at all.
fn text(row: &SqliteRow, column: usize) -> Result<Option<String>, String> {
    row.try_get(column)
        .map_err(|error| format!("column {column}: {error}"))
}

/// The columns that [`entry`] reads, in its order.
pub(super) const ENTRY_COLUMNS: &str =
    "header, updated_at_ms, next_seq, title, is_blank, is_open, id, created_at_ms";

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
