//! The official client libraries. They see the same, so they share their tests; the files of each
//! name what to run it with.

use std::path::PathBuf;
use std::process::Command;

use insta::{allow_duplicates, assert_snapshot};
use minutebook_tests::{Place, need, node_modules, on_path, python, root};
use rustix::process::{Signal, kill_process};
use serde_json::{Value, json};

use super::driver::Driver;
use super::script::{self, hang, say, write};
use super::told::Told;
use super::wire::Wire;

/// A driver of `tests/clients`, and what runs it.
pub(super) struct Sdk {
    runtime: PathBuf,
    driver: &'static str,
}

impl Sdk {
    pub(super) fn typescript() -> Option<Self> {
        let runtime = everything().and_then(|()| need(on_path("node"), "node"))?;
        Some(Self {
            runtime,
            driver: "typescript.mjs",
        })
    }

    pub(super) fn python() -> Option<Self> {
        let runtime = everything().and_then(|()| python())?;
        Some(Self {
            runtime,
            driver: "python_sdk.py",
        })
    }

    fn start(&self, place: &Place, model: &str, scenario: &str, session: Option<&str>) -> Driver {
        let mut command = Command::new(&self.runtime);
        command
            .arg(root().join("tests/clients").join(self.driver))
            .arg(scenario)
            .arg(place.dir())
            .args(session)
            .arg("--")
            .args(Wire::new(place).agent(model))
            .env("HOME", place.dir());
        Driver::start(&mut command)
    }

    /// Runs a scenario that ends well, and returns what the client printed.
    fn run(
        &self,
        place: &Place,
        model: &str,
        scenario: &str,
        session: Option<&str>,
    ) -> Vec<String> {
        self.start(place, model, scenario, session).end().well().out
    }
}

/// The npm packages hold the schema, and the recorder runs in the Python of the clients: every
/// client needs both.
pub(super) fn everything() -> Option<()> {
    need(node_modules(), "the npm clients")?;
    need(python(), "the Python clients")?;
    Some(())
}

/// The session that a client made.
fn made(lines: &[String]) -> String {
    let mut seen = lines
        .iter()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let answer = seen
        .find(|seen: &Value| seen["to"] == "session/new")
        .expect("a new session");
    answer["result"]["sessionId"]
        .as_str()
        .expect("its id")
        .to_owned()
}

/// How the turns of a session ended, as its log has it.
fn ends(place: &Place, session: &str) -> Vec<Value> {
    let events = place.run(&["events", session, "--json"]).ok().json();
    let ends = events
        .into_iter()
        .filter(|event| event["type"] == "turn/end");
    ends.map(|event| event["data"]["reason"].clone()).collect()
}

pub(super) fn shows_a_turn_as_it_goes(sdk: &Sdk) {
    let place = Place::new();
    let lines = sdk.run(&place, "offline", "chat", None);
    allow_duplicates! { assert_snapshot!(Told::by_driver(&lines), @r#"
        initialize -> ok
        session/new -> ok
        session_info_update: 1. read the code 2. write the fix 3. run the tests
        agent_thought_chunk: The prompt has 3 items. I write them down as the plan.
        agent_message_chunk: This is the offline model: no AI model is consulted. I plan 3 items from your prompt and walk through the plan; nothing is executed.
        tool_call 1: Update todo list, in_progress
        plan: [read the code: in_progress, medium] [write the fix: pending, medium] [run the tests: pending, medium]
        tool_call_update 1: completed, Updated todo list: 2 pending, 1 in progress, 0 completed.
        tool_call 2: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: in_progress, medium] [run the tests: pending, medium]
        tool_call_update 2: completed, Updated todo list: 1 pending, 1 in progress, 1 completed.
        tool_call 3: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: completed, medium] [run the tests: in_progress, medium]
        tool_call_update 3: completed, Updated todo list: 0 pending, 1 in progress, 2 completed.
        tool_call 4: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: completed, medium] [run the tests: completed, medium]
        tool_call_update 4: completed, Updated todo list: 0 pending, 0 in progress, 3 completed.
        agent_message_chunk: I walked 3 items through the plan, each from pending to completed. That was a demonstration: no AI model was consulted, and nothing was executed.
        session/prompt -> end_turn
        "#) }
    let wire = Wire::new(&place);
    wire.assert_valid();
    wire.assert_no_update_is_unasked();
}

