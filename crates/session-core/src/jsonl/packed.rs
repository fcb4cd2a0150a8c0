//! Runs of stream chunks in one row.
//!
//! The fragments are not joined: where a provider cut its stream is data.

use serde::{Deserialize, Serialize};

use super::EventData as _;
use crate::event::AssistantChunk;
use crate::{Event, NewEvent, Payload, Seq, UnixMillis};

/// A run shorter than this is written event by event.
const SHORTEST: usize = 3;
/// What every JSON reader can add up without loss.
const SAFE: i64 = (1 << 53) - 1;
/// Bytes that a row unpacks to at most. Its events repeat what it says once.
pub(crate) const LARGEST: usize = 64 << 20;
/// Bytes of an event besides its strings, roughly.
const EVENT: usize = 256;

/// A run of stream chunks of one block, as one row.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PackedRow {
    r#type: RowType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    seq0: Option<Seq>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time0: Option<UnixMillis>,
    data: Run,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum RowType {
    #[serde(rename = "text-chunks")]
    Text,
    #[serde(rename = "reasoning-chunks")]
    Reasoning,
    #[serde(rename = "tool-call-chunks")]
    ToolCall,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    turn: u64,
    step: u64,
    index: u64,
    dt: Vec<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Payload>,
    // Kept as JSON texts: a fragment may end in half a surrogate pair.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    texts: Option<Vec<Payload>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    args: Option<Vec<Payload>>,
}

/// An `assistant/chunk` payload of exactly the keys that a packed row can hold.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ChunkData {
    turn: u64,
    step: u64,
    chunk: Delta,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Delta {
    r#type: DeltaType,
    index: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<Payload>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    text: Option<Payload>,
    #[serde(
        default,
        rename = "argumentsDelta",
        skip_serializing_if = "Option::is_none"
    )]
    arguments: Option<Payload>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
enum DeltaType {
    #[serde(rename = "text-delta")]
    Text,
    #[serde(rename = "reasoning-delta")]
    Reasoning,
    #[serde(rename = "tool-call-delta")]
    ToolCall,
}

impl PackedRow {
    /// The types of packed rows.
    pub const TYPES: [&'static str; 3] = ["text-chunks", "reasoning-chunks", "tool-call-chunks"];

    /// The events of the run. `seq` and `time` stand in where the row does not say.
    ///
    /// # Errors
    ///
    /// Returns what does not add up, also when the events would take more than 64 MiB.
    pub fn unpack(self, seq: Seq, time: UnixMillis) -> Result<Vec<Event>, String> {
        let size = self.unpacked_size();
        if size > LARGEST {
            return Err(format!("it unpacks to {size} bytes, more than {LARGEST}"));
        }
        let Self {
            r#type,
            seq0,
            time0,
            data: run,
        } = self;
        let (kind, fragments) = match (r#type, run.texts, run.args, &run.id) {
            (RowType::Text, Some(texts), None, None) if run.name.is_none() => {
                (DeltaType::Text, texts)
            }
            (RowType::Reasoning, Some(texts), None, None) if run.name.is_none() => {
                (DeltaType::Reasoning, texts)
            }
            (RowType::ToolCall, None, Some(args), Some(_)) => (DeltaType::ToolCall, args),
            _ => return Err("its keys do not fit its type".into()),
        };
        if fragments.is_empty() || run.dt.len() + 1 != fragments.len() {
            return Err(format!(
                "{} fragments, {} gaps",
                fragments.len(),
                run.dt.len()
            ));
        }
        if !run.id.iter().chain(&run.name).all(is_string) {
            return Err("its id or name is not a string".into());
        }
        let first = seq0.unwrap_or(seq);
        if first.plus(fragments.len() as u64) > Seq::MAX {
            return Err("its positions are beyond 2^53 - 1".into());
        }
        let mut time = time0.unwrap_or(time).get();
        let mut events = Vec::with_capacity(fragments.len());
        for (nth, (fragment, gap)) in fragments
            .into_iter()
            .zip([0].into_iter().chain(run.dt))
            .enumerate()
        {
            time = time
                .checked_add(gap)
                .filter(|time| (-SAFE..=SAFE).contains(time))
                .ok_or("its times are beyond 2^53 - 1")?;
            if !is_string(&fragment) {
                return Err("a fragment is not a string".into());
            }
            let (text, arguments) = match kind {
                DeltaType::Text | DeltaType::Reasoning => (Some(fragment), None),
                DeltaType::ToolCall => (None, Some(fragment)),
            };
            let (id, name) = (run.id.clone(), run.name.clone());
            let chunk = Delta {
                r#type: kind,
                index: run.index,
                id,
                name,
                text,
                arguments,
            };
            let data = ChunkData {
                turn: run.turn,
                step: run.step,
                chunk,
            };
            let data = Payload::of(&data).map_err(|error| error.to_string())?;
            let event = NewEvent::raw(AssistantChunk::TYPE, data, None, false);
            events.push(event.at(first.plus(nth as u64), UnixMillis::new(time)));
        }
        Ok(events)
    }
}

impl PackedRow {
    /// How many events the run has.
    #[must_use]
    pub fn events(&self) -> usize {
        let fragments = self.data.texts.as_ref().or(self.data.args.as_ref());
        fragments.map_or(0, Vec::len)
    }

