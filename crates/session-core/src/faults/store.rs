//! Passing on what is asked, unless it is to fail.

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};

use super::{FaultyStore, Injected, Operation};
use crate::store::{
    AppendError, Checkpoint, CheckpointError, CheckpointStore, CreateError, FenceToken, Lease,
    LeaseError, LeaseStore, Owner, Prefix, QuarantineError, QuarantineStore, Quarantined,
    ReadError, ReadRange, Scope, Wakeups,
};
use crate::{
    CatalogueChange, CatalogueEntry, Event, EventStore, Header, ListQuery, Page, Seq, SessionId,
    UnixMillis,
};

impl<S: ?Sized> FaultyStore<S> {
    /// Asks the store behind, unless the operation is to fail.
    async fn ask<T, E>(
        &self,
        operation: Operation,
        ask: impl Future<Output = Result<T, E>>,
        fail: impl Fn(Injected) -> E,
    ) -> Result<T, E> {
        let begun = self.faults.begin(operation).await.map_err(&fail)?;
        let outcome = ask.await;
        begun.answer().map_err(fail)?;
        outcome
    }
}

fn unread(injected: Injected) -> ReadError {
    ReadError::Backend(injected.into())
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: EventStore + ?Sized> EventStore for FaultyStore<S> {
    async fn create(&self, header: &Header, seed: Vec<Event>) -> Result<(), CreateError> {
        let create = self.inner.create(header, seed);
        self.ask(Operation::Create, create, |injected| CreateError::Backend {
            session: header.id.clone(),
            source: injected.into(),
        })
        .await
    }

    async fn fork(
        &self,
        header: &Header,
        origin: &Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        let fork = self.inner.fork(header, origin, inherited, seed);
        self.ask(Operation::Fork, fork, |injected| CreateError::Backend {
            session: header.id.clone(),
            source: injected.into(),
        })
        .await
    }

    async fn append(
        &self,
        session: &SessionId,
        expected: Seq,
        batch: Vec<Event>,
        fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        let append = self.inner.append(session, expected, batch, fence);
        self.ask(Operation::Append, append, |injected| AppendError::Backend {
            session: session.clone(),
            source: std::sync::Arc::new(injected),
        })
        .await
    }

    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>> {
        let events = self.inner.read(session, range);
        let begin = async move {
            let begun = self.faults.begin(Operation::Read).await.map_err(unread)?;
            let end = async move { begun.answer().map_err(unread).err().map(Err) };
            let end = stream::once(end).filter_map(std::future::ready);
            Ok::<_, ReadError>(events.chain(end))
        };
        stream::once(begin).try_flatten().boxed()
    }

    async fn entry(&self, session: &SessionId) -> Result<CatalogueEntry, ReadError> {
        let entry = self.inner.entry(session);
        self.ask(Operation::Entry, entry, unread).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        let list = self.inner.list(query);
        self.ask(Operation::List, list, unread).await
    }

    fn watch(&self, scope: Scope) -> Wakeups {
        self.inner.watch(scope)
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: LeaseStore + ?Sized> LeaseStore for FaultyStore<S> {
    async fn acquire(
        &self,
        session: &SessionId,
        owner: &Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError> {
        let acquire = self.inner.acquire(session, owner, now);
        self.ask(Operation::Acquire, acquire, |injected| {
            LeaseError::Backend {
                session: session.clone(),
                source: injected.into(),
            }
        })
        .await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        let release = self.inner.release(lease);
        self.ask(Operation::Release, release, |injected| {
            LeaseError::Backend {
                session: lease.session.clone(),
                source: injected.into(),
            }
        })
        .await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: CheckpointStore + ?Sized> CheckpointStore for FaultyStore<S> {
    async fn load(&self, session: &SessionId) -> Result<Vec<Checkpoint>, ReadError> {
        let load = self.inner.load(session);
        self.ask(Operation::Load, load, unread).await
    }

    async fn save(
        &self,
        session: &SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        let save = self.inner.save(session, rows);
        self.ask(Operation::Save, save, |injected| CheckpointError::Backend {
            session: session.clone(),
            source: injected.into(),
        })
        .await
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: QuarantineStore + ?Sized> QuarantineStore for FaultyStore<S> {
    async fn quarantine(
        &self,
        session: &SessionId,
        positions: &[Seq],
        now: UnixMillis,
    ) -> Result<Vec<Quarantined>, QuarantineError> {
        let quarantine = self.inner.quarantine(session, positions, now);
        self.ask(Operation::Quarantine, quarantine, |injected| {
            QuarantineError::Backend {
                session: session.clone(),
                source: injected.into(),
            }
        })
        .await
    }
}
