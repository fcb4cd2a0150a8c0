//! Logs of any length, as an agent at work writes them.

use session_core::event::{
    AssistantChunk, AssistantMessage, ContentBlock, Message, MessageSource, Role, StepEnd,
    StepStart, StreamChunk, Todo, TodoStatus, TodoWrite, ToolCall, ToolResult, TurnEnd,
    TurnEndReason, TurnStart, Usage, UserMessage,
};
use session_core::{CallId, Event, NewEvent, Seq, SurfaceMeta, UnixMillis};

/// What the model is shown is replaced by a summary after so many turns, as a harness does when
/// the context window is full. It is what keeps the surface of a long log short.
const COMPACTED_AFTER: u64 = 50;
/// Pieces that the answer of each step is streamed in.
const PIECES: u64 = 12;

const WORDS: &str = "The valve gear was out of line by two turns of the eccentric rod; with the \
    rod set back and the pin replaced, the cut-off is even on both ends of the cylinder again. ";

/// Turns without an end.
pub(super) struct Log {
    next: Seq,
    turn: u64,
    surface: Vec<Seq>,
}

impl Log {
    pub(super) fn new() -> Self {
        Self {
            next: Seq::ZERO,
            turn: 0,
            surface: Vec::new(),
        }
    }

    /// The events of the next turn.
    pub(super) fn turn(&mut self) -> Vec<Event> {
        self.turn += 1;
        let turn = self.turn;
        let mut events = Vec::new();
        self.log_only(&mut events, NewEvent::new(&TurnStart { turn }));
        self.say(&mut events);
        self.step(&mut events, 1, true);
        self.step(&mut events, 2, false);
        let reason = TurnEndReason::Completed;
        self.log_only(&mut events, NewEvent::new(&TurnEnd { turn, reason }));
        events
    }

    fn log_only(&mut self, events: &mut Vec<Event>, event: NewEvent) -> Seq {
        let seq = self.next;
        let time = 1_700_000_000_000 + i64::try_from(seq.get()).unwrap() * 7;
        events.push(event.at(seq, UnixMillis::new(time)));
        self.next = seq.next();
        seq
    }

    fn on_surface(&mut self, events: &mut Vec<Event>, event: NewEvent) {
        let seq = self.log_only(events, event);
        self.surface.push(seq);
    }

    /// The user's prompt, or the summary of all that was said.
    fn say(&mut self, events: &mut Vec<Event>) {
        let message = UserMessage(Message {
            id: format!("user-{}", self.turn).into(),
            role: Role::User,
            content: vec![ContentBlock::text(WORDS)],
            source: MessageSource::User,
        });
        let is_due = self.turn.is_multiple_of(COMPACTED_AFTER);
        let meta = match self.surface[..] {
            [first, .., last] if is_due => {
                let shadowed = std::mem::take(&mut self.surface);
                SurfaceMeta::replace(first, last, shadowed)
            }
            _ => SurfaceMeta::append(),
        };
        self.on_surface(events, NewEvent::on_surface(&message, meta));
    }

    fn step(&mut self, events: &mut Vec<Event>, step: u64, calls: bool) {
        let turn = self.turn;
        let call = CallId::from(format!("call-{turn}-{step}"));
        self.log_only(events, NewEvent::new(&StepStart { turn, step }));
        let mut sources = Vec::new();
        for _ in 0..PIECES {
            let chunk = StreamChunk::TextDelta {
                index: 0,
                text: WORDS[..24].to_owned(),
            };
            let piece = AssistantChunk { turn, step, chunk };
            sources.push(self.log_only(events, NewEvent::new(&piece)));
        }
        let mut content = vec![ContentBlock::text(WORDS.repeat(4))];
        if calls {
            content.push(ContentBlock::ToolCall {
                id: call.clone(),
                name: "todo_write".into(),
                arguments: "{}".into(),
            });
        }
        let answer = AssistantMessage {
            turn,
            step,
            message: Message {
                id: format!("answer-{turn}-{step}").into(),
                role: Role::Assistant,
                content,
                source: MessageSource::Model {
                    provider: "acme".into(),
                    model: "acme-1".into(),
                },
            },
            usage: Some(Usage::default()),
            interrupted: false,
        };
        let meta = SurfaceMeta::append_from(sources);
        self.on_surface(events, NewEvent::on_surface(&answer, meta));
        if calls {
            self.tool(events, step, &call);
        }
        self.log_only(events, NewEvent::new(&StepEnd { turn, step }));
    }

    fn tool(&mut self, events: &mut Vec<Event>, step: u64, call: &CallId) {
        let turn = self.turn;
        let asked = ToolCall {
            turn,
            step,
            call_id: call.clone(),
            name: "todo_write".into(),
            arguments: "{}".into(),
        };
        self.log_only(events, NewEvent::new(&asked));
        let todos = (0..8)
            .map(|nth| Todo {
                content: format!("{nth}. {}", &WORDS[..60]),
                status: TodoStatus::Pending,
            })
            .collect();
        self.log_only(events, NewEvent::new(&TodoWrite { todos }));
        let result = ToolResult {
            turn,
            step,
            message: Message {
                id: format!("result-{turn}-{step}").into(),
                role: Role::User,
                content: vec![ContentBlock::ToolResult {
                    tool_call_id: call.clone(),
                    content: vec![ContentBlock::text(WORDS.repeat(12))],
                    is_error: false,
                }],
                source: MessageSource::Tool {
                    call_id: call.clone(),
                },
            },
            error: None,
            meta: None,
        };
        let meta = SurfaceMeta::append();
        self.on_surface(events, NewEvent::on_surface(&result, meta));
    }
}
