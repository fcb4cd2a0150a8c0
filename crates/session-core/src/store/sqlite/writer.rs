//! The one connection that writes, and the task that owns it.
//!
//! Requests that arrive together share a transaction. A request that is refused has written
//! nothing and fails alone; when SQLite itself fails, each request of the group is tried again by
//! itself, so that only the one at fault fails.

use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use tokio::sync::{broadcast, mpsc, oneshot};

use super::write::{Cache, Refusal, Request};
use crate::store::{
    AppendError, BoxError, Checkpoint, CheckpointError, CreateError, FenceToken, Lease, LeaseError,
    Owner,
};
use crate::{Event, Header, Seq, SessionId, UnixMillis};

/// Requests waiting for the writer. More senders than that wait for a place.
const QUEUE: usize = 1024;
/// Requests that share a transaction at most.
const GROUP: usize = 256;
/// How often the writer lets others run before it closes a group: those just served get to queue
/// their next request.
const YIELDS: usize = 4;

/// What came of a request: what it returns, or why it wrote nothing.
pub(super) type Reply = Result<Option<FenceToken>, Failure>;

/// Why a request wrote nothing.
#[derive(Debug)]
pub(super) enum Failure {
    /// A rule refused it.
    Refused(Refusal),
    /// SQLite failed, or the store is closed.
    Backend(BoxError),
}

#[derive(Debug)]
struct Job {
    request: Request,
    reply: oneshot::Sender<Reply>,
}

#[derive(Debug, thiserror::Error)]
#[error("the session store is closed")]
struct Closed;

/// Hands requests to the task that writes.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    pub(super) fn start(
        connection: SqliteConnection,
        changes: broadcast::Sender<SessionId>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        tokio::spawn(run(connection, queue, changes));
        Self { jobs }
    }

    pub(super) async fn close(&self) {
        // Acknowledged once everything queued before it has been written.
        let _ = self.request(Request::Close).await;
    }

    pub(super) async fn create(&self, header: Header, seed: Vec<Event>) -> Result<(), CreateError> {
        let session = header.id.clone();
        match self.request(Request::Create { header, seed }).await {
            Ok(_) => Ok(()),
            Err(Failure::Refused(Refusal::Exists)) => Err(CreateError::Exists { session }),
            Err(other) => Err(CreateError::Backend {
                session,
                source: other.into_error(),
            }),
        }
    }

    pub(super) async fn append(
        &self,
        session: SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        let request = Request::Append {
            session: session.clone(),
            expected,
            batch,
            fence,
        };
        match self.request(request).await {
            Ok(_) => Ok(()),
            Err(Failure::Refused(Refusal::NoSession)) => Err(AppendError::NotFound { session }),
            Err(Failure::Refused(Refusal::Fenced)) => Err(AppendError::Fenced { session }),
            Err(Failure::Refused(Refusal::Conflict { actual })) => Err(AppendError::Conflict {
                session,
                expected,
                actual,
            }),
            Err(other) => Err(AppendError::Backend {
                session,
                source: other.into_error(),
            }),
        }
    }

    pub(super) async fn acquire(
        &self,
        session: SessionId,
        owner: Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError> {
        let request = Request::Acquire {
            session: session.clone(),
            owner,
            now,
        };
        match self.request(request).await {
            Ok(Some(token)) => Ok(Lease { session, token }),
            Ok(None) => Err(LeaseError::Backend {
                session,
                source: Closed.into(),
            }),
            Err(Failure::Refused(Refusal::NoSession)) => Err(LeaseError::NotFound { session }),
            Err(Failure::Refused(Refusal::Held { owner, since })) => Err(LeaseError::Held {
                session,
                owner,
                since,
            }),
            Err(other) => Err(LeaseError::Backend {
                session,
                source: other.into_error(),
            }),
        }
    }

    pub(super) async fn release(&self, lease: Lease) -> Result<(), LeaseError> {
        let session = lease.session.clone();
        match self.request(Request::Release { lease }).await {
            Ok(_) => Ok(()),
            Err(other) => Err(LeaseError::Backend {
                session,
                source: other.into_error(),
            }),
        }
    }

    pub(super) async fn save(
        &self,
        session: SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        match self
            .request(Request::Save {
                session: session.clone(),
                rows,
            })
            .await
        {
            Ok(_) => Ok(()),
            Err(Failure::Refused(Refusal::NoSession)) => Err(CheckpointError::NotFound { session }),
            Err(Failure::Refused(Refusal::Ahead { key, seq })) => {
                Err(CheckpointError::Ahead { session, key, seq })
            }
            Err(other) => Err(CheckpointError::Backend {
                session,
                source: other.into_error(),
            }),
        }
    }

    async fn request(&self, request: Request) -> Reply {
        let (reply, answer) = oneshot::channel();
        let closed = || Failure::Backend(Closed.into());
        self.jobs
            .send(Job { request, reply })
            .await
            .map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?
    }
}

