//! Real logs of the original harness, where they are at hand.

use std::collections::HashMap;
use std::path::PathBuf;

use minutebook_tests::{Place, root};
use serde_json::Value;

fn logs() -> Option<Vec<PathBuf>> {
    let folder = root().join("../shared/data/dsh-logs");
    let files = std::fs::read_dir(folder)
        .ok()?
        .map(|entry| entry.unwrap().path());
    let mut logs: Vec<PathBuf> = files
        .filter(|path| path.extension().is_some_and(|ending| ending == "jsonl"))
        .collect();
    logs.sort();
    Some(logs)
}

/// The events of a log, with packed rows taken apart by a reader that knows nothing of ours.
fn events(text: &str) -> Vec<Value> {
    let mut events = Vec::new();
    for line in text.lines().skip(1) {
        let mut row: Value = serde_json::from_str(line).unwrap();
        let (delta, field) = match row["type"].as_str().unwrap() {
            "text-chunks" => ("text-delta", "texts"),
            "reasoning-chunks" => ("reasoning-delta", "texts"),
            "tool-call-chunks" => ("tool-call-delta", "args"),
            _ => {
                events.push(row);
                continue;
            }
        };
        let data = row["data"].take();
        let mut time = row["time0"].as_i64();
        for (nth, fragment) in data[field].as_array().unwrap().iter().enumerate() {
            if nth > 0 {
                time = time.map(|time| time + data["dt"][nth - 1].as_i64().unwrap());
            }
            let mut chunk = serde_json::json!({ "type": delta, "index": data["index"] });
            if delta == "tool-call-delta" {
                chunk["id"] = data["id"].clone();
                if let Some(name) = data.get("name") {
                    chunk["name"] = name.clone();
                }
                chunk["argumentsDelta"] = fragment.clone();
            } else {
                chunk["text"] = fragment.clone();
            }
            let mut event = serde_json::json!({
                "type": "assistant/chunk",
                "data": { "turn": data["turn"], "step": data["step"], "chunk": chunk },
            });
            if let (Some(seq0), Some(time)) = (row["seq0"].as_u64(), time) {
                event["seq"] = (seq0 + nth as u64).into();
                event["time"] = time.into();
            }
            events.push(event);
        }
    }
    events
}

#[test]
fn every_real_log_imports_replays_and_exports_equal() {
    let Some(logs) = logs() else {
        return;
    };
    assert!(!logs.is_empty());
    let place = Place::new();
    let mut seen: HashMap<String, PathBuf> = HashMap::new();
    for log in &logs {
        let text = std::fs::read_to_string(log).unwrap();
        let file = log.to_str().unwrap();
        let header: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        let id = header["id"].as_str().unwrap().to_owned();
        // Some logs are recorded twice; the second comes in under an id of its own.
        let imported = if seen.insert(id, log.clone()).is_some() {
            place
                .run(&["import", "--json", "--new-id", file])
                .ok()
                .json()
        } else {
            place.run(&["import", "--json", file]).ok().json()
        };
        let id = imported[0]["id"].as_str().unwrap();

        let exported = place.run(&["export", id]).ok().out;
        let mut lines = exported.lines();
        let mut written: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
        written["id"] = header["id"].clone();
        assert_eq!(written, header, "{file}");
        let mut out: Vec<Value> = lines
            .map(|line| serde_json::from_str(line).unwrap())
            .collect();
        let expected = events(&text);
        assert_eq!(out.len(), expected.len(), "{file}");
        for (event, expected) in out.iter_mut().zip(&expected) {
            if expected.get("seq").is_none() {
                // Assigned, since the recording has none.
                let event = event.as_object_mut().unwrap();
                assert!(event.remove("seq").is_some() && event.remove("time").is_some());
            }
            assert_eq!(event, expected, "{file}");
        }
        for command in ["show", "todos", "events"] {
            let _ = place.run(&[command, id]).ok();
        }
    }
    let _ = place.run(&["verify"]).ok();
    // Each can be gone on with.
    let script = place.dir().join("script.json");
    std::fs::write(&script, r#"{"responses":[{"text":"Here again."}]}"#).unwrap();
    let model = format!("script:{}", script.display());
    for session in place.run(&["sessions", "--all", "--json"]).ok().json() {
        let id = session["id"].as_str().unwrap();
        let _ = place
            .run(&["chat", "go on", "--session", id, "--model", &model])
            .ok();
    }
    let _ = place.run(&["verify"]).ok();
}
