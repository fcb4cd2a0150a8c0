//! The fold of a log: the one function that decides what a log may hold.
//!
//! Append, seed, import and load all go through [`LogState::stage`], so what append accepts, load
//! accepts, and replay ends in the state that was live.

use std::sync::Arc;

use crate::event::{
    EndSeed, EventData as _, Gap, Message, RequestContext, RequestHeader, SessionTitle,
};
use crate::inbox::Inbox;
use crate::surface::{Change, StagedSurface};
use crate::{
    Event, Replacement, Seq, ShapeError, Surface, SurfaceViolation, Trace, TraceViolation,
    UnixMillis, UpcastError, Vocabulary,
};

/// What a log adds up to, up to its last event.
#[derive(Debug, Clone, Default)]
pub struct LogState {
    next: Seq,
    surface: Surface,
    trace: Trace,
    inbox: Inbox,
    last: LastEvents,
}

#[derive(Debug, Clone, Default)]
struct LastEvents {
    time: UnixMillis,
    is_end_seed: bool,
    request_header: Option<Event>,
    request_context: Option<Event>,
    title: Option<Event>,
}

/// An event that a log may not hold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Positions have no gaps.
    #[error("event {found} stands where {expected} is due")]
    Gap {
        /// The position that is due.
        expected: Seq,
        /// The position found.
        found: Seq,
    },
    /// The time is none that every JSON reader can tell from its neighbours.
    #[error("event {seq} has a time beyond 2^53 - 1 ms: time={}", time.get())]
    Time {
        /// Where.
        seq: Seq,
        /// The time.
        time: UnixMillis,
    },
    /// The type is not known here, and the event does not say that it may be passed over.
    #[error("event {seq} has the unknown type {kind:?} and is not marked ignorable")]
    UnknownType {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
    },
    /// The payload does not fit the type.
    #[error("event {seq} ({kind}) is malformed")]
    Shape {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// What does not fit.
        source: ShapeError,
    },
    /// The surface rules forbid it.
    #[error("event {seq} ({kind}) breaks the surface rules")]
    Surface {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// Which rule.
        source: SurfaceViolation,
    },
    /// It does not fit where the log stands.
    #[error("event {seq} ({kind}) does not fit the trace")]
    Trace {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// How.
        source: TraceViolation,
    },
    /// It claims that an event was lost, which only a store can know.
    #[error("event {seq} is a session/gap, which only a store puts into a log")]
    ClaimsGap {
        /// Where.
        seq: Seq,
    },
    /// An upcaster failed on it.
    #[error(transparent)]
    Upcast(#[from] UpcastError),
    /// A check of the harness refused it.
    #[error("event {seq} ({kind}) was refused by the check {check:?}: {reason}")]
    Vetoed {
        /// Where.
        seq: Seq,
        /// The type.
        kind: String,
        /// The check.
        check: String,
        /// Why.
        reason: String,
    },
}

impl LogState {
    /// Folds a whole log.
    ///
    /// # Errors
    ///
    /// Returns the first event that the log may not hold.
    pub fn fold<'e>(
        vocabulary: &Vocabulary,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Result<Self, Violation> {
        let mut state = Self::default();
        let staged = state.stage_all(vocabulary, events)?;
        state.apply(staged);
        Ok(state)
    }

