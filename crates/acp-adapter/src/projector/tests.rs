use std::collections::BTreeMap;

use agent_client_protocol::v1::schema::{
    ClientSessionCapabilities, ContentBlock as AcpBlock, ContentChunk, NoticeCapabilities,
    PlanEntry, ToolCall as AcpCall, ToolCallStatus,
};
use proptest::prelude::*;
use session_core::event::{
    BlockType, ChunkFinish, ErrorInfo, Message, Role, TitleSource, TodoStatus, TurnEndReason,
};
use session_core::{LogState, NewEvent, Payload, Seq, SurfaceMeta, Vocabulary};

use super::*;

/// A log being written; what it may not hold is left out.
struct Log {
    vocabulary: Vocabulary,
    state: LogState,
    events: Vec<Event>,
}

impl Log {
    fn new() -> Self {
        Self {
            vocabulary: Vocabulary::core(),
            state: LogState::default(),
            events: Vec::new(),
        }
    }

    /// Appends an event if it fits.
    fn offer(&mut self, event: NewEvent) -> bool {
        let at = i64::try_from(self.events.len()).unwrap();
        let event = event.at(self.state.next_seq(), UnixMillis::new(at));
        let staged = {
            let mut stage = self.state.stage(&self.vocabulary);
            if stage.push(&event).is_err() {
                return false;
            }
            stage.finish()
        };
        self.state.apply(staged);
        self.events.push(event);
        true
    }

    fn push(&mut self, event: NewEvent) {
        assert!(self.offer(event), "a test writes only what fits");
    }

    fn turn(&self) -> u64 {
        self.state.trace().open_turn().unwrap_or(0)
    }

    fn step(&self) -> u64 {
        self.state.trace().open_step().unwrap_or(0)
    }

    fn start_turn(&mut self) -> &mut Self {
        let turn = self.state.trace().next_turn();
        self.push(NewEvent::new(&TurnStart { turn }));
        self
    }

    fn end_turn(&mut self) -> &mut Self {
        let (turn, reason) = (self.turn(), TurnEndReason::Completed);
        self.push(NewEvent::new(&TurnEnd { turn, reason }));
        self
    }

    fn start_step(&mut self, step: u64) -> &mut Self {
        let turn = self.turn();
        self.push(NewEvent::new(&StepStart { turn, step }));
        self
    }

    fn end_step(&mut self) -> &mut Self {
        let (turn, step) = (self.turn(), self.step());
        self.push(NewEvent::new(&StepEnd { turn, step }));
        self
    }

    fn todos(&mut self, contents: &[&str]) -> &mut Self {
        self.push(NewEvent::new(&write(contents)));
        self
    }

    fn chunk(&mut self, chunk: StreamChunk) -> &mut Self {
        self.push(self.chunk_event(chunk));
        self
    }

    fn chunk_event(&self, chunk: StreamChunk) -> NewEvent {
        let (turn, step) = (self.turn(), self.step());
        NewEvent::new(&AssistantChunk { turn, step, chunk })
    }

    fn message(&mut self, content: Vec<ContentBlock>) -> &mut Self {
        self.push(self.message_event(content));
        self
    }

    fn message_event(&self, content: Vec<ContentBlock>) -> NewEvent {
        let (turn, step) = (self.turn(), self.step());
        let message = Message {
            id: format!("m{}", self.events.len()).into(),
            role: Role::Assistant,
            content,
            source: MessageSource::Model {
                provider: "p".into(),
                model: "m".into(),
            },
        };
        let whole = AssistantMessage {
            turn,
            step,
            message,
            usage: None,
            interrupted: false,
        };
        NewEvent::on_surface(&whole, SurfaceMeta::append())
    }

    fn call_event(&self, call: &str) -> NewEvent {
        NewEvent::new(&ToolCall {
            turn: self.turn(),
            step: self.step(),
            call_id: call.into(),
            name: "todo_write".into(),
            arguments: r#"{"todos":[]}"#.into(),
        })
    }

