//! Forking sessions.

use std::sync::Arc;

use futures::StreamExt as _;

use super::Store;
use super::given::{
    CREATED, at_once, begun_and_dropped, header, id, listed, log, note, notes, position, prompt,
    read, session, shown, within,
};
use crate::event::{SessionTitle, TitleSource, TurnEnd, TurnEndReason, TurnStart};
use crate::store::{
    AppendError, Checkpoint, CheckpointError, CreateError, EventStore, LeaseError, Owner, Prefix,
    ReadError, ReadRange, Scope,
};
use crate::{
    CatalogueChange, CatalogueEntry, Event, Header, ListFilter, NewEvent, Payload, RandomIds, Seq,
    UnixMillis, follow,
};

/// Forks a session, as whoever has read what is inherited.
async fn fork(
    store: &impl Store,
    child: &str,
    origin: &str,
    until: u64,
    seed: Vec<Event>,
) -> Result<(), CreateError> {
    fork_as(store, &child_of(child, origin, until), origin, until, seed).await
}

async fn fork_as(
    store: &impl Store,
    header: &Header,
    origin: &str,
    until: u64,
    seed: Vec<Event>,
) -> Result<(), CreateError> {
    let (origin, inherited) = prefix(store, origin, until).await;
    store.fork(header, &origin, inherited, seed).await
}

/// The first events of a session, and what they change in the catalogue.
async fn prefix(store: &impl Store, origin: &str, until: u64) -> (Prefix, CatalogueChange) {
    let (session, until) = (id(origin), position(until));
    let range = ReadRange {
        until: Some(until),
        ..ReadRange::ALL
    };
    // Of an origin that is not there nothing can be read.
    let inherited: Vec<Event> = store
        .read(&session, range)
        .filter_map(async |event| event.ok())
        .collect()
        .await;
    let inherited = CatalogueChange::of(&inherited);
    (Prefix { session, until }, inherited)
}

fn child_of(child: &str, origin: &str, until: u64) -> Header {
    let mut header = header(child);
    header.parent_session = Some(id(origin));
    header.seed_length = Some(until);
    header
}

/// An event of its own, so that it cannot be taken for one of another session.
fn own(session: &str, seq: u64) -> Event {
    let data = Payload::of(&format!("{session} {seq}")).unwrap();
    NewEvent::raw("conformance/own", data, None, true).at(position(seq), UnixMillis::new(8))
}

fn owned(session: &str, range: std::ops::Range<u64>) -> Vec<Event> {
    range.map(|seq| own(session, seq)).collect()
}

async fn append(store: &impl Store, session: &str, batch: Vec<Event>) {
    let expected = batch[0].seq();
    store
        .append(&id(session), expected, batch, None)
        .await
        .unwrap();
}

pub async fn a_child_begins_with_what_it_inherits<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    for until in 0..=5 {
        for seed in 0..3 {
            let child = format!("{until}.{seed}");
            let seed = owned(&child, until..until + seed);
            let inherited = notes(0..until);
            fork(&**store, &child, "a", until, seed.clone())
                .await
                .unwrap();
            let expected = [inherited, seed].concat();
            assert_eq!(log(&**store, &child).await, expected);
            let entry = store.entry(&id(&child)).await.unwrap();
            assert_eq!(entry.header, child_of(&child, "a", until));
            assert_eq!(entry.next_seq.get(), expected.len() as u64);
        }
    }
    assert_eq!(log(&**store, "a").await, notes(0..5));
}

pub async fn a_child_of_an_empty_session_is_empty<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    fork(&**store, "b", "a", 0, Vec::new()).await.unwrap();
    assert_eq!(log(&**store, "b").await, []);
    append(&**store, "a", owned("a", 0..2)).await;
    append(&**store, "b", owned("b", 0..1)).await;
    assert_eq!(log(&**store, "b").await, owned("b", 0..1));
}

pub async fn reads_any_range_across_the_seam_in_either_direction<S: Store>(store: &Arc<S>) {
    const UNTIL: u64 = 4;
    const LENGTH: u64 = 8;
    session(&**store, "a", 6).await;
    fork(&**store, "b", "a", UNTIL, owned("b", 4..6))
        .await
        .unwrap();
    append(&**store, "b", owned("b", 6..LENGTH)).await;
    let all = [notes(0..UNTIL), owned("b", UNTIL..LENGTH)].concat();
    let ends = [None, Some(Seq::MAX.get())];
    let ends = ends.into_iter().chain((0..LENGTH + 2).map(Some));
    for until in ends {
        for from in 0..LENGTH + 2 {
            reads_part(&**store, "b", &all, from, until).await;
        }
    }
}