    /// Plans events on top of this state, which stays as it is.
    ///
    /// # Errors
    ///
    /// Returns the first event that may not follow.
    pub fn stage_all<'e>(
        &self,
        vocabulary: &Vocabulary,
        events: impl IntoIterator<Item = &'e Event>,
    ) -> Result<Staged, Violation> {
        let mut stage = self.stage(vocabulary);
        for event in events {
            stage.push(event)?;
        }
        Ok(stage.finish())
    }

    /// Begins to plan events on top of this state, which stays as it is.
    #[must_use]
    pub fn stage<'a>(&'a self, vocabulary: &'a Vocabulary) -> Stage<'a> {
        Stage {
            vocabulary,
            next: self.next,
            surface: self.surface.stage(),
            trace: self.trace.clone(),
            inbox: self.inbox.clone(),
            last: self.last.clone(),
        }
    }

    /// Takes over what was planned on top of this very state.
    pub fn apply(&mut self, staged: Staged) {
        let Staged {
            next,
            surface,
            trace,
            inbox,
            last,
        } = staged;
        self.surface.apply(surface);
        (self.next, self.trace, self.inbox, self.last) = (next, trace, inbox, last);
    }

    /// The position that the next event takes, which is also the length of the log.
    #[must_use]
    pub const fn next_seq(&self) -> Seq {
        self.next
    }

    /// The position of the last event.
    #[must_use]
    pub const fn head(&self) -> Option<Seq> {
        self.next.previous()
    }

    /// The surface.
    #[must_use]
    pub const fn surface(&self) -> &Surface {
        &self.surface
    }

    /// Which turn, step and calls are open.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    pub(crate) const fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// The messages that the model is shown.
    #[must_use]
    pub fn messages(&self) -> Vec<Arc<Message>> {
        crate::derive_messages(&self.surface)
    }

    /// The last request header.
    #[must_use]
    pub fn request_header(&self) -> Option<RequestHeader> {
        self.last.request_header.as_ref()?.decode()
    }

    /// The last request context.
    #[must_use]
    pub fn request_context(&self) -> Option<RequestContext> {
        self.last.request_context.as_ref()?.decode()
    }

    /// The last title.
    #[must_use]
    pub fn title(&self) -> Option<SessionTitle> {
        self.last.title.as_ref()?.decode()
    }

    /// The time of the last event; the epoch for an empty log.
    #[must_use]
    pub const fn last_time(&self) -> UnixMillis {
        self.last.time
    }

    /// Whether the last event is a `session/end-seed`.
    #[must_use]
    pub const fn ends_with_end_seed(&self) -> bool {
        self.last.is_end_seed
    }
}

/// Refuses events that are not for a live session to append, though a log may hold them.
pub(crate) fn check_authorship(events: &[Event]) -> Result<(), Violation> {
    let claim = events.iter().find(|event| event.is::<Gap>());
    claim.map_or(Ok(()), |event| {
        Err(Violation::ClaimsGap { seq: event.seq() })
    })
}

/// Events being planned on top of a [`LogState`].
#[derive(Debug)]
pub struct Stage<'a> {
    vocabulary: &'a Vocabulary,
    next: Seq,
    surface: StagedSurface<'a>,
    trace: Trace,
    inbox: Inbox,
    last: LastEvents,
}

/// Planned events, ready to be taken over by the state they were planned on.
#[derive(Debug, Clone)]
pub struct Staged {
    next: Seq,
    surface: Change,
    trace: Trace,
    inbox: Inbox,
    last: LastEvents,
}

impl Stage<'_> {
    /// Plans one more event. After an error the stage is of no further use.
    ///
    /// # Errors
    ///
    /// Returns the rule that the event breaks.
    pub fn push(&mut self, event: &Event) -> Result<(), Violation> {
        let (seq, kind) = (event.seq(), || event.kind().to_owned());
        if seq != self.next {
            return Err(Violation::Gap {
                expected: self.next,
                found: seq,
            });
        }
        let time = event.time_ms();
        if !time.is_exact() {
            return Err(Violation::Time { seq, time });
        }
        if !event.is_ignorable() && !self.vocabulary.knows(event.kind()) {
            return Err(Violation::UnknownType { seq, kind: kind() });
        }
        self.vocabulary
            .check(event.kind(), event.data())
            .map_err(|source| Violation::Shape {
                seq,
                kind: kind(),
                source,
            })?;
        self.surface
            .push(event)
            .map_err(|source| Violation::Surface {
                seq,
                kind: kind(),
                source,
            })?;
        self.trace.push(event).map_err(|source| Violation::Trace {
            seq,
            kind: kind(),
            source,
        })?;
        self.inbox.push(event, self.trace.open_turn().is_some());
        match event.kind() {
            RequestHeader::TYPE => self.last.request_header = Some(event.clone()),
            RequestContext::TYPE => self.last.request_context = Some(event.clone()),
            SessionTitle::TYPE => self.last.title = Some(event.clone()),
            _ => {}
        }
        self.last.time = event.time_ms();
        self.last.is_end_seed = event.is::<EndSeed>();
        self.next = seq.next();
        Ok(())
    }

    /// Where the log will stand.
    #[must_use]
    pub const fn trace(&self) -> &Trace {
        &self.trace
    }

    /// Ends the planning.
    #[must_use]
    pub fn finish(self) -> Staged {
        let Self {
            next,
            surface,
            trace,
            inbox,
            last,
            ..
        } = self;
        Staged {
            next,
            surface: surface.finish(),
            trace,
            inbox,
            last,
        }
    }
}

