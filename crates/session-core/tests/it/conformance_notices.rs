//! The suite notices a store that breaks its word.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, BoxStream, StreamExt as _};
use futures::{FutureExt as _, TryStreamExt as _};
use session_core::store::conformance;
use session_core::store::{
    AppendError, Checkpoint, CheckpointError, CheckpointStore, CreateError, FenceToken, Lease,
    LeaseError, LeaseStore, Owner, Prefix, ReadError, ReadRange, Scope, Wakeups,
};
use session_core::{
    CatalogueChange, CatalogueEntry, Event, EventStore, Header, ListQuery, MemoryStore, Page, Seq,
    SessionId, UnixMillis,
};

/// How a store breaks its word.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    BelievesNobody,
    StoresHalfABatch,
    ForgetsSources,
    ForgetsTheMark,
    StampsItsOwnTime,
    ReadsOnePage,
    ReadsNothingOfUnknownSessions,
    NeverWakes,
    WakesTooEarly,
    SkipsEqualTimes,
    IgnoresFences,
    ForgetsReleases,
    SavesRowsAhead,
    OverwritesSessions,
    ForksWhatIsNotThere,
    LeaksCheckpoints,
}

#[derive(Debug)]
struct Faulty {
    fault: Fault,
    inner: MemoryStore,
}

impl Faulty {
    fn has(&self, fault: Fault) -> bool {
        self.fault == fault
    }

    fn spoil(&self, event: Event) -> Event {
        let (seq, mut time) = (event.seq(), event.time_ms());
        let (kind, data) = (event.kind().to_owned(), event.data().clone());
        let mut surface = event.surface().cloned();
        let mut ignorable = event.is_ignorable();
        match self.fault {
            Fault::ForgetsSources => {
                if let Some(surface) = &mut surface {
                    surface.sources = None;
                }
            }
            Fault::ForgetsTheMark => ignorable = false,
            Fault::StampsItsOwnTime => time = UnixMillis::new(1),
            _ => {}
        }
        session_core::NewEvent::raw(kind, data, surface, ignorable).at(seq, time)
    }
}

#[async_trait]
impl EventStore for Faulty {
    async fn create(&self, header: &Header, seed: Vec<Event>) -> Result<(), CreateError> {
        match self.inner.create(header, seed).await {
            Err(CreateError::Exists { .. }) if self.has(Fault::OverwritesSessions) => Ok(()),
            other => other,
        }
    }

    async fn fork(
        &self,
        header: &Header,
        origin: &Prefix,
        inherited: CatalogueChange,
        seed: Vec<Event>,
    ) -> Result<(), CreateError> {
        match self.inner.fork(header, origin, inherited, seed).await {
            Err(CreateError::Beyond { .. }) if self.has(Fault::ForksWhatIsNotThere) => Ok(()),
            other => other,
        }
    }

    async fn append(
        &self,
        session: &SessionId,
        mut expected: Seq,
        mut batch: Vec<Event>,
        mut fence: Option<FenceToken>,
    ) -> Result<(), AppendError> {
        if self.has(Fault::BelievesNobody)
            && let Ok(entry) = self.inner.entry(session).await
        {
            let places = (0..).map(|nth| entry.next_seq.plus(nth));
            expected = entry.next_seq;
            batch = batch
                .into_iter()
                .zip(places)
                .map(|(event, seq)| {
                    let time = event.time_ms();
                    event.into_new().at(seq, time)
                })
                .collect();
        }
        if self.has(Fault::IgnoresFences) {
            fence = None;
        }
        let batch: Vec<Event> = batch.into_iter().map(|event| self.spoil(event)).collect();
        let stored = self
            .inner
            .append(session, expected, batch.clone(), fence)
            .await;
        if self.has(Fault::StoresHalfABatch)
            && let Err(AppendError::Misnumbered { .. }) = &stored
        {
            let first = batch.into_iter().take(1).collect();
            // Refused where even the first is out of place.
            let _ = self.inner.append(session, expected, first, fence).await;
        }
        stored
    }

    fn read(
        &self,
        session: &SessionId,
        range: ReadRange,
    ) -> BoxStream<'_, Result<Event, ReadError>> {
        let events = self.inner.read(session, range);
        match self.fault {
            Fault::ReadsOnePage => events.take(256).boxed(),
            Fault::ReadsNothingOfUnknownSessions => events
                .or_else(|error| async { Err(error) })
                .filter(|event| std::future::ready(event.is_ok()))
                .boxed(),
            _ => events,
        }
    }

    async fn entry(&self, session: &SessionId) -> Result<CatalogueEntry, ReadError> {
        self.inner.entry(session).await
    }

    async fn list(&self, query: &ListQuery) -> Result<Page, ReadError> {
        let mut page = self.inner.list(query).await?;
        if self.has(Fault::SkipsEqualTimes)
            && let Some(after) = &query.after
        {
            page.entries
                .retain(|entry| entry.updated_at != after.time());
        }
        Ok(page)
    }

    fn watch(&self, scope: Scope) -> Wakeups {
        match self.fault {
            Fault::NeverWakes => Wakeups::new(stream::pending()),
            Fault::WakesTooEarly => Wakeups::new(stream::iter([()]).chain(stream::pending())),
            _ => self.inner.watch(scope),
        }
    }
}

