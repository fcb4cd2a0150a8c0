//! Random interleavings of two processes on one store, against logs that are plain vectors.

use std::collections::{BTreeMap, VecDeque};
use std::pin::pin;
use std::sync::Arc;

use futures::TryStreamExt as _;
use futures::stream::BoxStream;
use proptest::prelude::*;
use serde_json::value::RawValue;
use session_core::event::{EndSeed, TurnEnd, TurnStart};
use session_core::store::conformance::Store;
use session_core::store::{AppendError, CreateError, LeaseError, Owner, ReadError, ReadRange};
use session_core::testing::valid_log;
use session_core::{
    AppendFailure, Boundary, CatalogueChange, CatalogueEntry, CreateFailure, Event, Fork,
    ForkFailure, LogState, MemoryStore, NewEvent, NewSession, OpenFailure, Payload, RandomIds, Seq,
    Session, SessionId, Sessions, SteppingClock, SurfaceMeta, SurfaceOp, Vocabulary, repair,
};

use crate::support::{TIME, log, notes, refused, seq, shown, within};

/// Sessions of the world. Few, so that the processes meet.
const IDS: [&str; 5] = ["a", "b", "c", "d", "e"];

/// One thing that happens. Of what does not exist or is not open, it happens to nobody.
#[derive(Debug, Clone)]
enum Step {
    Create {
        who: bool,
        which: u8,
        seed: Option<Vec<u8>>,
    },
    Open {
        who: bool,
        which: u8,
    },
    Append {
        which: u8,
        choices: Vec<u8>,
        length: u8,
    },
    /// Batches that are staged one after another, and a barrier.
    Stage {
        which: u8,
        choices: Vec<u8>,
        batches: u8,
    },
    /// A batch of which the last event breaks a rule.
    AppendRefused {
        which: u8,
        rule: u8,
    },
    /// An append that nobody waits for any more after so many polls.
    AppendDropped {
        which: u8,
        choices: Vec<u8>,
        polls: u8,
    },
    /// Another program appends, and believes the log to be this much longer than it is.
    AppendForeign {
        who: bool,
        which: u8,
        ahead: u8,
    },
    /// One session is forked onto the id of another.
    Fork {
        who: bool,
        which: u8,
        onto: u8,
        at: Option<u8>,
        boundary: Boundary,
    },
    /// The branch that is left behind stays open.
    Rewind {
        which: u8,
        to: u8,
    },
    Subscribe {
        which: u8,
        from: u8,
    },
    /// With a staged batch under way, if there is anything to say.
    Close {
        which: u8,
        choices: Vec<u8>,
    },
    /// A process ends, with an append to one of its sessions under way.
    Crash {
        who: bool,
        which: u8,
        polls: u8,
    },
    Read {
        who: bool,
        which: u8,
        from: u8,
        until: Option<u8>,
        backward: bool,
    },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let who = any::<bool>;
    let which = || 0..5_u8;
    let boundary = || {
        prop_oneof![
            Just(Boundary::Exact),
            Just(Boundary::TurnEnd),
            Just(Boundary::LastCompleted)
        ]
    };
    let choices = || proptest::collection::vec(any::<u8>(), 0..60);
    let step = prop_oneof![
        3 => (who(), which(), proptest::option::of(choices()))
            .prop_map(|(who, which, seed)| Step::Create { who, which, seed }),
        4 => (who(), which()).prop_map(|(who, which)| Step::Open { who, which }),
        10 => (which(), choices(), 1..9_u8)
            .prop_map(|(which, choices, length)| Step::Append { which, choices, length }),
        4 => (which(), choices(), 1..4_u8)
            .prop_map(|(which, choices, batches)| Step::Stage { which, choices, batches }),
        2 => (which(), any::<u8>()).prop_map(|(which, rule)| Step::AppendRefused { which, rule }),
        3 => (which(), choices(), 0..4_u8)
            .prop_map(|(which, choices, polls)| Step::AppendDropped { which, choices, polls }),
        2 => (who(), which(), 0..3_u8)
            .prop_map(|(who, which, ahead)| Step::AppendForeign { who, which, ahead }),
        6 => (who(), which(), which(), proptest::option::of(0..40_u8), boundary())
            .prop_map(|(who, which, onto, at, boundary)| {
                Step::Fork { who, which, onto, at, boundary }
            }),
        2 => (which(), 0..40_u8).prop_map(|(which, to)| Step::Rewind { which, to }),
        3 => (which(), any::<u8>()).prop_map(|(which, from)| Step::Subscribe { which, from }),
        2 => (which(), choices()).prop_map(|(which, choices)| Step::Close { which, choices }),
        1 => (who(), which(), 0..4_u8)
            .prop_map(|(who, which, polls)| Step::Crash { who, which, polls }),
        3 => (who(), which(), any::<u8>(), any::<Option<u8>>(), any::<bool>())
            .prop_map(|(who, which, from, until, backward)| {
                Step::Read { who, which, from, until, backward }
            }),
    ];
    proptest::collection::vec(step, 20..60)
}