impl Staged {
    /// The replacements on the surface, in log order.
    #[must_use]
    pub fn replacements(&self) -> &[Replacement] {
        &self.surface.replacements
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::given::*;
    use crate::{NewEvent, Payload};

    fn raw(kind: &str, data: &str, ignorable: bool) -> NewEvent {
        NewEvent::raw(kind, Payload::from_text(data).unwrap(), None, ignorable)
    }

    #[test]
    fn a_log_begins_at_0_and_has_no_gaps() {
        let at = |seq: u32| end_seed().at(Seq::from(seq), UnixMillis::EPOCH);
        for (places, expected, found) in [
            (vec![1], 0, 1),
            (vec![0, 2], 1, 2),
            (vec![0, 0], 1, 0),
            (vec![0, 1, 1], 2, 1),
        ] {
            let events: Vec<Event> = places.into_iter().map(at).collect();
            let (expected, found) = (Seq::from(expected), Seq::from(found));
            assert_eq!(
                LogState::fold(&Vocabulary::core(), &events).unwrap_err(),
                Violation::Gap { expected, found }
            );
        }
    }

    #[test]
    fn an_unknown_type_is_refused_with_its_place_unless_it_may_be_passed_over() {
        folded([raw("acme/x", "[1]", true)]).unwrap();
        let refused = folded([end_seed(), raw("acme/x", "[1]", false)]).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "event 1 has the unknown type \"acme/x\" and is not marked ignorable"
        );
        let known = Vocabulary::core().with_opaque("acme/x");
        let events = log([raw("acme/x", "[1]", false)]);
        LogState::fold(&known, &events).unwrap();
    }

    #[test]
    fn vocabulary_that_was_removed_is_refused() {
        let header = r#"{"header":{"config":{"provider":"p","model":"m"}},"reason":"fallback"}"#;
        for event in [
            raw("request/header-delta", "{}", false),
            raw("mode/set", "{}", false),
            raw("request/header", header, false),
        ] {
            folded([turn_start(1), event]).unwrap_err();
        }
    }

    #[test]
    fn the_mark_of_ignorable_events_excuses_no_malformed_one() {
        let refused = folded([raw("turn/start", "{}", true)]).unwrap_err();
        assert!(matches!(refused, Violation::Shape { .. }), "{refused}");
    }

