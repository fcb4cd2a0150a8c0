//! Valid session logs, turn after turn, without an end.

use std::collections::VecDeque;

use crate::record::{
    Assistant, Block, Call, Chunk, Context, Delta, Message, Reason, Record, Source, Step, TodoItem,
    Todos, ToolResult, Turn, TurnEnd,
};
use crate::rng::Rng;

/// What a log consists of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A turn is 20 events, 588 bytes of JSON each in the mean.
    Mixed,
    /// The same, and 480 stream chunks in each turn: 96 % of the events.
    Chunked,
}

/// The records of one session, the same for the same seed.
#[derive(Debug, Clone)]
pub struct Log {
    rng: Rng,
    kind: Kind,
    turn: u64,
    ready: VecDeque<Record>,
}

const STEPS: u64 = 3;
const CHUNKS_A_STEP: u64 = 160;

impl Log {
    /// Begins a log.
    #[must_use]
    pub fn new(seed: u64, session: u32, kind: Kind) -> Self {
        Self {
            rng: Rng::new(seed ^ (u64::from(session) << 32)),
            kind,
            turn: 0,
            ready: VecDeque::new(),
        }
    }

    /// The next `count` records.
    pub fn batch(&mut self, count: usize) -> Vec<Record> {
        self.take(count).collect()
    }

    fn turn(&mut self) {
        self.turn += 1;
        let turn = self.turn;
        self.ready.push_back(Record::TurnStart(Turn { turn }));
        self.ready.push_back(Record::Context(Context {
            provider: "p".into(),
            model: "m-1".into(),
        }));
        let user = self.sized(194, |text| Record::User(user(turn, text)));
        self.ready.push_back(user);
        for step in 1..=STEPS {
            self.step(Step { turn, step });
        }
        self.ready.push_back(Record::TurnEnd(TurnEnd {
            turn,
            reason: Reason {
                kind: "completed".into(),
            },
        }));
    }

    fn step(&mut self, at: Step) {
        let Step { turn, step } = at;
        self.ready.push_back(Record::StepStart(at.clone()));
        if self.kind == Kind::Chunked {
            for _ in 0..CHUNKS_A_STEP {
                let text = {
                    let length = 2 + self.rng.below(16) as usize;
                    self.rng.text(length)
                };
                let chunk = if step == 1 {
                    Delta::ReasoningDelta { index: 0, text }
                } else {
                    Delta::TextDelta { index: 0, text }
                };
                self.ready
                    .push_back(Record::Chunk(Chunk { turn, step, chunk }));
            }
        }
        let call_id = format!("call-{turn}-{step}");
        let call = self.sized(454, |arguments| {
            Record::Call(Call {
                turn,
                step,
                call_id: call_id.clone(),
                name: "edit_file".into(),
                arguments: format!("{{\"text\":\"{arguments}\"}}"),
            })
        });
        let Record::Call(Call { arguments, .. }) = &call else {
            unreachable!("it was made a call above")
        };
        let asked = Block::ToolCall {
            id: call_id.clone(),
            name: "edit_file".into(),
            arguments: arguments.clone(),
        };
        let answer = self.sized(1_005, |text| {
            Record::Assistant(Assistant {
                turn,
                step,
                message: Message {
                    id: format!("assistant-{turn}-{step}"),
                    role: "assistant".into(),
                    content: vec![Block::Text { text }, asked.clone()],
                    source: Source::Model {
                        provider: "p".into(),
                        model: "m-1".into(),
                    },
                },
            })
        });
        let result = self.sized(1_944, |text| {
            Record::Result(ToolResult {
                turn,
                step,
                message: Message {
                    id: format!("result-{turn}-{step}"),
                    role: "user".into(),
                    content: vec![Block::ToolResult {
                        tool_call_id: call_id.clone(),
                        content: vec![Block::Text { text }],
                        is_error: false,
                    }],
                    source: Source::Tool {
                        call_id: call_id.clone(),
                    },
                },
            })
        });
        self.ready.push_back(answer);
        self.ready.push_back(call);
        if step == 1 {
            let todos = self.todos();
            self.ready.push_back(todos);
        }
        self.ready.push_back(result);
        self.ready.push_back(Record::StepEnd(at));
    }

    fn todos(&mut self) -> Record {
        const STATUS: [&str; 3] = ["completed", "in_progress", "pending"];
        let items = (0..8).map(|nth: usize| TodoItem {
            // The number keeps the items of a list apart.
            content: format!("{nth} {}", self.rng.text(50)),
            status: STATUS[nth.min(2)].into(),
        });
        Record::Todos(Todos {
            todos: items.collect(),
        })
    }

    /// A record of `length` bytes on the wire, made from a text.
    fn sized(&mut self, length: usize, make: impl Fn(String) -> Record) -> Record {
        let bare = make(String::new()).wire_length();
        make(self.rng.text(length.saturating_sub(bare).max(1)))
    }
}

fn user(turn: u64, text: String) -> Message {
    Message {
        id: format!("user-{turn}"),
        role: "user".into(),
        content: vec![Block::Text { text }],
        source: Source::User {},
    }
}

impl Record {
    /// What a user says, with `stamp` in it.
    #[must_use]
    pub fn stamped(nth: u64, stamp: u64) -> Self {
        Self::User(user(nth, format!("stamp={stamp};")))
    }

    /// The stamp in the JSON of a stamped record.
    #[must_use]
    pub fn stamp(json: &str) -> Option<u64> {
        let (_, rest) = json.split_once("stamp=")?;
        rest.split_once(';')?.0.parse().ok()
    }
}

impl Iterator for Log {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        if self.ready.is_empty() {
            self.turn();
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean(kind: Kind, count: usize) -> usize {
        let log = Log::new(1, 0, kind).take(count);
        log.map(|record| record.wire_length()).sum::<usize>() / count
    }

    #[test]
    fn a_turn_is_twenty_events_of_588_bytes_in_the_mean() {
        let turn = Log::new(1, 0, Kind::Mixed).batch(20);
        assert!(matches!(turn[19], Record::TurnEnd(_)));
        assert!(
            (575..600).contains(&mean(Kind::Mixed, 2_000)),
            "{}",
            mean(Kind::Mixed, 2_000)
        );
    }

    #[test]
    fn chunks_are_96_percent_of_a_chunked_log() {
        let log = Log::new(1, 0, Kind::Chunked).take(5_000);
        let chunks = log
            .filter(|record| matches!(record, Record::Chunk(_)))
            .count();
        assert_eq!(chunks, 4_800);
    }

    #[test]
    fn records_read_back() {
        for record in Log::new(1, 0, Kind::Chunked).take(500) {
            assert_eq!(Record::from_line(&record.line()).unwrap(), record);
        }
    }
}