/// One process, as far as the store can tell.
struct Process<S> {
    store: Arc<S>,
    sessions: Sessions,
    open: BTreeMap<SessionId, Opened>,
}

/// A session that is live in a process.
struct Opened {
    session: Session,
    /// Whether the next batch begins a new life of the log.
    boundary_due: bool,
    /// Whether another program appended, which this process does not know yet.
    is_behind: bool,
    /// What is to be appended next.
    script: VecDeque<NewEvent>,
    subscriptions: Vec<(Seq, BoxStream<'static, Result<Event, ReadError>>)>,
}

impl<S: Store> Process<S> {
    fn new(store: Arc<S>) -> Self {
        let sessions = Sessions::builder(store.clone())
            .leases(store.clone())
            .clock(Arc::new(SteppingClock::new(TIME, 0)))
            .build();
        Self {
            store,
            sessions,
            open: BTreeMap::new(),
        }
    }
}

/// The processes, and what must be true of what they do.
struct World<S, F> {
    /// Makes the store of another process.
    another: F,
    processes: [Process<S>; 2],
    logs: BTreeMap<SessionId, Vec<Event>>,
}

impl<S: Store, F: AsyncFn() -> Arc<S>> World<S, F> {
    async fn new(another: F) -> Self {
        let processes = [Process::new(another().await), Process::new(another().await)];
        Self {
            another,
            processes,
            logs: BTreeMap::new(),
        }
    }

    /// The process in which a session is open.
    fn holder(&self, id: &SessionId) -> Option<usize> {
        self.processes
            .iter()
            .position(|process| process.open.contains_key(id))
    }

    async fn take(&mut self, step: Step) {
        let id = |which: u8| SessionId::from(IDS[usize::from(which)]);
        match step {
            Step::Create { who, which, seed } => self.create(who.into(), id(which), seed).await,
            Step::Open { who, which } => self.open(who.into(), &id(which)).await,
            Step::Append {
                which,
                choices,
                length,
            } => self.append(&id(which), &choices, length.into()).await,
            Step::Stage {
                which,
                choices,
                batches,
            } => self.stage(&id(which), &choices, batches).await,
            Step::AppendRefused { which, rule } => {
                self.append_refused(&id(which), rule.into()).await;
            }
            Step::AppendDropped {
                which,
                choices,
                polls,
            } => self.append_dropped(&id(which), &choices, polls).await,
            Step::AppendForeign { who, which, ahead } => {
                self.append_foreign(who.into(), &id(which), ahead.into())
                    .await;
            }
            Step::Fork {
                who,
                which,
                onto,
                at,
                boundary,
            } => {
                let fork = Fork {
                    id: Some(id(onto)),
                    at: at.map(|at| seq(at.into())),
                    boundary,
                    ..Fork::default()
                };
                self.fork(who.into(), &id(which), fork).await;
            }
            Step::Rewind { which, to } => self.rewind(&id(which), seq(to.into())).await,
            Step::Subscribe { which, from } => self.subscribe(&id(which), from.into()),
            Step::Close { which, choices } => self.close(&id(which), &choices).await,
            Step::Crash { who, which, polls } => {
                self.crash(who.into(), &id(which), polls).await;
            }
            Step::Read {
                who,
                which,
                from,
                until,
                backward,
            } => {
                let range = ReadRange {
                    from: seq(from.into()),
                    until: until.map(|until| seq(until.into())),
                    backward,
                };
                self.read(who.into(), &id(which), range).await;
            }
        }
    }

