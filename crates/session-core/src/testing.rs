//! Logs for property tests, and rules as sentences (feature `testing`).
//!
//! [`Given`] states what may follow a log.
//!
//! A generator of test cases deals in bytes here, whichever crate it comes from, so that shrinking
//! the bytes shrinks the log:
//!
//! ```
//! use session_core::{LogState, Vocabulary, testing::valid_log};
//!
//! let log = valid_log(&[0, 3, 250, 17, 9, 42, 7, 7, 7]);
//! assert!(LogState::fold(&Vocabulary::core(), &log).is_ok());
//! ```

mod given;

use serde_json::json;

use crate::event::{
    AbortReason, AssistantChunk, AssistantMessage, ContentBlock, EndSeed, ErrorInfo, LogOnly,
    Message, MessageSource, OnSurface, RequestContext, RequestHeader, RequestHeaderBody,
    RequestReason, Role, SessionTitle, StepEnd, StepStart, StreamChunk, TitleSource, Todo,
    TodoStatus, TodoWrite, ToolCall, ToolResult, TurnEnd, TurnEndReason, TurnError, TurnStart,
    Usage, UserMessage,
};
use crate::repair::NOT_STARTED;
use crate::{CallId, Event, NewEvent, Payload, Seq, SurfaceMeta, UnixMillis};

#[cfg(test)]
pub(crate) use given::placed;
pub use given::{Decided, Given};

/// A log that keeps every rule, made of the choices that the bytes stand for; the same bytes make
/// the same log. It may end anywhere, inside a turn too. Every prefix of it is a valid log.
///
/// What it holds follows from the rules as they are written down, not from the code that enforces
/// them.
#[must_use]
pub fn valid_log(choices: &[u8]) -> Vec<Event> {
    let mut author = Author {
        choices: choices.iter().copied(),
        log: Vec::new(),
        time: 1_700_000_000_000,
        turn: 0,
        turn_open: false,
        step: 0,
        step_open: false,
        asked: Vec::new(),
        running: Vec::new(),
        calls: 0,
        surface: Vec::new(),
    };
    while let Some(choice) = author.choices.next() {
        author.write(choice);
    }
    author.log
}

const TEXTS: [&str; 9] = [
    "",
    "a",
    "hello\nworld",
    "ünïcode 🦀",
    "a\0b",
    "\u{202e}\u{1b}[31m",
    "\"quoted\" \\ {\"json\":1}",
    "  spaced  ",
    "__proto__",
];

struct Author<C> {
    choices: C,
    log: Vec<Event>,
    time: i64,
    turn: u64,
    turn_open: bool,
    step: u64,
    step_open: bool,
    /// Calls that the model asked for in this step and that have not started.
    asked: Vec<CallId>,
    /// Calls of this step that started and have no result.
    running: Vec<CallId>,
    calls: u64,
    surface: Vec<OnSurfaceNow>,
}

/// An event on the surface, with its payload if it is a tool result.
struct OnSurfaceNow {
    seq: Seq,
    result: Option<ToolResult>,
}

impl<C: Iterator<Item = u8>> Author<C> {
    /// A number below `limit`; 0 when the choices are used up.
    fn pick(&mut self, limit: usize) -> usize {
        usize::from(self.choices.next().unwrap_or(0)) % limit
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.pick(n) == n - 1
    }

    fn text(&mut self) -> String {
        TEXTS[self.pick(TEXTS.len())].to_owned()
    }

    fn next(&self) -> Seq {
        Seq::ZERO.plus(self.log.len() as u64)
    }

    fn push(&mut self, event: NewEvent) -> Seq {
        // The wall clock stands still, runs, and now and then steps back.
        self.time += [0, 0, 1, 12, 5_000, -3][self.pick(6)];
        let seq = self.next();
        self.log.push(event.at(seq, UnixMillis::new(self.time)));
        seq
    }

    fn log_only(&mut self, payload: &impl LogOnly) -> Seq {
        self.push(NewEvent::new(payload))
    }