pub async fn reads_over_the_borders_of_pages_and_of_sessions<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 1000).await;
    for until in [1, 255, 256, 257, 512, 600, 1000] {
        let child = format!("{until}");
        let seed = owned(&child, until..until + 300);
        let all = [notes(0..until), seed.clone()].concat();
        fork(&**store, &child, "a", until, seed).await.unwrap();
        for from in [0, 1, 256, until - 1, until, until + 1, until + 256] {
            for end in [None, Some(until), Some(until + 1), Some(until + 257)] {
                reads_part(&**store, &child, &all, from, end).await;
            }
        }
    }
}

/// Reads a part of a log that should be `all`, forward and backward.
async fn reads_part(
    store: &impl Store,
    session: &str,
    all: &[Event],
    from: u64,
    until: Option<u64>,
) {
    let within = |event: &&Event| {
        let seq = event.seq().get();
        seq >= from && until.is_none_or(|until| seq < until)
    };
    let mut expected: Vec<Event> = all.iter().filter(within).cloned().collect();
    for backward in [false, true] {
        let range = ReadRange {
            from: position(from),
            until: until.map(position),
            backward,
        };
        assert_eq!(read(store, session, range).await, expected, "{range:?}");
        expected.reverse();
    }
}

pub async fn a_child_and_its_origin_go_on_by_themselves<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    fork(&**store, "b", "a", 2, Vec::new()).await.unwrap();
    for seq in 0..4 {
        append(&**store, "a", owned("a", 3 + seq..4 + seq)).await;
        append(&**store, "b", owned("b", 2 + seq..3 + seq)).await;
        let of_a = [notes(0..3), owned("a", 3..4 + seq)].concat();
        let of_b = [notes(0..2), owned("b", 2..3 + seq)].concat();
        assert_eq!(log(&**store, "a").await, of_a);
        assert_eq!(log(&**store, "b").await, of_b);
    }
}

pub async fn a_child_of_the_whole_log_does_not_grow_with_its_origin<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    fork(&**store, "b", "a", 3, Vec::new()).await.unwrap();
    let before = store.entry(&id("b")).await.unwrap();
    append(&**store, "a", notes(3..600)).await;
    assert_eq!(log(&**store, "b").await, notes(0..3));
    assert_eq!(store.entry(&id("b")).await.unwrap(), before);
}

pub async fn a_child_counts_its_positions_from_what_it_inherits<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    fork(&**store, "b", "a", 3, owned("b", 3..4)).await.unwrap();
    for belief in [0, 1, 3, 5] {
        let batch = notes(belief..belief + 1);
        let refused = store.append(&id("b"), position(belief), batch, None).await;
        match refused.unwrap_err() {
            AppendError::Conflict {
                expected, actual, ..
            } => assert_eq!((expected, actual), (position(belief), position(4))),
            other => panic!("{other}"),
        }
    }
    append(&**store, "b", owned("b", 4..6)).await;
    let expected = [notes(0..3), owned("b", 3..6)].concat();
    assert_eq!(log(&**store, "b").await, expected);
}

pub async fn a_fork_of_a_fork_reads_through_all_of_them<S: Store>(store: &Arc<S>) {
    session(&**store, "0", 2).await;
    let mut expected = notes(0..2);
    for depth in 1..20_u64 {
        let (child, origin) = (format!("{depth}"), format!("{}", depth - 1));
        let length = expected.len() as u64;
        let seed = owned(&child, length..length + 1);
        fork(&**store, &child, &origin, length, seed.clone())
            .await
            .unwrap();
        // None of these is inherited by those that come after.
        append(&**store, &origin, owned("late", length..length + 2)).await;
        expected.extend(seed);
        assert_eq!(log(&**store, &child).await, expected);
    }
    for from in [0, 1, 2, 3, 10, 20] {
        for until in [None, Some(1), Some(2), Some(3), Some(11), Some(20)] {
            reads_part(&**store, "19", &expected, from, until).await;
        }
    }
}

pub async fn a_fork_may_end_in_what_its_origin_inherited<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 6).await;
    fork(&**store, "b", "a", 5, owned("b", 5..7)).await.unwrap();
    fork(&**store, "c", "b", 6, owned("c", 6..8)).await.unwrap();
    let all = [notes(0..5), owned("b", 5..6), owned("c", 6..8)].concat();
    for until in 0..=8 {
        let child = format!("{until}");
        let seed = owned(&child, until..until + 2);
        let at = usize::try_from(until).unwrap();
        let expected = [&all[..at], &seed[..]].concat();
        fork(&**store, &child, "c", until, seed).await.unwrap();
        assert_eq!(log(&**store, &child).await, expected);
        let from = until.saturating_sub(2);
        reads_part(&**store, &child, &expected, from, Some(until + 1)).await;
    }
}

