//! Each operation of each path fails in turn, before and after it took effect; memory and disk
//! agree afterwards, and nothing acknowledged is lost.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt as _, TryStreamExt as _};
use session_core::event::{StepStart, TodoWrite, TurnEnd, TurnEndReason, TurnStart};
use session_core::faults::{FaultyStore, Injected, Moment, Operation};
use session_core::store::conformance::{Fresh, Store};
use session_core::store::{
    AppendError, BoxError, Checkpoint, CheckpointStore as _, LeaseStore as _, Owner,
};
use session_core::{
    AppendFailure, CatalogueChange, CatalogueEntry, Event, EventStore as _, Fork, ForkFailure,
    ListFilter, ListQuery, LogState, MemoryStore, NewEvent, NewSession, Payload, RandomIds, Seq,
    Session, SessionId, Sessions, SteppingClock, Vocabulary, follow,
};

use crate::support::{TIME, header, log, notes, seq, shown, within};

mod without_faults {
    //! A store that is told nothing is like the one behind it.

    use session_core::MemoryStore;
    use session_core::faults::FaultyStore;

    session_core::conformance_tests!(async { FaultyStore::new(MemoryStore::shared()) });
}

fn turn(turn: u64) -> NewEvent {
    NewEvent::new(&TurnStart { turn })
}

fn turn_end(turn: u64) -> NewEvent {
    let reason = TurnEndReason::Completed;
    NewEvent::new(&TurnEnd { turn, reason })
}

fn todos() -> NewEvent {
    NewEvent::new(&TodoWrite::default())
}

/// What may follow any log.
fn note() -> NewEvent {
    NewEvent::raw("test/note", Payload::of(&0).unwrap(), None, true)
}

fn named(id: &str) -> NewSession {
    NewSession {
        id: Some(id.into()),
        ..NewSession::default()
    }
}

fn onto(id: &str) -> Fork {
    Fork {
        id: Some(id.into()),
        ..Fork::default()
    }
}

/// One process on a store that fails.
struct World<S> {
    store: Arc<FaultyStore<S>>,
    sessions: Sessions,
    /// What callers were told is stored.
    acknowledged: Vec<(SessionId, Event)>,
}

impl<S: Store> World<S> {
    fn new(inner: &Arc<S>) -> Self {
        let store = Arc::new(FaultyStore::new(Arc::clone(inner)));
        let sessions = Self::process(&store);
        Self {
            store,
            sessions,
            acknowledged: Vec::new(),
        }
    }

    fn process(store: &Arc<FaultyStore<S>>) -> Sessions {
        Sessions::builder(store.clone())
            .leases(store.clone())
            .clock(Arc::new(SteppingClock::new(TIME, 1)))
            .build()
    }

    async fn append(&mut self, session: &Session, batch: Vec<NewEvent>) -> Result<(), BoxError> {
        let events = session.append(batch).await?;
        let id = session.id();
        let events = events.into_iter().map(|event| (id.clone(), event));
        self.acknowledged.extend(events);
        Ok(())
    }

    /// A session with a turn, closed again.
    async fn closed(&mut self, id: &str) {
        let session = self.sessions.create(named(id)).await.unwrap();
        let batch = vec![turn(1), todos(), turn_end(1)];
        self.append(&session, batch).await.unwrap();
        self.sessions.close(session.id()).await;
    }

    /// A session whose writer ended inside a turn.
    async fn crashed(&mut self, id: &str) {
        let step = NewEvent::new(&StepStart { turn: 1, step: 1 });
        let crashed = vec![turn(1).at(seq(0), TIME), step.at(seq(1), TIME)];
        self.store.create(&header(id), crashed).await.unwrap();
    }

    fn live(&self, id: &str) -> Session {
        self.sessions.live(&id.into()).unwrap()
    }

