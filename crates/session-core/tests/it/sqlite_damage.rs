//! Damage is reported where it is, and spares everything else.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use session_core::event::{Gap, TurnStart};
use session_core::store::{
    Checkpoint, CheckpointStore as _, Prefix, QuarantineError, QuarantineStore as _, ReadError,
    ReadRange,
};
use session_core::{
    CatalogueChange, Event, EventStore as _, ListFilter, ListQuery, MemoryStore, NewEvent,
    OpenFailure, Payload, Seq, SessionId, Sessions, SqliteStore, follow,
};
use sqlx::{AssertSqlSafe, Connection as _};

use crate::support::{Place, TIME, header, log, notes, seq, within};

/// Two sessions of 600 notes each, of which those from 296 to 303 lie in rows of their own and all
/// others in runs, and the file changed by `sql` in a way that needs the triggers out of the way.
async fn damaged(sql: &'static str) -> Place {
    let place = Place::new();
    let store = place.open().await;
    for id in ["a", "b"] {
        let session: SessionId = id.into();
        store.create(&header(id), notes(0..296)).await.unwrap();
        for at in (296..304).chain([304]) {
            let until = if at < 304 { at + 1 } else { 600 };
            let batch = notes(at..until);
            store.append(&session, seq(at), batch, None).await.unwrap();
        }
    }
    store.close().await;
    let mut raw = place.raw().await;
    let guards: Vec<String> = sqlx::query_scalar(
        "select sql from sqlite_schema where type = 'trigger' and tbl_name = 'record'",
    )
    .fetch_all(&mut raw)
    .await
    .unwrap();
    sqlx::raw_sql(
        "pragma foreign_keys = off; pragma ignore_check_constraints = on; \
         drop trigger record_is_never_changed; \
         drop trigger record_is_deleted_only_with_its_session; \
         drop trigger record_takes_the_next_position",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    let done = sqlx::raw_sql(sql).execute(&mut raw).await.unwrap();
    assert!(done.rows_affected() > 0, "{sql}");
    assert_eq!(guards.len(), 3);
    for guard in guards {
        sqlx::query(AssertSqlSafe(guard))
            .execute(&mut raw)
            .await
            .unwrap();
    }
    raw.close().await.unwrap();
    place
}

/// What comes of reading a range of `a` up to the first error.
async fn read(store: &SqliteStore, range: ReadRange) -> (Vec<Event>, Option<ReadError>) {
    let id: SessionId = "a".into();
    let mut events = store.read(&id, range);
    let mut read = Vec::new();
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => read.push(event),
            Err(error) => return (read, Some(error)),
        }
    }
    (read, None)
}

