//! The log as a client is shown it: one fold for what happens now and for what happened before.

use std::collections::{HashMap, HashSet};

use agent_client_protocol::v1::schema::{ClientCapabilities, SessionUpdate, ToolCallId};
use session_core::event::{
    AssistantChunk, AssistantMessage, ContentBlock, EventData, MessageSource, SessionTitle,
    StepEnd, StepStart, StreamChunk, Todo, TodoWrite, ToolCall, ToolResult, TurnEnd, TurnStart,
    UserMessage,
};
use session_core::{CallId, Event, UnixMillis, is_transcript};
use tool_runtime::ToolRegistry;

use crate::to_acp::{self, Voice};

/// Whether a client sees events as they happen or is told of them afterwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// As they happen: text in the pieces in which it was streamed, a plan at each change, and
    /// nothing of what the person said, since the client shows that by itself.
    Live,
    /// Afterwards: whole messages, also the person's, and at the end the title and the plan.
    Replay,
}

/// Turns the events of one session into the updates of one client.
///
/// Fed with the same log, a live and a replaying projector leave the client in the same state,
/// except for what the person said. Pure: no clock, no I/O, and no failure.
///
/// - Messages keep their id from replay to replay. A message of the model is named by its turn and
///   step (its own id is not known while it is streamed), one of the person by its own id.
/// - Each call is announced before it is updated and ends as completed or failed, even where the
///   log lacks the call or the result.
/// - What replaces earlier messages for the model (a summary, a pruned result) is not shown; nor is
///   what the harness says to the model on the person's behalf.
#[derive(Debug)]
pub struct Projector {
    mode: Mode,
    tools: ToolRegistry,
    takes_notices: bool,
    /// What stands in the log.
    standing: Option<Vec<Todo>>,
    /// What the client was last told; none if it was told nothing.
    shown_plan: Option<Vec<Todo>>,
    title: Option<String>,
    shown_title: Option<String>,
    step: Step,
    /// Text of a replay that may go on.
    held: Vec<(String, Voice, String)>,
}

/// What has been shown of the step that is open.
#[derive(Debug, Default)]
struct Step {
    turn: u64,
    step: u64,
    /// Streams of this step that said something before the present one; each is a message of its
    /// own.
    earlier: u32,
    stream: Stream,
    asked: HashMap<CallId, (String, String)>,
    announced: HashSet<CallId>,
    running: Vec<CallId>,
}

/// What has been shown of one stream of the model.
#[derive(Debug, Default)]
struct Stream {
    said: String,
    thought: String,
    blocks: HashSet<u64>,
    /// The model said that it has ended.
    over: bool,
    /// Its message is in the log.
    whole: bool,
}

impl Stream {
    fn shown(&self, voice: Voice) -> &str {
        match voice {
            Voice::Agent => &self.said,
            Voice::Thought => &self.thought,
            Voice::User => "",
        }
    }

    fn show(&mut self, voice: Voice, text: &str) {
        match voice {
            Voice::Agent => self.said.push_str(text),
            Voice::Thought => self.thought.push_str(text),
            Voice::User => {}
        }
    }
}

impl Step {
    fn message_id(&self) -> String {
        let Self { turn, step, .. } = self;
        match self.earlier {
            0 => format!("assistant-{turn}.{step}"),
            earlier => format!("assistant-{turn}.{step}.{}", earlier + 1),
        }
    }

    fn next_stream(&mut self) {
        if !(self.stream.said.is_empty() && self.stream.thought.is_empty()) {
            self.earlier += 1;
        }
        self.stream = Stream::default();
    }
}

impl Projector {
    /// A projector for a client that has been shown nothing of the session.
    #[must_use]
    pub fn new(mode: Mode, client: &ClientCapabilities, tools: ToolRegistry) -> Self {
        let session = client.session.as_ref();
        Self {
            mode,
            tools,
            takes_notices: session.is_some_and(|session| session.notices.is_some()),
            standing: None,
            shown_plan: None,
            title: None,
            shown_title: None,
            step: Step::default(),
            held: Vec::new(),
        }
    }

    /// Begins to tell the log from its first event on. What the client was shown of the plan is
    /// remembered, so that an old one is cleared where none stands.
    pub fn begin_replay(&mut self) {
        self.mode = Mode::Replay;
        (self.standing, self.title) = (None, None);
        self.step = Step::default();
        self.held.clear();
    }

