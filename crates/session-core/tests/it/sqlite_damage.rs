//! Damage is reported where it is, and spares everything else.

use std::fs;
use std::io::{Seek as _, SeekFrom, Write as _};

use futures::{StreamExt as _, TryStreamExt as _};
use session_core::event::TurnStart;
use session_core::store::{ReadError, ReadRange};
use session_core::{
    Event, EventStore as _, ListFilter, ListQuery, NewEvent, OpenFailure, Seq, SessionId, Sessions,
    SqliteStore, follow,
};
use sqlx::Connection as _;

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
         update session set known_seq = 600 where key = 1; \
         create trigger record_takes_the_next_position before insert on record \
         when new.seq <> (select max(seq + events) from record where session = new.session) \
         begin select raise(abort, 'an event takes the next position of its session'); end",
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
