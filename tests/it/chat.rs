//! `minutebook chat`, from a prompt to a list that is done.

use minutebook_tests::{Place, Ran};
use serde_json::Value;

const PROMPT: &str = "1. read the code\n2. write the fix\n3. run the tests\n";

fn id_of(ran: &Ran) -> String {
    ran.out
        .lines()
        .next()
        .and_then(|line| line.strip_prefix("session "))
        .unwrap()
        .to_owned()
}

#[test]
fn a_piped_prompt_ends_with_every_item_completed() {
    let place = Place::new();
    let chat = place.pipe(&["chat"], PROMPT).ok();
    let id = id_of(&chat);
    insta::with_settings!({filters => vec![(id.as_str(), "ID")]}, {
        insta::assert_snapshot!(chat.out);
    });

    let lists = place.run(&["todos", &id, "--json"]).ok().json();
    let completed: Vec<usize> = lists
        .iter()
        .map(|list| {
            let todos = list["todos"].as_array().unwrap();
            assert_eq!(todos.len(), 3);
            todos
                .iter()
                .filter(|todo| todo["status"] == "completed")
                .count()
        })
        .collect();
    assert_eq!(completed, [0, 1, 2, 3]);
    assert_eq!(lists.last().unwrap()["standing"], Value::Bool(true));

    let events = place.run(&["events", &id, "--json"]).ok().json();
    let writes: Vec<&Value> = events
        .iter()
        .filter(|event| event["type"] == "todo/write")
        .collect();
    assert_eq!(writes.len(), 4);
    for write in writes {
        let keys: Vec<&String> = write.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["type", "seq", "time", "data"]);
    }
    let _ = place.run(&["verify"]).ok();
}

#[test]
fn with_json_every_event_is_printed_as_it_is_stored() {
    let place = Place::new();
    let printed = place.run(&["--json", "chat", "one thing"]).ok().json();
    let (header, events) = printed.split_first().unwrap();
    assert_eq!(header["type"], "session");
    let id = header["id"].as_str().unwrap();
    assert_eq!(place.run(&["events", id, "--json"]).ok().json(), events);
}

#[test]
fn a_second_turn_begins_without_the_list_of_the_first() {
    let place = Place::new();
    let id = id_of(&place.run(&["chat", "first thing"]).ok());
    let again = place
        .run(&["chat", "second thing", "--session", &id[..8]])
        .ok();
    assert_eq!(id_of(&again), id);
    let lists = place.run(&["todos", &id, "--json"]).ok().json();
    let turns: Vec<&Value> = lists.iter().map(|list| &list["turn"]).collect();
    assert_eq!(turns.first(), Some(&&Value::from(1)));
    assert_eq!(turns.last(), Some(&&Value::from(2)));
    let standing: Vec<bool> = lists
        .iter()
        .map(|list| list["standing"].as_bool().unwrap())
        .collect();
    assert_eq!(standing.iter().filter(|standing| **standing).count(), 1);
    assert_eq!(standing.last(), Some(&true));
}

#[test]
fn a_prompt_is_stored_exactly_and_shown_harmlessly() {
    let place = Place::new();
    let prompt = "wipe \u{1b}[2J the \u{202e}screen\u{0} now";
    let id = id_of(&place.pipe(&["chat"], prompt).ok());
    let events = place.run(&["events", &id, "--json"]).ok().json();
    let said = events
        .iter()
        .find(|event| event["type"] == "user/message")
        .unwrap();
    assert_eq!(said["data"]["content"][0]["text"], prompt);
    for command in ["show", "events", "todos"] {
        let shown = place.run(&[command, &id]).ok().out;
        assert!(
            !shown.contains(['\u{1b}', '\u{202e}', '\u{0}']),
            "{command}: {shown}"
        );
    }
}

#[test]
fn a_script_that_runs_out_ends_the_turn_with_its_error() {
    let place = Place::new();
    let script = place.dir().join("empty.json");
    std::fs::write(&script, r#"{"responses":[]}"#).unwrap();
    let model = format!("script:{}", script.display());
    let ran = place.run(&["chat", "hello", "--model", &model]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.out.contains("SCRIPT_EXHAUSTED"), "{ran:?}");
    let _ = place.run(&["verify"]).ok();
}