pub async fn refuses_to_fork_onto_an_id_that_exists<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    session(&**store, "b", 2).await;
    let before = (shown(&**store, "a").await, shown(&**store, "b").await);
    // Whatever else is wrong: it is the first thing that is said.
    for (child, origin, until) in [
        ("b", "a", 2),
        ("b", "a", 4),
        ("b", "nobody", 1),
        ("a", "a", 1),
    ] {
        let refused = fork(&**store, child, origin, until, Vec::new()).await;
        match refused.unwrap_err() {
            CreateError::Exists { session } => assert_eq!(session, id(child)),
            other => panic!("{other}"),
        }
        let after = (shown(&**store, "a").await, shown(&**store, "b").await);
        assert_eq!(after, before);
    }
}

pub async fn refuses_to_fork_a_session_that_is_not_there<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    for (child, until) in [("b", 0), ("b", 1), ("nobody", 0)] {
        let refused = fork(&**store, child, "nobody", until, Vec::new()).await;
        match refused.unwrap_err() {
            CreateError::NoOrigin { session, origin } => {
                assert_eq!((session, origin), (id(child), id("nobody")));
            }
            other => panic!("{other}"),
        }
        nothing_was_created(&**store, child).await;
    }
}

pub async fn refuses_to_fork_beyond_the_end_of_a_log<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    fork(&**store, "forked", "a", 2, Vec::new()).await.unwrap();
    for (origin, length) in [("a", 3), ("forked", 2)] {
        for until in [length + 1, length + 300, Seq::MAX.get()] {
            let refused = fork(&**store, "b", origin, until, Vec::new()).await;
            match refused.unwrap_err() {
                CreateError::Beyond {
                    session,
                    origin: of,
                    until: at,
                    length: actual,
                } => assert_eq!(
                    (session, of, at, actual),
                    (id("b"), id(origin), position(until), position(length))
                ),
                other => panic!("{other}"),
            }
            nothing_was_created(&**store, "b").await;
        }
    }
}

pub async fn refuses_a_seed_that_does_not_follow_what_is_inherited<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 5).await;
    let seeds = [
        (vec![note(0)], 3, 0),
        (vec![note(4)], 3, 4),
        (vec![note(3), note(5)], 4, 5),
        (vec![note(3), note(3)], 4, 3),
    ];
    for (seed, due, place) in seeds {
        match fork(&**store, "b", "a", 3, seed).await.unwrap_err() {
            CreateError::Misnumbered {
                session,
                expected,
                found,
            } => assert_eq!(
                (session, expected, found),
                (id("b"), position(due), position(place))
            ),
            other => panic!("{other}"),
        }
        nothing_was_created(&**store, "b").await;
    }
    fork(&**store, "b", "a", 3, notes(3..4)).await.unwrap();
}

async fn nothing_was_created(store: &impl Store, session: &str) {
    let missing = store.entry(&id(session)).await.unwrap_err();
    assert!(matches!(missing, ReadError::NotFound { .. }), "{missing}");
    let all = listed(store, ListFilter::default()).await;
    assert!(all.iter().all(|entry| entry.header.id != id(session)));
}

pub async fn the_catalogue_counts_what_is_inherited_like_an_append<S: Store>(store: &Arc<S>) {
    let title = |title: &str| {
        NewEvent::new(&SessionTitle {
            title: title.into(),
            message_seqs: None,
            source: TitleSource::User,
        })
    };
    let reason = TurnEndReason::Completed;
    let spoken = CREATED.get() + 9;
    let events = [
        title("one"),
        NewEvent::new(&TurnStart { turn: 1 }),
        prompt(0).event,
        title("two"),
        NewEvent::new(&TurnEnd { turn: 1, reason }),
        title("three"),
        prompt(0).event,
    ];
    let times = [0, 0, spoken, 0, 0, 0, spoken + 9];
    let placed: Vec<Event> = (0..)
        .zip(events.into_iter().zip(times))
        .map(|(seq, (event, time))| event.at(position(seq), UnixMillis::new(time)))
        .collect();
    store.create(&header("a"), placed.clone()).await.unwrap();
    for until in 0..=placed.len() {
        let (child, length) = (format!("{until}"), until as u64);
        let seed = vec![title("own").at(position(length), CREATED)];
        let seed = if until % 2 == 0 { seed } else { Vec::new() };
        let mut expected = CatalogueEntry::new(child_of(&child, "a", length));
        expected.apply(CatalogueChange::of(&[&placed[..until], &seed[..]].concat()));
        fork(&**store, &child, "a", length, seed).await.unwrap();
        assert_eq!(store.entry(&id(&child)).await.unwrap(), expected);
        let filter = ListFilter {
            id_prefix: Some(child),
            ..ListFilter::default()
        };
        assert_eq!(listed(&**store, filter).await, [expected]);
    }
    let filter = ListFilter {
        parent: Some(id("a")),
        ..ListFilter::default()
    };
    assert_eq!(listed(&**store, filter).await.len(), placed.len() + 1);
}