    /// Ends a replay with what stands: the title, and last the plan. The plan is left out when
    /// there is none and the client shows none. What follows is live.
    pub fn finish_replay(&mut self) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        self.release(&mut updates);
        if let Some(title) = self.title.take() {
            // The title is older than what was told behind it, and so says nothing of the time.
            updates.push(to_acp::title(&title, None));
            self.shown_title = Some(title);
        }
        self.mode = Mode::Live;
        let standing = self.standing.take();
        updates.extend(self.restate(standing.as_deref()));
        updates
    }

    /// Tells the client which plan stands, for one that attaches without a replay; `None` when
    /// there is none and the client shows none.
    pub fn restate(&mut self, standing: Option<&[Todo]>) -> Option<SessionUpdate> {
        let standing = standing.unwrap_or_default();
        if standing.is_empty() && !self.shows_a_plan() {
            return None;
        }
        self.shown_plan = Some(standing.to_vec());
        Some(to_acp::plan(standing))
    }

    /// Takes the next event of the log, and returns what the client is to be told of it.
    pub fn push(&mut self, event: &Event) -> Vec<SessionUpdate> {
        let mut updates = Vec::new();
        let out = &mut updates;
        match event.kind() {
            TurnStart::TYPE => self.turn_start(out),
            TurnEnd::TYPE => self.release(out),
            StepStart::TYPE => {
                if let Some(StepStart { turn, step }) = self.read(event, out) {
                    self.step = Step {
                        turn,
                        step,
                        ..Step::default()
                    };
                }
            }
            StepEnd::TYPE => self.step_end(out),
            UserMessage::TYPE if is_transcript(event) => {
                if let Some(message) = self.read(event, out) {
                    self.user_message(&message, out);
                }
            }
            AssistantChunk::TYPE => {
                if let Some(AssistantChunk { chunk, .. }) = self.read(event, out) {
                    self.assistant_chunk(chunk, out);
                }
            }
            AssistantMessage::TYPE if is_transcript(event) => {
                if let Some(message) = self.read(event, out) {
                    self.assistant_message(message, out);
                }
            }
            ToolCall::TYPE => {
                if let Some(call) = self.read(event, out) {
                    self.tool_call(&call, out);
                }
            }
            ToolResult::TYPE if is_transcript(event) => {
                if let Some(result) = self.read(event, out) {
                    self.tool_result(&result, out);
                }
            }
            TodoWrite::TYPE => {
                if let Some(TodoWrite { todos }) = self.read(event, out) {
                    self.todo_write(todos, out);
                }
            }
            SessionTitle::TYPE => {
                if let Some(SessionTitle { title, .. }) = self.read(event, out) {
                    self.session_title(title, event.time_ms(), out);
                }
            }
            // Requests, boundaries, replacements and extensions: nothing that a client shows.
            _ => {}
        }
        updates
    }

    fn read<P: EventData>(&self, event: &Event, out: &mut Vec<SessionUpdate>) -> Option<P> {
        let payload = event.decode();
        if payload.is_none() && self.takes_notices {
            out.push(to_acp::unreadable(event.seq(), event.kind()));
        }
        payload
    }

    fn turn_start(&mut self, out: &mut Vec<SessionUpdate>) {
        self.standing = None;
        // Some clients keep unfinished entries of the turn before.
        if self.mode == Mode::Live && self.shows_a_plan() {
            self.shown_plan = Some(Vec::new());
            out.push(to_acp::plan(&[]));
        }
    }

    fn step_end(&mut self, out: &mut Vec<SessionUpdate>) {
        self.release(out);
        let Step {
            turn,
            step,
            running,
            ..
        } = std::mem::take(&mut self.step);
        for call in running {
            out.push(to_acp::abandoned_call(to_acp::tool_call_id(
                turn, step, &call,
            )));
        }
    }

    fn user_message(&mut self, UserMessage(message): &UserMessage, out: &mut Vec<SessionUpdate>) {
        if self.mode == Mode::Live || message.source != MessageSource::User {
            return;
        }
        let text: String = spoken(&message.content)
            .filter_map(|(voice, text)| (voice == Voice::Agent).then_some(text))
            .collect();
        if !text.is_empty() {
            self.release(out);
            out.push(to_acp::chunk(Voice::User, message.id.as_str(), text));
        }
    }

    fn assistant_chunk(&mut self, chunk: StreamChunk, out: &mut Vec<SessionUpdate>) {
        let step = &mut self.step;
        match chunk {
            StreamChunk::BlockStart { index, .. } => {
                // A block that begins twice is the sign of a second attempt.
                if step.stream.over || step.stream.blocks.contains(&index) {
                    step.next_stream();
                }
                step.stream.blocks.insert(index);
            }
            StreamChunk::TextDelta { text, .. } => self.stream(Voice::Agent, &text, out),
            StreamChunk::ReasoningDelta { text, .. } => self.stream(Voice::Thought, &text, out),
            StreamChunk::Finish { .. } => step.stream.over = true,
            // The call itself and the whole block come as events of their own.
            _ => {}
        }
    }

    fn stream(&mut self, voice: Voice, text: &str, out: &mut Vec<SessionUpdate>) {
        if self.step.stream.over {
            self.step.next_stream();
        }
        self.say(voice, text, out);
    }

    fn assistant_message(&mut self, whole: AssistantMessage, out: &mut Vec<SessionUpdate>) {
        let content = whole.message.content;
        (self.step.turn, self.step.step) = (whole.turn, whole.step);
        if self.step.stream.whole || !self.continues_stream(&content) {
            self.step.next_stream();
        }
        let shown = |voice| self.step.stream.shown(voice).len();
        let mut skip = HashMap::from([
            (Voice::Agent, shown(Voice::Agent)),
            (Voice::Thought, shown(Voice::Thought)),
        ]);
        let mut rest: Vec<(Voice, String)> = Vec::new();
        for (voice, text) in spoken(&content) {
            let skip = skip.entry(voice).or_default();
            let already = (*skip).min(text.len());
            *skip -= already;
            // What was streamed is a prefix, so the cut lies between two characters.
            let text = text.get(already..).unwrap_or_default();
            match rest.last_mut() {
                Some((last, joined)) if *last == voice => joined.push_str(text),
                _ => rest.push((voice, text.to_owned())),
            }
        }
        for (voice, text) in rest {
            self.say(voice, &text, out);
        }
        self.release(out);
        (self.step.stream.over, self.step.stream.whole) = (true, true);
        for block in content {
            if let ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } = block
            {
                self.step.asked.insert(id, (name, arguments));
            }
        }
    }

    /// Whether a message is what the present stream said, perhaps with more behind it.
    fn continues_stream(&self, content: &[ContentBlock]) -> bool {
        [Voice::Agent, Voice::Thought].into_iter().all(|voice| {
            let whole: String = spoken(content)
                .filter_map(|(other, text)| (other == voice).then_some(text))
                .collect();
            // Some providers do not keep what the model thought.
            whole.is_empty() || whole.starts_with(self.step.stream.shown(voice))
        })
    }

    fn tool_call(&mut self, call: &ToolCall, out: &mut Vec<SessionUpdate>) {
        self.release(out);
        let id = to_acp::tool_call_id(call.turn, call.step, &call.call_id);
        self.announce(id, &call.call_id, &call.name, &call.arguments, out);
        self.step.running.push(call.call_id.clone());
    }

    fn tool_result(&mut self, result: &ToolResult, out: &mut Vec<SessionUpdate>) {
        let Some((call, content, is_error)) = result.outcome() else {
            return;
        };
        self.release(out);
        let id = to_acp::tool_call_id(result.turn, result.step, call);
        self.step.running.retain(|other| other != call);
        if !self.step.announced.contains(call) {
            // The call never started; clients need to hear of it all the same.
            let asked = self.step.asked.get(call).cloned();
            let (name, arguments) = asked.unwrap_or_else(|| ("tool".to_owned(), String::new()));
            self.announce(id.clone(), call, &name, &arguments, out);
        }
        out.push(to_acp::tool_result(id, content, is_error));
    }

    fn announce(
        &mut self,
        id: ToolCallId,
        call_id: &CallId,
        name: &str,
        arguments: &str,
        out: &mut Vec<SessionUpdate>,
    ) {
        let presentation = self.tools.present(name, arguments);
        let call = to_acp::tool_call(id, name, presentation);
        out.push(if self.step.announced.insert(call_id.clone()) {
            SessionUpdate::ToolCall(call)
        } else {
            SessionUpdate::ToolCallUpdate(call.into())
        });
    }

    fn todo_write(&mut self, todos: Vec<Todo>, out: &mut Vec<SessionUpdate>) {
        if self.mode == Mode::Live && self.shown_plan.as_ref() != Some(&todos) {
            out.push(to_acp::plan(&todos));
            self.shown_plan = Some(todos.clone());
        }
        self.standing = Some(todos);
    }

    fn session_title(&mut self, title: String, at: UnixMillis, out: &mut Vec<SessionUpdate>) {
        match self.mode {
            Mode::Replay => self.title = Some(title),
            Mode::Live if self.shown_title.as_ref() != Some(&title) => {
                out.push(to_acp::title(&title, Some(at)));
                self.shown_title = Some(title);
            }
            Mode::Live => {}
        }
    }

    fn say(&mut self, voice: Voice, text: &str, out: &mut Vec<SessionUpdate>) {
        if text.is_empty() {
            return;
        }
        self.step.stream.show(voice, text);
        let id = self.step.message_id();
        match (self.mode, self.held.last_mut()) {
            (Mode::Live, _) => out.push(to_acp::chunk(voice, &id, text.to_owned())),
            (Mode::Replay, Some((message, last, held))) if *message == id && *last == voice => {
                held.push_str(text);
            }
            (Mode::Replay, _) => self.held.push((id, voice, text.to_owned())),
        }
    }

    /// Tells what was held back to become a whole message.
    fn release(&mut self, out: &mut Vec<SessionUpdate>) {
        let held = self.held.drain(..);
        out.extend(held.map(|(message, voice, text)| to_acp::chunk(voice, &message, text)));
    }

    fn shows_a_plan(&self) -> bool {
        self.shown_plan
            .as_ref()
            .is_some_and(|todos| !todos.is_empty())
    }
}

fn spoken(content: &[ContentBlock]) -> impl Iterator<Item = (Voice, &str)> {
    content.iter().filter_map(|block| match block {
        ContentBlock::Text { text } => Some((Voice::Agent, text.as_str())),
        ContentBlock::Reasoning { text } => Some((Voice::Thought, text.as_str())),
        // Calls and results are shown as such, and kinds of other writers not at all.
        _ => None,
    })
}

#[cfg(test)]
mod tests;