    fn append(&mut self, payload: &impl OnSurface, result: Option<ToolResult>) {
        let sources = self.sources();
        let meta = SurfaceMeta {
            sources,
            ..SurfaceMeta::append()
        };
        let seq = self.push(NewEvent::on_surface(payload, meta));
        self.surface.push(OnSurfaceNow { seq, result });
    }

    /// Some earlier events, in any order, or none recorded.
    fn sources(&mut self) -> Option<Vec<Seq>> {
        let last = self.next().previous()?;
        match self.pick(4) {
            0 => Some(vec![last]),
            1 => Some(vec![last, Seq::ZERO]).filter(|_| last > Seq::ZERO),
            _ => None,
        }
    }

    fn write(&mut self, choice: u8) {
        match choice % 8 {
            0 | 1 => self.frame(),
            2 => self.say(),
            3 => self.aside(),
            4 => self.replace(),
            5 if self.step_open => self.stream(),
            6 if self.step_open => self.answer(),
            7 if self.step_open => self.tool(),
            _ => self.frame(),
        }
    }

    /// Opens or closes whatever is due.
    fn frame(&mut self) {
        let (turn, step) = (self.turn, self.step);
        if self.step_open {
            self.log_only(&StepEnd { turn, step });
            self.step_open = false;
            self.asked.clear();
            self.running.clear();
        } else if self.turn_open && self.one_in(3) {
            let reason = self.reason();
            self.log_only(&TurnEnd { turn, reason });
            self.turn_open = false;
        } else if self.turn_open {
            let step = step + 1;
            self.log_only(&StepStart { turn, step });
            (self.step, self.step_open) = (step, true);
        } else {
            let turn = turn + 1;
            self.log_only(&TurnStart { turn });
            (self.turn, self.turn_open, self.step) = (turn, true, 0);
        }
    }

    fn reason(&mut self) -> TurnEndReason {
        match self.pick(7) {
            0 => TurnEndReason::Completed,
            1 => TurnEndReason::Aborted {
                reason: AbortReason::User,
            },
            2 => TurnEndReason::Blocked,
            3 => TurnEndReason::MaxTokens,
            4 => TurnEndReason::Error {
                error: TurnError::unknown(self.text()),
            },
            5 => TurnEndReason::Interrupted,
            _ => TurnEndReason::Other(json!({"kind": "acme", "n": 1})),
        }
    }

    fn say(&mut self) {
        let source = match self.pick(3) {
            0 => MessageSource::User,
            _ => other_source(),
        };
        let payload = UserMessage(self.message(Role::User, source));
        self.append(&payload, None);
    }

    fn message(&mut self, role: Role, source: MessageSource) -> Message {
        let content = match self.pick(4) {
            0 => Vec::new(),
            1 => vec![ContentBlock::text(self.text()), other_block()],
            _ => vec![ContentBlock::text(self.text())],
        };
        Message {
            id: format!("m{}", self.log.len()).into(),
            role,
            content,
            source,
        }
    }