    /// Memory and disk agree about every session, or whoever uses the memory is told.
    async fn agrees(&mut self) {
        for entry in self.entries().await {
            let id = entry.header.id.clone();
            let stored = self.stored_is_sound(&entry).await;
            if let Some(session) = self.sessions.live(&id)
                && session.head() != stored.last().map(Event::seq)
            {
                let behind = session.append(vec![note()]).await.unwrap_err();
                assert!(is_told(&behind), "{behind}");
                assert_eq!(log(&**self.store.inner(), id.as_str()).await, stored);
            }
            self.goes_on(&id).await;
        }
        for (id, event) in &self.acknowledged {
            let stored = log(&**self.store.inner(), id.as_str()).await;
            let at = usize::try_from(event.seq().get()).unwrap();
            assert_eq!(
                stored.get(at),
                Some(event),
                "an acknowledged event is missing"
            );
        }
    }

    /// A session that did not open is free for other processes, unless nobody here knows whether
    /// the lease was granted.
    async fn holds_no_lease_for_nothing(&self, cause: Injected) {
        let acquire = Operation::Acquire;
        if cause == (Injected::AnswerLost { operation: acquire }) {
            return;
        }
        for entry in self.entries().await {
            let id = entry.header.id;
            if self.sessions.live(&id).is_none() {
                let elsewhere = Self::process(&self.store);
                within(elsewhere.open(&id)).await.unwrap();
                elsewhere.close_all().await;
            }
        }
    }

    async fn entries(&self) -> Vec<CatalogueEntry> {
        let query = ListQuery {
            filter: ListFilter {
                include_blank: true,
                ..ListFilter::default()
            },
            ..ListQuery::default()
        };
        self.store.inner().list(&query).await.unwrap().entries
    }

    async fn stored_is_sound(&self, entry: &CatalogueEntry) -> Vec<Event> {
        let stored = log(&**self.store.inner(), entry.header.id.as_str()).await;
        let mut expected = CatalogueEntry::new(entry.header.clone());
        expected.apply(CatalogueChange::of(&stored));
        assert_eq!(*entry, expected);
        fold(&stored);
        stored
    }

    /// The session opens here, takes another batch, and opens in another process once it is closed.
    async fn goes_on(&mut self, id: &SessionId) {
        let session = within(self.sessions.open(id)).await.unwrap();
        self.is_as_stored(&session).await;
        self.append(&session, vec![note()]).await.unwrap();
        self.is_as_stored(&session).await;
        self.sessions.close(id).await;
        let elsewhere = Self::process(&self.store);
        let session = within(elsewhere.open(id)).await.unwrap();
        self.is_as_stored(&session).await;
        elsewhere.close_all().await;
    }

    async fn is_as_stored(&self, session: &Session) {
        let stored = log(&**self.store.inner(), session.id().as_str()).await;
        assert_eq!(session.with_state(shown), shown(&fold(&stored)));
        let all = session.subscribe(Seq::ZERO).take(stored.len());
        let all: Vec<Event> = within(all.try_collect()).await.unwrap();
        assert_eq!(all, stored);
    }
}

fn fold(events: &[Event]) -> LogState {
    LogState::fold(&Vocabulary::core(), events).unwrap()
}

/// Whether the caller learns that the session is not what is stored any more.
fn is_told(failure: &AppendFailure) -> bool {
    is_conflict(failure) || matches!(failure, AppendFailure::Lost { .. })
}

fn is_conflict(failure: &AppendFailure) -> bool {
    matches!(failure, AppendFailure::Store(AppendError::Conflict { .. }))
}

/// Something that a harness does.
#[derive(Debug, Clone, Copy)]
enum Path {
    Create,
    CreateWithASeed,
    Fork,
    ForkALiveOne,
    Rewind,
    Lineage,
    Open,
    OpenAndRepair,
    TakeOver,
    Append,
    Stage,
    Subscribe,
    Close,
    Follow,
    List,
    Checkpoints,
}

impl Path {
    const ALL: [Self; 16] = [
        Self::Create,
        Self::CreateWithASeed,
        Self::Fork,
        Self::ForkALiveOne,
        Self::Rewind,
        Self::Lineage,
        Self::Open,
        Self::OpenAndRepair,
        Self::TakeOver,
        Self::Append,
        Self::Stage,
        Self::Subscribe,
        Self::Close,
        Self::Follow,
        Self::List,
        Self::Checkpoints,
    ];

