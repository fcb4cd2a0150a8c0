//! Heads of logs: printed, noted, and checked later.

use std::fs;

use minutebook_tests::{Place, Ran, root};
use serde_json::Value;
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Connection as _};

const ID: &str = "0d5f2c6a-5a55-4b0e-9f3b-2f6a7c1d9e10";

/// A log of the project's own, in which the prompt says `prompt`.
fn imported(prompt: &str) -> Place {
    let log = fs::read_to_string(root().join("tests/fixtures/valve-gear.jsonl")).unwrap();
    let said = "then tell me what was wrong";
    assert!(log.contains(said));
    let place = Place::new();
    let _ = place.pipe(&["import", "-"], log.replace(said, prompt)).ok();
    place
}

/// The head that is printed of a session, as it is given back.
fn head(place: &Place, id: &str) -> String {
    let found = place.run(&["verify", id, "--json"]).ok().json();
    let head = &found[0]["head"];
    let text = format!("{}:{}", head["events"], head["hash"].as_str().unwrap());
    let told = place.run(&["verify", id]).ok().out;
    assert!(told.contains(&format!("\n  head: {text}\n")), "{told}");
    text
}

fn verify_head(place: &Place, id: &str, head: &str) -> Ran {
    place.run(&["verify", id, "--head", head, "--json"])
}

/// The checks that found a fault.
fn found(ran: &Ran) -> Vec<String> {
    let finding = ran.json().remove(0);
    let faults = finding["faults"].as_array().unwrap().iter();
    let checks: Vec<String> = faults
        .map(|fault: &Value| fault["check"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(
        ran.code,
        Some(if checks.is_empty() { 0 } else { 7 }),
        "{ran:?}"
    );
    assert_eq!(finding["ok"], checks.is_empty());
    checks
}

/// Puts these columns of another database into the rows of this one.
async fn rewrite(place: &Place, other: &Place, columns: &str) {
    let mut raw = SqliteConnectOptions::new()
        .filename(place.db())
        .connect()
        .await
        .unwrap();
    let sql = format!(
        "drop trigger record_is_never_changed; attach database '{}' as other; \
         update main.record set ({columns}) = (select {columns} from other.record \
         where session = main.record.session and seq = main.record.seq)",
        other.db().display()
    );
    let done = sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut raw).await;
    assert!(done.unwrap().rows_affected() > 0);
    raw.close().await.unwrap();
}

#[test]
fn the_head_of_a_session_is_printed_where_one_was_asked_for() {
    let place = imported("then rest");
    insta::assert_snapshot!(place.run(&["verify", ID]).ok().out);
    assert!(!place.run(&["verify"]).ok().out.contains("head:"));
}

#[tokio::test]
async fn an_event_that_was_rewritten_with_its_checksum_is_found_by_the_chain() {
    let (place, other) = (imported("then rest"), imported("then quit"));
    let noted = head(&place, ID);
    rewrite(&place, &other, "data, checksum").await;
    assert!(place.run(&["export", ID]).ok().out.contains("then quit"));
    assert_eq!(found(&place.run(&["verify", ID, "--json"])), ["chain"]);
    assert_eq!(found(&verify_head(&place, ID, &noted)), ["head", "chain"]);
    let told = place.run(&["verify"]).out;
    assert!(told.contains("  chain: its events add up to"), "{told}");
}

#[tokio::test]
async fn a_log_that_was_rewritten_with_its_chain_is_found_by_a_noted_head() {
    let (place, other) = (imported("then rest"), imported("then quit"));
    let noted = head(&place, ID);
    rewrite(&place, &other, "data, checksum, chain").await;
    let now = head(&place, ID);
    assert_eq!(now, head(&other, ID));
    assert_ne!(now, noted);
    assert_eq!(found(&verify_head(&place, ID, &noted)), ["head"]);
    assert_eq!(found(&verify_head(&place, ID, &now)), [""; 0]);
}

#[test]
fn an_exported_and_imported_session_has_the_head_that_it_had() {
    let (place, other) = (imported("then rest"), Place::new());
    let log = place.run(&["export", ID]).ok().out;
    let printed = other.pipe(&["import", "-", "--new-id", "--json"], log);
    let id = printed.ok().json()[0]["id"].as_str().unwrap().to_owned();
    assert_ne!(id, ID);
    assert_eq!(head(&other, &id), head(&place, ID));
    assert_ne!(head(&other, &id), head(&imported("then quit"), ID));
}

#[test]
fn a_noted_head_holds_however_much_is_appended() {
    let place = imported("then rest");
    let noted = head(&place, ID);
    let none = format!("0:{}", "0".repeat(64));
    for prompt in ["1. a\n2. b", "3. c"] {
        let _ = place.run(&["chat", prompt, "--session", ID]).ok();
        assert_ne!(head(&place, ID), noted);
        assert_eq!(found(&verify_head(&place, ID, &noted)), [""; 0]);
        assert_eq!(found(&verify_head(&place, ID, &none)), [""; 0]);
    }
}

#[test]
fn a_head_of_more_events_than_there_are_is_a_fault() {
    let place = imported("then rest");
    let noted = head(&place, ID);
    let _ = place.run(&["chat", "1. a", "--session", ID]).ok();
    let later = head(&place, ID);
    let ran = verify_head(&imported("then rest"), ID, &later);
    assert_eq!(found(&ran), ["head"]);
    assert!(ran.out.contains("were noted"), "{ran:?}");
    assert_eq!(found(&verify_head(&place, ID, &noted)), [""; 0]);
}

#[test]
fn what_is_no_head_is_a_wrong_command_line() {
    let place = imported("then rest");
    let noted = head(&place, ID);
    for args in [
        &["verify", ID, "--head", "7"][..],
        &["verify", ID, "--head", "7:beef"],
        &["verify", "--head", &noted],
    ] {
        assert_eq!(place.run(args).code, Some(2), "{args:?}");
    }
}