fn assert_damaged(error: Option<ReadError>, at: u64) {
    match error {
        Some(ReadError::Damaged {
            session,
            seq: found,
            ..
        }) => {
            assert_eq!((session.as_str(), found), ("a", seq(at)));
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_damaged_event_is_named_and_all_others_can_be_read() {
    for sql in [
        "update record set data = '{\"cut\":' where session = 1 and seq = 300",
        "update record set data = '' where session = 1 and seq = 300",
        "update record set data = cast(x'22ff22' as text) where session = 1 and seq = 300",
        "update record set surface_op = 'prepend' where session = 1 and seq = 300",
        "update record set surface_op = '\"append\"', sources = '[-1]' \
         where session = 1 and seq = 300",
        "update record set type = 99 where session = 1 and seq = 300",
        "update record set type = null where session = 1 and seq = 300",
        "update record set recorded_at_ms = 7 where session = 1 and seq = 300",
        "update record set checksum = checksum + 1 where session = 1 and seq = 300",
        "update record set data = zeroblob(5) where session = 1 and seq = 300",
        "delete from record where session = 1 and seq = 300",
    ] {
        let place = damaged(sql).await;
        let store = place.open().await;
        let (before, error) = read(&store, ReadRange::ALL).await;
        assert_eq!(before, notes(0..300), "{sql}");
        assert_damaged(error, 300);

        let (after, error) = read(&store, ReadRange::backward_before(None)).await;
        let mut expected = notes(301..600);
        expected.reverse();
        assert_eq!(after, expected, "{sql}");
        assert_damaged(error, 300);

        let (rest, error) = read(&store, ReadRange::from(seq(301))).await;
        assert_eq!(rest, notes(301..600), "{sql}");
        assert!(error.is_none());
        assert_eq!(log(&*store, "b").await, notes(0..600));
    }
}

#[tokio::test]
async fn a_damaged_run_of_events_is_named_one_by_one_and_all_others_can_be_read() {
    for sql in [
        "update record set data = zeroblob(9) where session = 1 and seq = 128",
        "update record set data = substr(data, 2) where session = 1 and seq = 128",
        "update record set events = 63 where session = 1 and seq = 128",
        "update record set seq = 127 where session = 1 and seq = 128",
        "delete from record where session = 1 and seq = 128",
    ] {
        let place = damaged(sql).await;
        let store = place.open().await;
        let mut whole = Vec::new();
        let mut bad = Vec::new();
        let mut from = Seq::ZERO;
        while from < seq(600) {
            let (events, error) = read(&store, ReadRange::from(from)).await;
            whole.extend(events);
            let Some(ReadError::Damaged { seq: at, .. }) = error else {
                break;
            };
            bad.push(at.get());
            from = at.next();
        }
        let lost = 128..192;
        assert_eq!(bad, lost.clone().collect::<Vec<u64>>(), "{sql}");
        let spared: Vec<Event> = notes(0..600)
            .into_iter()
            .filter(|event| !lost.contains(&event.seq().get()))
            .collect();
        assert_eq!(whole, spared, "{sql}");
    }
}

#[tokio::test]
async fn a_follower_gets_every_event_before_a_damaged_one() {
    let place = damaged("update record set data = '{' where session = 1 and seq = 300").await;
    let store = place.open().await;
    let mut followed = follow(store.clone(), "a".into(), Seq::ZERO);
    for at in 0..300 {
        let event = within(followed.next()).await.unwrap().unwrap();
        assert_eq!(event.seq(), seq(at));
    }
    assert_damaged(within(followed.next()).await.unwrap().err(), 300);
}

#[tokio::test]
async fn a_log_that_lost_its_end_does_not_read_as_shorter() {
    // As it is noted at the end of each turn.
    let place = damaged(
        "delete from record where session = 1 and seq >= 432; \
         update session set known_seq = 600 where key = 1",
    )
    .await;
    let store = place.open().await;
    let (before, error) = read(&store, ReadRange::ALL).await;
    assert_eq!(before, notes(0..432));
    assert_damaged(error, 432);
    let (none, error) = read(&store, ReadRange::backward_before(None)).await;
    assert_eq!(none, []);
    assert_damaged(error, 599);
    assert_eq!(log(&*store, "b").await, notes(0..600));
}

#[tokio::test]
async fn a_session_with_a_damaged_event_is_listed_and_not_opened_for_writing() {
    let sql = "update record set data = 'x' where session = 1 and seq = 300";
    let place = damaged(sql).await;
    let store = place.open().await;
    let query = ListQuery {
        filter: ListFilter {
            include_blank: true,
            ..ListFilter::default()
        },
        ..ListQuery::default()
    };
    let page = store.list(&query).await.unwrap();
    assert_eq!(page.entries.len(), 2);
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .build();
    match sessions.open(&"a".into()).await.unwrap_err() {
        OpenFailure::Read(error) => assert_damaged(Some(error), 300),
        other => panic!("{other}"),
    }
    // The lease was given back, and the other session is as usable as ever.
    let elsewhere = Sessions::builder(store.clone())
        .leases(store.clone())
        .build();
    assert!(matches!(
        elsewhere.open(&"a".into()).await.unwrap_err(),
        OpenFailure::Read(_)
    ));
    let other = sessions.open(&"b".into()).await.unwrap();
    other
        .append(vec![NewEvent::new(&TurnStart { turn: 1 })])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_damaged_header_is_named_and_the_other_sessions_are_listed() {
    for sql in [
        "update session set header = '{' where id = 'a'",
        "update session set header = cast(x'ff' as text) where id = 'a'",
        "update session set header = '{\"version\":7,\"id\":\"a\",\"createdAt\":0}' where id = 'a'",
    ] {
        let place = damaged(sql).await;
        let store = place.open().await;
        for limit in [1, 2, 50] {
            let mut query = ListQuery {
                limit,
                ..ListQuery::default()
            };
            query.filter.include_blank = true;
            let (mut listed, mut unreadable) = (Vec::new(), Vec::new());
            loop {
                let page = store.list(&query).await.unwrap();
                listed.extend(page.entries.into_iter().map(|entry| entry.header.id));
                unreadable.extend(page.damaged);
                query.after = page.next;
                if query.after.is_none() {
                    break;
                }
            }
            assert_eq!(listed, ["b".into()], "{sql}");
            assert_eq!(unreadable, ["a".into()], "{sql}");
        }
        match store.entry(&"a".into()).await.unwrap_err() {
            ReadError::Header { session, .. } => assert_eq!(session, "a".into()),
            other => panic!("{other}"),
        }
        // Its events are all there.
        assert_eq!(log(&*store, "a").await, notes(0..600));
        assert_eq!(log(&*store, "b").await, notes(0..600));
    }
}

#[tokio::test]
async fn a_page_of_zeros_never_reads_as_an_empty_store_or_a_shorter_log() {
    const ZEROS: [u8; 8192] = [0; 8192];
    const PAGE: u64 = ZEROS.len() as u64;
    let whole = Place::new();
    let store = whole.open().await;
    for nth in 0..20 {
        let header = header(&format!("{nth:02}"));
        store.create(&header, notes(0..100)).await.unwrap();
    }
    store.close().await;
    let bytes = fs::read(whole.file()).unwrap();
    let pages = bytes.len() as u64 / PAGE;
    assert!(pages > 10);
    for page in 0..pages {
        let place = Place::new();
        fs::write(place.file(), &bytes).unwrap();
        let mut file = fs::OpenOptions::new()
            .write(true)
            .open(place.file())
            .unwrap();
        file.seek(SeekFrom::Start(page * PAGE)).unwrap();
        file.write_all(&ZEROS).unwrap();
        drop(file);
        let Ok(store) = SqliteStore::open(place.file()).await else {
            continue;
        };
        let mut query = ListQuery::default();
        query.filter.include_blank = true;
        if let Ok(page) = store.list(&query).await {
            assert_eq!(page.entries.len() + page.damaged.len(), 20);
        }
        for nth in 0..20 {
            let id: SessionId = format!("{nth:02}").into();
            let read: Result<Vec<Event>, _> = store.read(&id, ReadRange::ALL).try_collect().await;
            match read {
                Ok(events) => assert_eq!(events, notes(0..100), "page {page}, {id}"),
                Err(ReadError::NotFound { .. }) => panic!("page {page}: {id} is forgotten"),
                Err(_) => {}
            }
        }
        assert_ne!(
            store.integrity().await.ok(),
            Some(Vec::new()),
            "page {page}"
        );
    }
}

#[tokio::test]
async fn an_append_to_a_damaged_log_is_refused_by_the_database() {
    let place = damaged(
        "delete from record where session = 1 and seq > 500; \
         update session set known_seq = 600 where key = 1",
    )
    .await;
    let store = place.open().await;
    let next = notes(600..601);
    assert!(
        store
            .append(&"a".into(), seq(600), next, None)
            .await
            .is_err()
    );
    let event = NewEvent::new(&TurnStart { turn: 1 }).at(seq(600), TIME);
    store
        .append(&"b".into(), seq(600), vec![event], None)
        .await
        .unwrap();
}

/// Where `a` is damaged.
async fn damaged_at(store: &SqliteStore) -> Vec<Seq> {
    let mut bad = Vec::new();
    let mut from = Seq::ZERO;
    while let Some(ReadError::Damaged { seq, .. }) = read(store, ReadRange::from(from)).await.1 {
        bad.push(seq);
        from = seq.next();
    }
    bad
}

fn sessions(store: &Arc<SqliteStore>) -> Sessions {
    Sessions::builder(store.clone())
        .leases(store.clone())
        .build()
}

/// The log of `a` as it is read, both ways and piece by piece.
async fn read_every_way(store: &SqliteStore) -> Vec<Event> {
    let (forward, error) = read(store, ReadRange::ALL).await;
    assert!(error.is_none(), "{error:?}");
    let (mut backward, error) = read(store, ReadRange::backward_before(None)).await;
    assert!(error.is_none(), "{error:?}");
    backward.reverse();
    assert_eq!(backward, forward);
    for (from, until) in [
        (0, 1),
        (127, 193),
        (128, 129),
        (190, 301),
        (299, 302),
        (599, 600),
    ] {
        for backward in [false, true] {
            let range = ReadRange {
                from: seq(from),
                until: Some(seq(until)),
                backward,
            };
            let (mut part, error) = read(store, range).await;
            assert!(error.is_none(), "{error:?}");
            if backward {
                part.reverse();
            }
            let expected = forward
                .iter()
                .filter(|event| (from..until).contains(&event.seq().get()));
            assert!(part.iter().eq(expected), "{range:?}");
        }
    }
    forward
}

#[tokio::test]
async fn a_session_goes_on_once_its_damaged_events_are_given_up() {
    for (sql, lost) in [
        (
            "update record set data = 'x' where session = 1 and seq = 300",
            300..301,
        ),
        (
            "delete from record where session = 1 and seq = 300",
            300..301,
        ),
        (
            "update record set data = zeroblob(9) where session = 1 and seq = 128",
            128..192,
        ),
        (
            "update record set events = 63 where session = 1 and seq = 128",
            128..192,
        ),
        (
            "update record set data = zeroblob(9) where session = 1 and seq = 0",
            0..64,
        ),
        ("delete from record where session = 1 and seq = 0", 0..64),
        (
            "update record set data = zeroblob(9) where session = 1 and seq = 560",
            560..600,
        ),
        (
            "update record set type = 99 where session = 1 and seq between 298 and 302",
            298..303,
        ),
        (
            "delete from record where session = 1 and seq >= 432; \
             update session set known_seq = 600 where key = 1",
            432..600,
        ),
        (
            "delete from record where session = 1; update session set known_seq = 600 where key = 1",
            0..600,
        ),
    ] {
        let place = damaged(sql).await;
        let store = place.open().await;
        let id: SessionId = "a".into();
        let lost: Vec<u64> = lost.collect();
        let bad = damaged_at(&store).await;
        assert!(
            bad.iter().map(|seq| seq.get()).eq(lost.iter().copied()),
            "{sql}: {bad:?}"
        );
        assert!(sessions(&store).open(&id).await.is_err());

        let given_up = store.quarantine(&id, &bad, TIME).await.unwrap();
        assert!(given_up.iter().map(|one| one.seq).eq(bad.iter().copied()));
        let read = read_every_way(&store).await;
        assert_eq!(read.len(), 600, "{sql}");
        for (event, whole) in read.iter().zip(notes(0..600)) {
            if lost.contains(&event.seq().get()) {
                let gap: Gap = event.decode().unwrap();
                assert!(!gap.reason.is_empty());
                assert_eq!((event.seq(), event.time_ms()), (whole.seq(), TIME));
                assert!(event.surface().is_none());
            } else {
                assert_eq!(*event, whole, "{sql}");
            }
        }

        let live = sessions(&store);
        let session = live.open(&id).await.unwrap();
        let batch = vec![NewEvent::new(&TurnStart { turn: 1 })];
        session.append(batch).await.unwrap();
        live.close_all().await;
        store.close().await;
        // Also in another process, which never met the damage.
        let store = place.open().await;
        let log = read_every_way(&store).await;
        assert_eq!(log[..600], read);
        assert_eq!(
            log[600..].iter().map(Event::kind).collect::<Vec<_>>(),
            ["session/end-seed", "turn/start"]
        );
        assert_eq!(damaged_at(&store).await, []);
        let again = sessions(&store).open(&id).await.unwrap();
        assert_eq!(again.head(), Some(seq(602)), "the open turn was closed");
    }
}

#[tokio::test]
async fn only_damaged_events_are_given_up_and_each_once() {
    let place = damaged("update record set data = 'x' where session = 1 and seq = 300").await;
    let store = place.open().await;
    let id: SessionId = "a".into();
    for (positions, sound) in [(&[seq(299)][..], 299), (&[seq(300), seq(301)], 301)] {
        match store.quarantine(&id, positions, TIME).await.unwrap_err() {
            QuarantineError::NotDamaged { seq: at, .. } => assert_eq!(at, seq(sound)),
            other => panic!("{other}"),
        }
        assert_eq!(damaged_at(&store).await, [seq(300)], "nothing was changed");
    }
    match store.quarantine(&id, &[seq(600)], TIME).await.unwrap_err() {
        QuarantineError::Beyond { seq: at, .. } => assert_eq!(at, seq(600)),
        other => panic!("{other}"),
    }
    store.quarantine(&id, &[seq(300)], TIME).await.unwrap();
    assert!(matches!(
        store.quarantine(&id, &[seq(300)], TIME).await.unwrap_err(),
        QuarantineError::NotDamaged { .. }
    ));
    assert!(matches!(
        store
            .quarantine(&"x".into(), &[seq(300)], TIME)
            .await
            .unwrap_err(),
        QuarantineError::Read(ReadError::NotFound { .. })
    ));
    let memory = MemoryStore::new();
    memory.create(&header("a"), notes(0..3)).await.unwrap();
    assert!(matches!(
        memory.quarantine(&id, &[seq(1)], TIME).await.unwrap_err(),
        QuarantineError::NotDamaged { .. }
    ));
}

#[tokio::test]
async fn what_is_given_up_stays_so_in_every_session_that_inherits_it() {
    let place =
        damaged("update record set data = zeroblob(9) where session = 1 and seq = 128").await;
    let store = place.open().await;
    let origin = |until| Prefix {
        session: "a".into(),
        until: seq(until),
    };
    for (id, until) in [("before", 100), ("inside", 150), ("after", 250)] {
        let change = CatalogueChange::of(&notes(0..until));
        let seed = notes(until..until + 2);
        store
            .fork(&header(id), &origin(until), change, seed)
            .await
            .unwrap();
    }
    let rows = |seq_at: u64| {
        vec![Checkpoint {
            key: "unit".into(),
            state_version: 1,
            seq: seq(seq_at),
            state: Payload::of(&1).unwrap(),
        }]
    };
    for (id, at) in [("a", 599), ("before", 101), ("inside", 151), ("after", 127)] {
        store.save(&id.into(), rows(at)).await.unwrap();
    }
    let lost: Vec<Seq> = (128..192).map(seq).collect();
    // Through one of them, for all.
    store
        .quarantine(&"after".into(), &lost, TIME)
        .await
        .unwrap();
    for (id, gaps, length) in [
        ("a", 64, 600),
        ("before", 0, 102),
        ("inside", 22, 152),
        ("after", 64, 252),
    ] {
        let log = log(&*store, id).await;
        assert_eq!(log.len(), length, "{id}");
        assert_eq!(
            log.iter().filter(|event| event.is::<Gap>()).count(),
            gaps,
            "{id}"
        );
        let is_kept = !store.load(&id.into()).await.unwrap().is_empty();
        assert_eq!(is_kept, ["before", "after"].contains(&id), "{id}");
        sessions(&store).open(&id.into()).await.unwrap();
    }
    store.close().await;
    let mut raw = place.raw().await;
    for sql in [
        "delete from quarantine where seq = 128",
        "update quarantine set seq = 10 where seq = 128",
        "update quarantine set reason = 'x'",
        "insert or replace into quarantine select * from quarantine",
    ] {
        let error = sqlx::query(sql).execute(&mut raw).await.unwrap_err();
        assert!(
            error.to_string().contains("what is given up stays so"),
            "{sql}: {error}"
        );
    }
}

#[tokio::test]
async fn an_event_that_was_given_up_does_not_come_back() {
    let place =
        damaged("update record set checksum = checksum + 1 where session = 1 and seq = 300").await;
    let store = place.open().await;
    // Knows of no gap yet.
    let other = place.open().await;
    assert_damaged(read(&other, ReadRange::ALL).await.1, 300);
    store
        .quarantine(&"a".into(), &[seq(300)], TIME)
        .await
        .unwrap();
    let gone_on = log(&*store, "a").await;
    assert_eq!(log(&*other, "a").await, gone_on);
    let mut raw = place.raw().await;
    sqlx::raw_sql("drop trigger record_is_never_changed; update record set checksum = checksum - 1 where session = 1 and seq = 300")
        .execute(&mut raw)
        .await
        .unwrap();
    for store in [&store, &other, &place.open().await] {
        assert_eq!(log(&**store, "a").await, gone_on);
    }
}