    async fn create(&mut self, who: usize, id: SessionId, seed: Option<Vec<u8>>) {
        let seed = seed.map(|choices| valid_log(&choices));
        let new = NewSession {
            id: Some(id.clone()),
            seed: seed.clone(),
            ..NewSession::default()
        };
        let created = self.processes[who].sessions.create(new).await;
        if self.logs.contains_key(&id) {
            assert!(matches!(
                created.unwrap_err(),
                CreateFailure::Store(CreateError::Exists { .. })
            ));
            return;
        }
        let log = seed.map_or_else(Vec::new, |mut seed| {
            if !seed.last().is_some_and(Event::is::<EndSeed>) {
                place(&mut seed, vec![NewEvent::new(&EndSeed {})]);
            }
            seed
        });
        self.logs.insert(id, log);
        self.opened(who, created.unwrap());
    }

    async fn open(&mut self, who: usize, id: &SessionId) {
        let opened = within(self.processes[who].sessions.open(id)).await;
        if !self.logs.contains_key(id) {
            let failure = opened.unwrap_err();
            assert!(matches!(
                failure,
                OpenFailure::Read(ReadError::NotFound { .. })
            ));
            return;
        }
        match self.holder(id) {
            Some(holder) if holder == who => {
                assert_eq!(
                    opened.unwrap().head(),
                    self.processes[who].open[id].session.head()
                );
            }
            Some(_) => assert!(matches!(
                opened.unwrap_err(),
                OpenFailure::Lease(LeaseError::Held { .. })
            )),
            None => self.opened(who, opened.unwrap()),
        }
    }

    /// A session was opened that was not open.
    fn opened(&mut self, who: usize, session: Session) {
        let log = self.logs.get_mut(session.id()).unwrap();
        log.extend(repair(&fold(log)));
        let opened = Opened {
            boundary_due: log.last().is_some_and(|last| !last.is::<EndSeed>()),
            is_behind: false,
            script: VecDeque::new(),
            subscriptions: Vec::new(),
            session: session.clone(),
        };
        self.processes[who]
            .open
            .insert(session.id().clone(), opened);
    }

    /// The next batch of a session, which keeps the rules.
    fn batch(
        &mut self,
        who: usize,
        id: &SessionId,
        choices: &[u8],
        length: usize,
    ) -> Vec<NewEvent> {
        let log = &self.logs[id];
        let opened = self.processes[who].open.get_mut(id).unwrap();
        if opened.is_behind {
            return notes_to_append();
        }
        if opened.script.is_empty() {
            let state = fold(log);
            let closers = repair(&state).into_iter().map(Event::into_new);
            opened.script.extend(closers);
            if opened.script.is_empty() {
                let first = state.next_seq().plus(opened.boundary_due.into());
                let turns = state.trace().next_turn() - 1;
                let script = valid_log(choices).into_iter();
                let moved = script.map(|event| moved(event, first, turns));
                opened.script.extend(moved);
            }
        }
        let length = length.min(opened.script.len());
        opened.script.drain(..length).collect()
    }

    async fn append(&mut self, id: &SessionId, choices: &[u8], length: usize) {
        let Some(who) = self.holder(id) else { return };
        let batch = self.batch(who, id, choices, length);
        if batch.is_empty() {
            return;
        }
        let opened = self.processes[who].open.get_mut(id).unwrap();
        let appended = within(opened.session.append(batch.clone())).await;
        if opened.is_behind {
            self.fell_behind(who, id, &appended.unwrap_err()).await;
            return;
        }
        let log = self.logs.get_mut(id).unwrap();
        let returned = commit(opened, log, batch);
        assert_eq!(appended.unwrap(), returned);
    }

    async fn stage(&mut self, id: &SessionId, choices: &[u8], batches: u8) {
        let Some(who) = self.holder(id) else { return };
        let mut staged = Vec::new();
        for _ in 0..batches {
            let batch = self.batch(who, id, choices, 2);
            let opened = &self.processes[who].open[id];
            match within(opened.session.stage(batch.clone())).await {
                Ok(events) => staged.push((batch, events)),
                Err(failure) if opened.is_behind => {
                    return self.fell_behind(who, id, &failure).await;
                }
                Err(other) => panic!("{other}"),
            }
            if opened.script.is_empty() {
                // What comes next follows from what is stored.
                break;
            }
        }
        let opened = self.processes[who].open.get_mut(id).unwrap();
        let flushed = within(opened.session.flush()).await;
        if opened.is_behind {
            self.fell_behind(who, id, &flushed.unwrap_err()).await;
            return;
        }
        flushed.unwrap();
        let log = self.logs.get_mut(id).unwrap();
        for (batch, events) in staged.into_iter().filter(|(batch, _)| !batch.is_empty()) {
            assert_eq!(events, commit(opened, log, batch));
        }
    }