    fn result_event(&self, call: &str, started: bool) -> NewEvent {
        let error = ErrorInfo {
            name: "InterruptedError".into(),
            code: "TOOL_NOT_STARTED".into(),
        };
        let block = ContentBlock::ToolResult {
            tool_call_id: call.into(),
            content: vec![ContentBlock::text(format!("r{}", self.events.len()))],
            is_error: !started,
        };
        let result = ToolResult {
            turn: self.turn(),
            step: self.step(),
            message: Message {
                id: format!("m{}", self.events.len()).into(),
                role: Role::User,
                content: vec![block],
                source: MessageSource::Tool {
                    call_id: call.into(),
                },
            },
            error: (!started).then_some(error),
            meta: None,
        };
        NewEvent::on_surface(&result, SurfaceMeta::append())
    }

    /// What a harness does to a long result: another content in its place.
    fn pruned_event(&self, at: Seq) -> NewEvent {
        let place = usize::try_from(at.get()).unwrap();
        let mut result: ToolResult = self.events[place].decode().unwrap();
        let [ContentBlock::ToolResult { content, .. }] = result.message.content.as_mut_slice()
        else {
            panic!("a result holds one block");
        };
        *content = vec![ContentBlock::text("[pruned]")];
        NewEvent::on_surface(&result, SurfaceMeta::replace(at, at, vec![at]))
    }

    fn user_event(&self, source: MessageSource, surface: SurfaceMeta) -> NewEvent {
        let message = UserMessage(Message {
            id: format!("m{}", self.events.len()).into(),
            role: Role::User,
            content: vec![ContentBlock::text("a"), ContentBlock::text("b")],
            source,
        });
        NewEvent::on_surface(&message, surface)
    }
}

fn write(contents: &[&str]) -> TodoWrite {
    let todos = contents.iter().map(|content| Todo {
        content: (*content).to_owned(),
        status: TodoStatus::Pending,
    });
    TodoWrite {
        todos: todos.collect(),
    }
}