    /// What is there before; nothing fails yet.
    async fn prepare<S: Store>(self, world: &mut World<S>) {
        match self {
            Self::Create | Self::CreateWithASeed => {}
            Self::Open | Self::Fork => world.closed("a").await,
            Self::ForkALiveOne | Self::Rewind => {
                let session = world.sessions.create(named("a")).await.unwrap();
                let batch = vec![turn(1), turn_end(1), note()];
                world.append(&session, batch).await.unwrap();
            }
            Self::Lineage => {
                world.closed("a").await;
                let sessions = &world.sessions;
                sessions.fork(&"a".into(), onto("b")).await.unwrap();
                sessions.fork(&"b".into(), onto("c")).await.unwrap();
                world.sessions.close_all().await;
            }
            Self::OpenAndRepair => world.crashed("a").await,
            Self::TakeOver => {
                world.crashed("a").await;
                let gone = Owner {
                    started: "an earlier start".into(),
                    ..Owner::this_process(&RandomIds)
                };
                world.store.acquire(&"a".into(), &gone, TIME).await.unwrap();
            }
            Self::Append | Self::Stage | Self::Close => {
                let session = world.sessions.create(named("a")).await.unwrap();
                world.append(&session, vec![turn(1)]).await.unwrap();
            }
            Self::Subscribe => {
                // Opened again, so that what was stored before is not at hand.
                world.closed("a").await;
                let session = world.sessions.open(&"a".into()).await.unwrap();
                world.append(&session, vec![turn(2)]).await.unwrap();
            }
            Self::Follow | Self::Checkpoints => {
                let seed = notes(0..300);
                world.store.create(&header("a"), seed).await.unwrap();
            }
            Self::List => {
                for id in ["a", "b", "c"] {
                    world.closed(id).await;
                }
            }
        }
    }

    /// Does it, and says what went wrong.
    async fn walk<S: Store>(self, world: &mut World<S>) -> Result<(), BoxError> {
        let id: SessionId = "a".into();
        match self {
            Self::Create => {
                let session = world.sessions.create(named("a")).await?;
                world.append(&session, vec![turn(1), turn_end(1)]).await
            }
            Self::CreateWithASeed => {
                let seed = Some(notes(0..3));
                let new = NewSession { seed, ..named("a") };
                let session = world.sessions.create(new).await?;
                world.append(&session, vec![turn(1)]).await
            }
            Self::Fork => {
                let child = world.sessions.fork(&id, onto("b")).await?;
                world.append(&child, vec![turn(2), turn_end(2)]).await
            }
            Self::ForkALiveOne => {
                // Opened again, as whoever was told that staged events are lost has to.
                let session = world.sessions.open(&id).await?;
                let staged = session.stage(vec![note()]).await?;
                let forked = world.sessions.fork_live(&session, onto("b")).await;
                // Also when it was not waited for, nothing is under way afterwards.
                let flushed = session.flush().await;
                let child = forked?;
                flushed?;
                let staged = staged.into_iter().map(|event| (id.clone(), event));
                world.acknowledged.extend(staged);
                world.append(&child, vec![turn(2)]).await?;
                let session = world.sessions.open(&id).await?;
                world.append(&session, vec![turn(2)]).await
            }
            Self::Rewind => {
                let child = world.sessions.rewind(&id, seq(1)).await?;
                world.append(&child, vec![turn(2)]).await
            }
            Self::Lineage => {
                let lineage = world.sessions.lineage(&"c".into()).await?;
                assert_eq!(lineage, ["b".into(), id]);
                Ok(())
            }
            Self::Open | Self::TakeOver | Self::OpenAndRepair => {
                let session = world.sessions.open(&id).await?;
                world.append(&session, vec![turn(2)]).await?;
                world.append(&session, vec![turn_end(2)]).await
            }
            Self::Append => {
                let session = world.live("a");
                world.append(&session, vec![todos()]).await?;
                world.append(&session, vec![turn_end(1), turn(2)]).await?;
                world.append(&session, vec![todos()]).await
            }
            Self::Stage => {
                // Opened again, as whoever was told that staged events are lost has to.
                let session = world.sessions.open(&id).await?;
                let mut staged = session.stage(vec![note()]).await?;
                staged.extend(session.stage(vec![note(), note()]).await?);
                session.flush().await?;
                staged.extend(session.stage(vec![note()]).await?);
                session.flush().await?;
                let staged = staged.into_iter().map(|event| (id.clone(), event));
                world.acknowledged.extend(staged);
                Ok(())
            }
            Self::Subscribe => {
                let session = world.live("a");
                let stored = log(&**world.store.inner(), "a").await;
                let all = session.subscribe(Seq::ZERO).take(stored.len());
                let all: Vec<Event> = within(all.try_collect()).await?;
                assert_eq!(all, stored);
                Ok(())
            }
            Self::Close => {
                world.sessions.close(&id).await;
                assert!(world.sessions.live(&id).is_none());
                Ok(())
            }
            Self::Follow => {
                let all = follow(world.store.clone(), id, Seq::ZERO).take(300);
                let all: Vec<Event> = within(all.try_collect()).await?;
                assert_eq!(all, notes(0..300));
                Ok(())
            }
            Self::List => {
                let mut query = ListQuery {
                    limit: 2,
                    ..ListQuery::default()
                };
                let mut listed = 0;
                loop {
                    let page = world.store.list(&query).await?;
                    listed += page.entries.len();
                    query.after = page.next;
                    if query.after.is_none() {
                        break;
                    }
                }
                assert_eq!(listed, 3);
                Ok(())
            }
            Self::Checkpoints => {
                let row = |at| Checkpoint {
                    key: "test".into(),
                    state_version: 1,
                    seq: seq(at),
                    state: Payload::of(&at).unwrap(),
                };
                for at in [7, 9] {
                    world.store.save(&id, vec![row(at)]).await?;
                    assert_eq!(world.store.load(&id).await?, [row(at)]);
                }
                Ok(())
            }
        }
    }

