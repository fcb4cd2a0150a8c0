//! Writing checkpoints.

use sqlx::QueryBuilder;
use sqlx::sqlite::{Sqlite, SqliteConnection};

use super::row::number;
use crate::store::Checkpoint;

/// Rows per statement.
const ROWS: usize = 128;

/// Writes checkpoints, each with the key of its session, unless a later one of its version is there.
pub(super) async fn save(
    connection: &mut SqliteConnection,
    rows: &[(i64, &Checkpoint)],
) -> Result<(), sqlx::Error> {
    for rows in rows.chunks(ROWS) {
        let mut sql = QueryBuilder::<Sqlite>::new(
            "insert into checkpoint (session, unit, state_version, seq, state) ",
        );
        sql.push_values(rows, |mut values, (session, row)| {
            values
                .push_bind(*session)
                .push_bind(row.key.as_str())
                .push_bind(i64::from(row.state_version))
                .push_bind(number(row.seq))
                .push_bind(row.state.as_str());
        });
        sql.push(
            " on conflict (session, unit) do update set state_version = excluded.state_version, \
             seq = excluded.seq, state = excluded.state \
             where state_version <> excluded.state_version or seq <= excluded.seq",
        );
        sql.build().execute(&mut *connection).await?;
    }
    Ok(())
}