fn note() -> MessageSource {
    let raw = Payload::from_text(r#"{"kind":"plugin"}"#).unwrap();
    let kind = "plugin".to_owned();
    MessageSource::Other { kind, raw }
}

fn text(text: &str) -> StreamChunk {
    let text = text.to_owned();
    StreamChunk::TextDelta { index: 0, text }
}

fn begin(index: u64) -> StreamChunk {
    let block_type = BlockType::Text;
    StreamChunk::BlockStart { index, block_type }
}

fn projector(mode: Mode) -> Projector {
    Projector::new(mode, &ClientCapabilities::new(), ToolRegistry::default())
}

fn live(events: &[Event]) -> Vec<SessionUpdate> {
    let mut projector = projector(Mode::Live);
    events
        .iter()
        .flat_map(|event| projector.push(event))
        .collect()
}

fn replay(events: &[Event]) -> Vec<SessionUpdate> {
    let mut projector = projector(Mode::Replay);
    let mut updates: Vec<_> = events
        .iter()
        .flat_map(|event| projector.push(event))
        .collect();
    updates.extend(projector.finish_replay());
    updates
}

/// What a client shows that follows the protocol to the letter.
#[derive(Debug, Default, PartialEq)]
struct Screen {
    order: Vec<String>,
    texts: BTreeMap<String, String>,
    calls: BTreeMap<String, AcpCall>,
    plan: Vec<PlanEntry>,
    title: Option<String>,
}

impl Screen {
    fn of(updates: &[SessionUpdate]) -> Self {
        let mut screen = Self::default();
        for update in updates {
            screen.show(update);
        }
        screen
    }

    /// The same without what the person said.
    fn agent(updates: &[SessionUpdate]) -> Self {
        let said = updates
            .iter()
            .filter(|update| !matches!(update, SessionUpdate::UserMessageChunk(_)));
        Self::of(&said.cloned().collect::<Vec<_>>())
    }

    fn say(&mut self, voice: &str, chunk: &ContentChunk) {
        let AcpBlock::Text(text) = &chunk.content else {
            panic!("only texts are sent");
        };
        let key = format!("{voice} {}", chunk.message_id.as_ref().unwrap());
        let said = self.texts.entry(key.clone()).or_insert_with(|| {
            self.order.push(key);
            String::new()
        });
        said.push_str(&text.text);
    }

    fn show(&mut self, update: &SessionUpdate) {
        match update {
            SessionUpdate::UserMessageChunk(chunk) => self.say("user", chunk),
            SessionUpdate::AgentMessageChunk(chunk) => self.say("agent", chunk),
            SessionUpdate::AgentThoughtChunk(chunk) => self.say("thought", chunk),
            SessionUpdate::ToolCall(call) => {
                let id = call.tool_call_id.to_string();
                self.order.push(id.clone());
                let known = self.calls.insert(id, call.clone());
                assert_eq!(known, None, "a call is announced once");
            }
            SessionUpdate::ToolCallUpdate(update) => {
                let call = self.calls.get_mut(&update.tool_call_id.to_string());
                let call = call.expect("a call is announced before it is updated");
                call.update(update.fields.clone());
            }
            SessionUpdate::Plan(plan) => self.plan.clone_from(&plan.entries),
            SessionUpdate::SessionInfoUpdate(info) => {
                self.title = info.title.value().cloned();
            }
            other => panic!("not sent to this client: {other:?}"),
        }
    }
}

/// The texts of the messages, as `voice id: text`.
fn said(updates: &[SessionUpdate]) -> Vec<String> {
    let screen = Screen::of(updates);
    let texts = screen.order.iter().filter_map(|key| {
        let text = screen.texts.get(key)?;
        Some(format!("{key}: {text}"))
    });
    texts.collect()
}

fn plans(updates: &[SessionUpdate]) -> Vec<usize> {
    let plans = updates.iter().filter_map(|update| match update {
        SessionUpdate::Plan(plan) => Some(plan.entries.len()),
        _ => None,
    });
    plans.collect()
}

#[test]
fn a_plan_is_shown_once_per_change_and_cleared_at_the_next_turn() {
    let mut log = Log::new();
    log.start_turn().todos(&["a", "b"]).todos(&["a", "b"]);
    log.todos(&["a"]).end_turn().start_turn().end_turn();
    log.start_turn().todos(&[]).todos(&["c"]).end_turn();
    assert_eq!(plans(&live(&log.events)), [2, 1, 0, 1]);
    assert_eq!(plans(&replay(&log.events)), [1]);
}

#[test]
fn the_first_list_is_shown_though_it_is_empty() {
    let mut log = Log::new();
    log.start_turn().todos(&[]);
    assert_eq!(plans(&live(&log.events)), [0]);
    assert_eq!(plans(&replay(&log.events)), [] as [usize; 0]);
}

#[test]
fn a_replay_clears_a_plan_that_the_client_still_shows() {
    let mut log = Log::new();
    log.start_turn().todos(&["a"]);
    let mut projector = projector(Mode::Live);
    for event in &log.events {
        projector.push(event);
    }
    projector.begin_replay();
    log.end_turn().start_turn();
    let mut updates: Vec<_> = log
        .events
        .iter()
        .flat_map(|event| projector.push(event))
        .collect();
    updates.extend(projector.finish_replay());
    assert_eq!(plans(&updates), [0]);
}

#[test]
fn a_streamed_message_is_completed_by_what_was_not_streamed() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.chunk(text("hel")).chunk(text("lo"));
    let thought = ContentBlock::Reasoning {
        text: "hm".to_owned(),
    };
    log.message(vec![thought, ContentBlock::text("hello, you")]);
    let expected = [
        "agent assistant-1.1: hello, you",
        "thought assistant-1.1: hm",
    ];
    assert_eq!(said(&live(&log.events)), expected);
    assert_eq!(said(&replay(&log.events)), expected);
    assert_eq!(live(&log.events).len(), 4);
    assert_eq!(replay(&log.events).len(), 3);
}