pub async fn a_child_keeps_its_header_to_the_letter<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    let mut full = child_of("b", "another parent than the origin", 7);
    full.created_at = UnixMillis::EPOCH;
    full.cwd = Some("/elsewhere/'quoted'".into());
    full.extra.insert("note".into(), serde_json::json!([1.5]));
    fork_as(&**store, &full, "a", 2, Vec::new()).await.unwrap();
    assert_eq!(store.entry(&id("b")).await.unwrap().header, full);
}

pub async fn checkpoints_of_the_origin_are_not_the_childs<S: Store>(store: &Arc<S>) {
    let row = |seq: u64, state: &str| Checkpoint {
        key: "x".into(),
        state_version: 1,
        seq: position(seq),
        state: Payload::from_text(state).unwrap(),
    };
    session(&**store, "a", 5).await;
    store.save(&id("a"), vec![row(1, "1")]).await.unwrap();
    fork(&**store, "b", "a", 3, Vec::new()).await.unwrap();
    assert_eq!(store.load(&id("b")).await.unwrap(), []);
    // Its own may reflect what it inherited, and reach no further than its log.
    store.save(&id("b"), vec![row(2, "2")]).await.unwrap();
    let ahead = store.save(&id("b"), vec![row(3, "3")]).await.unwrap_err();
    assert!(matches!(ahead, CheckpointError::Ahead { .. }), "{ahead}");
    assert_eq!(store.load(&id("a")).await.unwrap(), [row(1, "1")]);
    assert_eq!(store.load(&id("b")).await.unwrap(), [row(2, "2")]);
}

pub async fn a_session_that_is_leased_can_be_forked_and_the_child_is_free<S: Store>(
    store: &Arc<S>,
) {
    let [one, other] = [(), ()].map(|()| Owner::this_process(&RandomIds));
    session(&**store, "a", 3).await;
    let lease = store.acquire(&id("a"), &one, CREATED).await.unwrap();
    fork(&**store, "b", "a", 3, Vec::new()).await.unwrap();
    let of_child = store.acquire(&id("b"), &other, CREATED).await.unwrap();
    for (session, lease) in [("a", lease), ("b", of_child)] {
        let fence = Some(lease.token);
        let batch = notes(3..4);
        let appended = store.append(&id(session), position(3), batch, fence).await;
        appended.unwrap();
    }
    let held = store.acquire(&id("a"), &other, CREATED).await.unwrap_err();
    assert!(matches!(held, LeaseError::Held { .. }), "{held}");
}

pub async fn wakes_for_a_fork_and_for_what_is_appended_to_it<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    let mut all = store.watch(Scope::All);
    fork(&**store, "b", "a", 3, Vec::new()).await.unwrap();
    // A listener may be woken for nothing, so that it was is seen by what it can read.
    loop {
        within(all.next()).await.unwrap();
        if store.entry(&id("b")).await.is_ok() {
            break;
        }
    }
    let mut events = follow(Arc::clone(store) as Arc<dyn EventStore>, id("b"), Seq::ZERO);
    append(&**store, "a", owned("a", 3..5)).await;
    append(&**store, "b", owned("b", 3..5)).await;
    for due in [notes(0..3), owned("b", 3..5)].concat() {
        assert_eq!(within(events.next()).await.unwrap().unwrap(), due);
    }
}

pub async fn a_fork_that_is_dropped_half_way_is_whole_or_nothing<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 700).await;
    let (origin, inherited) = prefix(&**store, "a", 700).await;
    let (child, seed) = (child_of("b", "a", 700), owned("b", 700..800));
    begun_and_dropped(store.fork(&child, &origin, inherited, seed)).await;
    // Whatever the store was doing, this comes after it.
    within(store.create(&header("c"), Vec::new()))
        .await
        .unwrap();
    match store.entry(&id("b")).await {
        Ok(entry) => {
            assert_eq!(entry.next_seq, position(800));
            let expected = [notes(0..700), owned("b", 700..800)].concat();
            assert_eq!(log(&**store, "b").await, expected);
        }
        Err(ReadError::NotFound { .. }) => {
            fork(&**store, "b", "a", 1, Vec::new()).await.unwrap();
            assert_eq!(log(&**store, "b").await, notes(0..1));
        }
        Err(other) => panic!("{other}"),
    }
}

pub async fn lets_one_of_many_forks_onto_an_id_win<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 8).await;
    let forked = at_once(store, 8, |store, nth| async move {
        let until = nth as u64;
        match fork(&*store, "b", "a", until, Vec::new()).await {
            Ok(()) => Some(until),
            Err(CreateError::Exists { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    let winners: Vec<u64> = forked.into_iter().flatten().collect();
    let [winner] = winners[..] else {
        panic!("{winners:?} won");
    };
    assert_eq!(log(&**store, "b").await, notes(0..winner));
}
