//! Several events as one text: a line of envelopes, then a line for each payload. Runs of stream
//! chunks among them are one line.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use super::sources;
use crate::event::type_name;
use crate::jsonl::{PackedRow, Row, pack, packed};
use crate::{Event, NewEvent, Payload, Seq, SurfaceMeta, SurfaceOp, UnixMillis};

/// Events that a text holds at most, many more than any is made with.
const MOST: u32 = 1 << 16;

/// An event without its position and payload, or how many chunks the next line holds.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Envelope<'a> {
    #[serde(borrow)]
    r#type: Cow<'a, str>,
    /// Milliseconds since the event before, or since the first.
    dt: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    op: Option<SurfaceOp>,
    #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
    sources: Option<Cow<'a, str>>,
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    ignorable: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    chunks: Option<u32>,
}

pub(super) fn encode(events: &[Event]) -> String {
    let mut time = events.first().map_or(0, |first| first.time_ms().get());
    let mut since = |event: &Event, last: &Event| {
        // Wraps around in either direction, for clocks beyond reason.
        let dt = event.time_ms().get().wrapping_sub(time);
        time = last.time_ms().get();
        dt
    };
    let mut envelopes = Vec::with_capacity(events.len());
    let mut payloads = String::new();
    let mut rest = events;
    for row in pack(events) {
        payloads.push('\n');
        let (envelope, count) = match &row {
            Row::Event(event) => {
                payloads.push_str(event.data().as_str());
                let dt = since(event, event);
                (alone(&rest[0], dt), 1)
            }
            Row::Packed(run) => {
                let count = run.events();
                let line = serde_json::to_string(&run.clone().without_place());
                payloads.push_str(&line.unwrap_or_default());
                let dt = since(&rest[0], &rest[count - 1]);
                let chunks = u32::try_from(count).ok();
                (
                    Envelope {
                        chunks,
                        ..alone(&rest[0], dt)
                    },
                    count,
                )
            }
        };
        envelopes.push(envelope);
        rest = &rest[count..];
    }
    let mut text = serde_json::to_string(&envelopes).unwrap_or_default();
    text.push_str(&payloads);
    text
}

fn alone(event: &Event, dt: i64) -> Envelope<'_> {
    let surface = event.surface();
    Envelope {
        r#type: event.kind().into(),
        dt,
        op: surface.map(|surface| surface.op),
        sources: surface
            .and_then(|surface| surface.sources.as_ref())
            .map(|seqs| sources::encode(seqs).into()),
        ignorable: event.is_ignorable(),
        chunks: None,
    }
}

pub(super) fn decode(
    text: &str,
    first: Seq,
    time: UnixMillis,
    count: u32,
) -> Result<Vec<Event>, String> {
    if count > MOST {
        return Err(format!("{count} events, more than {MOST} in a record"));
    }
    let mut lines = text.split('\n');
    let envelopes = lines.next().unwrap_or_default();
    let envelopes: Vec<Envelope<'_>> =
        serde_json::from_str(envelopes).map_err(|error| format!("envelopes: {error}"))?;
    if envelopes.len() > count as usize {
        return Err(format!("{} envelopes for {count} events", envelopes.len()));
    }
    let mut events: Vec<Event> = Vec::with_capacity(envelopes.len());
    // A short text may stand for much; what it is given room for is the sum over the record.
    let (mut chunks_room, mut sources_room) = (packed::LARGEST, sources::MOST);
    let mut time = time.get();
    for envelope in envelopes {
        let line = lines.next().ok_or("a payload is missing")?;
        let seq = first.plus(events.len() as u64);
        time = time.wrapping_add(envelope.dt);
        let at = UnixMillis::new(time);
        if let Some(chunks) = envelope.chunks {
            let row: PackedRow =
                serde_json::from_str(line).map_err(|error| format!("chunks: {error}"))?;
            if row.events() != chunks as usize {
                return Err(format!("{} chunks where {chunks} are due", row.events()));
            }
            if row.says_its_place() {
                return Err("chunks that say where they are".into());
            }
            let room = chunks_room.checked_sub(row.unpacked_size());
            chunks_room = room.ok_or("its chunks unpack to too much")?;
            events.extend(row.unpack(seq, at)?);
            time = events.last().map_or(time, |last| last.time_ms().get());
        } else {
            events.push(envelope.event(line, &mut sources_room)?.at(seq, at));
        }
    }
    if lines.next().is_some() || events.len() != count as usize {
        return Err(format!("{} events where {count} are due", events.len()));
    }
    Ok(events)
}

