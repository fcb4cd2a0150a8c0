//! What a store must do to be measured.

use std::path::Path;

use anyhow::Result;
use futures::stream::BoxStream;

use crate::{Record, Task};

/// Values as they arrive.
pub type Values<V> = BoxStream<'static, Result<V>>;

/// A store of sessions. Sessions are numbered; a peer turns the number into its own name.
///
/// An append is acknowledged when it survives a power cut. A peer serialises in `append` and
/// decodes in what it reads, so both are in every figure.
pub trait Peer: Sized + Send + Sync + 'static {
    /// What the tables call it.
    const NAME: &'static str;
    /// A typed event, as a program that uses the peer would hold it.
    type Value: Send + Sync + 'static;
    /// What is needed to append to a session.
    type Writer: Send + Sync + 'static;

    /// Whether it can do a task at all.
    fn supports(task: Task) -> bool;

    /// The typed event of a record. Not measured.
    fn value(record: &Record) -> Self::Value;

    /// Kind and payload of a decoded event, as [`Record::line`]. Not measured.
    fn line(value: &Self::Value) -> String;

    /// Opens the store in a folder, making it if there is none.
    fn open(dir: &Path) -> impl Future<Output = Result<Self>> + Send;

    /// Opens a session for writing, making it if there is none.
    fn writer(&self, session: u32) -> impl Future<Output = Result<Self::Writer>> + Send;

    /// Appends, and returns when all of it is durable.
    fn append(
        &self,
        writer: &Self::Writer,
        batch: &[Self::Value],
    ) -> impl Future<Output = Result<()>> + Send;

    /// Puts a large amount in, as fast as the peer can. Not measured.
    fn fill(
        &self,
        writer: &Self::Writer,
        batch: &[Self::Value],
    ) -> impl Future<Output = Result<()>> + Send {
        self.append(writer, batch)
    }

    /// Reads a whole session in bounded memory, if the peer can.
    fn replay(
        &self,
        session: u32,
        each: impl FnMut(Self::Value) + Send,
    ) -> impl Future<Output = Result<()>> + Send;

    /// Reads `count` events from a position on.
    fn page(
        &self,
        session: u32,
        from: u64,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Self::Value>>> + Send {
        async move { unsupported((session, from, count)) }
    }

    /// Reads the last `count` events, in either order.
    fn tail(
        &self,
        session: u32,
        count: usize,
    ) -> impl Future<Output = Result<Vec<Self::Value>>> + Send {
        async move { unsupported((session, count)) }
    }

    /// Reads the current task list, and returns how many items it has.
    fn todos(&self, session: u32) -> impl Future<Output = Result<usize>> + Send {
        async move { unsupported(session) }
    }

    /// The same of a session that is open for writing.
    fn live_todos(&self, writer: &Self::Writer) -> impl Future<Output = Result<usize>> + Send {
        let _ = writer;
        async move { unsupported(()) }
    }

    /// Follows a session that this process writes, from a position on.
    fn subscribe(
        &self,
        writer: &Self::Writer,
        from: u64,
    ) -> impl Future<Output = Result<Values<Self::Value>>> + Send {
        let _ = writer;
        async move { unsupported(from) }
    }

    /// Follows a session that another process writes, from its beginning.
    fn follow(
        dir: &Path,
        session: u32,
    ) -> impl Future<Output = Result<Values<Self::Value>>> + Send {
        let _ = dir;
        async move { unsupported(session) }
    }

    /// Finishes what was begun.
    fn close(self) -> impl Future<Output = Result<()>> + Send;
}

fn unsupported<A, R>(_: A) -> Result<R> {
    anyhow::bail!("the peer says that it supports this task, and does not")
}
