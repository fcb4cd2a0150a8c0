//! eventsdb on SQLite, through its own calls and with its defaults.
//!
//! It sets `synchronous = NORMAL` on its connections and refuses pragmas from outside, so its
//! appends are not on disk when they are acknowledged: less than every other peer promises.

use std::path::Path;

use anyhow::{Context as _, Result};
use eventsdb::sqlite::{SqliteEventLog, SqliteEventStore};
use eventsdb::{Current, EventLog as _, EventStore as _, Filter, Position};
use futures::StreamExt as _;
use serde_json::{Map, Value};
use workload::{Peer, Record, Task, Values};

pub(crate) struct EventsDb {
    log: SqliteEventLog,
}

/// Events read at a time.
const PAGE: usize = 512;

fn name(session: u32) -> String {
    format!("session-{session}")
}

fn envelope(record: &Record) -> Map<String, Value> {
    Map::from_iter([
        ("kind".to_owned(), Value::from(record.kind())),
        ("data".to_owned(), record.value()),
    ])
}

fn decode(event: Current) -> Result<Record> {
    let mut event = event.into_inner();
    let data = event.remove("data").context("no data")?;
    let kind = event
        .get("kind")
        .and_then(Value::as_str)
        .context("no kind")?;
    Record::from_value(kind, data)
}

impl EventsDb {
    fn stream(&self, session: u32) -> SqliteEventStore {
        self.log.stream_handle(&name(session))
    }
}

impl Peer for EventsDb {
    const NAME: &'static str = "eventsdb (NORMAL)";
    type Value = Record;
    type Writer = String;

    fn supports(task: Task) -> bool {
        !matches!(task, Task::LiveTodos)
    }

    fn value(record: &Record) -> Record {
        record.clone()
    }

    fn line(value: &Record) -> String {
        value.line()
    }

    async fn open(dir: &Path) -> Result<Self> {
        let log = SqliteEventLog::open(dir.join("log.db")).await?;
        Ok(Self { log })
    }

    async fn writer(&self, session: u32) -> Result<String> {
        Ok(name(session))
    }

    async fn append(&self, stream: &String, batch: &[Record]) -> Result<()> {
        let mut stream = self.log.stream_handle(stream);
        if let [record] = batch {
            stream.append(envelope(record)).await?;
        } else {
            stream
                .append_many(batch.iter().map(envelope).collect())
                .await?;
        }
        Ok(())
    }

    async fn replay(&self, session: u32, mut each: impl FnMut(Record) + Send) -> Result<()> {
        let stream = self.stream(session);
        // Its sequence begins at 1.
        let mut from = 1;
        loop {
            let page = stream.read(from, PAGE).await?;
            let Some(last) = page.last() else {
                return Ok(());
            };
            from = last.seq() + 1;
            for event in page {
                each(decode(event)?);
            }
        }
    }

    async fn page(&self, session: u32, from: u64, count: usize) -> Result<Vec<Record>> {
        let page = self.stream(session).read(from + 1, count).await?;
        page.into_iter().map(decode).collect()
    }

    async fn tail(&self, session: u32, count: usize) -> Result<Vec<Record>> {
        let page = self.stream(session).read_last(count).await?;
        page.into_iter().map(decode).collect()
    }

    async fn todos(&self, session: u32) -> Result<usize> {
        let sql = "select data from events where stream = ?1 and kind = 'todo/write'
                   order by seq desc limit 1";
        let rows = self
            .log
            .query(sql, vec![Value::from(name(session))])
            .await?;
        let json = rows.first().and_then(|row| row.get("data")?.as_str());
        match Record::from_json(Record::TODOS, json.context("no list")?)? {
            Record::Todos(list) => Ok(list.todos.len()),
            _ => anyhow::bail!("not a list"),
        }
    }

    async fn subscribe(&self, stream: &String, _from: u64) -> Result<Values<Record>> {
        let from = self.log.head_position().await?;
        let events = self
            .log
            .subscribe(from, Filter::all().stream(stream.clone()))?;
        Ok(events.map(|event| decode(event?.event)).boxed())
    }

    async fn follow(dir: &Path, session: u32) -> Result<Values<Record>> {
        let log = SqliteEventLog::open(dir.join("log.db")).await?;
        let filter = Filter::all().stream(name(session));
        let events = log.subscribe(Position::BEGINNING, filter)?;
        // The log is kept for as long as the stream, which reads through it.
        let events = events.map(move |event| {
            let _ = &log;
            decode(event?.event)
        });
        Ok(events.boxed())
    }

    async fn close(self) -> Result<()> {
        self.log.close().await?;
        Ok(())
    }
}
