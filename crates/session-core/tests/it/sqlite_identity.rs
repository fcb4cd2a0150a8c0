//! Which files are taken for a database of Minutebook.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use futures::TryStreamExt as _;
use session_core::store::ReadRange;
use session_core::{EventStore as _, OpenError, SqliteStore};
use sqlx::{Connection as _, Row as _};

use crate::support::{Place, header, log, notes, raw};

/// Opens what must be refused, and makes sure that it is left as it was.
async fn refused(place: &Place) -> OpenError {
    fs::set_permissions(place.file(), fs::Permissions::from_mode(0o644)).unwrap();
    let before = fs::read(place.file()).unwrap();
    let refused = SqliteStore::open(place.file()).await.unwrap_err();
    assert_eq!(fs::read(place.file()).unwrap(), before);
    let mode = fs::metadata(place.file()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644, "a refused file keeps its mode");
    let text = refused.to_string();
    assert!(text.contains("sessions.db"), "names the file: {text}");
    refused
}

#[tokio::test]
async fn a_text_is_not_a_database() {
    for text in ["x", "dear diary\n", &"long ".repeat(10_000)] {
        let place = Place::new();
        fs::write(place.file(), text).unwrap();
        let error = refused(&place).await;
        assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
    }
}

#[tokio::test]
async fn random_bytes_are_not_a_database() {
    let mut state = 1_u32;
    let mut byte = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    let place = Place::new();
    let bytes: Vec<u8> = (0..20_000).map(|_| byte()).collect();
    fs::write(place.file(), bytes).unwrap();
    let error = refused(&place).await;
    assert!(matches!(error, OpenError::NotADatabase { .. }), "{error:?}");
}

#[tokio::test]
async fn a_database_that_was_cut_short_is_refused_or_reads_as_damaged() {
    let whole = Place::new();
    let store = whole.open().await;
    store.create(&header("a"), notes(0..2000)).await.unwrap();
    store.close().await;
    let bytes = fs::read(whole.file()).unwrap();
    for length in [
        16,
        99,
        100,
        500,
        8191,
        8192,
        8193,
        bytes.len() / 2,
        bytes.len() - 1,
    ] {
        let place = Place::new();
        fs::write(place.file(), &bytes[..length]).unwrap();
        match SqliteStore::open(place.file()).await {
            Err(OpenError::NotADatabase { .. } | OpenError::Sqlite { .. }) => {}
            Err(other) => panic!("{length}: {other}"),
            Ok(store) => {
                // What is left is never passed off as all there is.
                let read = store
                    .read(&"a".into(), ReadRange::ALL)
                    .try_collect::<Vec<_>>()
                    .await;
                if let Ok(events) = read {
                    assert_eq!(events, notes(0..2000), "{length}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_database_of_another_program_is_refused() {
    let place = Place::new();
    let mut other = place.raw().await;
    sqlx::raw_sql("pragma application_id = 0x44534850; create table t (x)")
        .execute(&mut other)
        .await
        .unwrap();
    other.close().await.unwrap();
    match refused(&place).await {
        OpenError::OtherProgram { application_id, .. } => assert_eq!(application_id, 0x4453_4850),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_database_that_does_not_say_whose_it_is_is_refused() {
    for schema in [
        "create table session (id text)",
        "create view v as select 1",
        "create table _sqlx_migrations (version bigint primary key, success boolean); \
         create table t (x)",
        "create table _sqlx_migrations (version bigint primary key, success boolean); \
         insert into _sqlx_migrations values (1, true)",
    ] {
        let place = Place::new();
        let mut other = place.raw().await;
        sqlx::raw_sql(schema).execute(&mut other).await.unwrap();
        other.close().await.unwrap();
        let error = refused(&place).await;
        assert!(
            matches!(
                error,
                OpenError::OtherProgram {
                    application_id: 0,
                    ..
                }
            ),
            "{schema}: {error:?}"
        );
    }
}

#[tokio::test]
async fn a_database_of_another_program_that_died_is_not_recovered_for_it() {
    let place = Place::new();
    let mut other = place.raw().await;
    sqlx::raw_sql("pragma journal_mode = wal; create table t (x); insert into t values (1)")
        .execute(&mut other)
        .await
        .unwrap();
    let wal = place.folder.path().join("sessions.db-wal");
    let (file_before, wal_before) = (fs::read(place.file()).unwrap(), fs::read(&wal).unwrap());
    assert!(!wal_before.is_empty());
    // As the death of the process would leave it: both files, and nobody who has them open.
    let dead = Place::new();
    fs::write(dead.file(), &file_before).unwrap();
    let dead_wal = dead.folder.path().join("sessions.db-wal");
    fs::write(&dead_wal, &wal_before).unwrap();
    let error = refused(&dead).await;
    assert!(matches!(error, OpenError::OtherProgram { .. }), "{error:?}");
    assert_eq!(fs::read(&dead_wal).unwrap(), wal_before);
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let place = Place::new();
    place.open().await.close().await;
    let mut raw = place.raw().await;
    sqlx::query(
        "insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
         values (9007, 'from the future', true, x'00', 0)",
    )
    .execute(&mut raw)
    .await
    .unwrap();
    let known: i64 = sqlx::query("select max(version) from _sqlx_migrations where version < 9007")
        .fetch_one(&mut raw)
        .await
        .unwrap()
        .get(0);
    raw.close().await.unwrap();
    let error = refused(&place).await;
    assert!(
        matches!(error, OpenError::NewerSchema { found: 9007, supported, .. } if supported == known)
    );
    let text = error.to_string();
    let (found, supported) = ("version 9007", format!("up to version {known}"));
    assert!(text.contains(found) && text.contains(&supported), "{text}");
}

#[tokio::test]
async fn a_schema_of_another_build_is_refused_with_what_to_do() {
    let place = Place::new();
    place.open().await.close().await;
    let mut raw = place.raw().await;
    sqlx::query("update _sqlx_migrations set checksum = x'00'")
        .execute(&mut raw)
        .await
        .unwrap();
    raw.close().await.unwrap();
    let error = SqliteStore::open(place.file()).await.unwrap_err();
    assert!(
        matches!(error, OpenError::OtherSchema { version: 1, .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("export its sessions"), "{error}");
}

#[tokio::test]
async fn an_empty_file_becomes_a_database() {
    let place = Place::new();
    fs::write(place.file(), "").unwrap();
    let store = place.open().await;
    store.create(&header("a"), notes(0..1)).await.unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..1));
}

#[tokio::test]
async fn what_sqlx_prepares_becomes_a_database() {
    // `sqlx database create` leaves a database without tables, a migration that was cut short one
    // with nothing but the table of migrations.
    for schema in [
        "pragma journal_mode = wal",
        "create table t (x); drop table t",
        "create table _sqlx_migrations (version bigint primary key, description text not null, \
         installed_on timestamp not null default current_timestamp, success boolean not null, \
         checksum blob not null, execution_time bigint not null)",
    ] {
        let place = Place::new();
        let mut sqlx = raw(&place.file()).await;
        sqlx::raw_sql(schema).execute(&mut sqlx).await.unwrap();
        sqlx.close().await.unwrap();
        let store = place.open().await;
        store.create(&header("a"), notes(0..1)).await.unwrap();
        assert_eq!(log(&*store, "a").await, notes(0..1));
    }
}

#[tokio::test]
async fn a_database_is_opened_again_with_all_that_is_in_it() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..700)).await.unwrap();
    store.close().await;
    let again = place.open().await;
    assert_eq!(log(&*again, "a").await, notes(0..700));
    assert_eq!(again.integrity().await.unwrap(), Vec::<String>::new());
}
