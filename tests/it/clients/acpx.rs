//! acpx, a client for the command line: its terminal output, its JSON output, and its named
//! sessions, whose turns outlive the process that asked for them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use insta::assert_snapshot;
use minutebook_tests::{Place, need, node_modules, on_path};
use serde_json::Value;

use super::driver::Driver;
use super::script::{self, hang, say, write};
use super::sdk::everything;
use super::told::Told;
use super::wire::Wire;

/// acpx in a place, with its home there.
struct Acpx<'a> {
    node: PathBuf,
    place: &'a Place,
    model: String,
}

impl<'a> Acpx<'a> {
    fn new(place: &'a Place, model: String) -> Option<Self> {
        let node = everything().and_then(|()| need(on_path("node"), "node"))?;
        Some(Self { node, place, model })
    }

    fn start(&self, args: &[&str]) -> Driver {
        let agent = Wire::new(self.place).agent(&self.model);
        let agent: Vec<String> = agent.iter().map(|part| format!("'{part}'")).collect();
        let mut command = Command::new(&self.node);
        command
            .arg(
                node_modules()
                    .expect("known to be there")
                    .join("acpx/dist/cli.js"),
            )
            .args(["--agent", &agent.join(" ")])
            .args(["--ttl", "60", "--cwd"])
            .arg(self.place.dir())
            .args(args)
            .current_dir(self.place.dir())
            .env("HOME", self.place.dir());
        Driver::start(&mut command)
    }

    /// Runs a command that ends well, and returns what it printed.
    fn run(&self, args: &[&str]) -> String {
        printed(self.start(args))
    }
}

/// What a command that ends well prints. On standard error acpx says what it is about to do.
fn printed(command: Driver) -> String {
    let ended = command.end();
    assert_eq!(ended.code, Some(0), "{ended:#?}");
    ended.out.join("\n")
}

/// A session of acpx, kept by a process in the background until this is dropped.
struct Named<'a>(&'a Acpx<'a>);

const NAME: &str = "errand";

impl<'a> Named<'a> {
    fn new(acpx: &'a Acpx<'a>) -> Self {
        acpx.run(&["sessions", "new", "--name", NAME]);
        Self(acpx)
    }

    fn prompt(&self, text: &str) -> Driver {
        self.0.start(&["prompt", "-s", NAME, text])
    }
}

impl Named<'_> {
    /// Where acpx has the socket of the process in the background: outside its home.
    fn socket(&self) -> Option<PathBuf> {
        let queues = fs::read_dir(self.0.place.dir().join(".acpx/queues")).ok()?;
        let mut locks = queues.filter_map(|entry| fs::read(entry.ok()?.path()).ok());
        let lock: Value = locks.find_map(|lock| serde_json::from_slice(&lock).ok())?;
        lock["socketPath"].as_str().map(PathBuf::from)
    }
}

impl Drop for Named<'_> {
    fn drop(&mut self) {
        let socket = self.socket();
        self.0.start(&["sessions", "close", NAME]).end();
        // acpx leaves the folder behind, which is named after its home and so is this test's own.
        let folder = socket.as_deref().and_then(Path::parent);
        let _ = folder.map(fs::remove_dir);
    }
}

