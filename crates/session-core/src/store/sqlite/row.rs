//! Rows and what they become, converted in one place.

use sqlx::Row as _;
use sqlx::sqlite::SqliteRow;

use crate::store::ReadError;
use crate::{
    CatalogueEntry, Event, Header, NewEvent, Payload, Seq, SessionId, SurfaceMeta, UnixMillis,
};

/// Columns of an event: see [`event`].
pub(super) struct EventRow {
    pub(super) seq: i64,
    pub(super) kind: String,
    pub(super) recorded_at_ms: i64,
    pub(super) data: String,
    pub(super) surface_op: Option<String>,
    pub(super) sources: Option<String>,
    pub(super) ignorable: Option<i64>,
}

impl EventRow {
    pub(super) fn from_row(row: &SqliteRow) -> Result<Self, sqlx::Error> {
        Ok(Self {
            seq: row.try_get(0)?,
            kind: row.try_get(1)?,
            recorded_at_ms: row.try_get(2)?,
            data: row.try_get(3)?,
            surface_op: row.try_get(4)?,
            sources: row.try_get(5)?,
            ignorable: row.try_get(6)?,
        })
    }

    pub(super) fn decode(self, session: &SessionId) -> Result<Event, ReadError> {
        let seq = seq(self.seq);
        let damaged = |what: &str, reason: &dyn std::fmt::Display| ReadError::Damaged {
            session: session.clone(),
            seq,
            reason: format!("{what}: {reason}"),
        };
        let data = Payload::from_text(&self.data).map_err(|error| damaged("data", &error))?;
        let sources = self
            .sources
            .map(|text| serde_json::from_str::<Vec<Seq>>(&text))
            .transpose()
            .map_err(|error| damaged("sources", &error))?;
        let surface = self
            .surface_op
            .map(|text| serde_json::from_str(&text).map(|op| SurfaceMeta { op, sources }))
            .transpose()
            .map_err(|error| damaged("surface_op", &error))?;
        let event = NewEvent::raw(self.kind, data, surface, self.ignorable.is_some());
        Ok(event.at(seq, UnixMillis::new(self.recorded_at_ms)))
    }
}

/// The columns that [`entry`] reads, in its order.
pub(super) const ENTRY_COLUMNS: &str =
    "header, updated_at_ms, next_seq, title, is_blank, is_open, id";

pub(super) fn entry(row: &SqliteRow) -> Result<CatalogueEntry, ReadError> {
    let read = |row: &SqliteRow| -> Result<_, sqlx::Error> {
        let header: String = row.try_get(0)?;
        let id: String = row.try_get(6)?;
        let next_seq: i64 = row.try_get(2)?;
        let entry = (
            row.try_get(1)?,
            row.try_get(3)?,
            row.try_get(4)?,
            row.try_get(5)?,
        );
        Ok((header, id, next_seq, entry))
    };
    let (header, id, next_seq, (updated_at, title, is_blank, is_open)) =
        read(row).map_err(backend)?;
    let header = Header::from_json(&header).map_err(|source| ReadError::Header {
        session: id.into(),
        source,
    })?;
    Ok(CatalogueEntry {
        header,
        updated_at: UnixMillis::new(updated_at),
        next_seq: seq(next_seq),
        title,
        is_blank,
        is_open,
    })
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
