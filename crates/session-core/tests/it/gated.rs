//! A store whose appends and reads wait, or fail, when a test says so.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use futures::stream::{BoxStream, StreamExt as _};
use session_core::store::{
    AppendError, CreateError, FenceToken, Prefix, ReadError, ReadRange, Scope, Wakeups,
};
use session_core::{
    CatalogueChange, CatalogueEntry, Event, EventStore, Header, ListQuery, MemoryStore, Page, Seq,
    SessionId,
};
use tokio::sync::{Notify, Semaphore};

#[derive(Debug)]
pub(crate) struct Gated {
    pub(crate) inner: Arc<MemoryStore>,
    appends: Semaphore,
    reads_of: Option<SessionId>,
    reads: Semaphore,
    fails: AtomicBool,
    arrived: Notify,
}

impl Gated {
    pub(crate) fn new() -> Self {
        Self {
            inner: MemoryStore::shared(),
            appends: Semaphore::new(Semaphore::MAX_PERMITS),
            reads_of: None,
            reads: Semaphore::new(0),
            fails: AtomicBool::new(false),
            arrived: Notify::new(),
        }
    }

    /// Reads of this session wait until [`Gated::let_reads_pass`].
    pub(crate) fn holding_reads_of(id: &str) -> Self {
        Self {
            reads_of: Some(id.into()),
            ..Self::new()
        }
    }

    pub(crate) fn let_reads_pass(&self) {
        self.reads.add_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn hold_appends(&self) {
        self.appends.forget_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn let_appends_pass(&self) {
        self.appends.add_permits(Semaphore::MAX_PERMITS);
    }

    pub(crate) fn fail_appends(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Waits until an append has come as far as the gate.
    pub(crate) async fn append_has_arrived(&self) {
        self.arrived.notified().await;
    }
}

#[async_trait]
impl EventStore for Gated {
    async fn create(&self, header: &Header, seed: Vec<Event>) -> Result<(), CreateError> {
        self.inner.create(header, seed).await
    }

    async fn fork(
        &self,
        header: &Header,
        origin: &Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        self.inner.fork(header, origin, inherited, seed).await
    }

    async fn append(
        &self,
        session: &SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        self.arrived.notify_one();
        let _pass = self.appends.acquire().await.unwrap();
        if self.fails.load(Ordering::SeqCst) {
            return Err(AppendError::Backend {
                session: session.clone(),
                source: std::sync::Arc::from(Box::<dyn std::error::Error + Send + Sync>::from(
                    "the test said so",
                )),
            });
        }
        self.inner.append(session, expected, batch, fence).await
    }

    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>> {
        let events = self.inner.read(session, range);
        if self.reads_of.as_ref() != Some(session) {
            return events;
        }
        let gate = async {
            drop(self.reads.acquire().await.unwrap());
            events
        };
        futures::stream::once(gate).flatten().boxed()
    }

    async fn entry(&self, session: &SessionId) -> Result<CatalogueEntry, ReadError> {
        self.inner.entry(session).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        self.inner.list(query).await
    }

    fn watch(&self, scope: Scope) -> Wakeups {
        self.inner.watch(scope)
    }
}