#[test]
fn a_message_that_was_not_streamed_is_one_update() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.message(vec![ContentBlock::text("a"), ContentBlock::text("b")]);
    assert_eq!(said(&live(&log.events)), ["agent assistant-1.1: ab"]);
    assert_eq!(live(&log.events), replay(&log.events));
    assert_eq!(live(&log.events).len(), 1);
}

#[test]
fn a_second_attempt_is_a_message_of_its_own() {
    let failed = StreamChunk::Finish {
        reason: ChunkFinish::Error {
            failure: session_core::event::TurnError::unknown("reset"),
        },
    };
    let whole = vec![ContentBlock::text("once more")];
    // Told by the end of the first stream, by a block that begins again, or by the text itself.
    for sign in [
        vec![failed, text("once")],
        vec![begin(0), text("once")],
        vec![],
    ] {
        let mut log = Log::new();
        log.start_turn().start_step(1);
        log.chunk(begin(0)).chunk(text("at fi"));
        for chunk in sign {
            log.chunk(chunk);
        }
        log.message(whole.clone());
        let expected = [
            "agent assistant-1.1: at fi",
            "agent assistant-1.1.2: once more",
        ];
        assert_eq!(said(&live(&log.events)), expected);
        assert_eq!(said(&replay(&log.events)), expected);
    }
}

#[test]
fn a_second_message_of_a_step_is_told_apart_though_it_begins_alike() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.message(vec![ContentBlock::text("a")]);
    log.message(vec![ContentBlock::text("ab")]);
    let expected = ["agent assistant-1.1: a", "agent assistant-1.1.2: ab"];
    assert_eq!(said(&live(&log.events)), expected);
    assert_eq!(said(&replay(&log.events)), expected);
}

#[test]
fn a_stream_that_no_message_followed_is_told_again() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.chunk(text("cut sh")).end_step().end_turn();
    assert_eq!(said(&replay(&log.events)), ["agent assistant-1.1: cut sh"]);
}

#[test]
fn a_text_is_cut_between_characters_only() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.chunk(text("é")).message(vec![
        ContentBlock::text("é\u{1f600}"),
        ContentBlock::text("ü"),
    ]);
    assert_eq!(
        said(&live(&log.events)),
        ["agent assistant-1.1: é\u{1f600}ü"]
    );
}

#[test]
fn a_result_without_a_call_is_announced_as_what_was_asked_for() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.message(vec![ContentBlock::ToolCall {
        id: "c".into(),
        name: "read".to_owned(),
        arguments: r#"{"path":"/x"}"#.to_owned(),
    }]);
    log.push(log.result_event("c", false));
    for updates in [live(&log.events), replay(&log.events)] {
        let call = &Screen::of(&updates).calls["1.1.c"];
        assert_eq!(
            (call.title.as_str(), call.status),
            ("read", ToolCallStatus::Failed)
        );
        assert_eq!(call.raw_input.as_ref().unwrap()["path"], "/x");
    }
}

#[test]
fn a_result_that_nobody_asked_for_is_announced_all_the_same() {
    // No log that was checked holds this; the mapping is used on others too.
    let mut log = Log::new();
    log.start_turn().start_step(1);
    let orphan = log.result_event("c", true);
    let orphan = orphan.at(Seq::from(9), UnixMillis::EPOCH);
    let call = &Screen::of(&replay(&[orphan])).calls["1.1.c"];
    assert_eq!(call.status, ToolCallStatus::Completed);
}

#[test]
fn a_call_without_a_result_ends_with_its_step() {
    let mut log = Log::new();
    log.start_turn().start_step(1);
    log.push(log.call_event("c"));
    let open = Screen::of(&live(&log.events)).calls["1.1.c"].status;
    assert_eq!(open, ToolCallStatus::InProgress);
    log.end_step();
    let closed = Screen::of(&live(&log.events)).calls["1.1.c"].status;
    assert_eq!(closed, ToolCallStatus::Failed);
}

