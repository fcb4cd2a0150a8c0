//! A damaged session goes on once somebody gives the damage up.

use minutebook_tests::{Place, root};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

/// Changes what no program may change.
async fn damage(place: &Place, sql: &'static str) {
    let mut database = SqliteConnectOptions::new()
        .filename(place.db())
        .connect()
        .await
        .unwrap();
    let guard = "drop trigger if exists record_is_never_changed";
    sqlx::query(guard).execute(&mut database).await.unwrap();
    let done = sqlx::query(sql).execute(&mut database).await.unwrap();
    assert!(done.rows_affected() > 0);
    database.close().await.unwrap();
}

/// A place with a session that was imported, and the id of that.
fn imported() -> (Place, &'static str) {
    let place = Place::new();
    let fixture = root().join("tests/fixtures/valve-gear.jsonl");
    let _ = place.run(&["import", fixture.to_str().unwrap()]).ok();
    (place, "0d5f2c6a")
}

#[tokio::test]
async fn a_damaged_session_goes_on_once_its_damage_is_given_up() {
    for sql in [
        "update record set data = zeroblob(9) where seq = 0",
        "update record set data = zeroblob(9) where seq = 64",
        "update record set checksum = checksum + 1",
    ] {
        let (place, id) = imported();
        damage(&place, sql).await;
        let refused = place.run(&["chat", "go on", "--session", id]);
        assert_eq!(refused.code, Some(4), "{refused:?}");
        assert!(
            refused.err.contains("`minutebook quarantine 0d5f2c6a"),
            "{refused:?}"
        );

        let given_up = place.run(&["quarantine", id, "--json"]).ok().json();
        let given_up = given_up[0]["quarantined"].as_array().unwrap().clone();
        assert!(given_up.len() >= 26, "{given_up:?}");
        let _ = place.run(&["chat", "go on", "--session", id]).ok();
        let shown = place.run(&["show", id]).ok();
        assert!(
            shown.out.contains("a damaged event was given up here"),
            "{shown:?}"
        );
        assert!(shown.out.contains("go on"), "{shown:?}");
        let _ = place.run(&["todos", id]).ok();

        let verified = place.run(&["verify", id]).ok();
        assert!(verified.out.contains(": ok,"), "{verified:?}");
        assert!(
            verified.out.contains("was given up as damaged"),
            "{verified:?}"
        );
        let verified = place.run(&["verify", id, "--json"]).ok().json();
        assert_eq!(verified[0]["quarantined"].as_array(), Some(&given_up));
        assert_eq!(verified[0]["faults"], serde_json::json!([]));

        let again = place.run(&["quarantine", id]).ok();
        assert!(again.out.contains("nothing is damaged"), "{again:?}");

        let log = place.run(&["export", id]).ok().out;
        let gaps = log
            .lines()
            .filter(|line| line.contains("session/gap"))
            .count();
        assert_eq!(gaps, given_up.len());
        let elsewhere = Place::new();
        let _ = elsewhere.pipe(&["import", "-"], &log).ok();
        assert_eq!(elsewhere.run(&["export", id]).ok().out, log);
        let _ = elsewhere.run(&["chat", "and on", "--session", id]).ok();
        let _ = elsewhere.run(&["verify"]).ok();
    }
}

#[tokio::test]
async fn giving_up_names_each_event_and_leaves_other_sessions_alone() {
    let (place, id) = imported();
    let other = place.run(&["chat", "one thing", "--json"]).ok().json();
    let other = other[0]["id"].as_str().unwrap();
    let before = place.run(&["export", other]).ok().out;
    damage(
        &place,
        "update record set data = zeroblob(9) where session = 1 and seq = 64",
    )
    .await;
    let told = place.run(&["quarantine", id]).ok();
    assert!(told.out.contains("event 64: "), "{told:?}");
    assert!(told.out.contains("gave up 26 damaged events"), "{told:?}");
    assert_eq!(place.run(&["export", other]).ok().out, before);
    let sound = place.run(&["quarantine", other]).ok();
    assert!(sound.out.contains("nothing is damaged"), "{sound:?}");
    assert_eq!(place.run(&["quarantine", "ffff"]).code, Some(3));
    assert_eq!(Place::new().run(&["quarantine", id]).code, Some(4));
}
