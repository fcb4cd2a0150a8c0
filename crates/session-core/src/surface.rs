//! The surface: the ordered part of the log that produces model messages.
//!
//! One flat list of positions with two operations, append and replace of a contiguous range.
//! Planning a change never touches the surface that is live.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::event::{AssistantMessage, EventData as _, Gap, Message, ToolResult, UserMessage};
use crate::{Event, Payload, Seq, SurfaceOp};

/// One event on the surface, with the message that it gives the model, if any.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) event: Event,
    pub(crate) message: Option<Arc<Message>>,
}

/// The events that the model sees, in the order in which it sees them.
#[derive(Debug, Clone, Default)]
pub struct Surface {
    order: Vec<Seq>,
    nodes: HashMap<Seq, Node>,
    generation: u64,
    is_torn: bool,
}

/// A run of the surface that one event replaced.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The event that took its place.
    pub by: Seq,
    /// The events that it shadows, in surface order.
    pub shadowed: Vec<Seq>,
}

/// A surface change that the rules forbid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SurfaceViolation {
    /// A log-only event claims a place.
    #[error("a log-only event carries surface metadata")]
    LogOnly,
    /// A surface event claims none.
    #[error("a surface event lacks surfaceOp")]
    Missing,
    /// Sources are listed but empty, and the event is not an assistant message.
    #[error("sourceEventSeqs is empty")]
    NoSources,
    /// A source is the event itself, or comes after it.
    #[error("sourceEventSeqs names {source_seq}, which is not before the event")]
    SourceNotBefore {
        /// The source.
        source_seq: Seq,
    },
    /// A source is listed twice.
    #[error("sourceEventSeqs names {source_seq} twice")]
    RepeatedSource {
        /// The source.
        source_seq: Seq,
    },
    /// The run to replace begins at an event that is not on the surface.
    #[error("replace starts at {start}, which is not on the surface")]
    StartNotOnSurface {
        /// The first event of the run.
        start: Seq,
    },
    /// The run to replace ends at an event that is not on the surface.
    #[error("replace ends at {end}, which is not on the surface")]
    EndNotOnSurface {
        /// The last event of the run.
        end: Seq,
    },
    /// The run to replace ends before it begins.
    #[error("replace starts at {start}, which stands after its end {end}")]
    Reversed {
        /// The first event of the run.
        start: Seq,
        /// The last event of the run.
        end: Seq,
    },
    /// Replaced events are not among the sources.
    #[error("replace removes {missing:?} without naming them in sourceEventSeqs")]
    UncitedRemovals {
        /// The removed events that are not named.
        missing: Vec<Seq>,
    },
    /// A tool result may only replace one tool result.
    #[error("a tool result may only replace exactly one tool result")]
    NotOneToolResult,
    /// A tool result that replaces another may differ only in its content.
    #[error("a tool result that replaces another may differ only in its content")]
    ChangesMoreThanContent,
}

impl Surface {
    /// The events on the surface, in order.
    #[must_use]
    pub fn order(&self) -> &[Seq] {
        &self.order
    }

    /// How many replacements there have been.
    #[must_use]
    pub const fn generation(&self) -> u64 {
        self.generation
    }

    /// The surface events themselves, in order.
    pub fn events(&self) -> impl Iterator<Item = &Event> {
        self.order
            .iter()
            .filter_map(|seq| self.nodes.get(seq))
            .map(|node| &node.event)
    }

    pub(crate) fn messages(&self) -> impl Iterator<Item = Arc<Message>> + '_ {
        self.order
            .iter()
            .filter_map(|seq| self.nodes.get(seq)?.message.clone())
    }

    pub(crate) fn stage(&self) -> StagedSurface<'_> {
        StagedSurface {
            base: self,
            change: Change::default(),
        }
    }

    pub(crate) fn apply(&mut self, change: Change) {
        match change.order {
            Some(order) => self.order = order,
            None => self.order.extend(change.appended),
        }
        self.nodes.extend(change.added);
        for seq in change
            .replacements
            .iter()
            .flat_map(|replacement| &replacement.shadowed)
        {
            self.nodes.remove(seq);
        }
        self.generation += change.replacements.len() as u64;
        self.is_torn |= change.is_torn;
    }
}