    /// Whether it has a position or a time of its own.
    #[cfg(feature = "record")]
    pub(crate) const fn says_its_place(&self) -> bool {
        self.seq0.is_some() || self.time0.is_some()
    }

    /// About how many bytes its events take.
    pub(crate) fn unpacked_size(&self) -> usize {
        let Run {
            id,
            name,
            texts,
            args,
            ..
        } = &self.data;
        let fragments = texts.iter().chain(args).flatten();
        let repeated = EVENT + length(id.as_ref()) + length(name.as_ref());
        fragments.fold(0, |size: usize, fragment| {
            size.saturating_add(repeated)
                .saturating_add(length(Some(fragment)))
        })
    }

    /// The row without position and time, for a place that says them.
    #[must_use]
    pub fn without_place(self) -> Self {
        Self {
            seq0: None,
            time0: None,
            ..self
        }
    }
}

/// One line of a log: an event, or a packed run of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Row {
    /// An event by itself.
    Event(Event),
    /// A run.
    Packed(PackedRow),
}

/// Packs the runs among `events`; everything else stays as it is. [`PackedRow::unpack`] gives back
/// the very same events.
#[must_use]
pub fn pack(events: &[Event]) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rest = events;
    while let [first, ..] = rest {
        let run = run_of(rest);
        if run.len() >= SHORTEST {
            rows.push(Row::Packed(pack_run(first, &run)));
            rest = &rest[run.len()..];
        } else {
            rows.push(Row::Event(first.clone()));
            rest = &rest[1..];
        }
    }
    rows
}