    /// An append met what another program had appended. The session is of no more use, and is
    /// opened again.
    async fn fell_behind(&mut self, who: usize, id: &SessionId, failure: &AppendFailure) {
        let (AppendFailure::Store(source) | AppendFailure::Lost { source, .. }) = failure else {
            panic!("{failure}");
        };
        assert!(matches!(source, AppendError::Conflict { .. }), "{failure}");
        let old = self.processes[who].open.remove(id).unwrap();
        let fresh = within(self.processes[who].sessions.open(id)).await.unwrap();
        self.end(old).await;
        self.opened(who, fresh);
    }

    async fn append_refused(&mut self, id: &SessionId, rule: usize) {
        let Some(who) = self.holder(id) else { return };
        let session = &self.processes[who].open[id].session;
        let batches = session.with_state(refused);
        let batch = batches[rule % batches.len()].clone();
        let failure = session.append(batch).await.unwrap_err();
        assert!(
            matches!(failure, AppendFailure::Refused { .. }),
            "{failure}"
        );
    }

    async fn append_dropped(&mut self, id: &SessionId, choices: &[u8], polls: u8) {
        let Some(who) = self.holder(id) else { return };
        let batch = self.batch(who, id, choices, 3);
        if batch.is_empty() {
            return;
        }
        let opened = self.processes[who].open.get_mut(id).unwrap();
        opened.script.clear();
        let dropped = begun_and_dropped(opened.session.append(batch.clone()), polls).await;
        // Follows the batch, if there is one.
        let note = NewEvent::raw("test/note", Payload::of(&0).unwrap(), None, true);
        let noted = within(opened.session.append(vec![note.clone()])).await;
        if opened.is_behind {
            let failure = dropped.map_or_else(|| noted.unwrap_err(), Result::unwrap_err);
            self.fell_behind(who, id, &failure).await;
            return;
        }
        let log = self.logs.get_mut(id).unwrap();
        let next = noted.unwrap()[0].seq();
        let with_batch = log.len() + usize::from(opened.boundary_due) + batch.len();
        let was_whole = next == seq(with_batch as u64);
        if was_whole {
            let returned = commit(opened, log, batch);
            if let Some(appended) = dropped {
                assert_eq!(appended.unwrap(), returned);
            }
        } else {
            assert!(dropped.is_none(), "an acknowledged batch is missing");
        }
        // Where it is not nothing either, the log is not what is expected now.
        commit(opened, log, vec![note]);
    }

    async fn append_foreign(&mut self, who: usize, id: &SessionId, ahead: usize) {
        let Some(log) = self.logs.get_mut(id) else {
            return;
        };
        let expected = (log.len() + ahead) as u64;
        let batch = notes(expected..expected + 2);
        let store = &self.processes[who].store;
        let appended = store.append(id, seq(expected), batch.clone(), None).await;
        if ahead > 0 {
            match appended.unwrap_err() {
                AppendError::Conflict { actual, .. } => assert_eq!(actual, seq(log.len() as u64)),
                other => panic!("{other}"),
            }
            return;
        }
        appended.unwrap();
        log.extend(batch);
        if let Some(holder) = self.holder(id) {
            let opened = self.processes[holder].open.get_mut(id).unwrap();
            opened.is_behind = true;
            opened.script.clear();
        }
    }

