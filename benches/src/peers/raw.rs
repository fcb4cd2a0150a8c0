//! One file, one writer thread, a write and an fdatasync for whatever has queued up: the limit of
//! the disk. It can be read only from its beginning.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use anyhow::{Context as _, Result};
use tokio::sync::oneshot;
use workload::{Peer, Record, Task};

pub(crate) struct Raw {
    path: PathBuf,
    queue: Sender<Job>,
    thread: JoinHandle<Result<()>>,
}

struct Job {
    lines: String,
    done: oneshot::Sender<()>,
}

fn write(mut file: File, queue: &Receiver<Job>) -> Result<()> {
    let mut text = String::new();
    while let Ok(first) = queue.recv() {
        let mut group = vec![first];
        group.extend(queue.try_iter());
        text.clear();
        for job in &group {
            text.push_str(&job.lines);
        }
        file.write_all(text.as_bytes())?;
        file.sync_data()?;
        for job in group {
            // A caller that has stopped waiting is told nothing.
            let _ = job.done.send(());
        }
    }
    Ok(())
}

impl Peer for Raw {
    const NAME: &'static str = "raw append + fdatasync";
    type Value = Record;
    type Writer = u32;

    fn supports(task: Task) -> bool {
        matches!(
            task,
            Task::OneSession
                | Task::ManySessions
                | Task::Batches
                | Task::Fill
                | Task::Replay
                | Task::Disk
                | Task::DiskChunks
                | Task::Idle
        )
    }

    fn value(record: &Record) -> Record {
        record.clone()
    }

    fn line(value: &Record) -> String {
        value.line()
    }

    async fn open(dir: &Path) -> Result<Self> {
        let path = dir.join("log");
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let (queue, jobs) = channel();
        let thread = std::thread::spawn(move || write(file, &jobs));
        Ok(Self {
            path,
            queue,
            thread,
        })
    }

    async fn writer(&self, session: u32) -> Result<u32> {
        Ok(session)
    }

    async fn append(&self, session: &u32, batch: &[Record]) -> Result<()> {
        let mut lines = String::new();
        for record in batch {
            lines.push_str(&format!("{session} {} {}\n", record.kind(), record.json()));
        }
        let (done, written) = oneshot::channel();
        self.queue.send(Job { lines, done })?;
        written.await?;
        Ok(())
    }

    async fn replay(&self, session: u32, mut each: impl FnMut(Record) + Send) -> Result<()> {
        let mut file = BufReader::with_capacity(1 << 16, File::open(&self.path)?);
        let wanted = format!("{session} ");
        let mut line = String::new();
        while file.read_line(&mut line)? > 0 {
            if let Some(line) = line.strip_prefix(&wanted) {
                each(Record::from_line(line.trim_end_matches('\n'))?);
            }
            line.clear();
        }
        Ok(())
    }

    async fn close(self) -> Result<()> {
        drop(self.queue);
        self.thread.join().ok().context("the writer panicked")?
    }
}
