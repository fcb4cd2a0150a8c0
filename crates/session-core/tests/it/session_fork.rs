//! Forks and rewinds of sessions that are live, and of those that are not.

use std::sync::Arc;

use session_core::event::{
    ContentBlock, EndSeed, EventData as _, Message, MessageSource, Role, SessionTitle, TitleSource,
    TurnEnd, TurnEndReason, TurnStart, UserMessage,
};
use session_core::store::{AppendError, LeaseStore as _, Owner, ReadError};
use session_core::{
    AppendFailure, Boundary, CatalogueChange, CatalogueEntry, Event, EventStore as _, Fork,
    ForkFailure, Header, LogState, MemoryStore, NewEvent, NewSession, Payload, RandomIds, Seq,
    Session, SessionId, Sessions, SteppingClock, SurfaceMeta, Violation, Vocabulary,
};

use crate::gated::Gated;
use crate::support::{TIME, header, log, notes, seq, shown, within};

fn turn(turn: u64) -> NewEvent {
    NewEvent::new(&TurnStart { turn })
}

fn turn_end(turn: u64) -> NewEvent {
    ended(turn, TurnEndReason::Completed)
}

fn ended(turn: u64, reason: TurnEndReason) -> NewEvent {
    NewEvent::new(&TurnEnd { turn, reason })
}

fn note() -> NewEvent {
    NewEvent::raw("test/note", Payload::of(&0).unwrap(), None, true)
}

fn prompt(text: &str) -> NewEvent {
    let message = Message {
        id: text.into(),
        role: Role::User,
        content: vec![ContentBlock::text(text)],
        source: MessageSource::User,
    };
    NewEvent::on_surface(&UserMessage(message), SurfaceMeta::append())
}

fn title(title: &str) -> NewEvent {
    NewEvent::new(&SessionTitle {
        title: title.into(),
        message_seqs: None,
        source: TitleSource::User,
    })
}

/// Something before the first turn, two turns, something after each, and a turn that is open:
///
/// ```text
/// 0 note  1 turn  2 note  3 end  4 note  5 turn  6 note  7 end  8 note  9 note  10 turn  11 note
/// ```
fn with_an_open_turn() -> Vec<NewEvent> {
    let closed = |nth| [turn(nth), note(), turn_end(nth), note()];
    let mut events = vec![note()];
    events.extend(closed(1));
    events.extend(closed(2));
    events.extend([note(), turn(3), note()]);
    events
}

