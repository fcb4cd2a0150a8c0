//! A store that remembers what it was asked, and does as it is told.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use projection::{CheckpointPolicy, Projections};
use session_core::store::{
    AppendError, Checkpoint, CheckpointError, CheckpointStore, CreateError, FenceToken, Prefix,
    ReadError, ReadRange, Scope, Wakeups,
};
use session_core::{
    CatalogueChange, CatalogueEntry, Event, EventStore, Header, ListQuery, MemoryStore, NewEvent,
    NewSession, Page, Payload, Seq, Session, SessionId, Sessions, SteppingClock, UnixMillis,
};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Observed {
    inner: MemoryStore,
    told: Mutex<Told>,
    saves: watch::Sender<Vec<Vec<Checkpoint>>>,
}

#[derive(Debug, Default)]
struct Told {
    reads: Vec<ReadRange>,
    /// Events left out of the next read that would serve them, or of all.
    hidden: BTreeSet<Seq>,
    hides_once: bool,
    damaged: Option<Seq>,
    refuses_saves: bool,
    /// Served instead of what is stored.
    rows: Option<Vec<Checkpoint>>,
}

impl Observed {
    pub(crate) fn shared() -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::new(),
            told: Mutex::default(),
            saves: watch::Sender::default(),
        })
    }

    fn told<R>(&self, look: impl FnOnce(&mut Told) -> R) -> R {
        look(&mut self.told.lock().unwrap())
    }

    /// Where the reads since the last question began.
    pub(crate) fn reads(&self) -> Vec<u64> {
        let reads = self.told(|told| std::mem::take(&mut told.reads));
        reads.into_iter().map(|range| range.from.get()).collect()
    }

    pub(crate) fn hide(&self, seq: u32, once: bool) {
        self.told(|told| {
            told.hidden.insert(seq.into());
            told.hides_once = once;
        });
    }

    pub(crate) fn damage(&self, seq: u32) {
        self.told(|told| told.damaged = Some(seq.into()));
    }

    pub(crate) fn refuse_saves(&self, refuse: bool) {
        self.told(|told| told.refuses_saves = refuse);
    }

    pub(crate) fn serve(&self, rows: Vec<Checkpoint>) {
        self.told(|told| told.rows = Some(rows));
    }

    /// The accepted saves, each as its keys and positions, once there are `count` of them.
    pub(crate) async fn saves(&self, count: usize) -> Vec<Vec<(String, u64)>> {
        let mut saves = self.saves.subscribe();
        let enough = saves.wait_for(|saves| saves.len() >= count);
        let saves = tokio::time::timeout(std::time::Duration::from_secs(60), enough);
        let saves = saves.await.expect("saved in time").unwrap().clone();
        let row = |row: Checkpoint| (row.key, row.seq.get());
        saves
            .into_iter()
            .map(|rows| rows.into_iter().map(row).collect())
            .collect()
    }
}

#[async_trait]
impl EventStore for Observed {
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
        self.inner.append(session, expected, batch, fence).await
    }

    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>> {
        self.told(|told| told.reads.push(range));
        let events = self.inner.read(session, range);
        let shown = |event: &Result<Event, ReadError>| {
            let Ok(event) = event else { return true };
            self.told(|told| {
                let is_hidden = told.hidden.contains(&event.seq());
                if told.hides_once {
                    told.hidden.remove(&event.seq());
                }
                !is_hidden
            })
        };
        let damaged = self.told(|told| told.damaged);
        let session = session.clone();
        let damage = move |event: Event| match event.seq() {
            seq if Some(seq) == damaged => Err(ReadError::Damaged {
                session: session.clone(),
                seq,
                reason: "torn".to_owned(),
            }),
            _ => Ok(event),
        };
        events
            .map(move |event| event.and_then(&damage))
            .filter(move |event| std::future::ready(shown(event)))
            .boxed()
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

#[async_trait]
impl CheckpointStore for Observed {
    async fn load(&self, session: &SessionId) -> Result<Vec<Checkpoint>, ReadError> {
        match self.told(|told| told.rows.clone()) {
            Some(rows) => Ok(rows),
            None => self.inner.load(session).await,
        }
    }

    async fn save(
        &self,
        session: &SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        if self.told(|told| told.refuses_saves) {
            return Err(CheckpointError::NotFound {
                session: session.clone(),
            });
        }
        self.inner.save(session, rows.clone()).await?;
        self.saves.send_modify(|saves| saves.push(rows));
        Ok(())
    }
}

/// Sessions on an observed store, with projections that are attached.
pub(crate) struct Harness {
    pub(crate) store: Arc<Observed>,
    pub(crate) sessions: Sessions,
    pub(crate) projections: Projections,
    _attached: session_core::ObserverGuard,
}

impl Harness {
    pub(crate) fn new() -> Self {
        Self::with(CheckpointPolicy::default())
    }

    pub(crate) fn with(policy: CheckpointPolicy) -> Self {
        Self::on(Observed::shared(), policy)
    }

    /// Another process on the same store.
    pub(crate) fn on(store: Arc<Observed>, policy: CheckpointPolicy) -> Self {
        let sessions = Sessions::builder(store.clone())
            .clock(Arc::new(SteppingClock::new(UnixMillis::EPOCH, 1)))
            .build();
        let projections = Projections::new(Some(store.clone()), policy);
        let _attached = projections.attach(&sessions);
        Self {
            store,
            sessions,
            projections,
            _attached,
        }
    }

    pub(crate) async fn session(&self, events: Vec<NewEvent>) -> Session {
        let session = self.sessions.create(NewSession::default()).await.unwrap();
        session.append(events).await.unwrap();
        session
    }

    /// Puts a session into the store that no projection has seen.
    pub(crate) async fn stored(&self, events: Vec<NewEvent>) -> SessionId {
        let id = SessionId::from("stored");
        let header = Header::new(id.clone(), UnixMillis::EPOCH);
        let seed = crate::units::log(events);
        self.store.create(&header, seed).await.unwrap();
        id
    }
}

pub(crate) fn row(key: &str, state_version: u32, seq: u32, state: &str) -> Checkpoint {
    Checkpoint {
        key: key.to_owned(),
        state_version,
        seq: seq.into(),
        state: Payload::from_text(state).unwrap(),
    }
}
