//! What the pool of readers asks.

use sqlx::{AssertSqlSafe, QueryBuilder, Row as _, Sqlite, SqlitePool};

use super::row::{self, backend};
use crate::store::{Checkpoint, ReadError};
use crate::{CatalogueEntry, InvalidCursor, ListOrder, ListQuery, Page, Payload, SessionId};

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
        // As bytes, because a text ends at its first NUL for these functions.
        let bytes = prefix.clone().into_bytes();
        let length = i64::try_from(bytes.len()).unwrap_or(i64::MAX);
        sql.push(" and substr(cast(id as blob), 1, ")
            .push_bind(length);
        sql.push(") = ").push_bind(bytes);
    }
    if !filter.include_blank {
        sql.push(" and not is_blank");
    }
    if let Some(after) = &query.after {
        if after.order() != query.order {
            return Err(InvalidCursor(after.to_string()).into());
        }
        let (time, id) = (after.time().get(), after.id().as_str().to_owned());
        sql.push(" and (").push(column).push(" < ").push_bind(time);
        sql.push(" or (").push(column).push(" = ").push_bind(time);
        sql.push(" and id > ").push_bind(id).push("))");
    }
    sql.push(" order by ").push(column).push(" desc, id limit ");
    sql.push_bind(i64::from(query.limit) + 1);
    let rows = sql.build().fetch_all(readers).await.map_err(backend)?;
    let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
    let mut page = Page::default();
    for row in rows.iter().take(limit) {
        match row::entry(row) {
            Ok(entry) => page.entries.push(entry),
            Err(ReadError::Header { session, .. }) => page.damaged.push(session),
            Err(other) => return Err(other),
        }
    }
    if let Some(last) = rows.get(..limit).and_then(<[_]>::last)
        && rows.len() > limit
    {
        page.next = Some(row::place(last, query.order)?);
    }
    Ok(page)
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

pub(super) async fn integrity(readers: &SqlitePool) -> Result<Vec<String>, ReadError> {
    let mut faults: Vec<String> = sqlx::query_scalar("pragma integrity_check")
        .fetch_all(readers)
        .await
        .map_err(backend)?;
    faults.retain(|fault| fault != "ok");
    let dangling = sqlx::query("pragma foreign_key_check")
        .fetch_all(readers)
        .await
        .map_err(backend)?;
    faults.extend(dangling.iter().map(|row| {
        let (table, parent) = (row.get::<String, _>(0), row.get::<String, _>(2));
        format!("a row of {table} refers to a row of {parent} that is not there")
    }));
    Ok(faults)
}
