//! Packed rows: none that is read brings the reader down, and packing loses nothing.

use arbitrary::{Arbitrary, Unstructured};
use serde_json::json;
use session_core::jsonl::{PackedRow, Row, pack};
use session_core::{Event, NewEvent, Payload, Seq, SurfaceMeta, UnixMillis};

/// Takes `data` for a packed row when it begins like one, else for the plan of a stream of chunks.
///
/// # Panics
///
/// Panics where packing would lose or change an event.
pub fn check(data: &[u8]) {
    if data.starts_with(b"{") {
        check_row(data);
    } else {
        let events = stream(&mut Unstructured::new(data));
        check_packing(&events);
    }
}

/// Any row is unpacked or refused; what it holds packs again.
fn check_row(data: &[u8]) {
    let Ok(row) = serde_json::from_slice::<PackedRow>(data) else {
        return;
    };
    // The two ends of what may stand in for what the row leaves out.
    for (seq, time) in [
        (Seq::ZERO, UnixMillis::EPOCH),
        (Seq::MAX, UnixMillis::new(i64::MAX)),
    ] {
        if let Ok(events) = row.clone().unpack(seq, time) {
            check_packing(&events);
        }
    }
}

fn check_packing(events: &[Event]) {
    let rows = pack(events);
    let mut unpacked = Vec::new();
    for row in &rows {
        let text = serde_json::to_string(row).expect("a row can be written");
        match row {
            Row::Event(event) => {
                let again = serde_json::from_str::<Event>(&text);
                if event.time_ms().is_exact() {
                    assert_eq!(again.expect("an event reads back"), *event, "{text}");
                } else {
                    again.expect_err("no line is read whose time readers would round");
                }
                unpacked.push(event.clone());
            }
            Row::Packed(row) => {
                let again: PackedRow = serde_json::from_str(&text).expect("a row reads back");
                assert_eq!(again, *row, "{text}");
                // It says where and when it begins, so what stands in must not matter.
                let run = again.unpack(Seq::MAX, UnixMillis::new(i64::MIN));
                unpacked.extend(run.expect("a row that was packed unpacks"));
            }
        }
    }
    assert_eq!(unpacked, events, "{rows:#?}");
}

/// The next chunk of a stream, as it differs from the one before.
#[derive(Debug, Arbitrary)]
enum Piece<'a> {
    /// The stream goes on.
    Next { gap: i8, text: &'a str },
    /// It goes on at another instant, which a clock that was set may make any.
    At { time: i64, text: &'a str },
    /// Another block, step or turn.
    Place { turn: u8, step: u8, index: u64 },
    /// Another kind of delta.
    Kind(Kind),
    /// Another call, or none.
    Call {
        id: Option<&'a str>,
        name: Option<&'a str>,
    },
    /// Positions are left out.
    Skip(u8),
    /// A piece that differs in something that a run has no place for.
    Odd { oddity: Oddity, text: &'a str },
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Kind {
    Text,
    Reasoning,
    ToolCall,
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Oddity {
    Ignorable,
    OnSurface,
    OtherType,
    OtherKey,
    OtherOrder,
    Escaped,
    HalfSurrogate,
    NoText,
    TextIsNull,
    BothTexts,
    IdIsNumber,
}

pub(crate) fn stream(plan: &mut Unstructured<'_>) -> Vec<Event> {
    let (mut turn, mut step, mut index, mut kind) = (1, 1, 0, Kind::Text);
    let (mut id, mut name) = (None, None);
    let (mut seq, mut time) = (Seq::ZERO, 1_700_000_000_000_i64);
    let mut events = Vec::new();
    while !plan.is_empty()
        && let Ok(piece) = Piece::arbitrary(plan)
    {
        let (text, oddity) = match piece {
            Piece::Next { gap, text } => {
                time = time.saturating_add(gap.into());
                (text, None)
            }
            Piece::At { time: at, text } => {
                time = at;
                (text, None)
            }
            Piece::Place {
                turn: t,
                step: s,
                index: i,
            } => {
                (turn, step, index) = (t, s, i);
                continue;
            }
            Piece::Kind(other) => {
                kind = other;
                continue;
            }
            Piece::Call { id: i, name: n } => {
                (id, name) = (i, n);
                continue;
            }
            Piece::Skip(places) => {
                seq = seq.plus(places.into());
                continue;
            }
            Piece::Odd { oddity, text } => (text, Some(oddity)),
        };
        let mut chunk = match kind {
            Kind::Text => json!({"type": "text-delta", "index": index}),
            Kind::Reasoning => json!({"type": "reasoning-delta", "index": index}),
            Kind::ToolCall => json!({"type": "tool-call-delta", "index": index}),
        };
        if let Some(id) = id {
            chunk["id"] = id.into();
        }
        if let Some(name) = name {
            chunk["name"] = name.into();
        }
        let field = match kind {
            Kind::Text | Kind::Reasoning => "text",
            Kind::ToolCall => "argumentsDelta",
        };
        chunk[field] = text.into();
        let data = json!({"turn": turn, "step": step, "chunk": chunk});
        let event = match oddity {
            None => NewEvent::raw("assistant/chunk", payload(&data.to_string()), None, false),
            Some(oddity) => odd(oddity, data, field),
        };
        events.push(event.at(seq, UnixMillis::new(time)));
        seq = seq.next();
    }
    events
}

fn payload(text: &str) -> Payload {
    Payload::from_text(text).expect("it is JSON")
}

fn odd(oddity: Oddity, mut data: serde_json::Value, field: &str) -> NewEvent {
    let (mut kind, mut surface, mut is_ignorable) = ("assistant/chunk", None, false);
    let chunk = &mut data["chunk"];
    let mut text = None;
    match oddity {
        Oddity::Ignorable => is_ignorable = true,
        Oddity::OnSurface => surface = Some(SurfaceMeta::append()),
        Oddity::OtherType => kind = "acme/chunk",
        Oddity::OtherKey => chunk["acme"] = 1.into(),
        Oddity::OtherOrder => {
            let index = chunk["index"].take();
            let Some(fields) = chunk.as_object_mut() else {
                unreachable!("a chunk is an object")
            };
            fields.shift_remove("index");
            fields.insert("index".into(), index);
        }
        Oddity::Escaped => text = Some(r#""\u0061\/""#),
        Oddity::HalfSurrogate => text = Some(r#""\ud83e""#),
        Oddity::NoText => {
            let _ = chunk
                .as_object_mut()
                .and_then(|fields| fields.remove(field));
        }
        Oddity::TextIsNull => chunk[field] = serde_json::Value::Null,
        Oddity::BothTexts => {
            chunk["text"] = "a".into();
            chunk["argumentsDelta"] = "b".into();
        }
        Oddity::IdIsNumber => chunk["id"] = 1.into(),
    }
    if let Some(spelling) = text {
        chunk[field] = "\u{1}here".into();
        let json = data.to_string().replacen(r#""\u0001here""#, spelling, 1);
        return NewEvent::raw(kind, payload(&json), surface, is_ignorable);
    }
    NewEvent::raw(kind, payload(&data.to_string()), surface, is_ignorable)
}