    async fn fork(&mut self, who: usize, origin: &SessionId, fork: Fork) {
        let child = fork.id.clone().unwrap();
        let sessions = &self.processes[who].sessions;
        let forked = within(sessions.fork(origin, fork.clone())).await;
        if self.logs.contains_key(&child) {
            assert!(matches!(
                forked.unwrap_err(),
                ForkFailure::AlreadyExists { session } if session == child
            ));
            return;
        }
        let Some(log) = self.logs.get(origin) else {
            assert!(matches!(
                forked.unwrap_err(),
                ForkFailure::NotFound { origin: missing } if missing == *origin
            ));
            return;
        };
        match (inherited(log, fork.at, fork.boundary), forked) {
            (Ok(until), Ok(session)) => self.forked(who, log[..until].to_vec(), session),
            (Err(Refused::Boundary), Err(ForkFailure::InvalidBoundary { .. }))
            | (Err(Refused::OpenTurn), Err(ForkFailure::OpenTurn { .. })) => {}
            (expected, forked) => panic!("{forked:?} instead of {expected:?}: {fork:?}"),
        }
    }

    async fn rewind(&mut self, id: &SessionId, to: Seq) {
        let Some(who) = self.holder(id) else { return };
        let rewound = within(self.processes[who].sessions.rewind(id, to)).await;
        let log = &self.logs[id];
        match inherited(log, Some(to), Boundary::Exact) {
            Ok(until) => self.forked(who, log[..until].to_vec(), rewound.unwrap()),
            Err(_) => drop(rewound.unwrap_err()),
        }
    }

    /// A session was forked, and inherits this.
    fn forked(&mut self, who: usize, mut log: Vec<Event>, session: Session) {
        assert_eq!(session.header().seed_length, Some(log.len() as u64));
        if !log.last().is_some_and(Event::is::<EndSeed>) {
            place(&mut log, vec![NewEvent::new(&EndSeed {})]);
        }
        self.logs.insert(session.id().clone(), log);
        self.opened(who, session);
    }

    fn subscribe(&mut self, id: &SessionId, from: u64) {
        let Some(who) = self.holder(id) else { return };
        let opened = self.processes[who].open.get_mut(id).unwrap();
        let from = seq(from % (self.logs[id].len() as u64 + 3));
        let events = opened.session.subscribe(from);
        opened.subscriptions.push((from, events));
    }

    async fn close(&mut self, id: &SessionId, choices: &[u8]) {
        let Some(who) = self.holder(id) else { return };
        if !self.processes[who].open[id].is_behind {
            let batch = self.batch(who, id, choices, 2);
            let opened = self.processes[who].open.get_mut(id).unwrap();
            let staged = within(opened.session.stage(batch.clone())).await.unwrap();
            if !batch.is_empty() {
                let log = self.logs.get_mut(id).unwrap();
                assert_eq!(staged, commit(opened, log, batch));
            }
        }
        within(self.processes[who].sessions.close(id)).await;
        let opened = self.processes[who].open.remove(id).unwrap();
        self.end(opened).await;
    }

    /// A session has ended: its subscribers have seen all of it once, and it takes no more.
    async fn end(&self, opened: Opened) {
        let Opened {
            session,
            subscriptions,
            ..
        } = opened;
        let known = session.head().map_or(Seq::ZERO, Seq::next);
        let log = &self.logs[session.id()];
        for (from, events) in subscriptions {
            let seen: Vec<Event> = within(events.try_collect()).await.unwrap();
            assert_eq!(seen, part(log, from, known));
        }
        let late = session.append(notes_to_append()).await.unwrap_err();
        assert!(
            matches!(
                late,
                AppendFailure::Closed { .. } | AppendFailure::Lost { .. }
            ),
            "{late}"
        );
    }

    async fn crash(&mut self, who: usize, id: &SessionId, polls: u8) {
        let under_way = self.holder(id) == Some(who);
        let batch = if under_way {
            self.batch(who, id, &[], 3)
        } else {
            Vec::new()
        };
        let acknowledged = if batch.is_empty() {
            None
        } else {
            let opened = &self.processes[who].open[id];
            begun_and_dropped(opened.session.append(batch.clone()), polls).await
        };
        let fresh = Process::new((self.another)().await);
        let mut gone = std::mem::replace(&mut self.processes[who], fresh);
        for (held, opened) in &mut gone.open {
            end_holder(&*self.processes[who].store, held).await;
            // From here on, nothing that the process left under way can be committed.
            let log = self.logs.get_mut(held).unwrap();
            let stored = self::log(&*self.processes[who].store, held.as_str()).await;
            if held == id && stored.len() > log.len() {
                commit(opened, log, batch.clone());
            } else if held == id {
                let lost = acknowledged.as_ref().is_some_and(Result::is_ok);
                assert!(!lost, "an acknowledged batch is missing");
            }
            // A process that was only paused learns that it is taken for dead.
            let paused = opened.session.append(notes_to_append()).await.unwrap_err();
            assert!(
                matches!(paused, AppendFailure::Store(AppendError::Fenced { .. })),
                "{paused}"
            );
        }
    }