    /// What is written beside the conversation.
    fn aside(&mut self) {
        match self.pick(if self.turn_open { 6 } else { 3 }) {
            0 => {
                let data = Payload::from_text(r#"{"any":[1,"\ud800",12345678901234567890123]}"#);
                let data = data.expect("it is JSON");
                self.push(NewEvent::raw("acme/note", data, None, true));
            }
            1 => {
                self.log_only(&EndSeed {});
            }
            2 => {
                let title = format!("title {}", self.text());
                self.log_only(&SessionTitle {
                    title,
                    message_seqs: None,
                    source: TitleSource::User,
                });
            }
            3 => {
                let todos = (0..self.pick(4)).map(|nth| Todo {
                    content: format!("item {nth}"),
                    status: TodoStatus::ALL[nth % 3],
                });
                let todos = todos.collect();
                self.log_only(&TodoWrite { todos });
            }
            4 => {
                let config = json!({"provider": "p", "model": self.text() + "m"});
                let config = config.as_object().cloned().unwrap_or_default();
                self.log_only(&RequestHeader {
                    header: RequestHeaderBody {
                        config,
                        ..RequestHeaderBody::default()
                    },
                    reason: RequestReason::Change,
                });
            }
            _ => {
                let model = self.text();
                self.log_only(&RequestContext {
                    provider: "p".into(),
                    model,
                    context_window: Some(1000),
                });
            }
        }
    }

    /// Replaces a run of the surface by a summary, or a tool result by a shorter one.
    fn replace(&mut self) {
        if self.surface.is_empty() {
            return self.say();
        }
        let first = self.pick(self.surface.len());
        if let Some(result) = self.surface[first].result.clone()
            && self.turn_open
        {
            return self.prune(first, result);
        }
        let last = first + self.pick((self.surface.len() - first).min(5));
        let run = &self.surface[first..=last];
        let mut sources: Vec<Seq> = run.iter().map(|node| node.seq).collect();
        let (start, end) = (sources[0], sources[sources.len() - 1]);
        sources.reverse();
        let payload = UserMessage(self.message(Role::User, other_source()));
        let meta = SurfaceMeta::replace(start, end, sources);
        let seq = self.push(NewEvent::on_surface(&payload, meta));
        let node = OnSurfaceNow { seq, result: None };
        self.surface.splice(first..=last, [node]);
    }

    fn prune(&mut self, at: usize, mut result: ToolResult) {
        for block in &mut result.message.content {
            if let ContentBlock::ToolResult { content, .. } = block {
                *content = vec![ContentBlock::text("pruned")];
            }
        }
        let old = self.surface[at].seq;
        let meta = SurfaceMeta::replace(old, old, vec![old]);
        let seq = self.push(NewEvent::on_surface(&result, meta));
        let result = Some(result);
        self.surface[at] = OnSurfaceNow { seq, result };
    }

    /// A run of stream chunks.
    fn stream(&mut self) {
        let kind = self.pick(5);
        for _ in 0..=self.pick(6) {
            let (turn, step, index) = (self.turn, self.step, 0);
            let text = self.text();
            let chunk = match kind {
                0 => StreamChunk::TextDelta { index, text },
                1 => StreamChunk::ReasoningDelta { index, text },
                2 => StreamChunk::ToolCallDelta {
                    index,
                    id: "c".into(),
                    name: self.one_in(2).then(|| "tool".into()),
                    arguments_delta: text,
                },
                3 => StreamChunk::Usage {
                    usage: Usage::default(),
                },
                _ => {
                    let half = r#"{"type":"text-delta","index":0,"text":"\ud83d"}"#;
                    StreamChunk::Other(Payload::from_text(half).expect("it is JSON"))
                }
            };
            self.log_only(&AssistantChunk { turn, step, chunk });
        }
    }

    /// What the model says, with the calls that it asks for.
    fn answer(&mut self) {
        let source = MessageSource::Model {
            provider: "p".into(),
            model: "m".into(),
        };
        let mut message = self.message(Role::Assistant, source);
        for _ in 0..self.pick(4) {
            let call = self.new_call();
            message.content.push(ContentBlock::ToolCall {
                id: call.clone(),
                name: "tool".into(),
                arguments: self.text(),
            });
            self.asked.push(call);
        }
        let interrupted = self.one_in(5);
        let payload = AssistantMessage {
            turn: self.turn,
            step: self.step,
            message,
            usage: None,
            interrupted,
        };
        if self.one_in(6) {
            let meta = SurfaceMeta::append_from(Vec::new());
            let seq = self.push(NewEvent::on_surface(&payload, meta));
            self.surface.push(OnSurfaceNow { seq, result: None });
        } else {
            self.append(&payload, None);
        }
    }

    fn new_call(&mut self) -> CallId {
        self.calls += 1;
        let name = ["call", "constructor", "__proto__", "…"][self.pick(4)];
        format!("{name}-{}", self.calls).into()
    }

    /// Starts a call, or settles one.
    fn tool(&mut self) {
        match self.pick(4) {
            0 if !self.running.is_empty() => {
                let nth = self.pick(self.running.len());
                let call = self.running.remove(nth);
                let failed = self.one_in(3);
                self.settle(call, failed, None);
            }
            1 if !self.asked.is_empty() => {
                let nth = self.pick(self.asked.len());
                let call = self.asked.remove(nth);
                self.settle(call, true, Some(NOT_STARTED));
            }
            _ => {
                // Now and then one that no message asked for.
                let call = match self.asked.len() {
                    0 => self.new_call(),
                    n => {
                        let nth = self.pick(n);
                        self.asked.remove(nth)
                    }
                };
                self.log_only(&ToolCall {
                    turn: self.turn,
                    step: self.step,
                    call_id: call.clone(),
                    name: "tool".into(),
                    arguments: "{not json".into(),
                });
                self.running.push(call);
            }
        }
    }

    fn settle(&mut self, call: CallId, is_error: bool, code: Option<&str>) {
        let block = ContentBlock::ToolResult {
            tool_call_id: call.clone(),
            content: vec![ContentBlock::text(self.text())],
            is_error,
        };
        let payload = ToolResult {
            turn: self.turn,
            step: self.step,
            message: Message {
                id: format!("m{}", self.log.len()).into(),
                role: Role::User,
                content: vec![block],
                source: MessageSource::Tool { call_id: call },
            },
            error: code.map(|code| ErrorInfo {
                name: "Error".into(),
                code: code.into(),
            }),
            meta: self
                .one_in(2)
                .then(|| Payload::from_text(r#"{"b":1,"a":[2]}"#).expect("it is JSON")),
        };
        self.append(&payload, Some(payload.clone()));
    }
}

fn other_source() -> MessageSource {
    let raw = Payload::from_text(r#"{"kind":"plugin","plugin":"x"}"#).expect("it is JSON");
    MessageSource::Other {
        kind: "plugin".into(),
        raw,
    }
}

fn other_block() -> ContentBlock {
    let raw = r#"{"type":"image","data":1.50}"#;
    ContentBlock::Other(Payload::from_text(raw).expect("it is JSON"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::SurfaceOp;
    use crate::event::EventData as _;

    /// Bytes without a pattern.
    fn bytes(length: usize) -> Vec<u8> {
        let mut state = 7_u32;
        let next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            state.to_be_bytes()[0]
        };
        std::iter::repeat_with(next).take(length).collect()
    }

    #[test]
    fn the_same_choices_make_the_same_log() {
        assert_eq!(valid_log(&bytes(500)), valid_log(&bytes(500)));
        assert_eq!(valid_log(&[]), []);
    }

    #[test]
    fn the_logs_hold_every_core_type_and_both_surface_operations() {
        let log = valid_log(&bytes(20_000));
        let found: BTreeSet<&str> = log.iter().map(Event::kind).collect();
        let expected = BTreeSet::from([
            "acme/note",
            AssistantChunk::TYPE,
            AssistantMessage::TYPE,
            EndSeed::TYPE,
            RequestContext::TYPE,
            RequestHeader::TYPE,
            SessionTitle::TYPE,
            StepEnd::TYPE,
            StepStart::TYPE,
            TodoWrite::TYPE,
            ToolCall::TYPE,
            ToolResult::TYPE,
            TurnEnd::TYPE,
            TurnStart::TYPE,
            UserMessage::TYPE,
        ]);
        assert_eq!(found, expected);
        let replaces = |event: &&Event| {
            let meta = event.surface();
            meta.is_some_and(|meta| meta.op != SurfaceOp::Append)
        };
        let replacing: BTreeSet<&str> = log.iter().filter(replaces).map(Event::kind).collect();
        assert_eq!(
            replacing,
            BTreeSet::from([UserMessage::TYPE, ToolResult::TYPE])
        );
    }
}
