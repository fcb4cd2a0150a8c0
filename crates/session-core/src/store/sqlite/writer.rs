//! The one connection that writes, and the task that owns it.
//!
//! Requests that arrive together share a transaction. A request that is refused has written
//! nothing and fails alone; when SQLite itself fails, each request of the group is tried again by
//! itself, so that only the one at fault fails.

use std::sync::Arc;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use tokio::sync::{broadcast, mpsc, oneshot};

use super::batch::Batch;
use super::quarantine::Damaged;
use super::together::Together;
use super::write::{Cache, Refusal, Request};
use crate::store::{
    AppendError, BoxError, Checkpoint, CheckpointError, CreateError, FenceToken, Lease, LeaseError,
    Owner, Prefix, QuarantineError,
};
use crate::{CatalogueChange, Event, Header, Seq, SessionId, UnixMillis};

/// Requests waiting for the writer. More senders than that wait for a place.
const QUEUE: usize = 1024;
/// Requests that share a transaction at most.
const GROUP: usize = 256;
/// How often the writer lets others run before it closes a group: those just served get to queue
/// their next request.
const YIELDS: usize = 4;
/// How long nothing is written before the write-ahead log is put away.
const IDLE: Duration = Duration::from_secs(2);

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

/// The failure of a transaction that several requests were waiting for.
#[derive(Debug, Clone, thiserror::Error)]
#[error(transparent)]
struct Shared(Arc<sqlx::Error>);

/// Hands requests to the task that writes.
#[derive(Debug)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
}

impl Writer {
    /// Writes through `connection`, and through others made like it should it fail.
    pub(super) fn start(
        connection: SqliteConnection,
        options: SqliteConnectOptions,
        busy_timeout: Duration,
        changes: broadcast::Sender<SessionId>,
    ) -> Self {
        let (jobs, queue) = mpsc::channel(QUEUE);
        let database = Database {
            options,
            busy_timeout,
            connection: Some(connection),
            cache: Cache::default(),
        };
        tokio::spawn(run(database, queue, changes));
        Self { jobs }
    }

    /// Waits until everything queued has been written and the connection is closed.
    pub(super) async fn close(&self) {
        // The error says that it is closed already.
        let _ = self.request(Request::Close).await;
    }

    pub(super) async fn create(&self, header: Header, seed: Vec<Event>) -> Result<(), CreateError> {
        let session = header.id.clone();
        let seed = match Batch::of(seed).await {
            Ok(seed) => seed,
            Err(source) => return Err(CreateError::Backend { session, source }),
        };
        match self.request(Request::Create { header, seed }).await {
            Ok(_) => Ok(()),
            Err(Failure::Refused(Refusal::Exists)) => Err(CreateError::Exists { session }),
            Err(other) => Err(CreateError::Backend {
                session,
                source: other.into_error(),
            }),
        }
    }