    /// Whether nobody need be told of a failure: a lease that was not given back ends with its
    /// holder, and who follows, or looks for the place to fork at, does not ask for the end of a log
    /// once it has what it wants.
    const fn may_pass_unnoticed(self, moment: Moment) -> bool {
        let stops_early = matches!(
            self,
            Self::Follow | Self::Subscribe | Self::Fork | Self::ForkALiveOne | Self::Rewind
        );
        matches!(self, Self::Close) || stops_early && matches!(moment, Moment::After)
    }
}

async fn each_operation_fails_in_turn<S: Store>(fresh: impl AsyncFn() -> Fresh<S>) {
    for path in Path::ALL {
        for moment in Moment::ALL {
            let mut nth = 1;
            loop {
                let place = fresh().await;
                let mut world = World::new(place.store());
                path.prepare(&mut world).await;
                world.store.faults().fail_nth(nth, moment);
                let outcome = path.walk(&mut world).await;
                let was_met = !world.store.faults().is_pending();
                world.store.faults().clear();
                match &outcome {
                    Ok(()) => assert!(
                        !was_met || path.may_pass_unnoticed(moment),
                        "{path:?} did not notice: {moment:?} {nth}"
                    ),
                    Err(error) => {
                        let Some(cause) = Injected::cause_of(&**error) else {
                            panic!("{path:?} failed for another reason: {moment:?} {nth}: {error}");
                        };
                        world.holds_no_lease_for_nothing(*cause).await;
                    }
                }
                world.agrees().await;
                if !was_met {
                    assert!(nth > 1, "{path:?} asks nothing of the store");
                    break;
                }
                nth += 1;
            }
        }
    }
}

#[tokio::test]
async fn memory_agrees_with_its_store_whichever_operation_fails() {
    each_operation_fails_in_turn(async || MemoryStore::new().into()).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test]
async fn memory_agrees_with_the_file_whichever_operation_fails() {
    each_operation_fails_in_turn(async || {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("sessions.db");
        let store = session_core::SqliteStore::open(file).await.unwrap();
        Fresh::keeping(store, folder)
    })
    .await;
}

