//! The database itself refuses to rewrite a log.

use session_core::event::TurnStart;
use session_core::{EventStore as _, NewEvent, SqliteStore};
use sqlx::{Row as _, SqliteConnection};

use crate::support::{Place, header, log, notes};

const INSERT: &str = "into record (session, seq, events, recorded_at_ms, data, checksum, chain) \
                      values (1, ?, 1, 0, '\"new\"', 0, zeroblob(32))";

async fn place() -> (Place, SqliteConnection) {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..3)).await.unwrap();
    store.create(&header("b"), notes(0..2)).await.unwrap();
    store.close().await;
    let raw = place.raw().await;
    (place, raw)
}

async fn refused(raw: &mut SqliteConnection, sql: &'static str, why: &str) {
    let error = sqlx::query(sql).execute(raw).await.unwrap_err().to_string();
    assert!(error.contains(why), "{sql}: {error}");
}

async fn intact(place: &Place) {
    let store = place.open().await;
    assert_eq!(log(&*store, "a").await, notes(0..3));
    assert_eq!(log(&*store, "b").await, notes(0..2));
    store.close().await;
}

#[tokio::test]
async fn an_event_cannot_be_changed() {
    let (place, mut raw) = place().await;
    for sql in [
        "update record set data = '1'",
        "update record set seq = seq + 10",
        "update record set session = 2 where session = 1",
        "update or replace record set recorded_at_ms = 5 where seq = 0",
        "update record set data = data",
        "insert into record (session, seq, events, recorded_at_ms, data, checksum, chain) \
         values (1, 0, 1, 0, '1', 0, zeroblob(32)) on conflict do update set data = '1'",
    ] {
        let error = sqlx::query(sql).execute(&mut raw).await.unwrap_err();
        let error = error.to_string();
        assert!(
            error.contains("never changed") || error.contains("takes the next position"),
            "{sql}: {error}"
        );
    }
    intact(&place).await;
}

#[tokio::test]
async fn an_event_cannot_be_deleted_by_itself() {
    let (place, mut raw) = place().await;
    for sql in ["delete from record", "delete from record where seq = 0"] {
        refused(&mut raw, sql, "only with their session").await;
    }
    intact(&place).await;
}

#[tokio::test]
async fn an_event_cannot_be_put_anywhere_but_at_the_end() {
    let (place, mut raw) = place().await;
    for verb in ["insert", "insert or replace", "insert or ignore", "replace"] {
        let sql = format!("{verb} {INSERT}");
        for seq in [0, 1, 2, 4, 100] {
            let statement = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).bind(seq);
            let error = statement.execute(&mut raw).await.unwrap_err().to_string();
            assert!(
                error.contains("takes the next position"),
                "{sql} {seq}: {error}"
            );
        }
        let negative = sqlx::query(sqlx::AssertSqlSafe(sql.clone())).bind(-1);
        assert!(negative.execute(&mut raw).await.is_err());
    }
    intact(&place).await;
}

fn row(values: &str) -> String {
    format!(
        "insert into record (session, seq, events, type, recorded_at_ms, data, surface_op, sources, \
         ignorable, checksum, chain) values ({values})"
    )
}

