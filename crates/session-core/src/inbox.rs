//! Input that was taken from a durable queue and is not in the conversation yet.
//!
//! The original harness keeps what waits for the model in two queues, as splices in the log, and
//! takes a message out before it writes it down. Repair puts back what a crash caught between.

use serde::{Deserialize, Serialize};

use crate::event::{AssistantChunk, AssistantMessage, EventData as _, TurnEnd, UserMessage};
use crate::{Event, MessageId, NewEvent, Payload};

/// The type of a splice.
const SPLICED: &str = "agent/inbox/spliced";

/// The two queues, and what the open turn has taken from them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Inbox {
    queued: [Vec<Payload>; 2],
    claimed: Vec<Claim>,
}

#[derive(Debug, Clone)]
struct Claim {
    target: Target,
    message: Payload,
    ignorable: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Target {
    NextTurn,
    NextStep,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spliced {
    target: Target,
    start: usize,
    #[serde(default)]
    removed_count: usize,
    #[serde(default)]
    inserted: Vec<Payload>,
    /// There where what is removed was given up, and not taken.
    outcome: Option<Payload>,
}

#[derive(Serialize)]
struct PutBack<'a> {
    target: Target,
    start: usize,
    inserted: Vec<&'a Payload>,
}

#[derive(Deserialize)]
struct Named {
    id: MessageId,
}

impl Inbox {
    /// Moves over one event. `in_turn` says whether it stands in an open turn.
    pub(crate) fn push(&mut self, event: &Event, in_turn: bool) {
        match event.kind() {
            SPLICED => {
                // The payload is another harness's own: one that does not read changes nothing.
                if let Ok(splice) = event.data().decode() {
                    self.splice(splice, in_turn, event.is_ignorable());
                }
            }
            UserMessage::TYPE if !self.claimed.is_empty() => {
                let written = name(event.data());
                self.claimed.retain(|claim| name(&claim.message) != written);
            }
            // Once the model answers, whatever was taken for it has had its say.
            AssistantChunk::TYPE | AssistantMessage::TYPE | TurnEnd::TYPE => self.claimed.clear(),
            _ => {}
        }
    }

    fn splice(&mut self, splice: Spliced, in_turn: bool, ignorable: bool) {
        let Spliced {
            target,
            start,
            removed_count,
            inserted,
            outcome,
        } = splice;
        let queue = &mut self.queued[target as usize];
        let start = start.min(queue.len());
        let end = start.saturating_add(removed_count).min(queue.len());
        let removed: Vec<Payload> = queue.splice(start..end, inserted).collect();
        if in_turn && outcome.is_none() {
            self.claimed
                .extend(removed.into_iter().map(|message| Claim {
                    target,
                    message,
                    ignorable,
                }));
        }
    }

    /// The splices that put back what was taken and neither written down nor queued again, each
    /// queue in its order and before what waits in it.
    pub(crate) fn put_back(&self) -> impl Iterator<Item = NewEvent> + '_ {
        let queued: Vec<_> = self.queued.iter().flatten().map(name).collect();
        let lost: Vec<&Claim> = self
            .claimed
            .iter()
            .filter(|claim| !queued.contains(&name(&claim.message)))
            .collect();
        [Target::NextTurn, Target::NextStep]
            .into_iter()
            .filter_map(move |target| {
                let lost: Vec<&Claim> = lost
                    .iter()
                    .copied()
                    .filter(|claim| claim.target == target)
                    .collect();
                let ignorable = lost.first()?.ignorable;
                let data = PutBack {
                    target,
                    start: 0,
                    inserted: lost.iter().map(|claim| &claim.message).collect(),
                };
                let data = Payload::of(&data).ok()?;
                Some(NewEvent::raw(SPLICED, data, None, ignorable))
            })
    }
}

fn name(message: &Payload) -> Option<MessageId> {
    message.decode().ok().map(|Named { id }| id)
}