/// What a batch does to the surface. A batch without a replacement costs only what it appends.
#[derive(Debug, Clone, Default)]
pub(crate) struct Change {
    appended: Vec<Seq>,
    /// The whole new order, once a replacement has been planned.
    order: Option<Vec<Seq>>,
    added: HashMap<Seq, Node>,
    pub(crate) replacements: Vec<Replacement>,
    /// Whether an event was lost.
    is_torn: bool,
}

/// A surface with a batch planned on top of it.
#[derive(Debug)]
pub(crate) struct StagedSurface<'a> {
    base: &'a Surface,
    change: Change,
}

impl StagedSurface<'_> {
    pub(crate) fn push(&mut self, event: &Event) -> Result<(), SurfaceViolation> {
        self.change.is_torn |= event.is::<Gap>();
        let meta = match (event.is_surface_type(), event.surface()) {
            (false, None) => return Ok(()),
            (false, Some(_)) => return Err(SurfaceViolation::LogOnly),
            (true, None) => return Err(SurfaceViolation::Missing),
            (true, Some(meta)) => meta,
        };
        check_sources(event, meta.sources.as_deref())?;
        match meta.op {
            SurfaceOp::Append => match &mut self.change.order {
                Some(order) => order.push(event.seq()),
                None => self.change.appended.push(event.seq()),
            },
            SurfaceOp::Replace { start, end } => {
                let sources = meta.sources.as_deref().unwrap_or_default();
                match self.replace(event, start, end, sources) {
                    Err(
                        SurfaceViolation::StartNotOnSurface { .. }
                        | SurfaceViolation::EndNotOnSurface { .. }
                        | SurfaceViolation::Reversed { .. }
                        | SurfaceViolation::UncitedRemovals { .. },
                    ) if self.may_miss(event, start, end, sources) => {
                        self.replace_what_is_left(event, start, end, sources);
                    }
                    replaced => replaced?,
                }
            }
        }
        let node = Node {
            event: event.clone(),
            message: message_of(event),
        };
        self.change.added.insert(event.seq(), node);
        Ok(())
    }

    pub(crate) fn finish(self) -> Change {
        self.change
    }

    fn node(&self, seq: Seq) -> Option<&Node> {
        self.change
            .added
            .get(&seq)
            .or_else(|| self.base.nodes.get(&seq))
    }

    fn order(&self) -> Vec<Seq> {
        match &self.change.order {
            Some(order) => order.clone(),
            None => [self.base.order.as_slice(), self.change.appended.as_slice()].concat(),
        }
    }

    fn replace(
        &mut self,
        event: &Event,
        start: Seq,
        end: Seq,
        sources: &[Seq],
    ) -> Result<(), SurfaceViolation> {
        let mut order = self.order();
        let place = |seq: Seq| order.iter().position(|node| *node == seq);
        let first = place(start).ok_or(SurfaceViolation::StartNotOnSurface { start })?;
        let last = place(end).ok_or(SurfaceViolation::EndNotOnSurface { end })?;
        if first > last {
            return Err(SurfaceViolation::Reversed { start, end });
        }
        let removed = &order[first..=last];
        let cited: HashSet<&Seq> = sources.iter().collect();
        let missing: Vec<Seq> = removed
            .iter()
            .copied()
            .filter(|seq| !cited.contains(seq))
            .collect();
        if !missing.is_empty() {
            return Err(SurfaceViolation::UncitedRemovals { missing });
        }
        if event.is::<ToolResult>() {
            let [target] = removed else {
                return Err(SurfaceViolation::NotOneToolResult);
            };
            let target = self
                .node(*target)
                .ok_or(SurfaceViolation::NotOneToolResult)?;
            check_pruned_result(&target.event, event)?;
        }
        let shadowed: Vec<Seq> = order.splice(first..=last, [event.seq()]).collect();
        self.change.replacements.push(Replacement {
            by: event.seq(),
            shadowed,
        });
        self.change.order = Some(order);
        Ok(())
    }
}

