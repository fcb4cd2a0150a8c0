//! A database of a later build can be read as long as it says so, and is never written to.

use std::fs;

use minutebook_tests::{Place, Ran};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

const NEWER: &str = "\
    alter table record add column mood text; \
    alter table session add column colour text default 'red'; \
    create table label (session integer, label text) strict; \
    insert into _sqlx_migrations (version, description, success, checksum, execution_time) \
    values (9007, 'from the future', true, x'00', 0)";

const READERS: [&[&str]; 6] = [
    &["sessions"],
    &["show"],
    &["events", "--json"],
    &["todos"],
    &["verify"],
    &["export"],
];

fn change(place: &Place, sql: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = SqliteConnectOptions::new().filename(place.db());
        let mut raw = options.connect().await.unwrap();
        sqlx::raw_sql(sql).execute(&mut raw).await.unwrap();
        raw.close().await.unwrap();
    });
}

/// What every command that reads prints of the session.
fn read(place: &Place, id: &str) -> Vec<Ran> {
    let run = |args: &&[&str]| {
        let mut args = args.to_vec();
        if args[0] != "sessions" {
            args.insert(1, id);
        }
        place.run(&args)
    };
    READERS.iter().map(run).collect()
}

/// A database with a session in which one list was written, and its id.
fn chatted() -> (Place, String) {
    let place = Place::new();
    let printed = place.run(&["chat", "1. a\n2. b", "--json"]).ok().json();
    let id = printed[0]["id"].as_str().unwrap().to_owned();
    (place, id)
}

#[test]
fn everything_that_reads_shows_a_newer_database_as_before_and_leaves_it_alone() {
    let (place, id) = chatted();
    // Without checkpoints the plan has to be folded anew, and would be saved.
    change(&place, "delete from checkpoint");
    let before = read(&place, &id);
    change(&place, "delete from checkpoint");
    change(&place, NEWER);
    let file = fs::read(place.db()).unwrap();
    for (after, before) in read(&place, &id).into_iter().zip(before) {
        let (after, before) = (after.ok(), before.ok());
        assert!(!before.out.is_empty());
        assert_eq!(after.out, before.out);
        assert_eq!(after.err, "", "nothing is said of checkpoints");
    }
    assert_eq!(fs::read(place.db()).unwrap(), file);
}

#[test]
fn everything_that_writes_refuses_a_newer_database_and_names_what_can_be_done() {
    let (place, id) = chatted();
    change(&place, NEWER);
    let file = fs::read(place.db()).unwrap();
    for args in [
        &["chat", "hi"][..],
        &["chat", "hi", "--session", &id],
        &["acp"],
        &["import", "-"],
    ] {
        let ran = place.run(args);
        assert_eq!(ran.code, Some(4), "{ran:?}");
        for word in [
            "only the commands that read",
            "show",
            "version 9007",
            "open it for reading only",
        ] {
            assert!(ran.err.contains(word), "{word:?} is not in {}", ran.err);
        }
    }
    assert_eq!(fs::read(place.db()).unwrap(), file);
}

#[test]
fn a_newer_database_that_this_build_would_misread_is_refused_by_every_command() {
    let (place, id) = chatted();
    change(&place, NEWER);
    change(&place, "pragma user_version = 9007");
    let mut all = read(&place, &id);
    all.push(place.run(&["chat", "hi"]));
    for ran in all {
        assert_eq!(ran.code, Some(4), "{ran:?}");
        let is_told = ran.err.contains("upgrade minutebook to open it");
        assert!(is_told && ran.err.contains("version 9007"), "{}", ran.err);
        assert!(!ran.err.contains("reading only") && ran.out.is_empty());
    }
}