    #[test]
    fn a_payload_that_does_not_fit_its_type_is_refused_with_its_place() {
        let user = |data: &str| {
            let data = Payload::from_text(data).unwrap();
            let append = Some(crate::SurfaceMeta::append());
            NewEvent::raw("user/message", data, append, false)
        };
        let todo = |todos: &str| raw("todo/write", &format!(r#"{{"todos":{todos}}}"#), false);
        let header = |config: &str| {
            let data = format!(r#"{{"header":{{"config":{config}}},"reason":"initial"}}"#);
            raw("request/header", &data, false)
        };
        let source = r#""source":{"kind":"user"}"#;
        for event in [
            raw("turn/start", "null", false),
            raw("turn/start", r#"{"turn":"1"}"#, false),
            raw("turn/start", r#"{"turn":-1}"#, false),
            raw("turn/start", r#"{"turn":1.0}"#, false),
            raw(
                "tool/call",
                r#"{"turn":1,"step":1,"callId":"","name":"n","arguments":""}"#,
                false,
            ),
            raw(
                "tool/call",
                r#"{"turn":1,"step":1,"callId":"c","name":"","arguments":""}"#,
                false,
            ),
            raw(
                "session/title",
                r#"{"title":"","source":{"kind":"user"}}"#,
                false,
            ),
            user(&format!(
                r#"{{"id":"","role":"user","content":[],{source}}}"#
            )),
            user(&format!(
                r#"{{"id":"m","role":"assistant","content":[],{source}}}"#
            )),
            user(&format!(
                r#"{{"id":"m","role":"user","content":"x",{source}}}"#
            )),
            user(r#"{"id":"m","role":"user","content":[]}"#),
            user(r#"{"id":"m","role":"user","content":[],"source":{"kind":""}}"#),
            user(r#"{"id":"m","role":"user","content":[],"source":"user"}"#),
            todo(r#"[{"content":"","status":"pending"}]"#),
            todo(r#"[{"content":" a","status":"pending"}]"#),
            todo(r#"[{"content":"a","status":"done"}]"#),
            todo(r#"[{"content":"a","status":"pending"},{"content":"a","status":"completed"}]"#),
            todo(r#"[null]"#),
            todo(r#"[["a","pending"]]"#),
            todo(r#"[{"content":"a","status":{"pending":null}}]"#),
            todo(r#"[{"content":1,"status":"pending"}]"#),
            todo(r#"[{"content":"a"}]"#),
            raw("turn/start", "[1]", false),
            raw("turn/start", r#"{"turn":1,"turn":1}"#, false),
            raw("session/end-seed", "[]", false),
            user(r#"["m","user",[],{"kind":"user"}]"#),
            user(r#"{"id":"m","role":{"user":null},"content":[],"source":{"kind":"user"}}"#),
            user(r#"{"id":"m","role":"user","content":[],"source":["user"]}"#),
            user(r#"{"id":1,"role":"user","content":[],"source":{"kind":"user"}}"#),
            user(r#"{"id":"m","role":"user","content":[],"source":{"kind":1}}"#),
            todo("null"),
            header(r#"{"provider":"p"}"#),
            header(r#"{"provider":"","model":"m"}"#),
            header(r#"{"provider":"p","model":"m","reasoningEffort":""}"#),
            header(r#"{"provider":"p","model":"m","reasoningEffort":1}"#),
            header(r#"["p","m"]"#),
            raw(
                "request/header",
                r#"{"header":{"config":{"provider":"p","model":"m"},"adapterDefaults":{"maxTokens":false}},"reason":"initial"}"#,
                false,
            ),
            raw(
                "request/header",
                r#"{"header":[{"provider":"p","model":"m"}],"reason":"initial"}"#,
                false,
            ),
        ] {
            let kind = event.kind().to_owned();
            match folded([end_seed(), event.clone()]).unwrap_err() {
                Violation::Shape {
                    seq, kind: named, ..
                } => {
                    assert_eq!((seq, named), (Seq::from(1), kind));
                }
                other => panic!("{event:?}: {other}"),
            }
        }
    }

    #[test]
    fn messages_of_the_model_and_of_tools_say_where_they_come_from() {
        let with = |event: NewEvent, from: &str, to: &str| {
            let text = event.data().as_str().replace(from, to);
            assert_ne!(text, event.data().as_str());
            let data = Payload::from_text(&text).unwrap();
            let meta = Some(crate::SurfaceMeta::append());
            NewEvent::raw(event.kind(), data, meta, false)
        };
        let said = || assistant(1, 1, "x", &[]);
        let done = || appended(&result(1, 1, "c"));
        for event in [
            with(said(), r#""provider":"p""#, r#""provider":"""#),
            with(said(), r#""model":"m""#, r#""model":"""#),
            with(said(), r#""kind":"model""#, r#""kind":"user""#),
            with(said(), r#""role":"assistant""#, r#""role":"user""#),
            with(said(), r#""provider":"p","#, ""),
            with(said(), r#""content":[{"#, r#""content":"x","was":[{"#),
            with(said(), r#""id":"assistant""#, r#""id":"""#),
            with(done(), r#""id":"result""#, r#""id":"""#),
            with(done(), r#""role":"user""#, r#""role":"assistant""#),
            with(done(), r#""kind":"tool","callId":"c""#, r#""kind":"tool""#),
            with(
                done(),
                r#""content":[{"type":"text","text":"done"}]"#,
                r#""content":"done""#,
            ),
            with(
                done(),
                r#""content":[{"type":"tool"#,
                r#""content":[],"was":[{"type":"tool"#,
            ),
            with(done(), r#""callId":"c""#, r#""callId":"d""#),
            with(done(), r#""kind":"tool""#, r#""kind":"user""#),
            with(
                done(),
                r#""content":[{"#,
                r#""content":[{"type":"text","text":"a"},{"#,
            ),
            with(
                done(),
                r#""type":"tool-result""#,
                r#""type":"tool-outcome""#,
            ),
        ] {
            let step = [turn_start(1), step_start(1, 1), call(1, 1, "c")];
            let refused = folded(step.into_iter().chain([event.clone()])).unwrap_err();
            assert!(
                matches!(refused, Violation::Shape { .. }),
                "{event:?}: {refused}"
            );
        }
    }

    #[test]
    fn blocks_and_the_details_of_other_sources_are_nobodys_business() {
        let message = r#"{"id":"m","role":"user","content":["odd",{"type":1},["text","x"],{"type":"text"}],"source":{"kind":"plugin","plugin":null},"more":[1]}"#;
        let data = Payload::from_text(message).unwrap();
        let append = Some(crate::SurfaceMeta::append());
        let state = folded([NewEvent::raw("user/message", data, append, false)]).unwrap();
        let kept = state.surface().events().next().unwrap().data().clone();
        assert_eq!(kept.as_str(), message);
        let messages = state.messages();
        let blocks = messages.iter().flat_map(|message| &message.content);
        let verbatim = |block: &_| matches!(block, crate::event::ContentBlock::Other(_));
        assert_eq!(blocks.filter(|block| verbatim(block)).count(), 4);
    }

    #[test]
    fn a_time_beyond_what_json_readers_tell_apart_is_refused() {
        for time in [UnixMillis::MIN, UnixMillis::MAX, UnixMillis::new(-1)] {
            let event = end_seed().at(Seq::ZERO, time);
            LogState::fold(&Vocabulary::core(), [&event]).unwrap();
        }
        for time in [i64::MIN, i64::MAX, UnixMillis::MAX.get() + 1].map(UnixMillis::new) {
            let event = end_seed().at(Seq::ZERO, time);
            let seq = Seq::ZERO;
            assert_eq!(
                LogState::fold(&Vocabulary::core(), [&event]).unwrap_err(),
                Violation::Time { seq, time }
            );
        }
    }

    #[test]
    fn the_last_request_and_title_win() {
        let state = folded([
            turn_start(1),
            request_header(),
            request_context(),
            title("one"),
            title("two"),
            todos(),
        ])
        .unwrap();
        assert_eq!(state.title().unwrap().title, "two");
        assert_eq!(state.request_context().unwrap().model, "m");
        assert_eq!(state.request_header().unwrap().header.config["model"], "m");
        assert_eq!(state.head(), Some(Seq::from(5)));
        assert_eq!(state.last_time(), UnixMillis::new(5));
        assert!(!state.ends_with_end_seed());
    }

    #[test]
    fn an_event_that_is_refused_leaves_the_state_as_it_was() {
        let state = folded([turn_start(1), step_start(1, 1)]).unwrap();
        let before = format!("{state:?}");
        let batch = [call(1, 1, "c"), turn_start(5)];
        let batch: Vec<Event> = (2_u32..)
            .zip(batch)
            .map(|(seq, event)| event.at(seq.into(), UnixMillis::EPOCH))
            .collect();
        state.stage_all(&Vocabulary::core(), &batch).unwrap_err();
        assert_eq!(format!("{state:?}"), before);
    }
}