impl StagedSurface<'_> {
    /// Whether a replacement that does not fit may have fitted before events were lost: some of what
    /// it names is gone then, and what a lost replacement had removed is back.
    fn may_miss(&self, event: &Event, start: Seq, end: Seq, sources: &[Seq]) -> bool {
        let is_torn = self.base.is_torn || self.change.is_torn;
        let is_cited = sources.contains(&start) && sources.contains(&end);
        is_torn && is_cited && (start == end || !event.is::<ToolResult>())
    }

    /// Replaces what is left of a run: what it cites between its ends, each moved inwards to the next
    /// cited event where it is gone. Nothing else is removed, and where nothing is left, the event
    /// is appended.
    fn replace_what_is_left(&mut self, event: &Event, start: Seq, end: Seq, sources: &[Seq]) {
        let mut order = self.order();
        let cited: HashSet<Seq> = sources.iter().copied().collect();
        let place = |seq: Seq| order.iter().position(|node| *node == seq);
        let inwards = |seq: &Seq| cited.contains(seq) && *seq > start && *seq < end;
        let first = place(start).or_else(|| order.iter().position(inwards));
        let last = place(end).or_else(|| order.iter().rposition(inwards));
        let run = match (first, last) {
            (Some(first), Some(last)) if first <= last => first..=last,
            (Some(first), None) => first..=first,
            (None, Some(last)) => last..=last,
            _ => {
                order.push(event.seq());
                self.change.order = Some(order);
                return;
            }
        };
        let (shadowed, spared): (Vec<Seq>, Vec<Seq>) = order[run.clone()]
            .iter()
            .partition(|seq| cited.contains(seq));
        order.splice(run, [event.seq()].into_iter().chain(spared));
        self.change.replacements.push(Replacement {
            by: event.seq(),
            shadowed,
        });
        self.change.order = Some(order);
    }
}

fn check_sources(event: &Event, sources: Option<&[Seq]>) -> Result<(), SurfaceViolation> {
    let Some(sources) = sources else {
        return Ok(());
    };
    if sources.is_empty() && !event.is::<AssistantMessage>() {
        return Err(SurfaceViolation::NoSources);
    }
    if let Some(&source_seq) = sources.iter().find(|source| **source >= event.seq()) {
        return Err(SurfaceViolation::SourceNotBefore { source_seq });
    }
    let mut sorted = sources.to_vec();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(SurfaceViolation::RepeatedSource {
            source_seq: pair[0],
        }),
        None => Ok(()),
    }
}

/// The parts of a result with all their keys, which [`ToolResult`] does not keep of all kinds.
#[derive(Deserialize)]
struct Sourced {
    message: Source,
    error: Option<Payload>,
}

#[derive(Deserialize)]
struct Source {
    source: Payload,
}

fn check_pruned_result(old: &Event, new: &Event) -> Result<(), SurfaceViolation> {
    let parts = (old.data().decode(), new.data().decode());
    let same_parts = match parts {
        (Ok::<Sourced, _>(old), Ok::<Sourced, _>(new)) => {
            old.message.source.same_value(&new.message.source)
                && same_value(old.error.as_ref(), new.error.as_ref())
        }
        _ => false,
    };
    let (Some(old), Some(new)) = (old.decode::<ToolResult>(), new.decode::<ToolResult>()) else {
        return Err(SurfaceViolation::NotOneToolResult);
    };
    let facts = |result: &ToolResult| {
        let outcome = result
            .outcome()
            .map(|(call, _, is_error)| (call.clone(), is_error));
        let ToolResult {
            turn,
            step,
            message,
            ..
        } = result;
        (*turn, *step, message.id.clone(), outcome)
    };
    let same_meta = same_value(old.meta.as_ref(), new.meta.as_ref());
    if same_parts && same_meta && facts(&old) == facts(&new) {
        Ok(())
    } else {
        Err(SurfaceViolation::ChangesMoreThanContent)
    }
}