#[test]
fn a_turn_is_shown_in_the_terminal() {
    let place = Place::new();
    let model = script::model(
        &place,
        &[
            write(&[
                ("read the code", "in_progress"),
                ("write the fix", "pending"),
            ]),
            say("I read the code."),
        ],
    );
    let Some(acpx) = Acpx::new(&place, model) else {
        return;
    };
    assert_snapshot!(acpx.run(&["exec", "1. read the code\n2. write the fix"]), @r#"
        [client] initialize (running)

        [client] session/new (running)

        [tool] Update todo list (running)
          input: [{"content":"read the code","status":"in_progress"},{"content":"write the fix","status":"pending"}]

        [plan]
          - [in_progress] read the code
          - [pending] write the fix

        [tool] Update todo list (completed)
          input: [{"content":"read the code","status":"in_progress"},{"content":"write the fix","status":"pending"}]
          output:
            Updated todo list: 1 pending, 1 in progress, 0 completed.
        I read the code.

        [done] end_turn
        "#);
    Wire::new(&place).assert_valid();
}

#[test]
fn a_turn_is_shown_as_json() {
    let place = Place::new();
    let Some(acpx) = Acpx::new(&place, "offline".to_owned()) else {
        return;
    };
    let out = acpx.run(&[
        "--format",
        "json",
        "exec",
        "1. read the code\n2. write the fix",
    ]);
    let mut told = Told::default();
    let mut asked = Vec::new();
    for line in out.lines() {
        let message: Value = serde_json::from_str(line).expect("acpx prints JSON");
        let method = message["method"].as_str();
        match (method, message.get("id")) {
            (Some("session/update"), _) => told.update(&message["params"]["update"]),
            (Some(method), Some(id)) => asked.push((id.clone(), method.to_owned())),
            (None, Some(id)) => {
                let of = asked.iter().find(|(asked, _)| asked == id);
                told.answer(of.map_or("", |(_, method)| method), &message);
            }
            _ => panic!("{line}"),
        }
    }
    assert_snapshot!(told.into_text(), @r#"
        initialize -> ok
        session/new -> ok
        session_info_update: 1. read the code 2. write the fix
        agent_thought_chunk: The prompt has 2 items. I write them down as the plan.
        agent_message_chunk: This is the offline model: no AI model is consulted. I plan 2 items from your prompt and walk through the plan; nothing is executed.
        tool_call 1: Update todo list, in_progress
        plan: [read the code: in_progress, medium] [write the fix: pending, medium]
        tool_call_update 1: completed, Updated todo list: 1 pending, 1 in progress, 0 completed.
        tool_call 2: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: in_progress, medium]
        tool_call_update 2: completed, Updated todo list: 0 pending, 1 in progress, 1 completed.
        tool_call 3: Update todo list, in_progress
        plan: [read the code: completed, medium] [write the fix: completed, medium]
        tool_call_update 3: completed, Updated todo list: 0 pending, 0 in progress, 2 completed.
        agent_message_chunk: I walked 2 items through the plan, each from pending to completed. That was a demonstration: no AI model was consulted, and nothing was executed.
        session/prompt -> end_turn
        "#);
    let wire = Wire::new(&place);
    wire.assert_valid();
    wire.assert_no_update_is_unasked();
}

#[test]
fn a_named_session_takes_one_prompt_after_another_and_a_cancel_from_elsewhere() {
    let place = Place::new();
    let model = script::model(
        &place,
        &[
            write(&[("read the code", "in_progress")]),
            say("I read the code."),
            write(&[("write the fix", "in_progress")]),
            hang(),
            say("As you like."),
        ],
    );
    let Some(acpx) = Acpx::new(&place, model) else {
        return;
    };
    {
        let session = Named::new(&acpx);
        assert_snapshot!(printed(session.prompt("read the code")), @r#"
        [client] initialize (running)

        [client] session/resume (running)

        [tool] Update todo list (running)
          input: [{"content":"read the code","status":"in_progress"}]

        [plan]
          - [in_progress] read the code

        [tool] Update todo list (completed)
          input: [{"content":"read the code","status":"in_progress"}]
          output:
            Updated todo list: 0 pending, 1 in progress, 0 completed.
        I read the code.

        [done] end_turn
        "#);

        let mut second = session.prompt("write the fix");
        second.until(|line| line.contains("(completed)"));
        acpx.run(&["cancel", "-s", NAME]);
        assert_snapshot!(printed(second), @r#"
        [plan]

        [tool] Update todo list (running)
          input: [{"content":"write the fix","status":"in_progress"}]

        [plan]
          - [in_progress] write the fix

        [tool] Update todo list (completed)
          input: [{"content":"write the fix","status":"in_progress"}]
          output:
            Updated todo list: 0 pending, 1 in progress, 0 completed.

        [done] cancelled
        "#);

        assert_snapshot!(printed(session.prompt("leave it")), @r#"
        [plan]
        As you like.

        [done] end_turn
        "#);
    }
    let listed = acpx.run(&["sessions", "list"]);
    assert!(
        listed.contains("read the code") && listed.lines().count() == 1,
        "{listed}"
    );
    let wire = Wire::new(&place);
    wire.assert_valid();
    wire.assert_no_update_is_unasked();
}
