//! Databases that are open for reading only, newer ones among them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use futures::StreamExt as _;
use session_core::store::{
    AppendError, Checkpoint, CheckpointError, CheckpointStore as _, CreateError, LeaseError,
    LeaseStore as _, Owner, Scope,
};
use session_core::{
    Access, EventStore as _, ListFilter, ListQuery, OpenError, OpenFailure, OpenOptions, Payload,
    RandomIds, Sessions, SqliteStore, follow,
};
use sqlx::Connection as _;

use crate::support::{Place, TIME, header, log, notes, seq, within};

async fn reading(place: &Place) -> Result<Arc<SqliteStore>, OpenError> {
    let options = OpenOptions {
        access: Access::ReadOnly,
        ..OpenOptions::default()
    };
    options.open(place.file()).await.map(Arc::new)
}

fn checkpoint() -> Checkpoint {
    Checkpoint {
        key: "unit".into(),
        state_version: 1,
        seq: seq(1),
        state: Payload::from_text("2").unwrap(),
    }
}

/// A database with one session, closed.
async fn filled() -> Place {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..600)).await.unwrap();
    store.save(&"a".into(), vec![checkpoint()]).await.unwrap();
    store.close().await;
    place
}

async fn change(place: &Place, sql: &'static str) {
    let mut raw = place.raw().await;
    sqlx::raw_sql(sql).execute(&mut raw).await.unwrap();
    raw.close().await.unwrap();
}

/// As a later build would leave it: one more migration, which older readers need not know.
async fn newer() -> Place {
    let place = filled().await;
    change(
        &place,
        "alter table record add column mood text; \
         alter table session add column colour text default 'red'; \
         create table label (session integer, label text) strict; \
         insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
         values (9007, 'from the future', true, x'00', 0)",
    )
    .await;
    place
}

fn files(place: &Place) -> Vec<String> {
    let names = fs::read_dir(place.folder.path()).unwrap();
    let mut names: Vec<String> = names
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_database_that_is_only_read_shows_everything_and_is_left_as_it_was() {
    let place = filled().await;
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o640)).unwrap();
    let before = fs::read(place.file()).unwrap();
    let store = reading(&place).await.unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..600));
    let query = ListQuery {
        filter: ListFilter {
            include_blank: true,
            ..ListFilter::default()
        },
        ..ListQuery::default()
    };
    assert_eq!(store.list(&query).await.unwrap().entries.len(), 1);
    assert_eq!(store.entry(&"a".into()).await.unwrap().next_seq, seq(600));
    assert_eq!(store.load(&"a".into()).await.unwrap(), [checkpoint()]);
    assert_eq!(store.integrity().await.unwrap(), Vec::<String>::new());
    store.close().await;
    assert_eq!(fs::read(place.file()).unwrap(), before);
    let mode = fs::metadata(place.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
}

#[tokio::test]
async fn a_database_that_is_only_read_refuses_every_write_and_says_why() {
    let place = filled().await;
    let store = reading(&place).await.unwrap();
    let id = "a".into();
    let owner = Owner::this_process(&RandomIds);
    let created = store.create(&header("b"), notes(0..1)).await.unwrap_err();
    assert!(matches!(created, CreateError::ReadOnly { .. }), "{created}");
    let appended = store.append(&id, seq(600), notes(600..601), None).await;
    let appended = appended.unwrap_err();
    assert!(
        matches!(appended, AppendError::ReadOnly { .. }),
        "{appended}"
    );
    let leased = store.acquire(&id, &owner, TIME).await.unwrap_err();
    assert!(matches!(leased, LeaseError::ReadOnly { .. }), "{leased}");
    let saved = store.save(&id, vec![checkpoint()]).await.unwrap_err();
    assert!(matches!(saved, CheckpointError::ReadOnly { .. }), "{saved}");
    for text in [
        created.to_string(),
        appended.to_string(),
        leased.to_string(),
        saved.to_string(),
    ] {
        assert!(text.contains("open for reading only"), "{text}");
    }
    assert_eq!(log(&*store, "a").await, notes(0..600));

    let sessions = Sessions::builder(store.clone()).leases(store).build();
    let refused = sessions.open(&id).await.err().unwrap();
    assert!(
        matches!(refused, OpenFailure::Lease(LeaseError::ReadOnly { .. })),
        "{refused}"
    );
}

