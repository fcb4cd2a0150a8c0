//! Hand-written SQL over rusqlite with one writer thread that commits what has queued up in one
//! transaction: the practical limit of SQLite behind an async call.

use std::collections::HashMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context as _, Result};
use futures::{StreamExt as _, stream};
use rusqlite::{Connection, TransactionBehavior};
use tokio::sync::{broadcast, oneshot};
use workload::{Peer, Record, Task, Values};

use super::rusqlite_direct::{connect, insert, next_seq, path, read, tail, todos};

/// Appends in one transaction at most.
const GROUP: usize = 1_024;
/// How often another process looks for more.
const POLL: Duration = Duration::from_millis(1);

pub(crate) struct RusqliteGc {
    queue: Sender<Job>,
    thread: JoinHandle<Result<()>>,
    reader: Mutex<Connection>,
    committed: broadcast::Sender<(u32, Record)>,
}

struct Job {
    session: u32,
    rows: Vec<(&'static str, String)>,
    done: oneshot::Sender<()>,
}

fn write(mut connection: Connection, queue: &Receiver<Job>) -> Result<()> {
    let mut heads: HashMap<u32, i64> = HashMap::new();
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter().take(GROUP - 1));
        let work = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        for job in &group {
            let next = match heads.get_mut(&job.session) {
                Some(next) => next,
                None => {
                    let next = next_seq(&work, job.session)?;
                    heads.entry(job.session).or_insert(next)
                }
            };
            for (kind, json) in &job.rows {
                insert(&work, job.session, *next, kind, json)?;
                *next += 1;
            }
        }
        work.commit()?;
        for job in group {
            // A caller that has stopped waiting is told nothing.
            let _ = job.done.send(());
        }
    }
    Ok(())
}

impl RusqliteGc {
    fn with_reader<R>(&self, read: impl FnOnce(&Connection) -> R) -> R {
        read(&self.reader.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Peer for RusqliteGc {
    const NAME: &'static str = "rusqlite-gc";
    type Value = Record;
    type Writer = u32;

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
        let path = path(dir);
        let (queue, jobs) = channel();
        let connection = connect(&path)?;
        let thread = std::thread::spawn(move || write(connection, &jobs));
        let reader = Mutex::new(connect(&path)?);
        let (committed, _) = broadcast::channel(1_024);
        Ok(Self {
            queue,
            thread,
            reader,
            committed,
        })
    }

    async fn writer(&self, session: u32) -> Result<u32> {
        Ok(session)
    }

    async fn append(&self, writer: &u32, batch: &[Record]) -> Result<()> {
        let rows = batch.iter().map(|record| (record.kind(), record.json()));
        let (rows, session) = (rows.collect(), *writer);
        let (done, committed) = oneshot::channel();
        self.queue.send(Job {
            session,
            rows,
            done,
        })?;
        committed.await?;
        if self.committed.receiver_count() > 0 {
            for record in batch {
                self.committed.send((session, record.clone()))?;
            }
        }
        Ok(())
    }

    async fn replay(&self, session: u32, each: impl FnMut(Record) + Send) -> Result<()> {
        self.with_reader(|reader| read(reader, session, 0, -1, each))
    }

    async fn page(&self, session: u32, from: u64, count: usize) -> Result<Vec<Record>> {
        let mut records = Vec::with_capacity(count);
        let each = |record| records.push(record);
        self.with_reader(|reader| read(reader, session, from, count as i64, each))?;
        Ok(records)
    }

    async fn tail(&self, session: u32, count: usize) -> Result<Vec<Record>> {
        self.with_reader(|reader| tail(reader, session, count))
    }

    async fn todos(&self, session: u32) -> Result<usize> {
        self.with_reader(|reader| todos(reader, session))
    }

    async fn subscribe(&self, writer: &u32, _from: u64) -> Result<Values<Record>> {
        let events = stream::unfold(
            (self.committed.subscribe(), *writer),
            |(mut committed, wanted)| async move {
                loop {
                    match committed.recv().await {
                        Ok((session, record)) if session == wanted => {
                            return Some((Ok(record), (committed, wanted)));
                        }
                        Ok(_) => {}
                        Err(error) => return Some((Err(error.into()), (committed, wanted))),
                    }
                }
            },
        );
        Ok(events.boxed())
    }

    async fn follow(dir: &Path, session: u32) -> Result<Values<Record>> {
        let connection = connect(&path(dir))?;
        let pages = stream::unfold((connection, 0), move |(connection, from)| async move {
            loop {
                let mut page = Vec::new();
                let found = read(&connection, session, from, 256, |record| {
                    page.push(Ok(record));
                });
                if let Err(error) = found {
                    page.push(Err(error));
                }
                if page.is_empty() {
                    tokio::time::sleep(POLL).await;
                    continue;
                }
                let next = from + page.len() as u64;
                return Some((stream::iter(page), (connection, next)));
            }
        });
        Ok(pages.flatten().boxed())
    }

    async fn close(self) -> Result<()> {
        drop(self.queue);
        self.thread.join().ok().context("the writer panicked")?
    }
}
