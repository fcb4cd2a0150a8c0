//! A store whose events are read in their present shape.

use std::sync::Arc;

use async_trait::async_trait;
use futures::TryStreamExt as _;
use futures::stream::{self, BoxStream, StreamExt as _};

use super::{
    AppendError, CreateError, EventStore, FenceToken, Prefix, ReadError, ReadRange, Scope, Wakeups,
};
use crate::{
    CatalogueChange, CatalogueEntry, Event, Header, ListQuery, Page, Seq, SessionId, Vocabulary,
};

/// Reads the events of another store through the upcasters of a vocabulary. Everything else is
/// passed on: what is appended is stored as it is.
///
/// [`Sessions`](crate::Sessions) puts one around its store where its vocabulary has upcasters, and
/// hands it out as [`Sessions::store`](crate::Sessions::store). What has to see the stored bytes
/// themselves, as an export does, reads the store behind.
#[derive(Debug)]
pub struct Upcasting<S: ?Sized> {
    vocabulary: Arc<Vocabulary>,
    inner: Arc<S>,
}

impl<S: ?Sized> Upcasting<S> {
    /// Reads the events of `inner` as `vocabulary` has them now.
    #[must_use]
    pub fn new(inner: Arc<S>, vocabulary: Arc<Vocabulary>) -> Self {
        Self { vocabulary, inner }
    }

    /// The store behind, whose events have the shape that they were appended in.
    #[must_use]
    pub const fn inner(&self) -> &Arc<S> {
        &self.inner
    }
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl<S: EventStore + ?Sized> EventStore for Upcasting<S> {
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
        let stored = self.inner.read(session, range);
        let session = session.clone();
        let upcast = move |event| {
            let present = self.vocabulary.upcast(event);
            present.map_err(|error| ReadError::upcast(session.clone(), error))
        };
        // Unfolded rather than mapped, so that an error is the last item here too.
        stream::try_unfold((stored, upcast), |(mut stored, upcast)| async move {
            let Some(event) = stored.try_next().await? else {
                return Ok(None);
            };
            Ok(Some((upcast(event)?, (stored, upcast))))
        })
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