#[test]
fn what_replaces_earlier_messages_for_the_model_is_not_shown() {
    let mut log = Log::new();
    log.start_turn();
    log.push(log.user_event(MessageSource::User, SurfaceMeta::append()));
    log.start_step(1);
    log.push(log.call_event("c"));
    log.push(log.result_event("c", true));
    let (live_before, replay_before) = (live(&log.events), replay(&log.events));
    let result = Seq::from(4);
    assert!(log.events[4].is::<ToolResult>());
    log.push(log.pruned_event(result));
    log.end_step();
    let (prompt, result) = (Seq::from(1), Seq::from(5));
    let sources = vec![prompt, result];
    let summary = SurfaceMeta::replace(prompt, result, sources);
    log.push(log.user_event(note(), summary));
    assert_eq!(live(&log.events), live_before);
    assert_eq!(replay(&log.events), replay_before);
}

#[test]
fn only_what_a_person_said_is_told_as_theirs_and_only_afterwards() {
    let mut log = Log::new();
    log.start_turn();
    log.push(log.user_event(MessageSource::User, SurfaceMeta::append()));
    log.push(log.user_event(note(), SurfaceMeta::append()));
    assert_eq!(said(&replay(&log.events)), ["user m1: ab"]);
    assert!(live(&log.events).is_empty());
}