/// The longest run at the start of `events`.
fn run_of(events: &[Event]) -> Vec<(UnixMillis, ChunkData)> {
    let mut run: Vec<(UnixMillis, ChunkData)> = Vec::new();
    let mut size = 0;
    for (event, due) in events.iter().zip(events[0].seq().get()..) {
        let Some(data) = delta(event).filter(|_| event.seq().get() == due) else {
            break;
        };
        if let Some((time, last)) = run.last() {
            let gap = event.time_ms().get().checked_sub(time.get());
            let near = gap.is_some_and(|gap| (-SAFE..=SAFE).contains(&gap));
            let (a, b) = (&last.chunk, &data.chunk);
            let same = (last.turn, last.step, a.r#type, a.index)
                == (data.turn, data.step, b.r#type, b.index)
                && a.id == b.id
                && a.name == b.name;
            if !near || !same {
                break;
            }
        }
        size += data.chunk.size();
        if size > LARGEST {
            break;
        }
        run.push((event.time_ms(), data));
    }
    run
}

/// The delta of a chunk event that a packed row gives back to the letter.
fn delta(event: &Event) -> Option<ChunkData> {
    let plain = event.is::<AssistantChunk>() && event.surface().is_none() && !event.is_ignorable();
    let safe = (-SAFE..=SAFE).contains(&event.time_ms().get());
    if !(plain && safe) {
        return None;
    }
    let data: ChunkData = event.data().decode().ok()?;
    let Delta {
        r#type,
        id,
        name,
        text,
        arguments,
        ..
    } = &data.chunk;
    let fits = match r#type {
        DeltaType::Text | DeltaType::Reasoning => {
            text.is_some() && id.is_none() && name.is_none() && arguments.is_none()
        }
        DeltaType::ToolCall => id.is_some() && arguments.is_some() && text.is_none(),
    };
    let fragment = text.as_ref().or(arguments.as_ref())?;
    let strings = [fragment].into_iter().chain(id).chain(name).all(is_string);
    let same_text = Payload::of(&data).is_ok_and(|again| again == *event.data());
    (fits && strings && same_text).then_some(data)
}

impl Delta {
    fn size(&self) -> usize {
        let strings = [&self.id, &self.name, &self.text, &self.arguments];
        let lengths = strings.map(|string| length(string.as_ref()));
        EVENT + lengths.iter().sum::<usize>()
    }
}

fn length(string: Option<&Payload>) -> usize {
    string.map_or(0, |string| string.as_str().len())
}

fn is_string(value: &Payload) -> bool {
    value.as_str().starts_with('"')
}

fn pack_run(first: &Event, run: &[(UnixMillis, ChunkData)]) -> PackedRow {
    let data = &run[0].1;
    let chunk = &data.chunk;
    let dt = run
        .windows(2)
        .map(|pair| pair[1].0.get() - pair[0].0.get())
        .collect();
    let texts: Option<Vec<Payload>> = run
        .iter()
        .map(|(_, data)| data.chunk.text.clone())
        .collect();
    let args = run
        .iter()
        .map(|(_, data)| data.chunk.arguments.clone())
        .collect();
    PackedRow {
        r#type: match chunk.r#type {
            DeltaType::Text => RowType::Text,
            DeltaType::Reasoning => RowType::Reasoning,
            DeltaType::ToolCall => RowType::ToolCall,
        },
        seq0: Some(first.seq()),
        time0: Some(first.time_ms()),
        data: Run {
            turn: data.turn,
            step: data.step,
            index: chunk.index,
            dt,
            id: chunk.id.clone(),
            name: chunk.name.clone(),
            texts,
            args,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk(seq: u32, id: &str) -> Event {
        let data = format!(
            r#"{{"turn":1,"step":1,"chunk":{{"type":"tool-call-delta","index":0,"id":"{id}","argumentsDelta":"{seq}"}}}}"#
        );
        let data = Payload::from_text(&data).unwrap();
        let event = NewEvent::raw(AssistantChunk::TYPE, data, None, false);
        event.at(Seq::from(seq), UnixMillis::EPOCH)
    }

    fn row(id: &str, fragments: usize) -> PackedRow {
        let args = vec![r#""""#; fragments].join(",");
        let dt = vec!["0"; fragments - 1].join(",");
        let text = format!(
            r#"{{"type":"tool-call-chunks","data":{{"turn":1,"step":1,"index":0,"dt":[{dt}],"id":"{id}","args":[{args}]}}}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    #[test]
    fn a_small_row_that_would_unpack_without_end_is_refused_before_memory_is_taken() {
        // 64 GiB from a few hundred kilobytes.
        let row = row(&"i".repeat(1 << 20), 1 << 16);
        let refused = row.unpack(Seq::ZERO, UnixMillis::EPOCH).unwrap_err();
        assert!(refused.contains("unpacks to"), "{refused}");
    }

    #[test]
    fn a_row_may_unpack_to_many_times_its_size_within_the_bound() {
        let id = "i".repeat(1 << 20);
        let events = row(&id, 60).unpack(Seq::ZERO, UnixMillis::EPOCH);
        assert_eq!(events.unwrap().len(), 60);
        row(&id, 64)
            .unpack(Seq::ZERO, UnixMillis::EPOCH)
            .unwrap_err();
    }

    #[test]
    fn a_run_is_parted_before_it_is_too_large_to_be_unpacked() {
        let id = "i".repeat(1 << 22);
        let events: Vec<Event> = (0..20).map(|seq| chunk(seq, &id)).collect();
        let rows = pack(&events);
        let unpacked = rows.into_iter().flat_map(|row| match row {
            Row::Packed(row) => row.unpack(Seq::MAX, UnixMillis::EPOCH).unwrap(),
            Row::Event(event) => vec![event],
        });
        assert!(unpacked.eq(events));
    }
}