#[tokio::test]
async fn a_reader_follows_what_a_writer_appends_until_it_is_closed() {
    let place = filled().await;
    let writer = place.open().await;
    let store = reading(&place).await.unwrap();
    let mut followed = follow(store.clone(), "a".into(), seq(599));
    let first = within(followed.next()).await.unwrap().unwrap();
    assert_eq!(first.seq(), seq(599));
    let id = "a".into();
    writer
        .append(&id, seq(600), notes(600..601), None)
        .await
        .unwrap();
    let next = within(followed.next()).await.unwrap().unwrap();
    assert_eq!(next.seq(), seq(600));
    let mut wakeups = store.watch(Scope::All);
    store.close().await;
    within(async { while wakeups.next().await.is_some() {} }).await;
    assert!(within(store.watch(Scope::All).next()).await.is_none());
}

#[tokio::test]
async fn a_reader_finds_what_a_dead_writer_left_in_the_write_ahead_log() {
    let place = Place::new();
    let writer = place.open().await;
    writer.create(&header("a"), notes(0..3)).await.unwrap();
    // As the death of the process would leave it: both files, and nobody who has them open.
    let dead = Place::new();
    let wal = |place: &Place| place.folder.path().join("sessions.db-wal");
    fs::copy(place.file(), dead.file()).unwrap();
    fs::copy(wal(&place), wal(&dead)).unwrap();
    let before = fs::read(dead.file()).unwrap();
    let store = reading(&dead).await.unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..3));
    store.close().await;
    assert_eq!(fs::read(dead.file()).unwrap(), before);
    assert_eq!(log(&*dead.open().await, "a").await, notes(0..3));
}

#[tokio::test]
async fn nothing_is_made_for_a_reader() {
    let place = Place::new();
    let refused = reading(&place).await.unwrap_err();
    assert!(matches!(refused, OpenError::Missing { .. }), "{refused}");
    assert_eq!(files(&place), Vec::<String>::new());

    fs::write(place.file(), "").unwrap();
    let refused = reading(&place).await.unwrap_err();
    assert!(
        matches!(refused, OpenError::OlderSchema { found: 0, .. }),
        "{refused}"
    );
    assert!(
        refused.to_string().contains("for writing once"),
        "{refused}"
    );
    assert_eq!(fs::read(place.file()).unwrap(), b"");
}

#[tokio::test]
async fn a_newer_database_is_not_written_to_but_can_be_read() {
    let place = newer().await;
    let before = fs::read(place.file()).unwrap();
    let refused = SqliteStore::open(place.file()).await.unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::NewerSchema {
                found: 9007,
                is_readable: true,
                ..
            }
        ),
        "{refused:?}"
    );
    let text = refused.to_string();
    assert!(text.contains("open it for reading only"), "{text}");

    let store = reading(&place).await.unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..600));
    assert_eq!(store.entry(&"a".into()).await.unwrap().header, header("a"));
    let id = "a".into();
    let appended = store.append(&id, seq(600), notes(600..601), None).await;
    let appended = appended.unwrap_err();
    assert!(
        matches!(appended, AppendError::ReadOnly { .. }),
        "{appended}"
    );
    store.close().await;
    assert_eq!(fs::read(place.file()).unwrap(), before);
}

#[tokio::test]
async fn a_newer_database_that_this_build_would_misread_is_refused_for_reading_too() {
    // The second says nothing, as no build of Minutebook leaves it.
    for says in ["pragma user_version = 9007", "pragma user_version = 0"] {
        let place = newer().await;
        change(&place, says).await;
        let writing = SqliteStore::open(place.file()).await.unwrap_err();
        for refused in [writing, reading(&place).await.unwrap_err()] {
            assert!(
                matches!(
                    refused,
                    OpenError::NewerSchema {
                        is_readable: false,
                        ..
                    }
                ),
                "{says}: {refused:?}"
            );
            let text = refused.to_string();
            assert!(text.ends_with("upgrade minutebook to open it"), "{text}");
        }
    }
}

#[tokio::test]
async fn a_schema_of_another_build_is_refused_for_reading_too() {
    let place = newer().await;
    change(
        &place,
        "update _sqlx_migrations set checksum = x'00' where version = 1",
    )
    .await;
    let refused = reading(&place).await.unwrap_err();
    assert!(
        matches!(refused, OpenError::OtherSchema { version: 1, .. }),
        "{refused:?}"
    );
    let refused = SqliteStore::open(place.file()).await.unwrap_err();
    assert!(
        matches!(
            refused,
            OpenError::NewerSchema {
                is_readable: false,
                ..
            }
        ),
        "{refused:?}"
    );
}

#[tokio::test]
async fn a_database_of_this_build_says_who_can_read_it() {
    let place = filled().await;
    let mut raw = place.raw().await;
    let says: i64 = sqlx::query_scalar("pragma user_version")
        .fetch_one(&mut raw)
        .await
        .unwrap();
    let newest: i64 = sqlx::query_scalar("select max(version) from _sqlx_migrations")
        .fetch_one(&mut raw)
        .await
        .unwrap();
    assert!((1..=newest).contains(&says), "{says} of {newest}");
}