#[tokio::test]
async fn the_shape_of_a_row_is_enforced() {
    let (_place, mut raw) = place().await;
    for sql in [
        &row("1, 3, 1, 99, 0, '1', null, null, null, 0, zeroblob(32)"),
        &row("99, 0, 1, null, 0, '1', null, null, null, 0, zeroblob(32)"),
        &row("1, 3, 0, null, 0, '1', null, null, null, 0, zeroblob(32)"),
        &row("1, 3, 2, 1, 0, '1', null, null, null, 0, zeroblob(32)"),
        &row("1, 3, 1, 1, 0, '1', null, '[]', null, 0, zeroblob(32)"),
        &row("1, 3, 1, null, 0, '1', '\"append\"', null, null, 0, zeroblob(32)"),
        &row("1, 3, 1, 1, 0, '1', null, null, 0, 0, zeroblob(32)"),
        &row("1, 3, 1, 1, 0, null, null, null, null, 0, zeroblob(32)"),
        &row("1, 3, 1, 1, 0, 1, null, null, null, 0, zeroblob(32)"),
        &row("1, 3, 1, 1, 'x', '1', null, null, null, 0, zeroblob(32)"),
        &row("1, 3, 1, 1, 0, '1', null, null, null, null, zeroblob(32)"),
        &row("1, 3, 1, 1, 0, '1', null, null, null, 0, zeroblob(31)"),
        "insert into session (id, header, created_at_ms, updated_at_ms) values ('', '{}', 0, 0)",
        "insert into session (id, header, created_at_ms, updated_at_ms) values ('a', '{}', 0, 0)",
    ] {
        let done = sqlx::query(sqlx::AssertSqlSafe(sql.to_owned()))
            .execute(&mut raw)
            .await;
        assert!(done.is_err(), "{sql}");
    }
    // A row that is right in all of it is taken.
    let sql = row("1, 3, 1, null, 0, '1', null, null, null, 0, zeroblob(32)");
    sqlx::query(sqlx::AssertSqlSafe(sql))
        .execute(&mut raw)
        .await
        .unwrap();
    let begin = "insert into session (id, header, created_at_ms, updated_at_ms, origin, inherited, \
                 inherited_chain) values ('c', '{}', 0, 0, ";
    for rest in [
        "1, 0, null)",
        "null, 1, zeroblob(32))",
        "1, 1, null)",
        "99, 1, zeroblob(32))",
    ] {
        let sql = format!("{begin}{rest}");
        let done = sqlx::query(sqlx::AssertSqlSafe(sql))
            .execute(&mut raw)
            .await;
        assert!(done.is_err(), "{rest}");
    }
}

#[tokio::test]
async fn deleting_a_session_takes_all_that_is_its_own_and_nothing_else() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..300)).await.unwrap();
    store.create(&header("b"), notes(0..2)).await.unwrap();
    let owner = session_core::store::Owner::this_process(&session_core::RandomIds);
    leased_and_checkpointed(&store, "a", &owner).await;
    leased_and_checkpointed(&store, "b", &owner).await;
    let mut raw = place.raw().await;
    sqlx::query("delete from session where id = 'a'")
        .execute(&mut raw)
        .await
        .unwrap();
    for table in ["record", "lease", "checkpoint"] {
        let sql = format!("select count(*), min(session), max(session) from {table}");
        let row = sqlx::query(sqlx::AssertSqlSafe(sql))
            .fetch_one(&mut raw)
            .await;
        let row = row.unwrap();
        let sessions: (i64, i64) = (row.get(1), row.get(2));
        assert_eq!(sessions, (2, 2), "{table}");
    }
    assert_eq!(log(&*store, "b").await, notes(0..2));
    // The id is free again, and its log begins at 0.
    store.create(&header("a"), notes(0..1)).await.unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..1));
}

#[tokio::test]
async fn a_session_that_others_were_forked_from_is_deleted_after_them() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..4)).await.unwrap();
    for (id, origin, until) in [("b", "a", 2), ("c", "b", 2), ("d", "b", 3)] {
        let origin = session_core::store::Prefix {
            session: origin.into(),
            until: session_core::Seq::from(until),
        };
        let inherited = session_core::CatalogueChange::of(&notes(0..until.into()));
        let seed = notes(until.into()..4);
        let forked = store.fork(&header(id), &origin, inherited, seed).await;
        forked.unwrap();
    }
    let mut raw = place.raw().await;
    for sql in [
        "delete from session where id = 'a'",
        "delete from session where id = 'b'",
        "delete from session where id in ('a', 'b', 'c')",
    ] {
        refused(&mut raw, sql, "were forked from this one").await;
    }
    let sql = "update session set origin = 99 where id = 'c'";
    refused(&mut raw, sql, "FOREIGN KEY").await;
    for id in ["a", "b", "c", "d"] {
        assert_eq!(log(&*store, id).await, notes(0..4), "{id}");
    }
    // One that nothing is read through any more can go, and takes nothing from the others.
    for (id, left) in [
        ("d", &["a", "b", "c"][..]),
        ("b", &["a", "c"]),
        ("c", &["a"]),
        ("a", &[]),
    ] {
        let done = sqlx::query("delete from session where id = ?").bind(id);
        assert_eq!(done.execute(&mut raw).await.unwrap().rows_affected(), 1);
        for id in left {
            assert_eq!(log(&*store, id).await, notes(0..4), "{id}");
        }
    }
    let rows: i64 = sqlx::query_scalar("select count(*) from record")
        .fetch_one(&mut raw)
        .await
        .unwrap();
    assert_eq!(rows, 0);
}

