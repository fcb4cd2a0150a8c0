//! What one writes first with sqlx: a pool with its defaults, one statement an event that asks for
//! the next position, rows fetched as a stream. Only the durability is set.

use std::path::Path;

use anyhow::Result;
use futures::TryStreamExt as _;
use sqlx::sqlite::{
    SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteRow, SqliteSynchronous,
};
use sqlx::{Row as _, SqlitePool};
use workload::{Peer, Record, Task};

use super::rusqlite_direct::{items, path};

pub(crate) struct SqlxPlain {
    pool: SqlitePool,
}

const INSERT: &str = "insert into event (session, seq, kind, data)
     select ?1, coalesce(max(seq) + 1, 0), ?2, ?3 from event where session = ?1";

fn name(session: u32) -> String {
    format!("0199aaaa-0000-7000-8000-{session:012}")
}

fn decode(row: &SqliteRow) -> Result<Record> {
    Record::from_json(row.try_get(0)?, row.try_get(1)?)
}

impl Peer for SqlxPlain {
    const NAME: &'static str = "sqlx-plain";
    type Value = Record;
    type Writer = String;

    fn supports(task: Task) -> bool {
        !matches!(task, Task::LiveTodos | Task::Subscribe | Task::Follow)
    }

    fn value(record: &Record) -> Record {
        record.clone()
    }

    fn line(value: &Record) -> String {
        value.line()
    }

    async fn open(dir: &Path) -> Result<Self> {
        let options = SqliteConnectOptions::new()
            .filename(path(dir))
            .create_if_missing(true)
            .journal_mode(SqliteJournalMode::Wal)
            .synchronous(SqliteSynchronous::Full)
            // 64 writers at once wait their turn for longer than the default of 5 s at times.
            .busy_timeout(std::time::Duration::from_secs(60));
        let pool = SqlitePoolOptions::new().connect_with(options).await?;
        let schema = [
            "create table if not exists event (
                id integer primary key,
                session text not null,
                seq integer not null,
                kind text not null,
                data text not null,
                unique (session, seq)
             )",
            "create index if not exists event_todo on event (session, seq)
             where kind = 'todo/write'",
        ];
        for statement in schema {
            sqlx::query(statement).execute(&pool).await?;
        }
        Ok(Self { pool })
    }

    async fn writer(&self, session: u32) -> Result<String> {
        Ok(name(session))
    }

    async fn append(&self, session: &String, batch: &[Record]) -> Result<()> {
        for record in batch {
            let insert = sqlx::query(INSERT)
                .bind(session)
                .bind(record.kind())
                .bind(record.json());
            insert.execute(&self.pool).await?;
        }
        Ok(())
    }

    async fn fill(&self, session: &String, batch: &[Record]) -> Result<()> {
        let mut work = self.pool.begin().await?;
        for record in batch {
            let insert = sqlx::query(INSERT)
                .bind(session)
                .bind(record.kind())
                .bind(record.json());
            insert.execute(&mut *work).await?;
        }
        work.commit().await?;
        Ok(())
    }

    async fn replay(&self, session: u32, mut each: impl FnMut(Record) + Send) -> Result<()> {
        let sql = "select kind, data from event where session = ?1 order by seq";
        let query = sqlx::query(sql).bind(name(session));
        let mut rows = query.fetch(&self.pool);
        while let Some(row) = rows.try_next().await? {
            each(decode(&row)?);
        }
        Ok(())
    }

    async fn page(&self, session: u32, from: u64, count: usize) -> Result<Vec<Record>> {
        let sql = "select kind, data from event where session = ?1 and seq >= ?2
                   order by seq limit ?3";
        let query = sqlx::query(sql)
            .bind(name(session))
            .bind(from as i64)
            .bind(count as i64);
        query
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(decode)
            .collect()
    }

    async fn tail(&self, session: u32, count: usize) -> Result<Vec<Record>> {
        let sql = "select kind, data from event where session = ?1 order by seq desc limit ?2";
        let query = sqlx::query(sql).bind(name(session)).bind(count as i64);
        query
            .fetch_all(&self.pool)
            .await?
            .iter()
            .map(decode)
            .collect()
    }

    async fn todos(&self, session: u32) -> Result<usize> {
        let sql = "select data from event where session = ?1 and kind = 'todo/write'
                   order by seq desc limit 1";
        let row = sqlx::query(sql)
            .bind(name(session))
            .fetch_one(&self.pool)
            .await?;
        items(row.try_get(0)?)
    }

    async fn close(self) -> Result<()> {
        self.pool.close().await;
        Ok(())
    }
}
