//! What passed between clients and agents, and whether the protocol allows it.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use minutebook_tests::{Place, Ran, node_modules, program, python, root};
use rustix::process::Pid;
use serde_json::{Value, json};

use super::sdk::everything;

/// The recordings of a place: one for each agent that was started there.
pub(super) struct Wire<'a> {
    place: &'a Place,
}

impl<'a> Wire<'a> {
    pub(super) fn new(place: &'a Place) -> Self {
        let wire = Self { place };
        fs::create_dir_all(wire.folder()).expect("a folder for recordings");
        wire
    }

    fn folder(&self) -> PathBuf {
        self.place.dir().join("wire")
    }

    /// The command of an agent whose wire is recorded.
    pub(super) fn agent(&self, model: &str) -> Vec<String> {
        let python = python().expect("known to be there");
        let record = root().join("tests/clients/record.py");
        let paths = [python, record, self.folder(), program()];
        let mut command: Vec<String> = paths.map(|path| path.display().to_string()).to_vec();
        let db = self.place.db().display().to_string();
        command.extend(["acp", "--db", &db, "--model", model].map(str::to_owned));
        command
    }

    fn recordings(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.folder()).expect("the folder of recordings");
        entries
            .map(|entry| entry.expect("an entry of it").path())
            .collect()
    }

    /// The process of the only agent that was started here.
    pub(super) fn agent_pid(&self) -> Pid {
        let [only] = &self.recordings()[..] else {
            panic!("{:?}", self.recordings())
        };
        let pid = only.file_stem().and_then(|stem| stem.to_str());
        let pid = pid.and_then(|pid| pid.parse().ok()).and_then(Pid::from_raw);
        pid.expect("recordings are named by process")
    }

    /// Checks every line that an agent wrote against the schema of the protocol.
    pub(super) fn assert_valid(&self) {
        let Ran { out, err, code } = self.validate();
        assert_eq!(code, Some(0), "{out}{err}");
        let checked = out
            .split_whitespace()
            .next()
            .and_then(|count| count.parse().ok());
        assert!(checked > Some(0_u64), "{out}");
    }

    fn validate(&self) -> Ran {
        let schema = node_modules().expect("known to be there");
        let validated = Command::new(python().expect("known to be there"))
            .arg(root().join("tests/clients/validate.py"))
            .arg(schema.join("@agentclientprotocol/sdk/schema/v1/schema.json"))
            .args(self.recordings())
            .output();
        Ran::from(validated.expect("Python starts"))
    }

    /// Checks that an agent writes updates only while a request is open, as some clients take others
    /// for faults: none before a session is known, none behind the answer to a prompt. The plan of a
    /// session that was resumed is no answer to anything, and comes when the client knows that it is.
    pub(super) fn assert_no_update_is_unasked(&self) {
        for recording in self.recordings() {
            let mut open = HashMap::new();
            let mut answered = String::new();
            for (by, message) in read(&recording) {
                let id = message.get("id").map(Value::to_string);
                let method = message["method"].as_str().map(str::to_owned);
                match (by.as_str(), method, id) {
                    ("client", Some(method), Some(id)) => drop(open.insert(id, method)),
                    ("agent", None, Some(id)) => answered = open.remove(&id).expect("was asked"),
                    ("agent", Some(_), None) => {
                        let kind = &message["params"]["update"]["sessionUpdate"];
                        let resumed = answered == "session/resume" && kind == "plan";
                        assert!(resumed || !open.is_empty(), "unasked: {message}");
                    }
                    _ => {}
                }
            }
        }
    }
}

/// What passed: who wrote it, and what.
fn read(recording: &Path) -> Vec<(String, Value)> {
    let text = fs::read_to_string(recording).expect("a recording");
    let records = text.lines().map(|line| {
        let record: Value = serde_json::from_str(line).expect("a line of a recording");
        let [by, line] = ["by", "line"].map(|key| record[key].as_str().expect("text"));
        (
            by.to_owned(),
            serde_json::from_str(line).expect("JSON on the wire"),
        )
    });
    records.collect()
}

#[test]
fn lines_that_the_protocol_does_not_allow_are_found() {
    if everything().is_none() {
        return;
    }
    let place = Place::new();
    let wire = Wire::new(&place);
    let update = |update: Value| {
        let params = json!({ "sessionId": "s", "update": update });
        json!({ "jsonrpc": "2.0", "method": "session/update", "params": params })
    };
    let answer = |result: Value| json!({ "jsonrpc": "2.0", "id": 1, "result": result });
    for line in [
        update(json!({ "sessionUpdate": "plan" })),
        update(json!({ "sessionUpdate": "tool_call", "title": "no id" })),
        update(json!({ "sessionUpdate": "tool_call_update", "toolCallId": 1 })),
        json!({ "jsonrpc": "2.0", "method": "session/unheard-of", "params": {} }),
        json!({ "method": "session/update", "params": {} }),
        json!({ "jsonrpc": "2.0", "id": 2, "result": {} }),
        json!({ "jsonrpc": "2.0", "id": 1, "error": { "message": "no code" } }),
        json!({ "jsonrpc": "2.0", "id": 1 }),
        answer(json!({ "stopReason": "bored" })),
        json!([]),
    ] {
        let prompt = json!({ "jsonrpc": "2.0", "id": 1, "method": "session/prompt", "params": {} });
        let records = [("client", prompt), ("agent", line.clone())];
        let records = records.map(|(by, line)| json!({ "by": by, "line": line.to_string() }));
        let text = records.map(|record| record.to_string()).join("\n");
        fs::write(wire.folder().join("1.wire"), text).expect("a recording");
        assert_eq!(wire.validate().code, Some(1), "{line}");
    }
}