pub(super) fn shows_a_session_of_an_earlier_process(sdk: &Sdk) {
    let place = Place::new();
    let model = script::model(
        &place,
        &[
            write(&[
                ("read the code", "in_progress"),
                ("write the fix", "pending"),
            ]),
            write(&[
                ("read the code", "completed"),
                ("write the fix", "in_progress"),
            ]),
            say("I read the code."),
        ],
    );
    let session = made(&sdk.run(&place, &model, "chat", None));
    let lines = sdk.run(&place, &model, "load", Some(&session));
    allow_duplicates! { assert_snapshot!(Told::by_driver(&lines), @r#"
        initialize -> ok
        user_message_chunk: 1. read the code
        2. write the fix
        3. run the tests
        tool_call 1: Update todo list, in_progress
        tool_call_update 1: completed, Updated todo list: 1 pending, 1 in progress, 0 completed.
        tool_call 2: Update todo list, in_progress
        tool_call_update 2: completed, Updated todo list: 0 pending, 1 in progress, 1 completed.
        agent_message_chunk: I read the code.
        session_info_update: 1. read the code 2. write the fix 3. run the tests
        plan: [read the code: completed, medium] [write the fix: in_progress, medium]
        session/load -> ok
        session/list -> 1. read the code 2. write the fix 3. run the tests
        plan:
        tool_call 3: Update todo list, in_progress
        plan: [read the code: in_progress, medium] [write the fix: pending, medium]
        tool_call_update 3: completed, Updated todo list: 1 pending, 1 in progress, 0 completed.
        tool_call 4: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: in_progress, medium]
        tool_call_update 4: completed, Updated todo list: 0 pending, 1 in progress, 1 completed.
        agent_message_chunk: I read the code.
        session/prompt -> end_turn
        session/close -> ok
        session/resume -> ok
        plan: [read the code: completed, medium] [write the fix: in_progress, medium]
        session/close -> ok
        "#) }
    let lines = sdk.run(&place, &model, "resume", Some(&session));
    allow_duplicates! { assert_snapshot!(Told::by_driver(&lines), @r#"
        initialize -> ok
        session/resume -> ok
        plan: [read the code: completed, medium] [write the fix: in_progress, medium]
        plan:
        tool_call 1: Update todo list, in_progress
        plan: [read the code: in_progress, medium] [write the fix: pending, medium]
        tool_call_update 1: completed, Updated todo list: 1 pending, 1 in progress, 0 completed.
        tool_call 2: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: in_progress, medium]
        tool_call_update 2: completed, Updated todo list: 0 pending, 1 in progress, 1 completed.
        agent_message_chunk: I read the code.
        session/prompt -> end_turn
        session/close -> ok
        "#) }
    let wire = Wire::new(&place);
    wire.assert_valid();
    wire.assert_no_update_is_unasked();
}

pub(super) fn stops_a_turn_and_goes_on(sdk: &Sdk) {
    let place = Place::new();
    let lines = sdk.run(&place, "offline", "cancel", None);
    let told = Told::by_driver(&lines);
    let (stopped, next) = told
        .split_once("session/prompt -> cancelled\n")
        .expect(&told);
    let count = |word| {
        stopped
            .lines()
            .filter(|line| line.starts_with(word))
            .count()
    };
    assert_eq!(count("tool_call "), count("tool_call_update "), "{stopped}");
    assert!(
        next.starts_with("plan:\n"),
        "the plan of the stopped turn is taken back: {next}"
    );
    assert!(next.ends_with("session/prompt -> end_turn\n"), "{next}");
    let ends = ends(&place, &made(&lines));
    let aborted = json!({ "kind": "aborted", "reason": { "kind": "user" } });
    assert_eq!(ends, [aborted, json!({ "kind": "completed" })]);
    let wire = Wire::new(&place);
    wire.assert_valid();
    wire.assert_no_update_is_unasked();
}

pub(super) fn is_told_that_a_session_is_unknown(sdk: &Sdk) {
    let place = Place::new();
    let lines = sdk.start(&place, "offline", "unknown", None).end().out;
    allow_duplicates! { assert_snapshot!(Told::by_driver(&lines), @r#"
        initialize -> ok
        session/load -> error -32002: session no-such-session does not exist or is not open
        "#) }
    Wire::new(&place).assert_valid();
}

pub(super) fn may_go_away_in_the_middle_of_a_turn(sdk: &Sdk) {
    let place = Place::new();
    let model = script::model(
        &place,
        &[write(&[("read the code", "in_progress")]), hang()],
    );
    let session = made(&sdk.run(&place, &model, "leave", None));
    let ends = json!(ends(&place, &session));
    allow_duplicates! { assert_snapshot!(ends, @r#"[{"kind":"aborted","reason":{"kind":"disposed"}}]"#) }
    Wire::new(&place).assert_valid();
}

pub(super) fn finds_the_session_of_an_agent_that_was_killed(sdk: &Sdk) {
    let place = Place::new();
    let model = script::model(
        &place,
        &[write(&[("read the code", "in_progress")]), hang()],
    );
    let mut client = sdk.start(&place, &model, "chat", None);
    client.until(|line| line.contains(r#""completed""#));
    kill_process(Wire::new(&place).agent_pid(), Signal::KILL).expect("it runs");
    let lines = client.end().out;
    let session = made(&lines);
    let last = lines.last().expect("the driver prints");
    assert!(
        last.contains("session/prompt") && last.contains("error"),
        "{last}"
    );
    assert_eq!(
        ends(&place, &session),
        [Value::Null; 0],
        "nobody was left to close the turn"
    );

    let model = script::model(&place, &[say("Tidy.")]);
    let lines = sdk.run(&place, &model, "load", Some(&session));
    allow_duplicates! { assert_snapshot!(Told::by_driver(&lines), @r#"
        initialize -> ok
        user_message_chunk: 1. read the code
        2. write the fix
        3. run the tests
        tool_call 1: Update todo list, in_progress
        tool_call_update 1: completed, Updated todo list: 0 pending, 1 in progress, 0 completed.
        session_info_update: 1. read the code 2. write the fix 3. run the tests
        plan: [read the code: in_progress, medium]
        session/load -> ok
        session/list -> 1. read the code 2. write the fix 3. run the tests
        plan:
        agent_message_chunk: Tidy.
        session/prompt -> end_turn
        session/close -> ok
        session/resume -> ok
        session/close -> ok
        "#) }
    let ends = ends(&place, &session);
    assert_eq!(
        ends,
        [
            json!({ "kind": "interrupted" }),
            json!({ "kind": "completed" })
        ]
    );
    Wire::new(&place).assert_valid();
}
