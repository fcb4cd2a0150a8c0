//! Several writers of one database.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use session_core::event::TurnStart;
use session_core::store::{AppendError, LeaseError};
use session_core::{
    EventStore as _, NewEvent, NewSession, OpenError, OpenFailure, OpenOptions, Seq, Sessions,
    SqliteStore, follow,
};

use crate::support::{
    Place, header, in_a_process, is_run_by_another, log, notes, seq, this_binary,
};

async fn append_one_by_one(store: &SqliteStore, id: &str, to: u64) {
    store.create(&header(id), Vec::new()).await.unwrap();
    for next in 0..to {
        let batch = notes(next..next + 1);
        store
            .append(&id.into(), seq(next), batch, None)
            .await
            .unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_stores_on_one_file_append_a_thousand_events_each() {
    let place = Place::new();
    let (one, two) = (place.open().await, place.open().await);
    let other = Arc::clone(&two);
    let writing = tokio::spawn(async move { append_one_by_one(&other, "two", 1000).await });
    append_one_by_one(&one, "one", 1000).await;
    writing.await.unwrap();
    for store in [one, two] {
        assert_eq!(log(&*store, "one").await, notes(0..1000));
        assert_eq!(log(&*store, "two").await, notes(0..1000));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_processes_append_a_thousand_events_each() {
    let place = Place::new();
    let store = place.open().await;
    let folder = place.folder.path().to_owned();
    let other = tokio::task::spawn_blocking(move || {
        in_a_process(
            &mut std::process::Command::new(this_binary()),
            "sqlite_writers::appends_a_thousand_events",
            &folder,
        );
    });
    append_one_by_one(&store, "parent", 1000).await;
    other.await.unwrap();
    assert_eq!(log(&*store, "parent").await, notes(0..1000));
    assert_eq!(log(&*store, "child").await, notes(0..1000));
}

#[tokio::test]
#[ignore = "run in a process of its own by the test above"]
async fn appends_a_thousand_events() {
    if !is_run_by_another() {
        return;
    }
    let store = SqliteStore::open("sessions.db").await.unwrap();
    append_one_by_one(&store, "child", 1000).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_database_can_be_opened_by_many_at_once() {
    for _ in 0..10 {
        let place = Place::new();
        let opened: Vec<_> = (0..6)
            .map(|_| tokio::spawn(SqliteStore::open(place.file())))
            .collect();
        let mut stores = Vec::new();
        for opened in opened {
            stores.push(opened.await.unwrap().unwrap());
        }
        stores[0].create(&header("a"), notes(0..1)).await.unwrap();
        for store in &stores {
            assert_eq!(log(store, "a").await, notes(0..1));
        }
    }
}

#[tokio::test]
async fn a_follower_sees_what_another_store_appends() {
    let place = Place::new();
    let (writer, reader) = (place.open().await, place.open().await);
    writer.create(&header("a"), notes(0..2)).await.unwrap();
    let mut events = follow(reader, "a".into(), Seq::ZERO);
    for next in 2..300 {
        let batch = notes(next..next + 1);
        writer
            .append(&"a".into(), seq(next), batch, None)
            .await
            .unwrap();
        if next % 50 == 0 {
            // Everything so far, and then the wait for what is to come.
            while events.next().await.unwrap().unwrap().seq() < seq(next) {}
        }
    }
    let rest: Vec<_> = events.take(49).map(Result::unwrap).collect().await;
    assert_eq!(rest, notes(251..300));
}

#[tokio::test]
async fn a_writer_that_never_gets_its_turn_says_so_once_for_all_who_wait() {
    let place = Place::new();
    place.open().await.close().await;
    let options = OpenOptions {
        busy_timeout: Duration::from_millis(200),
        ..OpenOptions::default()
    };
    let store = Arc::new(options.open(place.file()).await.unwrap());
    store.create(&header("a"), notes(0..1)).await.unwrap();
    let mut raw = place.raw().await;
    sqlx::query("begin immediate")
        .execute(&mut raw)
        .await
        .unwrap();

    let waiting: Vec<_> = (0..100)
        .map(|nth| {
            let store = Arc::clone(&store);
            tokio::spawn(async move { store.create(&header(&format!("{nth}")), vec![]).await })
        })
        .collect();
    // 100 waits of 200 ms one after another would be 20 s.
    let answers = async {
        for waiting in waiting {
            let error = waiting.await.unwrap().unwrap_err();
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(source.contains("locked"), "{source}");
        }
    };
    tokio::time::timeout(Duration::from_secs(10), answers)
        .await
        .unwrap();
    // Readers never wait.
    assert_eq!(log(&*store, "a").await, notes(0..1));

    sqlx::query("rollback").execute(&mut raw).await.unwrap();
    store
        .append(&"a".into(), seq(1), notes(1..2), None)
        .await
        .unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..2));
}

#[tokio::test]
async fn an_open_that_never_gets_its_turn_says_so() {
    let place = Place::new();
    let mut raw = place.raw().await;
    sqlx::raw_sql("pragma journal_mode = wal; begin immediate")
        .execute(&mut raw)
        .await
        .unwrap();
    let options = OpenOptions {
        busy_timeout: Duration::from_millis(50),
        ..OpenOptions::default()
    };
    let refused = options.open(place.file()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Sqlite { .. }), "{refused:?}");
}

#[tokio::test]
async fn a_current_database_is_opened_while_another_process_writes() {
    let place = Place::new();
    place.open().await.close().await;
    let mut raw = place.raw().await;
    sqlx::query("begin immediate")
        .execute(&mut raw)
        .await
        .unwrap();
    let options = OpenOptions {
        busy_timeout: Duration::from_millis(50),
        ..OpenOptions::default()
    };
    options.open(place.file()).await.unwrap();
}

#[tokio::test]
async fn a_session_that_is_open_elsewhere_is_refused_with_the_process_and_since_when() {
    let place = Place::new();
    let (one, two) = (place.open().await, place.open().await);
    let first = Sessions::builder(one.clone()).leases(one).build();
    let second = Sessions::builder(two.clone()).leases(two).build();
    let session = first.create(NewSession::default()).await.unwrap();
    let refused = second.open(session.id()).await.unwrap_err();
    let text = refused.to_string();
    match refused {
        OpenFailure::Lease(LeaseError::Held { owner, since, .. }) => {
            assert_eq!(owner.process, std::process::id());
            let process = format!("is open in process {} on", std::process::id());
            assert!(text.contains(&process), "{text}");
            assert!(text.contains(&format!("since {since}")), "{text}");
        }
        other => panic!("{other:?}"),
    }
    first.close(session.id()).await;
    let again = second.open(session.id()).await.unwrap();
    again
        .append(vec![NewEvent::new(&TurnStart { turn: 1 })])
        .await
        .unwrap();
}

#[tokio::test]
async fn a_store_that_lost_its_place_reports_a_conflict_and_not_a_constraint() {
    let place = Place::new();
    let (one, two) = (place.open().await, place.open().await);
    one.create(&header("a"), notes(0..1)).await.unwrap();
    two.append(&"a".into(), seq(1), notes(1..3), None)
        .await
        .unwrap();
    let stale = one.append(&"a".into(), seq(1), notes(1..2), None).await;
    assert!(matches!(
        stale.unwrap_err(),
        AppendError::Conflict { actual, .. } if actual == seq(3)
    ));
}