impl Envelope<'_> {
    fn event(self, data: &str, room: &mut usize) -> Result<NewEvent, String> {
        let sources = self.sources.as_deref();
        let sources = sources
            .map(|text| sources::decode(text, room))
            .transpose()?;
        let surface = match self.op {
            Some(op) => Some(SurfaceMeta { op, sources }),
            None if sources.is_some() => return Err("sources without op".into()),
            None => None,
        };
        let kind = type_name(&self.r#type);
        Ok(NewEvent::raw(
            kind,
            Payload::kept(data),
            surface,
            self.ignorable,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(texts: &[&str]) -> Vec<Event> {
        let read = |text: &&str| serde_json::from_str(text).unwrap();
        texts.iter().map(read).collect()
    }

    #[test]
    fn a_run_is_a_line_of_envelopes_and_a_line_for_each_payload() {
        let events = events(&[
            r#"{"type":"turn/start","seq":5,"time":100,"data":{"turn":1}}"#,
            r#"{"type":"acme/x","seq":6,"time":90,"data":"a\nb","ignorable":true}"#,
            r#"{"type":"user/message","seq":7,"time":190,"data":{},"sourceEventSeqs":[1,2,3],"surfaceOp":"append"}"#,
        ]);
        let text = encode(&events);
        assert_eq!(
            text,
            r#"[{"type":"turn/start","dt":0},{"type":"acme/x","dt":-10,"ignorable":true},{"type":"user/message","dt":100,"op":"append","sources":"[[1,3]]"}]
{"turn":1}
"a\nb"
{}"#
        );
        assert_eq!(
            decode(&text, Seq::from(5), UnixMillis::new(100), 3).unwrap(),
            events
        );
    }

    #[test]
    fn chunks_of_a_block_share_a_line() {
        let chunk = |seq: u32, time: i64| {
            format!(
                r#"{{"type":"assistant/chunk","seq":{seq},"time":{time},"data":{{"turn":1,"step":1,"chunk":{{"type":"text-delta","index":0,"text":"w{seq} "}}}}}}"#
            )
        };
        let after =
            r#"{"type":"step/end","seq":4,"time":20,"data":{"turn":1,"step":1}}"#.to_owned();
        let lines = [chunk(0, 10), chunk(1, 12), chunk(2, 9), chunk(3, 11), after];
        let events = events(&lines.each_ref().map(String::as_str));
        let text = encode(&events);
        assert_eq!(text.lines().count(), 3, "{text}");
        assert_eq!(
            decode(&text, Seq::ZERO, UnixMillis::new(10), 5).unwrap(),
            events
        );
    }

    #[test]
    fn a_text_that_does_not_add_up_is_refused() {
        for text in [
            "",
            "[]",
            "[{\"type\":\"a\",\"dt\":0}]",
            "[{\"type\":\"a\",\"dt\":0}]\n1\n2",
            "[{\"type\":\"a\",\"dt\":0,\"x\":1}]\n1",
            "[{\"type\":\"a\",\"dt\":0,\"chunks\":1}]\n1",
            "[{\"type\":\"a\",\"dt\":0,\"sources\":\"[1]\"}]\n1",
        ] {
            decode(text, Seq::ZERO, UnixMillis::EPOCH, 1).unwrap_err();
        }
    }

    #[test]
    fn chunks_cannot_be_anywhere_but_where_their_line_is() {
        let row = r#""data":{"turn":1,"step":1,"index":0,"dt":[],"texts":["a"]}}"#;
        for place in ["", r#""seq0":7,"#, r#""time0":7,"#] {
            let text = format!(
                "[{{\"type\":\"assistant/chunk\",\"dt\":0,\"chunks\":1}}]\n\
                 {{\"type\":\"text-chunks\",{place}{row}"
            );
            let decoded = decode(&text, Seq::ZERO, UnixMillis::EPOCH, 1);
            assert_eq!(decoded.is_ok(), place.is_empty(), "{decoded:?}");
        }
    }

    #[test]
    fn a_text_whose_parts_together_would_unfold_without_end_is_refused() {
        let refusal = |envelope: &str, line: &str, count: usize, events: u32| {
            let envelopes = vec![envelope; count].join(",");
            let text = format!("[{envelopes}]{}", format!("\n{line}").repeat(count));
            decode(&text, Seq::ZERO, UnixMillis::EPOCH, events).unwrap_err()
        };
        // Each by itself is within bounds.
        let sources = r#"{"type":"a","dt":0,"op":"append","sources":"[[1,9000000]]"}"#;
        assert!(refusal(sources, "1", 2, 2).contains("positions in a record"));

        let chunks = r#"{"type":"assistant/chunk","dt":0,"chunks":3}"#;
        let id = "i".repeat(10 << 20);
        let row = format!(
            r#"{{"type":"tool-call-chunks","data":{{"turn":1,"step":1,"index":0,"dt":[0,0],"id":"{id}","args":["","",""]}}}}"#
        );
        assert!(refusal(chunks, &row, 3, 9).contains("unpack to too much"));

        let note = r#"{"type":"a","dt":0}"#;
        assert!(refusal(note, "1", 70_000, 70_000).contains("in a record"));
        assert!(refusal(note, "1", 3, 2).contains("3 envelopes"));
    }

    #[test]
    fn clocks_beyond_reason_come_out_as_they_went_in() {
        let at = |seq: u32, time: i64| {
            let event = NewEvent::raw("a", Payload::kept("1"), None, false);
            event.at(Seq::from(seq), UnixMillis::new(time))
        };
        let events = [at(0, i64::MIN), at(1, i64::MAX), at(2, i64::MIN), at(3, 0)];
        let back = decode(&encode(&events), Seq::ZERO, UnixMillis::new(i64::MIN), 4);
        assert_eq!(back.unwrap(), events);
    }
}