#[async_trait]
impl LeaseStore for Faulty {
    async fn acquire(
        &self,
        session: &SessionId,
        owner: &Owner,
        now: UnixMillis,
    ) -> Result<Lease, LeaseError> {
        self.inner.acquire(session, owner, now).await
    }

    async fn release(&self, lease: &Lease) -> Result<(), LeaseError> {
        if self.has(Fault::ForgetsReleases) {
            return Ok(());
        }
        self.inner.release(lease).await
    }
}

#[async_trait]
impl CheckpointStore for Faulty {
    async fn load(&self, session: &SessionId) -> Result<Vec<Checkpoint>, ReadError> {
        if self.has(Fault::LeaksCheckpoints)
            && let Some(origin) = self.inner.entry(session).await?.header.parent_session
        {
            return self.inner.load(&origin).await;
        }
        self.inner.load(session).await
    }

    async fn save(
        &self,
        session: &SessionId,
        rows: Vec<Checkpoint>,
    ) -> Result<(), CheckpointError> {
        match self.inner.save(session, rows).await {
            Err(CheckpointError::Ahead { .. }) if self.has(Fault::SavesRowsAhead) => Ok(()),
            other => other,
        }
    }
}

/// Whether a case fails against a store with a fault, and holds against one without.
macro_rules! notices {
    ($($name:ident: $fault:ident by $subject:ident::$case:ident;)*) => {$(
        #[tokio::test(start_paused = true)]
        async fn $name() {
            let fault = Fault::$fault;
            let faulty = Arc::new(Faulty { fault, inner: MemoryStore::new() });
            let case = AssertUnwindSafe(conformance::$subject::$case(&faulty));
            assert!(case.catch_unwind().await.is_err());
            conformance::$subject::$case(&MemoryStore::shared()).await;
        }
    )*};
}

notices! {
    a_store_without_conflicts:
        BelievesNobody by append::refuses_a_stale_belief_and_writes_nothing;
    a_store_that_keeps_half_a_batch:
        StoresHalfABatch by append::refuses_a_misnumbered_batch_and_writes_nothing;
    a_store_that_forgets_sources:
        ForgetsSources by read::keeps_the_surface_metadata_and_the_order_of_sources;
    a_store_that_forgets_the_ignorable_mark:
        ForgetsTheMark by read::keeps_the_mark_of_ignorable_events;
    a_store_that_stamps_its_own_time:
        StampsItsOwnTime by read::keeps_times_before_the_epoch_and_out_of_order;
    a_store_that_reads_one_page:
        ReadsOnePage by read::reads_over_the_borders_of_pages;
    a_store_that_reads_unknown_sessions_as_empty:
        ReadsNothingOfUnknownSessions by read::an_unknown_session_is_not_found;
    a_store_that_never_wakes:
        NeverWakes by watch::wakes_for_a_change_that_came_while_nobody_waited;
    a_store_that_wakes_too_early:
        WakesTooEarly by watch::wakes_once_the_change_can_be_read;
    a_store_that_skips_equal_times:
        SkipsEqualTimes by list::pages_over_equal_times_show_each_session_once;
    a_store_without_fences:
        IgnoresFences by lease::an_older_token_is_fenced_and_writes_nothing;
    a_store_that_forgets_releases:
        ForgetsReleases by lease::a_released_token_is_fenced;
    a_store_that_saves_rows_ahead_of_the_log:
        SavesRowsAhead by checkpoint::refuses_rows_ahead_of_the_log_and_saves_none;
    a_store_that_takes_an_id_twice:
        OverwritesSessions by create::refuses_an_id_that_exists_and_leaves_its_session_alone;
    a_store_that_forks_what_is_not_there:
        ForksWhatIsNotThere by fork::refuses_to_fork_beyond_the_end_of_a_log;
    a_store_that_lets_a_child_see_the_checkpoints_of_its_origin:
        LeaksCheckpoints by fork::checkpoints_of_the_origin_are_not_the_childs;
}

#[tokio::test]
async fn running_all_cases_names_those_that_failed() {
    let fresh = async || Faulty {
        fault: Fault::ForgetsSources,
        inner: MemoryStore::new(),
    };
    let run = AssertUnwindSafe(conformance::all(fresh))
        .catch_unwind()
        .await;
    let panic = run.unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert_eq!(
        text,
        "the store does not conform: [\"keeps_the_surface_metadata_and_the_order_of_sources\"]"
    );
}
