//! What a client was told, so that a person can read it.

use std::fmt::Write as _;

use serde_json::Value;

/// One line for each update and each answer, in order. Pieces of one message are one line, and calls
/// are numbered in the order in which they are first heard of.
#[derive(Default)]
pub(super) struct Told {
    text: String,
    /// Kind and id of the message that the last line belongs to.
    message: Option<(String, Value)>,
    calls: Vec<Value>,
}

impl Told {
    /// From the lines that a driver of `tests/clients` prints.
    pub(super) fn by_driver(lines: &[String]) -> String {
        let mut told = Self::default();
        for line in lines {
            let seen: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            match (seen.get("update"), seen["to"].as_str()) {
                (Some(update), _) => told.update(update),
                (None, Some(method)) => told.answer(method, &seen),
                (None, None) => panic!("{line}"),
            }
        }
        told.text
    }

    /// An answer: a result or an error.
    pub(super) fn answer(&mut self, method: &str, answer: &Value) {
        self.message = None;
        let result = &answer["result"];
        let outcome = match answer.get("error") {
            Some(error) => format!("error {}: {}", error["code"], text(&error["message"])),
            None if result.get("stopReason").is_some() => text(&result["stopReason"]).to_owned(),
            None if result.get("sessions").is_some() => {
                let sessions = result["sessions"].as_array().into_iter().flatten();
                let titles: Vec<&str> = sessions.map(|session| text(&session["title"])).collect();
                titles.join(", ")
            }
            None => "ok".to_owned(),
        };
        self.line(format_args!("{method} -> {outcome}"));
    }

    pub(super) fn update(&mut self, update: &Value) {
        let kind = text(&update["sessionUpdate"]);
        let content = text(&update["content"]["text"]);
        if kind.ends_with("_chunk") {
            let message = (kind.to_owned(), update["messageId"].clone());
            if self.message.as_ref() == Some(&message) {
                self.text.pop();
                self.line(format_args!("{content}"));
            } else {
                self.line(format_args!("{kind}: {content}"));
            }
            self.message = Some(message);
            return;
        }
        self.message = None;
        match kind {
            "plan" => {
                let entries = update["entries"].as_array().expect("a list of entries");
                let entries = entries.iter().map(|entry| {
                    let [content, status, priority] =
                        ["content", "status", "priority"].map(|key| text(&entry[key]));
                    format!(" [{content}: {status}, {priority}]")
                });
                self.line(format_args!("plan:{}", entries.collect::<String>()));
            }
            "tool_call" => {
                let (number, title) = (self.call(update), text(&update["title"]));
                let status = text(&update["status"]);
                self.line(format_args!("tool_call {number}: {title}, {status}"));
            }
            "tool_call_update" => {
                let (number, status) = (self.call(update), text(&update["status"]));
                let content = text(&update["content"][0]["content"]["text"]);
                self.line(format_args!(
                    "tool_call_update {number}: {status}, {content}"
                ));
            }
            "session_info_update" => {
                self.line(format_args!(
                    "session_info_update: {}",
                    text(&update["title"])
                ));
            }
            _ => self.line(format_args!("{update}")),
        }
    }

    pub(super) fn into_text(self) -> String {
        self.text
    }

    fn call(&mut self, update: &Value) -> usize {
        let id = &update["toolCallId"];
        let known = self.calls.iter().position(|call| call == id);
        let place = known.unwrap_or_else(|| {
            self.calls.push(id.clone());
            self.calls.len() - 1
        });
        place + 1
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.text, "{line}").expect("a string takes everything");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