impl Failure {
    fn into_error(self) -> BoxError {
        match self {
            Self::Backend(source) => source,
            Self::Refused(refusal) => refusal.into(),
        }
    }
}

async fn run(
    mut connection: SqliteConnection,
    mut queue: mpsc::Receiver<Job>,
    changes: broadcast::Sender<SessionId>,
) {
    let mut cache = Cache::default();
    let mut group = Vec::with_capacity(GROUP);
    while queue.recv_many(&mut group, GROUP).await > 0 {
        for _ in 0..YIELDS {
            tokio::task::yield_now().await;
            while group.len() < GROUP
                && let Ok(job) = queue.try_recv()
            {
                group.push(job);
            }
        }
        if group
            .iter()
            .any(|job| matches!(job.request, Request::Close))
        {
            queue.close();
        }
        for (job, reply) in serve(&mut connection, &mut cache, group.drain(..).collect()).await {
            if reply.is_ok()
                && let Some(session) = job.request.changes()
            {
                // Fails only when nobody listens.
                let _ = changes.send(session.clone());
            }
            // Fails only when the caller no longer waits; what it asked for is done.
            let _ = job.reply.send(reply);
        }
    }
    if let Err(error) = connection.close().await {
        tracing::warn!(%error, "the database did not close cleanly");
    }
}

async fn serve(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    group: Vec<Job>,
) -> Vec<(Job, Reply)> {
    let requests: Vec<&Request> = group.iter().map(|job| &job.request).collect();
    let replies = match transact(connection, cache, &requests).await {
        Ok(replies) => replies,
        Err(error) if requests.len() == 1 => vec![Err(Failure::Backend(error.into()))],
        Err(_) => {
            let mut replies = Vec::with_capacity(requests.len());
            for request in requests {
                let alone = transact(connection, cache, &[request]).await;
                let reply = alone.map(|mut replies| replies.pop());
                replies.push(match reply {
                    Ok(reply) => reply.unwrap_or(Err(Failure::Backend(Closed.into()))),
                    Err(error) => Err(Failure::Backend(error.into())),
                });
            }
            replies
        }
    };
    group.into_iter().zip(replies).collect()
}

async fn transact(
    connection: &mut SqliteConnection,
    cache: &mut Cache,
    requests: &[&Request],
) -> Result<Vec<Reply>, sqlx::Error> {
    // IMMEDIATE takes the write lock now, so that no head moves between its check and the insert.
    let mut transaction = connection.begin_with("begin immediate").await?;
    let mut replies = Vec::with_capacity(requests.len());
    for request in requests {
        match request.write(&mut transaction, cache).await {
            Ok(reply) => replies.push(reply.map_err(Failure::Refused)),
            Err(error) => {
                cache.forget();
                transaction.rollback().await?;
                return Err(error);
            }
        }
    }
    if let Err(error) = transaction.commit().await {
        cache.forget();
        return Err(error);
    }
    Ok(replies)
}