#[tokio::test]
async fn every_path_says_that_the_connection_is_lost_and_goes_on_once_it_is_back() {
    for path in Path::ALL {
        let mut world = World::new(&MemoryStore::shared());
        path.prepare(&mut world).await;
        world.store.faults().disconnect();
        for _ in 0..2 {
            match path.walk(&mut world).await {
                Ok(()) => assert!(path.may_pass_unnoticed(Moment::Before), "{path:?}"),
                Err(error) => assert!(
                    matches!(
                        Injected::cause_of(&*error),
                        Some(Injected::Disconnected { .. })
                    ),
                    "{path:?}: {error}"
                ),
            }
        }
        world.store.faults().reconnect();
        if !path.may_pass_unnoticed(Moment::Before) {
            path.walk(&mut world).await.unwrap();
        }
        world.agrees().await;
    }
}

#[tokio::test]
async fn a_full_disk_refuses_what_is_new_and_goes_on_once_there_is_room() {
    for path in Path::ALL {
        let mut world = World::new(&MemoryStore::shared());
        path.prepare(&mut world).await;
        let before = world
            .store
            .inner()
            .list(&ListQuery::default())
            .await
            .unwrap();
        world.store.faults().fill_disk();
        if let Err(error) = path.walk(&mut world).await {
            let cause = Injected::cause_of(&*error);
            assert!(
                matches!(cause, Some(Injected::DiskFull { operation }) if operation.writes()),
                "{path:?}: {error}"
            );
        }
        let after = world.store.list(&ListQuery::default()).await.unwrap();
        assert_eq!(after, before, "{path:?} wrote to a full disk");
        world.store.faults().make_room();
        if !path.may_pass_unnoticed(Moment::Before) {
            path.walk(&mut world).await.unwrap();
        }
        world.agrees().await;
    }
}

#[tokio::test]
async fn an_append_whose_answer_is_lost_leaves_a_session_that_opens_again_with_the_batch() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Append.prepare(&mut world).await;
    let session = world.live("a");
    world
        .store
        .faults()
        .fail_nth_of(Operation::Append, 1, Moment::After);
    session.append(vec![todos()]).await.unwrap_err();
    assert_eq!(
        session.head(),
        Some(seq(0)),
        "what is not known is not shown"
    );

    // Trying again must not store it twice.
    let again = session.append(vec![todos()]).await.unwrap_err();
    assert!(is_conflict(&again), "{again}");
    assert_eq!(log(&**world.store.inner(), "a").await.len(), 2);
    let fresh = world.sessions.open(session.id()).await.unwrap();
    let head = fresh.head();
    assert!(head > session.head(), "{head:?}");
    // The handle of before is of no more use, and says so.
    let late = session.append(vec![todos()]).await.unwrap_err();
    assert!(matches!(late, AppendFailure::Closed { .. }), "{late}");
    world.agrees().await;
}

#[tokio::test]
async fn a_batch_that_begins_a_new_life_and_fails_leaves_the_boundary_due() {
    let mut world = World::new(&MemoryStore::shared());
    world.closed("a").await;
    let session = world.sessions.open(&"a".into()).await.unwrap();
    for nth in 1..3 {
        let faults = world.store.faults();
        faults.fail_nth_of(Operation::Append, 1, Moment::Before);
        let outcome = session.append(vec![note(); nth]).await;
        outcome.unwrap_err();
    }
    world.append(&session, vec![note()]).await.unwrap();
    let stored = log(&**world.store.inner(), "a").await;
    let kinds: Vec<&str> = stored[3..].iter().map(Event::kind).collect();
    assert_eq!(kinds, ["session/end-seed", "test/note"]);
    world.agrees().await;
}

#[tokio::test]
async fn a_staged_batch_whose_answer_is_lost_is_found_when_the_session_is_opened_again() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Stage.prepare(&mut world).await;
    let session = world.live("a");
    let faults = world.store.faults();
    faults.fail_nth_of(Operation::Append, 1, Moment::After);
    let staged = session.stage(vec![note()]).await.unwrap();
    session.flush().await.unwrap_err();
    // What follows it would have no place.
    let told = session.append(vec![note()]).await.unwrap_err();
    assert!(matches!(told, AppendFailure::Lost { .. }), "{told}");
    assert_eq!(log(&**world.store.inner(), "a").await[1..], staged);
    world.agrees().await;
}

