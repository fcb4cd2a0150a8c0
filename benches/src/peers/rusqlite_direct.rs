//! Hand-written SQL over rusqlite on the caller's own thread, a transaction an append: no thread
//! is crossed. What an async program cannot do without blocking its runtime.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result};
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior, params};
use workload::{Peer, Record, Task};

pub(crate) struct RusqliteDirect {
    writer: Mutex<Connection>,
    reader: Mutex<Connection>,
}

/// A session with the position that its next event takes.
pub(crate) struct Writer {
    session: u32,
    next: Mutex<i64>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join("log.db")
}

/// Opens the file with the settings that Minutebook uses.
pub(crate) fn connect(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(10))?;
    connection.set_prepared_statement_cache_capacity(64);
    connection.execute_batch(
        "pragma page_size = 8192;
         pragma journal_mode = wal;
         pragma synchronous = full;
         pragma cache_size = -4000;
         create table if not exists event (
            position integer primary key,
            session integer not null,
            seq integer not null,
            kind text not null,
            data text not null,
            unique (session, seq)
         ) strict;
         create index if not exists event_todo on event (session, seq) where kind = 'todo/write';",
    )?;
    Ok(connection)
}

pub(crate) fn insert(
    connection: &Connection,
    session: u32,
    seq: i64,
    kind: &str,
    json: &str,
) -> Result<()> {
    connection
        .prepare_cached("insert into event (session, seq, kind, data) values (?1, ?2, ?3, ?4)")?
        .execute(params![session, seq, kind, json])?;
    Ok(())
}

pub(crate) fn next_seq(connection: &Connection, session: u32) -> Result<i64> {
    let sql = "select coalesce(max(seq) + 1, 0) from event where session = ?1";
    Ok(connection.query_row(sql, [session], |row| row.get(0))?)
}

pub(crate) fn read(
    connection: &Connection,
    session: u32,
    from: u64,
    count: i64,
    mut each: impl FnMut(Record),
) -> Result<()> {
    let mut statement = connection.prepare_cached(
        "select kind, data from event where session = ?1 and seq >= ?2 order by seq limit ?3",
    )?;
    let mut rows = statement.query(params![session, from as i64, count])?;
    while let Some(row) = rows.next()? {
        each(Record::from_json(
            row.get_ref(0)?.as_str()?,
            row.get_ref(1)?.as_str()?,
        )?);
    }
    Ok(())
}

pub(crate) fn tail(connection: &Connection, session: u32, count: usize) -> Result<Vec<Record>> {
    let mut statement = connection.prepare_cached(
        "select kind, data from event where session = ?1 order by seq desc limit ?2",
    )?;
    let mut rows = statement.query(params![session, count as i64])?;
    let mut records = Vec::with_capacity(count);
    while let Some(row) = rows.next()? {
        records.push(Record::from_json(
            row.get_ref(0)?.as_str()?,
            row.get_ref(1)?.as_str()?,
        )?);
    }
    Ok(records)
}

pub(crate) fn todos(connection: &Connection, session: u32) -> Result<usize> {
    let mut statement = connection.prepare_cached(
        "select data from event where session = ?1 and kind = 'todo/write'
         order by seq desc limit 1",
    )?;
    let json: Option<String> = statement
        .query_row([session], |row| row.get(0))
        .optional()?;
    items(&json.context("no list")?)
}

/// How many items a list has.
pub(crate) fn items(json: &str) -> Result<usize> {
    match Record::from_json(Record::TODOS, json)? {
        Record::Todos(list) => Ok(list.todos.len()),
        _ => anyhow::bail!("not a list"),
    }
}

impl Peer for RusqliteDirect {
    const NAME: &'static str = "rusqlite-direct";
    type Value = Record;
    type Writer = Writer;

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
        let path = path(dir);
        Ok(Self {
            writer: Mutex::new(connect(&path)?),
            reader: Mutex::new(connect(&path)?),
        })
    }

    async fn writer(&self, session: u32) -> Result<Writer> {
        let next = Mutex::new(next_seq(&lock(&self.writer), session)?);
        Ok(Writer { session, next })
    }

    async fn append(&self, writer: &Writer, batch: &[Record]) -> Result<()> {
        let lines: Vec<_> = batch
            .iter()
            .map(|record| (record.kind(), record.json()))
            .collect();
        let mut next = lock(&writer.next);
        let mut connection = lock(&self.writer);
        if let [(kind, json)] = lines.as_slice() {
            insert(&connection, writer.session, *next, kind, json)?;
        } else {
            let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            for (seq, (kind, json)) in (*next..).zip(&lines) {
                insert(&work, writer.session, seq, kind, json)?;
            }
            work.commit()?;
        }
        *next += lines.len() as i64;
        Ok(())
    }

    async fn replay(&self, session: u32, each: impl FnMut(Record) + Send) -> Result<()> {
        read(&lock(&self.reader), session, 0, -1, each)
    }

    async fn page(&self, session: u32, from: u64, count: usize) -> Result<Vec<Record>> {
        let mut records = Vec::with_capacity(count);
        let each = |record| records.push(record);
        read(&lock(&self.reader), session, from, count as i64, each)?;
        Ok(records)
    }

    async fn tail(&self, session: u32, count: usize) -> Result<Vec<Record>> {
        tail(&lock(&self.reader), session, count)
    }

    async fn todos(&self, session: u32) -> Result<usize> {
        todos(&lock(&self.reader), session)
    }

    async fn close(self) -> Result<()> {
        Ok(())
    }
}
