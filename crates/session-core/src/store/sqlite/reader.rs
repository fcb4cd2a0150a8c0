//! What the pool of readers asks.

use sqlx::{AssertSqlSafe, QueryBuilder, Row as _, Sqlite, SqlitePool};

use super::row::{self, EventRow, backend, number};
use crate::store::{Checkpoint, ReadError, ReadRange};
use crate::{CatalogueEntry, Event, InvalidCursor, ListOrder, ListQuery, Page, Payload, SessionId};

/// Events per page. A page is one short read transaction, so that no reader pins the write-ahead
/// log.
const PAGE: i64 = 256;

const FORWARD: &str = "\
    select e.seq, t.name, e.recorded_at_ms, e.data, e.surface_op, e.sources, e.ignorable \
    from event e join event_type t on t.key = e.type \
    where e.session = (select key from session where id = ?1) and e.seq >= ?2 and e.seq < ?3 \
    order by e.seq limit ?4";
const BACKWARD: &str = "\
    select e.seq, t.name, e.recorded_at_ms, e.data, e.surface_op, e.sources, e.ignorable \
    from event e join event_type t on t.key = e.type \
    where e.session = (select key from session where id = ?1) and e.seq >= ?2 and e.seq < ?3 \
    order by e.seq desc limit ?4";

pub(super) async fn page(
    readers: &SqlitePool,
    session: SessionId,
    range: ReadRange,
) -> Result<Vec<Event>, ReadError> {
    let rows = sqlx::query(if range.backward { BACKWARD } else { FORWARD })
        .bind(session.as_str())
        .bind(number(range.from))
        .bind(range.until.map_or(i64::MAX, number))
        .bind(PAGE)
        .fetch_all(readers)
        .await
        .map_err(backend)?;
    if rows.is_empty() {
        exists(readers, &session).await?;
    }
    rows.iter()
        .map(|row| EventRow::from_row(row).map_err(backend)?.decode(&session))
        .collect()
}

async fn exists(readers: &SqlitePool, session: &SessionId) -> Result<(), ReadError> {
    let found: bool = sqlx::query_scalar("select exists (select 1 from session where id = ?)")
        .bind(session.as_str())
        .fetch_one(readers)
        .await
        .map_err(backend)?;
    if found {
        Ok(())
    } else {
        Err(ReadError::NotFound {
            session: session.clone(),
        })
    }
}

pub(super) async fn entry(
    readers: &SqlitePool,
    session: &SessionId,
) -> Result<CatalogueEntry, ReadError> {
    let sql = format!("select {} from session where id = ?", row::ENTRY_COLUMNS);
    let row = sqlx::query(AssertSqlSafe(sql))
        .bind(session.as_str())
        .fetch_optional(readers)
        .await
        .map_err(backend)?;
    row.as_ref().map(row::entry).unwrap_or_else(|| {
        Err(ReadError::NotFound {
            session: session.clone(),
        })
    })
}

pub(super) async fn list(readers: &SqlitePool, query: &ListQuery) -> Result<Page, ReadError> {
    let column = match query.order {
        ListOrder::Updated => "updated_at_ms",
        ListOrder::Created => "created_at_ms",
    };
    let mut sql = QueryBuilder::<Sqlite>::new("select ");
    sql.push(row::ENTRY_COLUMNS)
        .push(" from session where true");
    let filter = &query.filter;
    if let Some(cwd) = &filter.cwd {
        sql.push(" and cwd = ").push_bind(cwd.clone());
    }
    if let Some(parent) = &filter.parent {
        sql.push(" and parent = ")
            .push_bind(parent.as_str().to_owned());
    }
    if let Some(prefix) = &filter.id_prefix {
        sql.push(" and substr(id, 1, length(")
            .push_bind(prefix.clone());
        sql.push(")) = ").push_bind(prefix.clone());
    }
    if !filter.include_blank {
        sql.push(" and not is_blank");
    }
    if let Some(after) = &query.after {
        if after.order != query.order {
            return Err(InvalidCursor(after.to_string()).into());
        }
        let (time, id) = (after.time.get(), after.id.as_str().to_owned());
        sql.push(" and (").push(column).push(" < ").push_bind(time);
        sql.push(" or (").push(column).push(" = ").push_bind(time);
        sql.push(" and id > ").push_bind(id).push("))");
    }
    sql.push(" order by ").push(column).push(" desc, id limit ");
    sql.push_bind(i64::from(query.limit) + 1);
    let rows = sql.build().fetch_all(readers).await.map_err(backend)?;
    let entries = rows.iter().map(row::entry).collect::<Result<_, _>>()?;
    Ok(Page::cut(entries, query))
}

pub(super) async fn checkpoints(
    readers: &SqlitePool,
    session: &SessionId,
) -> Result<Vec<Checkpoint>, ReadError> {
    let rows = sqlx::query(
        "select unit, state_version, seq, state from checkpoint \
         where session = (select key from session where id = ?) order by unit",
    )
    .bind(session.as_str())
    .fetch_all(readers)
    .await
    .map_err(backend)?;
    let read = |row: &sqlx::sqlite::SqliteRow| -> Result<Option<Checkpoint>, sqlx::Error> {
        let (state, seq): (String, i64) = (row.try_get(3)?, row.try_get(2)?);
        // A shortcut that does not decode is as good as none.
        Ok(Payload::from_text(&state).ok().map(|state| Checkpoint {
            key: row.get(0),
            state_version: row.get(1),
            seq: row::seq(seq),
            state,
        }))
    };
    rows.iter()
        .filter_map(|row| read(row).transpose())
        .collect::<Result<_, _>>()
        .map_err(backend)
}