#[tokio::test]
async fn a_fork_whose_answer_is_lost_is_there_under_its_id() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Fork.prepare(&mut world).await;
    let faults = world.store.faults();
    faults.fail_nth_of(Operation::Fork, 1, Moment::After);
    world
        .sessions
        .fork(&"a".into(), onto("b"))
        .await
        .unwrap_err();
    // Trying again says so, and makes no second one.
    let again = world
        .sessions
        .fork(&"a".into(), onto("b"))
        .await
        .unwrap_err();
    assert!(
        matches!(again, ForkFailure::AlreadyExists { .. }),
        "{again}"
    );
    let child = world.sessions.open(&"b".into()).await.unwrap();
    world.append(&child, vec![turn(2)]).await.unwrap();
    world.agrees().await;
}

#[tokio::test]
async fn a_fork_that_could_not_be_opened_is_opened_later() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Fork.prepare(&mut world).await;
    let acquire = Operation::Acquire;
    world.store.faults().fail_nth_of(acquire, 1, Moment::Before);
    match world
        .sessions
        .fork(&"a".into(), onto("b"))
        .await
        .unwrap_err()
    {
        ForkFailure::Open { session, .. } => assert_eq!(session, "b".into()),
        other => panic!("{other}"),
    }
    let child = world.sessions.open(&"b".into()).await.unwrap();
    world.append(&child, vec![turn(2)]).await.unwrap();
    world.agrees().await;
}

#[tokio::test]
async fn a_repair_whose_answer_is_lost_is_not_made_twice() {
    let mut world = World::new(&MemoryStore::shared());
    world.crashed("a").await;
    world
        .store
        .faults()
        .fail_nth_of(Operation::Append, 1, Moment::After);
    world.sessions.open(&"a".into()).await.unwrap_err();
    let repaired = log(&**world.store.inner(), "a").await;
    assert_eq!(repaired.len(), 4);
    world.sessions.open(&"a".into()).await.unwrap();
    assert_eq!(log(&**world.store.inner(), "a").await, repaired);
}

#[tokio::test]
async fn a_lease_that_was_not_given_back_keeps_only_other_processes_out() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Close.prepare(&mut world).await;
    let release = Operation::Release;
    world.store.faults().fail_nth_of(release, 1, Moment::Before);
    world.sessions.close(&"a".into()).await;
    let elsewhere = World::process(&world.store);
    elsewhere.open(&"a".into()).await.unwrap_err();
    world.sessions.open(&"a".into()).await.unwrap();
    world.sessions.close(&"a".into()).await;
    elsewhere.open(&"a".into()).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_lost_while_an_append_is_under_way_fails_it() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Append.prepare(&mut world).await;
    let session = world.live("a");
    let faults = world.store.faults().clone();
    faults.delay(Operation::Append, Duration::from_secs(1));
    let appending = {
        let session = session.clone();
        tokio::spawn(async move { session.append(vec![todos()]).await })
    };
    tokio::time::sleep(Duration::from_millis(500)).await;
    faults.disconnect();
    let failure = appending.await.unwrap().unwrap_err();
    assert!(
        matches!(
            Injected::cause_of(&failure),
            Some(Injected::Disconnected { .. })
        ),
        "{failure}"
    );
    faults.clear();
    world.agrees().await;
}

#[tokio::test]
async fn operations_are_counted_by_kind() {
    let mut world = World::new(&MemoryStore::shared());
    Path::Create.walk(&mut world).await.unwrap();
    world.store.list(&ListQuery::default()).await.unwrap();
    let faults = world.store.faults();
    let counts = Operation::ALL.map(|operation| faults.count_of(operation));
    assert_eq!(counts, [1, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
    assert_eq!(faults.count(), 6);
    faults.clear();
    assert_eq!(faults.count(), 6);
}