/// The same without the open turn.
fn closed() -> Vec<NewEvent> {
    with_an_open_turn().into_iter().take(10).collect()
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

fn at(place: u64, boundary: Boundary) -> Fork {
    Fork {
        at: Some(seq(place)),
        boundary,
        ..Fork::default()
    }
}

fn exactly(place: u64) -> Fork {
    at(place, Boundary::Exact)
}

struct World {
    store: Arc<MemoryStore>,
    sessions: Sessions,
}

impl World {
    fn new() -> Self {
        let store = MemoryStore::shared();
        let sessions = process(&store);
        Self { store, sessions }
    }

    /// A session `a` that nobody has open.
    async fn cold(events: Vec<NewEvent>) -> Self {
        let world = Self::new();
        let seed: Vec<Event> = (0..)
            .zip(events)
            .map(|(nth, event)| event.at(seq(nth), TIME))
            .collect();
        world.store.create(&header("a"), seed).await.unwrap();
        world
    }

    /// A session `a` that is open here.
    async fn live(events: Vec<NewEvent>) -> (Self, Session) {
        let world = Self::new();
        let session = world.sessions.create(named("a")).await.unwrap();
        session.append(events).await.unwrap();
        (world, session)
    }

    async fn fork(&self, fork: Fork) -> Result<Session, ForkFailure> {
        self.sessions.fork(&"a".into(), fork).await
    }

    /// How many events a fork inherits, having looked at all that it is.
    async fn inherited_by(&self, fork: Fork) -> u64 {
        let origin = log(&*self.store, "a").await;
        let child = self.fork(fork).await.unwrap();
        let stored = log(&*self.store, child.id().as_str()).await;
        let until = child.header().seed_length.unwrap();
        let (inherited, own) = stored.split_at(usize::try_from(until).unwrap());
        assert_eq!(inherited, &origin[..inherited.len()]);
        assert_eq!(kinds(own), [EndSeed::TYPE]);
        let folded = LogState::fold(&Vocabulary::core(), &stored).unwrap();
        assert_eq!(child.with_state(shown), shown(&folded));
        assert_eq!(folded.trace().open_turn(), None);
        assert_eq!(log(&*self.store, "a").await, origin);
        until
    }

    async fn refused(&self, fork: Fork) -> ForkFailure {
        let refused = self
            .fork(Fork {
                id: Some("child".into()),
                ..fork
            })
            .await;
        let missing = self.store.entry(&"child".into()).await.unwrap_err();
        assert!(matches!(missing, ReadError::NotFound { .. }), "{missing}");
        refused.unwrap_err()
    }
}

/// A process, as far as the store can tell.
fn process(store: &Arc<MemoryStore>) -> Sessions {
    Sessions::builder(store.clone())
        .leases(store.clone())
        .clock(Arc::new(SteppingClock::new(TIME, 1)))
        .build()
}

fn kinds(log: &[Event]) -> Vec<&str> {
    log.iter().map(Event::kind).collect()
}

fn is_open_turn(failure: &ForkFailure, place: u64, starts: u64) -> bool {
    matches!(failure, ForkFailure::OpenTurn { at, start, .. }
        if (*at, *start) == (seq(place), seq(starts)))
}

#[tokio::test]
async fn a_fork_begins_with_the_log_up_to_its_place() {
    for live in [true, false] {
        let world = if live {
            World::live(closed()).await.0
        } else {
            World::cold(closed()).await
        };
        for place in [0, 3, 4, 7, 8, 9] {
            assert_eq!(world.inherited_by(exactly(place)).await, place + 1);
        }
    }
}

#[tokio::test]
async fn a_fork_without_a_place_inherits_the_whole_log() {
    let world = World::cold(closed()).await;
    for boundary in [Boundary::Exact, Boundary::TurnEnd, Boundary::LastCompleted] {
        let fork = Fork {
            boundary,
            ..Fork::default()
        };
        assert_eq!(world.inherited_by(fork).await, 10);
    }
}

#[tokio::test]
async fn a_fork_of_an_empty_session_is_empty() {
    let world = World::cold(Vec::new()).await;
    for boundary in [Boundary::Exact, Boundary::TurnEnd, Boundary::LastCompleted] {
        let fork = Fork {
            boundary,
            ..Fork::default()
        };
        assert_eq!(world.inherited_by(fork).await, 0);
    }
    let failure = world.refused(exactly(0)).await;
    assert!(matches!(failure, ForkFailure::InvalidBoundary { .. }));
}

#[tokio::test]
async fn a_child_says_where_it_comes_from() {
    let world = World::new();
    let mut new = named("a");
    new.cwd = Some("/home/me".into());
    new.extra.insert("origin".into(), "subagent".into());
    new.extra.insert("delegationDepth".into(), 3.into());
    new.parent = Some("elsewhere".into());
    let session = world.sessions.create(new).await.unwrap();
    session.append(closed()).await.unwrap();

    let child = world
        .fork(Fork {
            id: Some("b".into()),
            ..exactly(4)
        })
        .await
        .unwrap();
    let mut expected = Header::new("b".into(), child.header().created_at);
    expected.parent_session = Some("a".into());
    expected.seed_length = Some(5);
    expected.cwd = Some("/home/me".into());
    assert_eq!(*child.header(), expected);
    assert!(expected.created_at > session.header().created_at);

    let mut moved = onto("c");
    moved.cwd = Some("/elsewhere".into());
    moved.extra.insert("delegationDepth".into(), 1.into());
    expected = Header::new("c".into(), expected.created_at);
    expected.parent_session = Some("a".into());
    expected.seed_length = Some(10);
    expected.cwd = moved.cwd.clone();
    expected.extra = moved.extra.clone();
    let child = world.fork(moved).await.unwrap();
    expected.created_at = child.header().created_at;
    assert_eq!(*child.header(), expected);
}

#[tokio::test]
async fn a_child_goes_on_where_its_origin_was() {
    let (world, origin) = World::live(closed()).await;
    let child = world.fork(exactly(4)).await.unwrap();
    assert_eq!(child.opened_at(), seq(6));
    // Turns are counted on, and the end of the seed stands already.
    let events = child.append(vec![turn(2), prompt("child")]).await.unwrap();
    assert_eq!(events[0].seq(), seq(6));
    origin
        .append(vec![turn(3), prompt("origin")])
        .await
        .unwrap();
    let texts = |session: &Session| {
        let messages = session.messages().into_iter();
        messages
            .map(|message| message.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (texts(&child), texts(&origin)),
        (vec!["child".to_owned()], vec!["origin".to_owned()])
    );
    assert_eq!(log(&*world.store, "a").await.len(), 12);
    assert_eq!(log(&*world.store, child.id().as_str()).await.len(), 8);
}

#[tokio::test]
async fn a_child_is_opened_again_like_any_other_session() {
    let (world, _) = World::live(closed()).await;
    let child = world
        .fork(Fork {
            id: Some("b".into()),
            ..exactly(4)
        })
        .await
        .unwrap();
    child.append(vec![turn(2), turn_end(2)]).await.unwrap();
    world.sessions.close(child.id()).await;
    let stored = log(&*world.store, "b").await;
    let again = world.sessions.open(child.id()).await.unwrap();
    let folded = LogState::fold(&Vocabulary::core(), &stored).unwrap();
    assert_eq!(again.with_state(shown), shown(&folded));
    again.append(vec![turn(3)]).await.unwrap();
    let log = log(&*world.store, "b").await;
    assert_eq!(kinds(&log[8..]), [EndSeed::TYPE, TurnStart::TYPE]);
}

#[tokio::test]
async fn a_prefix_that_ends_with_an_end_seed_gets_no_second_one() {
    let events = vec![turn(1), turn_end(1), NewEvent::new(&EndSeed {}), note()];
    let world = World::cold(events).await;
    let child = world.fork(exactly(2)).await.unwrap();
    assert_eq!(child.header().seed_length, Some(3));
    let stored = log(&*world.store, child.id().as_str()).await;
    assert_eq!(
        kinds(&stored),
        [TurnStart::TYPE, TurnEnd::TYPE, EndSeed::TYPE]
    );
    assert_eq!(child.append(vec![turn(2)]).await.unwrap()[0].seq(), seq(3));
}

#[tokio::test]
async fn the_catalogue_knows_a_child_as_if_it_had_been_written_by_itself() {
    let mut events = vec![title("one"), turn(1), prompt("hello"), turn_end(1)];
    // Over the border of what is folded at a time.
    events.extend(vec![note(); 300]);
    events.extend([title("two"), turn(2), turn_end(2)]);
    let (world, _) = World::live(events).await;
    for place in [0, 3, 200, 303, 304, 306] {
        let child = world.fork(exactly(place)).await.unwrap();
        let stored = log(&*world.store, child.id().as_str()).await;
        let mut expected = CatalogueEntry::new(child.header().clone());
        expected.apply(CatalogueChange::of(&stored));
        assert_eq!(world.store.entry(child.id()).await.unwrap(), expected);
    }
}

#[tokio::test]
async fn a_fork_of_a_fork_inherits_from_both() {
    let (world, _) = World::live(closed()).await;
    let child = world.fork(onto("b")).await.unwrap();
    child.append(vec![turn(3), turn_end(3)]).await.unwrap();
    for (place, length) in [(12, 13), (9, 10), (4, 5)] {
        let grandchild = world
            .sessions
            .fork(child.id(), exactly(place))
            .await
            .unwrap();
        assert_eq!(
            grandchild.header().parent_session.as_ref(),
            Some(child.id())
        );
        assert_eq!(grandchild.header().seed_length, Some(length));
        let stored = log(&*world.store, grandchild.id().as_str()).await;
        let of_child = log(&*world.store, "b").await;
        let length = usize::try_from(length).unwrap();
        assert_eq!(stored[..length], of_child[..length]);
    }
}

#[tokio::test]
async fn what_is_staged_in_a_live_origin_is_inherited() {
    let (world, origin) = World::live(closed()).await;
    let staged = origin.stage(vec![note(), note()]).await.unwrap();
    let child = world.fork(onto("b")).await.unwrap();
    let stored = log(&*world.store, "b").await;
    assert_eq!(stored[10..12], staged);
    assert_eq!(child.header().seed_length, Some(12));
}

#[tokio::test]
async fn a_fork_waits_for_what_its_origin_has_under_way() {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(named("a")).await.unwrap();
    store.hold_appends();
    session.stage(vec![note()]).await.unwrap();
    store.append_has_arrived().await;
    let forking = {
        let sessions = sessions.clone();
        tokio::spawn(async move { sessions.fork(&"a".into(), onto("b")).await })
    };
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    assert!(!forking.is_finished());
    store.let_appends_pass();
    let child = within(forking).await.unwrap().unwrap();
    assert_eq!(child.header().seed_length, Some(1));
}

#[tokio::test]
async fn a_live_origin_that_has_lost_what_was_staged_is_not_forked_until_it_is_opened_again() {
    let store = Arc::new(Gated::new());
    let sessions = Sessions::builder(store.clone()).build();
    let session = sessions.create(named("a")).await.unwrap();
    session.append(vec![note()]).await.unwrap();
    store.fail_appends(true);
    session.stage(vec![note()]).await.unwrap();
    for _ in 0..2 {
        let failure = sessions.fork(session.id(), onto("b")).await.unwrap_err();
        assert!(matches!(failure, ForkFailure::Flush { .. }), "{failure}");
        assert!(failure.to_string().contains("open it again"), "{failure}");
    }
    store.fail_appends(false);
    sessions.open(session.id()).await.unwrap();
    let child = sessions.fork(session.id(), onto("b")).await.unwrap();
    assert_eq!(child.header().seed_length, Some(1));
}

#[tokio::test]
async fn a_cold_origin_is_neither_opened_nor_repaired() {
    let world = World::cold(with_an_open_turn()).await;
    let before = (
        world.store.entry(&"a".into()).await.unwrap(),
        log(&*world.store, "a").await,
    );
    world.fork(exactly(9)).await.unwrap();
    assert!(world.sessions.live(&"a".into()).is_none());
    let after = (
        world.store.entry(&"a".into()).await.unwrap(),
        log(&*world.store, "a").await,
    );
    assert_eq!(after, before);
    let somebody = Owner::this_process(&RandomIds);
    let lease = world.store.acquire(&"a".into(), &somebody, TIME).await;
    lease.unwrap();
}

#[tokio::test]
async fn an_origin_that_is_open_in_another_process_is_forked_as_it_is_stored() {
    let (world, origin) = World::live(closed()).await;
    let elsewhere = process(&world.store);
    let child = elsewhere.fork(&"a".into(), onto("b")).await.unwrap();
    assert_eq!(child.header().seed_length, Some(10));
    // It is still the other's.
    origin.append(vec![turn(3)]).await.unwrap();
    child.append(vec![turn(3)]).await.unwrap();
}

#[tokio::test]
async fn an_exact_place_inside_a_turn_is_refused() {
    let world = World::cold(with_an_open_turn()).await;
    for (place, starts) in [(1, 1), (2, 1), (5, 5), (6, 5), (10, 10), (11, 10)] {
        let failure = world.refused(exactly(place)).await;
        assert!(is_open_turn(&failure, place, starts), "{failure}");
    }
    let whole = world.refused(Fork::default()).await;
    assert!(is_open_turn(&whole, 11, 10), "{whole}");
}

#[tokio::test]
async fn an_earlier_turn_that_is_closed_can_be_forked_while_another_is_open() {
    let (world, _) = World::live(with_an_open_turn()).await;
    for place in [0, 3, 4, 7, 8, 9] {
        assert_eq!(world.inherited_by(exactly(place)).await, place + 1);
    }
}

#[tokio::test]
async fn any_end_of_a_turn_will_do() {
    for reason in [
        TurnEndReason::Interrupted,
        TurnEndReason::Blocked,
        TurnEndReason::MaxTokens,
    ] {
        let world = World::cold(vec![turn(1), ended(1, reason), turn(2)]).await;
        for boundary in [Boundary::Exact, Boundary::TurnEnd, Boundary::LastCompleted] {
            assert_eq!(world.inherited_by(at(1, boundary)).await, 2);
        }
    }
}

#[tokio::test]
async fn a_place_that_is_not_in_the_log_is_refused_where_it_is_exact() {
    let world = World::cold(closed()).await;
    for place in [10, 11, Seq::MAX.get()] {
        match world.refused(exactly(place)).await {
            ForkFailure::InvalidBoundary { origin, at, length } => {
                assert_eq!((origin, at, length), ("a".into(), seq(place), seq(10)));
            }
            other => panic!("{other}"),
        }
    }
}

#[tokio::test]
async fn a_person_is_given_the_turn_they_point_at_and_what_follows_until_the_next() {
    let world = World::cold(with_an_open_turn()).await;
    let ends = [(0, 5), (1, 5), (2, 5), (3, 5), (4, 10), (5, 10), (7, 10)];
    // After the last turn that has ended, that one.
    for (place, length) in ends.into_iter().chain([(8, 10), (9, 10)]) {
        let fork = at(place, Boundary::TurnEnd);
        assert_eq!(world.inherited_by(fork).await, length, "{place}");
    }
    let world = World::cold(closed()).await;
    for place in [4, 6, 7, 8, 9] {
        let fork = at(place, Boundary::TurnEnd);
        assert_eq!(world.inherited_by(fork).await, 10, "{place}");
    }
}

#[tokio::test]
async fn a_person_who_points_at_an_open_turn_is_not_given_an_earlier_one() {
    let world = World::cold(with_an_open_turn()).await;
    for place in [10, 11] {
        let failure = world.refused(at(place, Boundary::TurnEnd)).await;
        assert!(is_open_turn(&failure, place, 10), "{failure}");
    }
}

#[tokio::test]
async fn a_person_who_points_nowhere_is_given_the_last_turn_that_has_ended() {
    let world = World::cold(with_an_open_turn()).await;
    let nowhere = Fork {
        boundary: Boundary::TurnEnd,
        ..Fork::default()
    };
    for fork in [
        nowhere.clone(),
        at(12, Boundary::TurnEnd),
        at(500, Boundary::TurnEnd),
    ] {
        assert_eq!(world.inherited_by(fork).await, 10);
    }
    // Where no turn has ended there is none to give.
    let world = World::cold(vec![note(), turn(1)]).await;
    let failure = world.refused(nowhere.clone()).await;
    assert!(is_open_turn(&failure, 1, 1), "{failure}");
    let world = World::cold(vec![note(), note()]).await;
    assert_eq!(world.inherited_by(nowhere).await, 2);
    assert_eq!(world.inherited_by(at(0, Boundary::TurnEnd)).await, 2);
}

#[tokio::test]
async fn a_clipped_fork_ends_with_what_is_finished_at_its_place() {
    let world = World::cold(with_an_open_turn()).await;
    let ends = [
        (0, 1),
        (1, 1),
        (2, 1),
        (3, 4),
        (4, 5),
        (5, 5),
        (6, 5),
        (7, 8),
        (8, 9),
        (9, 10),
        (10, 10),
        (11, 10),
        (12, 10),
        (500, 10),
    ];
    for (place, length) in ends {
        let fork = at(place, Boundary::LastCompleted);
        assert_eq!(world.inherited_by(fork).await, length, "{place}");
    }
    let nowhere = Fork {
        boundary: Boundary::LastCompleted,
        ..Fork::default()
    };
    assert_eq!(world.inherited_by(nowhere.clone()).await, 10);
    let world = World::cold(vec![turn(1), note()]).await;
    assert_eq!(world.inherited_by(nowhere).await, 0);
}

#[tokio::test]
async fn a_turn_of_any_length_is_looked_through() {
    let mut events = vec![turn(1), turn_end(1), turn(2)];
    events.extend(vec![note(); 700]);
    events.extend([turn_end(2), note()]);
    let world = World::cold(events).await;
    for (boundary, length) in [(Boundary::TurnEnd, 705), (Boundary::LastCompleted, 2)] {
        assert_eq!(world.inherited_by(at(300, boundary)).await, length);
    }
    let failure = world.refused(exactly(600)).await;
    assert!(is_open_turn(&failure, 600, 2), "{failure}");
}

#[tokio::test]
async fn the_first_reason_is_given_where_several_hold() {
    let (world, stale) = World::live(with_an_open_turn()).await;
    world.sessions.create(named("taken")).await.unwrap();
    world.sessions.close(stale.id()).await;
    let unknown = {
        let elsewhere = process(&MemoryStore::shared());
        let session = elsewhere.create(named("nobody")).await.unwrap();
        elsewhere.close(session.id()).await;
        session
    };
    let fork = |id: &str, place| Fork {
        id: Some(id.into()),
        ..exactly(place)
    };
    // Each has what those after it have, and one thing more.
    let taken = world.sessions.fork_live(&unknown, fork("taken", 99)).await;
    match taken.unwrap_err() {
        ForkFailure::AlreadyExists { session } => assert_eq!(session, "taken".into()),
        other => panic!("{other}"),
    }
    let missing = world.sessions.fork_live(&unknown, fork("b", 99)).await;
    match missing.unwrap_err() {
        ForkFailure::NotFound { origin } => assert_eq!(origin, "nobody".into()),
        other => panic!("{other}"),
    }
    let dead = world.sessions.fork_live(&stale, fork("b", 99)).await;
    match dead.unwrap_err() {
        ForkFailure::NotLive { origin } => assert_eq!(origin, "a".into()),
        other => panic!("{other}"),
    }
    let beyond = world.fork(fork("b", 99)).await.unwrap_err();
    assert!(
        matches!(beyond, ForkFailure::InvalidBoundary { .. }),
        "{beyond}"
    );
    let open = world.fork(fork("b", 11)).await.unwrap_err();
    assert!(is_open_turn(&open, 11, 10), "{open}");
    assert!(world.store.entry(&"b".into()).await.is_err());
    assert_eq!(log(&*world.store, "taken").await, []);
}

#[tokio::test]
async fn a_session_is_not_forked_onto_itself() {
    let (world, _) = World::live(closed()).await;
    let failure = world.fork(onto("a")).await.unwrap_err();
    assert!(
        matches!(failure, ForkFailure::AlreadyExists { .. }),
        "{failure}"
    );
    assert_eq!(log(&*world.store, "a").await.len(), 10);
}

#[tokio::test]
async fn an_object_that_is_not_what_is_live_under_its_id_is_not_forked() {
    let (world, first) = World::live(closed()).await;
    let id = first.id().clone();
    world.sessions.fork_live(&first, onto("b")).await.unwrap();
    world.sessions.close(&id).await;
    let again = world.sessions.open(&id).await.unwrap();
    for _ in 0..2 {
        let failure = world
            .sessions
            .fork_live(&first, onto("c"))
            .await
            .unwrap_err();
        assert!(matches!(failure, ForkFailure::NotLive { .. }), "{failure}");
    }
    world.sessions.fork_live(&again, onto("c")).await.unwrap();

    // Another program goes on with the log, and the next append is told.
    let next = again.head().unwrap().next();
    let foreign = vec![note().at(next, TIME)];
    world.store.append(&id, next, foreign, None).await.unwrap();
    let behind = again.append(vec![note()]).await.unwrap_err();
    let is_conflict = matches!(behind, AppendFailure::Store(AppendError::Conflict { .. }));
    assert!(is_conflict, "{behind}");
    let failure = world
        .sessions
        .fork_live(&again, onto("d"))
        .await
        .unwrap_err();
    assert!(matches!(failure, ForkFailure::NotLive { .. }), "{failure}");
    // By its id, it is what is stored.
    let child = world.fork(onto("d")).await.unwrap();
    assert_eq!(child.header().seed_length, Some(next.get() + 1));
}

#[tokio::test]
async fn each_failure_says_what_to_do() {
    let world = World::cold(with_an_open_turn()).await;
    let text = async |fork| world.fork(fork).await.unwrap_err().to_string();
    assert_eq!(
        text(onto("a")).await,
        "session a exists already; fork onto another id, or let one be minted"
    );
    let missing = world.sessions.fork(&"b".into(), Fork::default()).await;
    assert_eq!(
        missing.unwrap_err().to_string(),
        "there is no session b to fork; it may be in another store"
    );
    assert_eq!(
        text(exactly(12)).await,
        "session a has no event 12 to fork at; its log has 12 events, the first of which is 0"
    );
    assert_eq!(
        text(exactly(11)).await,
        "session a cannot be forked at event 11, inside the turn that event 10 starts; fork it \
         before that turn or after its end"
    );
    let session = world.sessions.open(&"a".into()).await.unwrap();
    world.sessions.close_all().await;
    let failure = world.sessions.fork_live(&session, Fork::default()).await;
    assert_eq!(
        failure.unwrap_err().to_string(),
        "session a was closed or taken over since; open it again, or fork it by its id"
    );
}

#[tokio::test]
async fn a_header_that_could_not_be_read_again_creates_no_child() {
    let world = World::cold(closed()).await;
    let mut fork = Fork::default();
    fork.extra.insert("parentSession".into(), "x".into());
    let failure = world.refused(fork).await;
    assert!(matches!(failure, ForkFailure::Header { .. }), "{failure}");
}

#[tokio::test]
async fn a_log_that_cannot_be_opened_is_forked_only_before_what_stops_it() {
    let unknown = NewEvent::raw("acme/required", Payload::of(&1).unwrap(), None, false);
    let world = World::cold(vec![turn(1), turn_end(1), unknown, turn(2)]).await;
    match world.refused(exactly(2)).await {
        ForkFailure::Reconstruct { origin, source } => {
            assert_eq!(origin, "a".into());
            let kind = "acme/required".to_owned();
            assert_eq!(*source, Violation::UnknownType { seq: seq(2), kind });
        }
        other => panic!("{other}"),
    }
    assert_eq!(world.inherited_by(exactly(1)).await, 2);
    let clipped = at(0, Boundary::LastCompleted);
    assert_eq!(world.inherited_by(clipped).await, 0);
}

#[tokio::test]
async fn many_who_fork_onto_one_id_get_one_child() {
    let (world, _) = World::live(closed()).await;
    let forks = (0..8).map(|_| world.fork(onto("b")));
    let outcomes = futures::future::join_all(forks).await;
    let mut children = 0;
    for outcome in outcomes {
        match outcome {
            Ok(_) => children += 1,
            Err(ForkFailure::AlreadyExists { session }) => assert_eq!(session, "b".into()),
            Err(other) => panic!("{other}"),
        }
    }
    assert_eq!(children, 1);
}

#[tokio::test]
async fn rewinding_leaves_the_old_branch_as_it_is() {
    let (world, old) = World::live(closed()).await;
    let before = log(&*world.store, "a").await;
    let fresh = world.sessions.rewind(old.id(), seq(3)).await.unwrap();
    assert_ne!(fresh.id(), old.id());
    assert_eq!(fresh.header().parent_session.as_ref(), Some(old.id()));
    assert_eq!(
        log(&*world.store, fresh.id().as_str()).await[..4],
        before[..4]
    );
    assert_eq!(log(&*world.store, "a").await, before);
    // Both go on.
    fresh.append(vec![turn(2), turn_end(2)]).await.unwrap();
    old.append(vec![turn(3), turn_end(3)]).await.unwrap();
    // And back again, from either.
    let further = world.sessions.rewind(fresh.id(), seq(3)).await.unwrap();
    let lineage = world.sessions.lineage(further.id()).await.unwrap();
    assert_eq!(lineage, [fresh.id().clone(), old.id().clone()]);
    let failure = world.sessions.rewind(old.id(), seq(2)).await.unwrap_err();
    assert!(is_open_turn(&failure, 2, 1), "{failure}");
}

#[tokio::test]
async fn the_lineage_of_a_session_is_what_it_comes_from_nearest_first() {
    let world = World::cold(closed()).await;
    let ids: Vec<SessionId> = ["a", "b", "c", "d"].map(Into::into).into();
    for pair in ids.windows(2) {
        let fork = onto(pair[1].as_str());
        world.sessions.fork(&pair[0], fork).await.unwrap();
    }
    let lineage = async |id: &str| world.sessions.lineage(&id.into()).await.unwrap();
    assert_eq!(lineage("d").await, ["c", "b", "a"].map(SessionId::from));
    assert_eq!(lineage("a").await, []);
    match world.sessions.lineage(&"nobody".into()).await.unwrap_err() {
        ReadError::NotFound { session } => assert_eq!(session, "nobody".into()),
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn a_lineage_ends_at_a_parent_that_is_not_here_and_in_a_circle() {
    let world = World::new();
    let parents = [
        ("a", "b"),
        ("b", "c"),
        ("c", "b"),
        ("d", "d"),
        ("e", "gone"),
    ];
    for (session, parent) in parents {
        let mut header = header(session);
        header.parent_session = Some(parent.into());
        world.store.create(&header, notes(0..1)).await.unwrap();
    }
    for (session, expected) in [
        ("a", vec!["b", "c"]),
        ("b", vec!["c"]),
        ("c", vec!["b"]),
        ("d", vec![]),
        ("e", vec![]),
    ] {
        let lineage = within(world.sessions.lineage(&session.into())).await;
        let expected: Vec<SessionId> = expected.into_iter().map(Into::into).collect();
        assert_eq!(lineage.unwrap(), expected, "{session}");
    }
}