async fn leased_and_checkpointed(
    store: &SqliteStore,
    id: &str,
    owner: &session_core::store::Owner,
) {
    use session_core::store::{Checkpoint, CheckpointStore as _, LeaseStore as _};
    let row = Checkpoint {
        key: "x".into(),
        state_version: 1,
        seq: session_core::Seq::ZERO,
        state: session_core::Payload::of(&1).unwrap(),
    };
    store.save(&id.into(), vec![row]).await.unwrap();
    let now = session_core::UnixMillis::EPOCH;
    store.acquire(&id.into(), owner, now).await.unwrap();
}

#[tokio::test]
async fn writers_use_a_write_ahead_log() {
    let place = Place::new();
    let store = place.open().await;
    let turn = NewEvent::new(&TurnStart { turn: 1 });
    let event = turn.at(session_core::Seq::ZERO, session_core::UnixMillis::EPOCH);
    store.create(&header("a"), vec![event]).await.unwrap();
    let mut raw = place.raw().await;
    let mode: String = sqlx::query_scalar("pragma journal_mode")
        .fetch_one(&mut raw)
        .await
        .unwrap();
    assert_eq!(mode, "wal");
    let wal = place.folder.path().join("sessions.db-wal");
    assert!(std::fs::metadata(wal).unwrap().len() > 0);
}

#[tokio::test]
async fn the_write_ahead_log_is_empty_when_nothing_has_been_written_for_a_while() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..300)).await.unwrap();
    let wal = place.folder.path().join("sessions.db-wal");
    let length = || std::fs::metadata(&wal).unwrap().len();
    assert!(length() > 0);
    let bound = std::time::Duration::from_secs(60);
    let emptied = async {
        while length() > 0 {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(bound, emptied).await.unwrap();
    // It goes on as before.
    let next = notes(300..301);
    let id = "a".into();
    store
        .append(&id, session_core::Seq::from(300), next, None)
        .await
        .unwrap();
    assert_eq!(log(&*store, "a").await, notes(0..301));
}

#[tokio::test]
async fn closing_the_last_store_puts_the_write_ahead_log_away() {
    let place = Place::new();
    let store = place.open().await;
    store.create(&header("a"), notes(0..300)).await.unwrap();
    assert_eq!(log(&*store, "a").await.len(), 300);
    store.close().await;
    let names: Vec<_> = std::fs::read_dir(place.folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(names, ["sessions.db"]);
    // Closing twice is closing.
    store.close().await;
    let late = store.create(&header("b"), notes(0..1)).await.unwrap_err();
    assert!(matches!(
        late,
        session_core::store::CreateError::Backend { .. }
    ));
}

#[tokio::test]
async fn listeners_hear_of_the_end_of_the_store() {
    use session_core::store::Scope;
    let place = Place::new();
    let store = place.open().await;
    let mut wakeups = store.watch(Scope::All);
    store.close().await;
    let ended = async { while wakeups.next().await.is_some() {} };
    let bound = std::time::Duration::from_secs(60);
    tokio::time::timeout(bound, ended).await.unwrap();
    let mut late = store.watch(Scope::All);
    assert_eq!(late.next().await, None);
}