    pub(super) async fn fork(
        &self,
        header: Header,
        origin: Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        let session = header.id.clone();
        let seed = match Batch::of(seed).await {
            Ok(seed) => seed,
            Err(source) => return Err(CreateError::Backend { session, source }),
        };
        let request = Request::Fork {
            header,
            origin: origin.clone(),
            inherited,
            seed,
        };
        let Prefix {
            session: origin,
            until,
        } = origin;
        match self.request(request).await {
            Ok(_) => Ok(()),
            Err(Failure::Refused(Refusal::Exists)) => Err(CreateError::Exists { session }),
            Err(Failure::Refused(Refusal::NoSession)) => {
                Err(CreateError::NoOrigin { session, origin })
            }
            Err(Failure::Refused(Refusal::Beyond { length })) => Err(CreateError::Beyond {
                session,
                origin,
                until,
                length,
            }),
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
        let batch = match Batch::of(batch).await {
            Ok(batch) => batch,
            Err(error) => {
                let source = error.into();
                return Err(AppendError::Backend { session, source });
            }
        };
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
                source: other.into_error().into(),
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

    pub(super) async fn quarantine(
        &self,
        session: SessionId,
        damaged: Vec<Damaged>,
        now: UnixMillis,
    ) -> Result<(), QuarantineError> {
        let request = Request::Quarantine {
            session: session.clone(),
            damaged,
            now,
        };
        match self.request(request).await {
            Ok(_) => Ok(()),
            Err(other) => Err(QuarantineError::Backend {
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
    mut database: Database,
    mut queue: mpsc::Receiver<Job>,
    changes: broadcast::Sender<SessionId>,
) {
    let mut group = Vec::with_capacity(GROUP);
    let mut closing = Vec::new();
    let mut has_written = false;
    loop {
        let received = queue.recv_many(&mut group, GROUP);
        let received = if has_written {
            tokio::time::timeout(IDLE, received).await
        } else {
            Ok(received.await)
        };
        match received {
            Ok(0) => break,
            Ok(_) => has_written = true,
            Err(_) => {
                database.put_log_away().await;
                has_written = false;
                continue;
            }
        }
        for _ in 0..YIELDS {
            let before = group.len();
            tokio::task::yield_now().await;
            while group.len() < GROUP
                && let Ok(job) = queue.try_recv()
            {
                group.push(job);
            }
            if group.len() == before {
                break;
            }
        }
        for (job, reply) in database.serve(std::mem::take(&mut group)).await {
            if reply.is_ok()
                && let Some(session) = job.request.changes()
            {
                // Fails only when nobody listens.
                let _ = changes.send(session.clone());
            }
            if matches!(job.request, Request::Close) {
                queue.close();
                closing.push((job, reply));
            } else {
                // Fails only when the caller no longer waits; what it asked for is done.
                let _ = job.reply.send(reply);
            }
        }
    }
    if let Some(connection) = database.connection
        && let Err(error) = connection.close().await
    {
        tracing::warn!(%error, "the database did not close cleanly");
    }
    for (job, reply) in closing {
        let _ = job.reply.send(reply);
    }
}

/// The connection that writes, and what is known of the database that it writes to.
struct Database {
    options: SqliteConnectOptions,
    busy_timeout: Duration,
    /// None once it has failed, until it is needed again.
    connection: Option<SqliteConnection>,
    cache: Cache,
}

impl Database {
    /// Takes what is in the write-ahead log over into the database, and leaves it empty. A reader
    /// that is at work in it is not waited for; the next commits use it from its beginning then.
    async fn put_log_away(&mut self) {
        let Some(connection) = &mut self.connection else {
            return;
        };
        let patience = self.busy_timeout.as_millis();
        let sql = format!(
            "pragma busy_timeout = 0; pragma wal_checkpoint(truncate); pragma busy_timeout = {patience}"
        );
        let done = sqlx::raw_sql(sqlx::AssertSqlSafe(sql))
            .execute(connection)
            .await;
        if let Err(error) = done {
            tracing::debug!(%error, "the write-ahead log stays as it is");
            // The pause for other writers may be lost with it.
            self.connection = None;
        }
    }

    async fn serve(&mut self, group: Vec<Job>) -> Vec<(Job, Reply)> {
        let requests: Vec<&Request> = group.iter().map(|job| &job.request).collect();
        let replies = match self.transact(&requests).await {
            Ok(replies) => replies,
            Err(Fault::Began(_)) if requests.len() > 1 => self.serve_each(&requests).await,
            // Nothing was asked for yet, so it is nobody's fault, and would happen to each again.
            Err(Fault::Began(error) | Fault::NotBegun(error)) => {
                let shared = Shared(Arc::new(error));
                let failed = |_: &&Request| Err(Failure::Backend(shared.clone().into()));
                requests.iter().map(failed).collect()
            }
        };
        group.into_iter().zip(replies).collect()
    }

    async fn serve_each(&mut self, requests: &[&Request]) -> Vec<Reply> {
        let mut replies = Vec::with_capacity(requests.len());
        for &request in requests {
            let alone = self.transact(&[request]).await;
            replies.push(match alone.map(|mut replies| replies.pop()) {
                Ok(Some(reply)) => reply,
                Ok(None) => Err(Failure::Backend(Closed.into())),
                Err(Fault::Began(error) | Fault::NotBegun(error)) => {
                    Err(Failure::Backend(error.into()))
                }
            });
        }
        replies
    }

    /// Writes all requests in one transaction. After a fault nothing of them is written.
    async fn transact(&mut self, requests: &[&Request]) -> Result<Vec<Reply>, Fault> {
        let outcome = self.try_transact(requests).await;
        if outcome.is_err() {
            // SQLite ends some transactions by itself, which the driver does not notice; a new
            // connection is sure to be in none.
            self.connection = None;
            self.cache.forget();
        }
        outcome
    }

    async fn try_transact(&mut self, requests: &[&Request]) -> Result<Vec<Reply>, Fault> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            vacant => {
                let made = SqliteConnection::connect_with(&self.options).await;
                vacant.insert(made.map_err(Fault::NotBegun)?)
            }
        };
        if let Some(together) = Together::plan(&self.cache, requests) {
            match together.write(connection, &mut self.cache).await {
                Ok(()) => return Ok(requests.iter().map(|_| Ok(None)).collect()),
                Err(error) if is_busy(&error) => return Err(Fault::NotBegun(error)),
                // One of them does not fit: each is asked for by itself, in what is there now.
                Err(_) => {}
            }
        }
        // IMMEDIATE takes the write lock now, so that no head moves between its check and the
        // insert.
        let mut transaction = connection
            .begin_with("begin immediate")
            .await
            .map_err(Fault::NotBegun)?;
        let mut replies = Vec::with_capacity(requests.len());
        for request in requests {
            let reply = request.write(&mut transaction, &mut self.cache).await;
            replies.push(reply.map_err(Fault::Began)?.map_err(Failure::Refused));
        }
        transaction.commit().await.map_err(Fault::Began)?;
        Ok(replies)
    }
}

/// Whether another process has had the write lock for too long.
pub(super) fn is_busy(error: &sqlx::Error) -> bool {
    let code = error.as_database_error().and_then(|error| error.code());
    // SQLITE_BUSY and its extended codes, of the stable interface.
    code.and_then(|code| code.parse::<u32>().ok())
        .is_some_and(|code| code & 0xff == 5)
}

/// Why a transaction wrote nothing.
enum Fault {
    /// It could not begin: another process writes, or the file cannot be used.
    NotBegun(sqlx::Error),
    /// A request in it, or its commit, failed.
    Began(sqlx::Error),
}