#[test]
fn an_event_that_cannot_be_read_is_remarked_on_where_the_client_takes_remarks() {
    let broken = NewEvent::raw(
        TodoWrite::TYPE,
        Payload::from_text(r#"{"todos":7}"#).unwrap(),
        None,
        false,
    );
    let broken = broken.at(Seq::from(3), UnixMillis::EPOCH);
    assert!(replay(std::slice::from_ref(&broken)).is_empty());
    let session = ClientSessionCapabilities::new().notices(NoticeCapabilities::new());
    let client = ClientCapabilities::new().session(session);
    let mut projector = Projector::new(Mode::Replay, &client, ToolRegistry::default());
    let update = serde_json::to_string(&projector.push(&broken)).unwrap();
    insta::assert_snapshot!(update, @r#"[{"sessionUpdate":"notice","severity":"warning","title":"Part of the session cannot be shown","description":"event 3 (todo/write) cannot be read"}]"#);
}

/// Offers one event after another, chosen by numbers; most of them fit.
fn random_log(choices: &[(u8, u8)]) -> Vec<Event> {
    let mut log = Log::new();
    let mut last_result = None;
    for &(what, which) in choices {
        let (turn, step) = (log.turn(), log.step());
        let call = format!("call_{}", which % 2);
        let event = match what % 16 {
            0 => NewEvent::new(&TurnStart {
                turn: log.state.trace().next_turn(),
            }),
            1 => NewEvent::new(&TurnEnd {
                turn,
                reason: TurnEndReason::Completed,
            }),
            // Whichever number is due fits.
            2 => {
                let fits =
                    (1..=5).find(|&step| log.offer(NewEvent::new(&StepStart { turn, step })));
                if fits.is_some() {
                    continue;
                }
                NewEvent::new(&StepStart { turn, step: 6 })
            }
            3 if which % 3 == 0 => NewEvent::new(&StepEnd { turn, step }),
            4 => log.user_event(
                if which % 2 == 0 {
                    MessageSource::User
                } else {
                    note()
                },
                SurfaceMeta::append(),
            ),
            5 | 3 => log.chunk_event(text(["a", "b", "é", ""][usize::from(which % 4)])),
            6 => log.chunk_event(StreamChunk::ReasoningDelta {
                index: 1,
                text: ["a", "t"][usize::from(which % 2)].to_owned(),
            }),
            7 => log.chunk_event(begin(u64::from(which % 2))),
            8 => log.chunk_event(StreamChunk::Finish {
                reason: ChunkFinish::Stop,
            }),
            9 | 10 => {
                let said = ["a", "ab", "aé", "xyz", "", "abab"][usize::from(which % 6)];
                let mut content = vec![ContentBlock::text(said)];
                if which % 4 == 1 {
                    let text = "t".to_owned();
                    content.insert(0, ContentBlock::Reasoning { text });
                }
                if which % 3 == 1 {
                    content.push(ContentBlock::ToolCall {
                        id: call.as_str().into(),
                        name: "read".to_owned(),
                        arguments: "{}".to_owned(),
                    });
                }
                log.message_event(content)
            }
            11 => log.call_event(&call),
            12 => log.result_event(&call, which % 5 > 0),
            13 => match last_result {
                Some(at) => log.pruned_event(at),
                None => continue,
            },
            14 => NewEvent::new(&write(
                [&["a"][..], &["a", "b"], &[]][usize::from(which % 3)],
            )),
            _ => NewEvent::new(&SessionTitle {
                title: format!("title {}", which % 2),
                message_seqs: None,
                source: TitleSource::Fallback,
            }),
        };
        let at = log.state.next_seq();
        if log.offer(event) && what % 16 == 12 {
            last_result = Some(at);
        }
    }
    log.events
}

fn any_log() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(any::<(u8, u8)>(), 0..200).prop_map(|choices| random_log(&choices))
}

proptest! {
    #[test]
    fn live_and_replay_end_on_the_same_screen(log in any_log()) {
        prop_assert_eq!(Screen::agent(&live(&log)), Screen::agent(&replay(&log)));
    }

    #[test]
    fn a_replay_that_goes_on_live_ends_on_the_same_screen(log in any_log(), cut in any::<prop::sample::Index>()) {
        let (before, after) = log.split_at(cut.index(log.len() + 1));
        let mut projector = projector(Mode::Replay);
        let mut updates: Vec<_> = before.iter().flat_map(|event| projector.push(event)).collect();
        updates.extend(projector.finish_replay());
        updates.extend(after.iter().flat_map(|event| projector.push(event)));
        prop_assert_eq!(Screen::agent(&updates), Screen::agent(&live(&log)));
    }

    #[test]
    fn a_plan_is_never_sent_twice_in_a_row(log in any_log()) {
        let live = live(&log);
        let plans = live.iter().filter(|update| matches!(update, SessionUpdate::Plan(_)));
        let plans: Vec<_> = plans.collect();
        prop_assert!(plans.windows(2).all(|pair| pair[0] != pair[1]));
        let replay = replay(&log);
        let plans = replay.iter().filter(|update| matches!(update, SessionUpdate::Plan(_)));
        prop_assert!(plans.count() <= 1);
    }

    #[test]
    fn a_replay_tells_a_message_in_one_piece(log in any_log()) {
        let replay = replay(&log);
        let told = replay.iter().map(|update| match update {
            SessionUpdate::AgentMessageChunk(chunk) => Some((Voice::Agent, &chunk.message_id)),
            SessionUpdate::AgentThoughtChunk(chunk) => Some((Voice::Thought, &chunk.message_id)),
            _ => None,
        });
        let told: Vec<_> = told.collect();
        prop_assert!(told.windows(2).all(|pair| pair[0].is_none() || pair[0] != pair[1]));
    }
}

#[test]
fn the_random_logs_hold_what_they_are_meant_to() {
    let choices: Vec<(u8, u8)> = (0..60_000_u32)
        .map(|n| {
            let mixed = n.wrapping_mul(2_654_435_761).to_be_bytes();
            (mixed[0], mixed[1])
        })
        .collect();
    let log = random_log(&choices);
    let count = |kind: &str| log.iter().filter(|event| event.kind() == kind).count();
    for kind in [
        TurnStart::TYPE,
        TurnEnd::TYPE,
        StepEnd::TYPE,
        AssistantChunk::TYPE,
        AssistantMessage::TYPE,
        ToolCall::TYPE,
        ToolResult::TYPE,
        TodoWrite::TYPE,
        SessionTitle::TYPE,
    ] {
        assert!(count(kind) > 20, "{kind}: {}", count(kind));
    }
    let replaced = log
        .iter()
        .filter(|event| event.is_surface_type() && !is_transcript(event));
    assert!(replaced.count() > 20);
}