    async fn read(&self, who: usize, id: &SessionId, range: ReadRange) {
        let events = self.processes[who].store.read(id, range);
        let events: Result<Vec<Event>, ReadError> = events.try_collect().await;
        let Some(log) = self.logs.get(id) else {
            assert!(matches!(events.unwrap_err(), ReadError::NotFound { .. }));
            return;
        };
        let end = seq(log.len() as u64);
        let mut expected = part(log, range.from, range.until.unwrap_or(end)).to_vec();
        if range.backward {
            expected.reverse();
        }
        assert_eq!(events.unwrap(), expected);
    }

    /// What is stored, what the catalogue says and what is live are what they must be.
    async fn check(&self) {
        for (id, expected) in &self.logs {
            for process in &self.processes {
                let stored = log(&*process.store, id.as_str()).await;
                assert_eq!(&stored, expected, "the log of {id}");
                for (event, place) in stored.iter().zip(0..) {
                    assert_eq!(event.seq(), seq(place), "a gap in {id}");
                }
                let entry = process.store.entry(id).await.unwrap();
                let mut recomputed = CatalogueEntry::new(entry.header.clone());
                recomputed.apply(CatalogueChange::of(expected));
                assert_eq!(entry, recomputed);
                if let Some(opened) = process.open.get(id)
                    && !opened.is_behind
                {
                    let live = opened.session.with_state(shown);
                    assert_eq!(live, shown(&fold(expected)), "what is live of {id}");
                }
            }
        }
    }
}

/// Why a log cannot be forked at a place.
#[derive(Debug)]
enum Refused {
    Boundary,
    OpenTurn,
}

/// How many events of a log a fork inherits: the rules as they are written down, on a plain vector.
fn inherited(log: &[Event], at: Option<Seq>, boundary: Boundary) -> Result<usize, Refused> {
    let at = at.map(|at| usize::try_from(at.get()).unwrap());
    // Whether a turn is open once so many events are there.
    let open = |length: usize| {
        let is_turn = |event: &&Event| event.is::<TurnStart>() || event.is::<TurnEnd>();
        let last = log[..length].iter().rev().find(is_turn);
        last.is_some_and(Event::is::<TurnStart>)
    };
    match boundary {
        Boundary::Exact => {
            let length = at.map_or(log.len(), |at| at + 1);
            match length {
                _ if length > log.len() => Err(Refused::Boundary),
                _ if open(length) => Err(Refused::OpenTurn),
                _ => Ok(length),
            }
        }
        Boundary::LastCompleted => {
            let most = at.map_or(log.len(), |at| at + 1).min(log.len());
            Ok((0..=most).rev().find(|length| !open(*length)).unwrap())
        }
        Boundary::TurnEnd => {
            // All that a fork may inherit: up to where a turn starts, or all of it.
            let starts = |length: &usize| {
                !open(*length) && log.get(*length).is_none_or(Event::is::<TurnStart>)
            };
            let ends: Vec<usize> = (0..=log.len()).filter(starts).collect();
            let at = at.unwrap_or(log.len());
            let has_ended = |length: &usize| log[..*length].iter().any(Event::is::<TurnEnd>);
            let later = |length: &usize| {
                log.get(at..*length)
                    .is_some_and(|rest| rest.iter().any(Event::is::<TurnEnd>))
            };
            if let Some(end) = ends.iter().copied().find(later) {
                return Ok(end);
            }
            if at < log.len() {
                if open(at + 1) {
                    return Err(Refused::OpenTurn);
                }
                return Ok(ends.into_iter().find(|end| *end > at).unwrap());
            }
            match ends.last().copied() {
                Some(end) if has_ended(&end) || end == log.len() => Ok(end),
                _ => Err(Refused::OpenTurn),
            }
        }
    }
}

/// Appends to a log what a session appends, and returns what the session returns.
fn commit(opened: &mut Opened, log: &mut Vec<Event>, batch: Vec<NewEvent>) -> Vec<Event> {
    if std::mem::take(&mut opened.boundary_due) {
        place(log, vec![NewEvent::new(&EndSeed {})]);
    }
    let first = log.len();
    place(log, batch);
    log[first..].to_vec()
}

fn place(log: &mut Vec<Event>, batch: Vec<NewEvent>) {
    for event in batch {
        let next = seq(log.len() as u64);
        log.push(event.at(next, TIME));
    }
}

fn notes_to_append() -> Vec<NewEvent> {
    notes(0..1).into_iter().map(Event::into_new).collect()
}

/// The events from one position to before another.
fn part(log: &[Event], from: Seq, until: Seq) -> &[Event] {
    let clamp = |seq: Seq| usize::try_from(seq.get()).unwrap().min(log.len());
    log.get(clamp(from)..clamp(until)).unwrap_or_default()
}

fn fold(events: &[Event]) -> LogState {
    LogState::fold(&Vocabulary::core(), events).unwrap()
}

/// An event of a log that begins at 0 with turn 1, for one that begins at `first` and has had
/// `turns` already.
fn moved(event: Event, first: Seq, turns: u64) -> NewEvent {
    let is_ignorable = event.is_ignorable();
    let shift = |seq: Seq| seq.plus(first.get());
    let surface = event.surface().map(|meta| SurfaceMeta {
        op: match meta.op {
            SurfaceOp::Append => SurfaceOp::Append,
            SurfaceOp::Replace { start, end } => SurfaceOp::Replace {
                start: shift(start),
                end: shift(end),
            },
        },
        sources: meta
            .sources
            .as_ref()
            .map(|sources| sources.iter().copied().map(shift).collect()),
    });
    let mut data = event.data().clone();
    // Everything but the turn stays as it is, to the letter.
    let fields = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(data.as_str());
    if let Ok(mut fields) = fields
        && let Some(turn) = fields.get_mut("turn")
    {
        let own: u64 = turn.get().parse().unwrap();
        *turn = serde_json::value::to_raw_value(&(own + turns)).unwrap();
        data = Payload::of(&fields).unwrap();
    }
    NewEvent::raw(event.kind(), data, surface, is_ignorable)
}

/// Polls a future so many times, and drops it; returns what it came to.
async fn begun_and_dropped<T>(future: impl Future<Output = T>, polls: u8) -> Option<T> {
    let mut future = pin!(future);
    for _ in 0..polls {
        if let std::task::Poll::Ready(value) = futures::poll!(&mut future) {
            return Some(value);
        }
        tokio::task::yield_now().await;
    }
    None
}

/// Makes the store believe that the process which holds a session has ended.
async fn end_holder(store: &impl Store, id: &SessionId) {
    let anybody = Owner::this_process(&RandomIds);
    match store.acquire(id, &anybody, TIME).await.unwrap_err() {
        LeaseError::Held { owner, .. } => {
            let gone = Owner {
                started: "an earlier start".into(),
                ..*owner
            };
            store.acquire(id, &gone, TIME).await.unwrap();
        }
        other => panic!("{other}"),
    }
}

async fn holds<S: Store>(another: impl AsyncFn() -> Arc<S>, steps: Vec<Step>) {
    let mut world = World::new(another).await;
    for step in steps {
        world.take(step).await;
        world.check().await;
    }
    for id in world.logs.clone().into_keys() {
        world.close(&id, &[]).await;
    }
    // Whoever comes next finds all of it.
    let next = Process::new((world.another)().await);
    for id in world.logs.clone().into_keys() {
        let session = within(next.sessions.open(&id)).await.unwrap();
        world.opened(0, session);
    }
    world.check().await;
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 100, ..ProptestConfig::default()
    })]

    #[test]
    fn a_store_in_memory_is_like_plain_vectors_whatever_happens(steps in steps()) {
        block_on(async {
            let store = MemoryStore::shared();
            holds(async || Arc::clone(&store), steps).await;
        });
    }
}

#[cfg(feature = "sqlite")]
proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 24, ..ProptestConfig::default()
    })]

    #[test]
    fn a_file_is_like_plain_vectors_whatever_happens(steps in steps()) {
        block_on(async {
            let place = crate::support::Place::new();
            holds(async || place.open().await, steps).await;
        });
    }
}