fn same_value(old: Option<&Payload>, new: Option<&Payload>) -> bool {
    match (old, new) {
        (None, None) => true,
        (Some(old), Some(new)) => old.same_value(new),
        (None, Some(_)) | (Some(_), None) => false,
    }
}

/// The message that a surface event gives the model; an assistant message without content gives
/// none.
pub(crate) fn message_of(event: &Event) -> Option<Arc<Message>> {
    let message = match event.kind() {
        UserMessage::TYPE => event.decode::<UserMessage>()?.0,
        AssistantMessage::TYPE => {
            let message = event.decode::<AssistantMessage>()?.message;
            if message.content.is_empty() {
                return None;
            }
            message
        }
        ToolResult::TYPE => event.decode::<ToolResult>()?.message,
        _ => return None,
    };
    Some(Arc::new(message))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{ContentBlock, ErrorInfo};
    use crate::given::*;
    use crate::{LogState, NewEvent, SurfaceMeta, Violation, Vocabulary};

    /// Four messages: 0, 1, 2, 3.
    fn four() -> Vec<NewEvent> {
        ["a", "b", "c", "d"]
            .map(|text| user(text, SurfaceMeta::append()))
            .into()
    }

    fn order(state: &LogState) -> Vec<u64> {
        state
            .surface()
            .order()
            .iter()
            .map(|seq| seq.get())
            .collect()
    }

    fn texts(state: &LogState) -> Vec<String> {
        state
            .messages()
            .iter()
            .map(|message| message.text())
            .collect()
    }

    /// Why the last event does not fit on the surface of those before it, which it leaves as it
    /// was.
    fn refused(events: Vec<NewEvent>) -> SurfaceViolation {
        let events = log(events);
        let (last, before) = events.split_last().unwrap();
        let state = LogState::fold(&Vocabulary::core(), before).unwrap();
        let (nodes, generation) = (order(&state), state.surface().generation());
        let staged = state.stage_all(&Vocabulary::core(), [last]);
        assert_eq!(
            (order(&state), state.surface().generation()),
            (nodes, generation)
        );
        match staged.unwrap_err() {
            Violation::Surface { seq, kind, source } => {
                assert_eq!((seq, &*kind), (last.seq(), last.kind()));
                source
            }
            other => panic!("{other}"),
        }
    }

    #[test]
    fn an_append_joins_at_the_end_and_log_only_events_do_not_join() {
        let mut events = four();
        events.insert(1, end_seed());
        let state = folded(events).unwrap();
        assert_eq!(order(&state), [0, 2, 3, 4]);
        assert_eq!(texts(&state), ["a", "b", "c", "d"]);
    }

    #[test]
    fn a_replacement_takes_the_place_of_its_run() {
        let mut events = four();
        events.push(user("bc", replace(1, 2, [2, 1])));
        let state = folded(events).unwrap();
        assert_eq!(order(&state), [0, 4, 3]);
        assert_eq!(texts(&state), ["a", "bc", "d"]);
        assert_eq!(state.surface().generation(), 1);
    }

    #[test]
    fn a_run_goes_by_place_and_not_by_number() {
        // After the replacement the order is 4, 3: the run from 4 to 3 is in order.
        let mut events = four();
        events.push(user("abc", replace(0, 2, [0, 1, 2])));
        events.push(user("all", replace(4, 3, [3, 4])));
        let state = folded(events).unwrap();
        assert_eq!(order(&state), [5]);
        assert_eq!(texts(&state), ["all"]);
    }

    #[test]
    fn a_batch_may_replace_what_it_appends_itself() {
        let events = log(four());
        let state = LogState::fold(&Vocabulary::core(), &events[..2]).unwrap();
        let mut batch = four()[2..].to_vec();
        batch.push(user("bc", replace(1, 2, [1, 2])));
        batch.push(user("bcd", replace(4, 3, [4, 3])));
        batch.push(user("e", SurfaceMeta::append()));
        let batch: Vec<Event> = log([four(), batch[2..].to_vec()].concat())[2..].to_vec();
        let staged = state.stage_all(&Vocabulary::core(), &batch).unwrap();
        let shadowed = [(4, seqs([1, 2])), (5, seqs([4, 3]))].map(|(by, shadowed)| Replacement {
            by: Seq::from(by),
            shadowed,
        });
        assert_eq!(staged.replacements(), shadowed);
        let mut state = state;
        state.apply(staged);
        assert_eq!(order(&state), [0, 5, 6]);
        assert_eq!(texts(&state), ["a", "bcd", "e"]);
        assert_eq!(state.surface().generation(), 2);
        assert_eq!(state.surface().events().count(), 3);
    }

    #[test]
    fn a_replacement_may_cite_more_than_it_removes() {
        let mut events = four();
        events.push(user("b", replace(1, 1, [0, 3, 1])));
        assert_eq!(order(&folded(events).unwrap()), [0, 4, 2, 3]);
    }

    #[test]
    fn a_run_whose_start_or_end_is_not_on_the_surface_or_that_is_reversed_is_refused() {
        let with = |event| [four(), vec![end_seed(), event]].concat();
        let (start, end) = (Seq::from(4), Seq::from(4));
        assert_eq!(
            refused(with(user("x", replace(4, 3, [3, 4])))),
            SurfaceViolation::StartNotOnSurface { start }
        );
        assert_eq!(
            refused(with(user("x", replace(0, 4, [0, 4])))),
            SurfaceViolation::EndNotOnSurface { end }
        );
        let (start, end) = (Seq::from(2), Seq::from(1));
        assert_eq!(
            refused(with(user("x", replace(2, 1, [1, 2])))),
            SurfaceViolation::Reversed { start, end }
        );
    }

    #[test]
    fn what_was_replaced_cannot_be_replaced_again() {
        let mut events = four();
        events.push(user("ab", replace(0, 1, [0, 1])));
        events.push(user("x", replace(1, 2, [1, 2])));
        let start = Seq::from(1);
        assert_eq!(
            refused(events),
            SurfaceViolation::StartNotOnSurface { start }
        );
    }

    #[test]
    fn a_replacement_of_itself_is_refused() {
        let start = Seq::from(4);
        let event = user("x", replace(4, 4, [0]));
        let events = [four(), vec![event]].concat();
        assert_eq!(
            refused(events),
            SurfaceViolation::StartNotOnSurface { start }
        );
    }

    #[test]
    fn a_replacement_that_does_not_cite_what_it_removes_is_refused_with_what_is_missing() {
        let missing = seqs([1, 3]);
        let events = [four(), vec![user("x", replace(1, 3, [2, 0]))]].concat();
        assert_eq!(
            refused(events),
            SurfaceViolation::UncitedRemovals { missing }
        );

        let none = SurfaceMeta {
            sources: None,
            ..replace(1, 1, [])
        };
        let missing = seqs([1]);
        let events = [four(), vec![user("x", none)]].concat();
        assert_eq!(
            refused(events),
            SurfaceViolation::UncitedRemovals { missing }
        );
    }

    #[test]
    fn empty_sources_are_for_assistant_messages_alone() {
        let empty = || SurfaceMeta::append_from(Vec::new());
        assert_eq!(
            refused(vec![user("x", empty())]),
            SurfaceViolation::NoSources
        );
        let step = [turn_start(1), step_start(1, 1)];
        let mut events = step.to_vec();
        events.push(assistant_with(1, 1, "x", &[], empty()));
        assert_eq!(order(&folded(events).unwrap()), [2]);

        let mut events = [step.to_vec(), vec![call(1, 1, "c")]].concat();
        events.push(NewEvent::on_surface(&result(1, 1, "c"), empty()));
        assert_eq!(refused(events), SurfaceViolation::NoSources);
    }

    #[test]
    fn a_source_comes_before_its_event_and_is_named_once() {
        for source in [4, 5, 100] {
            let meta = SurfaceMeta::append_from(seqs([0, source]));
            let source_seq = Seq::from(source);
            let events = [four(), vec![user("x", meta)]].concat();
            assert_eq!(
                refused(events),
                SurfaceViolation::SourceNotBefore { source_seq }
            );
        }
        let meta = SurfaceMeta::append_from(seqs([3, 0, 3]));
        let source_seq = Seq::from(3);
        let events = [four(), vec![user("x", meta)]].concat();
        assert_eq!(
            refused(events),
            SurfaceViolation::RepeatedSource { source_seq }
        );
    }

    #[test]
    fn surface_metadata_is_for_surface_events_and_they_must_have_it() {
        let raw = |event: NewEvent, surface| {
            let (kind, data) = (event.kind().to_owned(), event.data().clone());
            NewEvent::raw(kind, data, surface, false)
        };
        let append = Some(SurfaceMeta::append());
        for event in [
            end_seed(),
            turn_start(1),
            turn_end(1),
            step_start(1, 1),
            step_end(1, 1),
            chunk(1, 1),
            call(1, 1, "c"),
            todos(),
            request_header(),
            request_context(),
            title("x"),
        ] {
            assert_eq!(
                refused(vec![raw(event, append.clone())]),
                SurfaceViolation::LogOnly
            );
        }
        let unknown = NewEvent::raw("acme/x", end_seed().data().clone(), append, true);
        assert_eq!(refused(vec![unknown]), SurfaceViolation::LogOnly);
        for event in [
            user("x", SurfaceMeta::append()),
            assistant(1, 1, "x", &[]),
            appended(&result(1, 1, "c")),
        ] {
            assert_eq!(refused(vec![raw(event, None)]), SurfaceViolation::Missing);
        }
    }

    /// A step with a call and its result at 4, another at 6, and a prompt at 0.
    fn with_results() -> Vec<NewEvent> {
        let mut first = result(1, 1, "c");
        first.meta = Some(Payload::from_text(r#"{"a":1,"b":2}"#).unwrap());
        vec![
            user("x", SurfaceMeta::append()),
            turn_start(1),
            step_start(1, 1),
            call(1, 1, "c"),
            appended(&first),
            call(1, 1, "d"),
            appended(&result(1, 1, "d")),
        ]
    }

    /// The result at 4, changed, in its place.
    fn changed(change: impl FnOnce(&mut ToolResult)) -> Vec<NewEvent> {
        let mut events = with_results();
        let mut changed = events[4].data().decode::<ToolResult>().unwrap();
        change(&mut changed);
        events.push(NewEvent::on_surface(&changed, replace(4, 4, [4])));
        events
    }

    fn block(result: &mut ToolResult) -> (&mut crate::CallId, &mut Vec<ContentBlock>, &mut bool) {
        match &mut result.message.content[..] {
            [
                ContentBlock::ToolResult {
                    tool_call_id,
                    content,
                    is_error,
                },
            ] => (tool_call_id, content, is_error),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_tool_result_may_be_replaced_by_one_that_says_less() {
        let shorter = changed(|result| {
            block(result).1.clear();
            // The same value in another spelling.
            result.meta = Some(Payload::from_text(r#"{"b":2,"a":1.0}"#).unwrap());
        });
        assert_eq!(order(&folded(shorter).unwrap()), [0, 7, 6]);
    }

    #[test]
    fn a_tool_result_may_not_be_replaced_by_one_that_differs_in_more_than_its_content() {
        let changes: [fn(&mut ToolResult); 8] = [
            |result| result.turn = 2,
            |result| result.step = 2,
            |result| result.message.id = "other".into(),
            |result| *block(result).2 = true,
            |result| result.meta = None,
            |result| result.meta = Some(Payload::from_text(r#"{"a":1,"b":3}"#).unwrap()),
            |result| {
                result.error = Some(ErrorInfo {
                    name: "a".into(),
                    code: "b".into(),
                });
            },
            |result| {
                *block(result).0 = "d".into();
                let call_id = "d".into();
                result.message.source = crate::event::MessageSource::Tool { call_id };
            },
        ];
        for change in changes {
            let refused = refused(changed(change));
            assert_eq!(refused, SurfaceViolation::ChangesMoreThanContent);
        }
    }

    #[test]
    fn a_tool_result_may_not_be_replaced_by_one_whose_source_or_error_lost_a_key() {
        let raw = |data: &str, meta| {
            let data = Payload::from_text(data).unwrap();
            NewEvent::raw(ToolResult::TYPE, data, Some(meta), false)
        };
        let failed = appended(&failed(1, 1, "c", "E"));
        for (key, more) in [
            (r#"{"kind":"tool","#, r#"{"kind":"tool","agent":"x","#),
            (r#""error":{"#, r#""error":{"at":1,"#),
        ] {
            let data = failed.data().as_str();
            let more = data.replace(key, more);
            assert_ne!(more, data);
            let with = |after: &str| {
                let mut events = with_results();
                events[4] = raw(&more, SurfaceMeta::append());
                events.push(raw(after, replace(4, 4, [4])));
                events
            };
            folded(with(&more)).unwrap();
            let lost = refused(with(data));
            assert_eq!(lost, SurfaceViolation::ChangesMoreThanContent);
        }
    }

    #[test]
    fn a_tool_result_replaces_exactly_one_tool_result() {
        let with = |meta| {
            let mut events = with_results();
            events.push(NewEvent::on_surface(&result(1, 1, "d"), meta));
            events
        };
        for meta in [
            replace(4, 6, [4, 6]),
            replace(0, 0, [0]),
            replace(0, 6, [0, 4, 6]),
        ] {
            assert_eq!(refused(with(meta)), SurfaceViolation::NotOneToolResult);
        }
    }

    #[test]
    fn a_user_message_may_replace_anything() {
        let mut events = with_results();
        events.push(user("all of it", replace(0, 6, [0, 4, 6])));
        assert_eq!(order(&folded(events).unwrap()), [7]);
    }

    #[test]
    fn an_assistant_message_without_content_is_on_the_surface_and_gives_no_message() {
        let events = vec![
            user("x", SurfaceMeta::append()),
            turn_start(1),
            step_start(1, 1),
            assistant(1, 1, "", &[]),
        ];
        let state = folded(events).unwrap();
        assert_eq!(order(&state), [0, 3]);
        assert_eq!(texts(&state), ["x"]);
    }

    #[test]
    fn messages_come_as_they_are_in_surface_order() {
        let mut events = with_results();
        events[0] = user("x", SurfaceMeta::append());
        events.push(user("x", SurfaceMeta::append()));
        let state = folded(events).unwrap();
        let messages = state.messages();
        let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
        // Neither merged nor told apart, though the ids and texts are the same.
        assert_eq!(ids, ["user", "result", "result", "user"]);
        let shared = state.messages();
        assert!(
            messages.iter().zip(&shared).all(|(a, b)| Arc::ptr_eq(a, b)),
            "the messages are shared, not copied"
        );
    }

    #[test]
    fn what_replaces_is_no_part_of_the_conversation_as_a_person_saw_it() {
        let mut events = four();
        events.push(user("bc", replace(1, 2, [2, 1])));
        events.push(end_seed());
        let log = log(events);
        let seen = log.iter().filter(|event| crate::is_transcript(event));
        let seen: Vec<u64> = seen.map(|event| event.seq().get()).collect();
        assert_eq!(seen, [0, 1, 2, 3]);
    }

    #[test]
    fn messages_that_are_held_do_not_grow() {
        let mut state = folded(four()).unwrap();
        let held = state.messages();
        let next = user("e", SurfaceMeta::append()).at(state.next_seq(), state.last_time());
        let staged = state.stage_all(&Vocabulary::core(), [&next]).unwrap();
        state.apply(staged);
        assert_eq!(held.len(), 4);
        assert_eq!(texts(&state), ["a", "b", "c", "d", "e"]);
    }
}
