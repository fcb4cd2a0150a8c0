//! `minutebook chat`, from a prompt to a list that is done.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, Stdio};

use minutebook_tests::{Place, Ran};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

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

const LONG: &str = "1. a\n2. b\n3. c\n4. d\n5. e\n6. f\n7. g\n8. h";

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// The turn of the one session is closed for this reason, and nothing is amiss.
fn closed_because(place: &Place, reason: &str) {
    let sessions = place.run(&["sessions", "--json"]).ok().json();
    assert_eq!(sessions.len(), 1);
    assert_eq!(sessions[0]["openTurn"], false, "{sessions:?}");
    let id = sessions[0]["id"].as_str().unwrap();
    let events = place.run(&["events", id, "--json"]).ok().json();
    let end = events.last().unwrap();
    assert_eq!(end["data"]["reason"]["reason"]["kind"], reason, "{end}");
    let _ = place.run(&["verify"]).ok();
}

#[test]
fn a_reader_that_has_seen_enough_ends_the_turn_and_closes_it() {
    for json in [&[][..], &["--json"]] {
        let place = Place::new();
        let mut chat = place
            .command(&["chat", LONG])
            .args(json)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut first = String::new();
        let mut out = BufReader::new(chat.stdout.take().unwrap());
        out.read_line(&mut first).unwrap();
        drop(out);
        let ended = Ran::from(chat.wait_with_output().unwrap()).ok();
        assert_eq!(ended.err, "");
        closed_because(&place, "disposed");
    }
}

#[test]
fn a_signal_during_a_turn_closes_it() {
    for (kind, reason) in [
        (Signal::TERM, "disposed"),
        (Signal::HUP, "disposed"),
        (Signal::INT, "user"),
    ] {
        let place = Place::new();
        let mut chat = place
            .command(&["chat", LONG])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(chat.stdout.take().unwrap()).lines();
        while !lines.next().unwrap().unwrap().contains("in progress") {}
        signal(&chat, kind);
        while lines.next().is_some() {}
        assert_eq!(chat.wait().unwrap().code(), Some(130));
        closed_because(&place, reason);
    }
}

#[test]
fn a_signal_while_a_prompt_is_piped_in_writes_nothing() {
    let place = Place::new();
    let mut chat = place
        .command(&["chat"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = chat.stdin.take().unwrap();
    // Nothing tells that the program listens already; before, it ends by the signal itself.
    stdin.write_all(b"1. a").unwrap();
    signal(&chat, Signal::TERM);
    let ended = chat.wait().unwrap().code();
    assert!(matches!(ended, Some(130) | None), "{ended:?}");
    assert!(!place.db().exists());
}

#[test]
fn a_signal_to_the_agent_of_an_editor_closes_the_turn() {
    for kind in [Signal::TERM, Signal::HUP] {
        let place = Place::new();
        let mut agent = place
            .command(&["acp"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdin = agent.stdin.take().unwrap();
        let mut lines = BufReader::new(agent.stdout.take().unwrap()).lines();
        let mut ask = |id: u32, method: &str, params: Value| {
            let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
            writeln!(stdin, "{request}").unwrap();
        };
        let mut next = || serde_json::from_str::<Value>(&lines.next()?.unwrap()).ok();
        let capabilities = json!({ "protocolVersion": 1, "clientCapabilities": {} });
        ask(1, "initialize", capabilities);
        assert_eq!(next().unwrap()["id"], 1);
        ask(2, "session/new", json!({ "cwd": "/x", "mcpServers": [] }));
        let session = next().unwrap()["result"]["sessionId"].clone();
        let text = json!([{ "type": "text", "text": LONG }]);
        ask(
            3,
            "session/prompt",
            json!({ "sessionId": session, "prompt": text }),
        );
        while next().unwrap()["params"]["update"]["sessionUpdate"] != "plan" {}
        signal(&agent, kind);
        while next().is_some() {}
        assert_eq!(agent.wait().unwrap().code(), Some(0));
        closed_because(&place, "disposed");
    }
}

#[test]
fn an_answer_that_reached_the_output_limit_is_not_complete() {
    let place = Place::new();
    let script = place.dir().join("script.json");
    let response = json!({ "text": "and then", "finish": "max-tokens" });
    std::fs::write(&script, json!({ "responses": [response] }).to_string()).unwrap();
    let model = format!("script:{}", script.display());
    let ran = place.run(&["chat", "go", "--model", &model]);
    assert_eq!(ran.code, Some(8), "{ran:?}");
    assert!(ran.out.contains("output limit"), "{ran:?}");
}
