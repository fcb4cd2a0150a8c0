//! What holds of every log.

use futures::TryStreamExt as _;
use proptest::prelude::*;
use session_core::event::{TodoWrite, TurnStart};
use session_core::jsonl::{self, Decoder, Row};
use session_core::store::ReadRange;
use session_core::testing::valid_log;
use session_core::{
    AppendFailure, CatalogueChange, CatalogueEntry, CreateFailure, Event, EventStore as _,
    LogState, MemoryStore, NewEvent, NewSession, OpenFailure, Payload, Seq, Sessions, SurfaceOp,
    UnixMillis, Vocabulary, repair,
};

use crate::support::{TIME, header, refused, seq, shown};

fn logs() -> impl Strategy<Value = Vec<Event>> {
    proptest::collection::vec(any::<u8>(), 0..400).prop_map(|choices| valid_log(&choices))
}

fn fold(events: &[Event]) -> LogState {
    LogState::fold(&Vocabulary::core(), events).unwrap()
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    runtime.enable_all().build().unwrap().block_on(future)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_that_keeps_the_written_rules_folds(log in logs()) {
        let folded = LogState::fold(&Vocabulary::core(), &log);
        prop_assert!(folded.is_ok(), "{:?}", folded.err());
    }

    #[test]
    fn a_prefix_and_then_the_rest_fold_to_the_whole(log in logs(), cuts in any::<[u8; 3]>()) {
        let mut cuts = cuts.map(|cut| usize::from(cut) % (log.len() + 1));
        cuts.sort_unstable();
        let mut state = LogState::default();
        let [a, b, c] = cuts;
        for part in [&log[..a], &log[a..b], &log[b..c], &log[c..]] {
            let staged = state.stage_all(&Vocabulary::core(), part).unwrap();
            state.apply(staged);
        }
        prop_assert_eq!(shown(&state), shown(&fold(&log)));
    }

    #[test]
    fn log_only_events_have_no_effect_on_the_conversation(log in logs()) {
        let state = fold(&log);
        let mut expected = Vec::new();
        for event in log.iter().filter(|event| event.is_surface_type()) {
            match event.surface().unwrap().op {
                SurfaceOp::Append => expected.push(event.seq()),
                SurfaceOp::Replace { start, end } => {
                    let place = |seq| expected.iter().position(|node| *node == seq).unwrap();
                    let run = place(start)..=place(end);
                    expected.splice(run, [event.seq()]);
                }
            }
        }
        prop_assert_eq!(state.surface().order(), expected);
    }

    #[test]
    fn repairing_any_prefix_closes_it_once_and_for_all(log in logs(), cut in any::<prop::sample::Index>()) {
        let mut cut = log[..cut.index(log.len() + 1)].to_vec();
        let closers = repair(&fold(&cut));
        prop_assert_eq!(repair(&fold(&cut)), closers.clone(), "the same log, the same events");
        prop_assert_eq!(closers.is_empty(), fold(&cut).trace().open_turn().is_none());
        prop_assert!(closers.iter().all(|event| event.time_ms() == fold(&cut).last_time()));
        cut.extend(closers);
        let closed = fold(&cut);
        prop_assert_eq!(closed.trace().open_turn(), None);
        prop_assert_eq!(repair(&closed), []);
        // No call of the model is left without a result in the step that repair closed.
        let next = TurnStart { turn: closed.trace().next_turn() };
        let next = NewEvent::new(&next).at(closed.next_seq(), TIME);
        prop_assert!(closed.stage_all(&Vocabulary::core(), [&next]).is_ok());
    }

    #[test]
    fn an_event_reads_back_from_its_json(log in logs()) {
        for event in &log {
            let text = serde_json::to_string(event).unwrap();
            let again: Event = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&again, event);
            prop_assert_eq!(serde_json::to_string(&again).unwrap(), text);
        }
    }

    #[test]
    fn a_log_reads_back_from_its_lines(log in logs(), packed in any::<bool>()) {
        let header = header("a");
        let mut decoder = Decoder::new(&jsonl::header_line(&header).unwrap()).unwrap();
        prop_assert_eq!(decoder.header(), &header);
        let rows = if packed {
            jsonl::pack(&log)
        } else {
            log.iter().cloned().map(Row::Event).collect()
        };
        let mut again = Vec::new();
        for row in rows {
            again.extend(decoder.push(&serde_json::to_string(&row).unwrap()).unwrap());
        }
        prop_assert_eq!(again, log);
    }

    #[test]
    fn the_catalogue_of_the_parts_is_that_of_the_whole(log in logs(), cut in any::<prop::sample::Index>()) {
        let (a, b) = log.split_at(cut.index(log.len() + 1));
        let mut parts = CatalogueEntry::new(header("a"));
        parts.apply(CatalogueChange::of(a));
        parts.apply(CatalogueChange::of(b));
        let mut whole = CatalogueEntry::new(header("a"));
        whole.apply(CatalogueChange::of(&log));
        prop_assert_eq!(&parts, &whole);
        let state = fold(&log);
        prop_assert_eq!(parts.next_seq, state.next_seq());
        prop_assert_eq!(parts.is_open, state.trace().open_turn().is_some());
        prop_assert_eq!(parts.is_blank, state.trace().next_turn() == 1);
        prop_assert_eq!(parts.title, state.title().map(|title| title.title));
    }
}

/// Batches of a log, as a live session would be given them.
fn batches(log: &[Event], sizes: &[u8]) -> Vec<Vec<NewEvent>> {
    let mut rest: Vec<NewEvent> = log.iter().cloned().map(Event::into_new).collect();
    let mut sizes = sizes.iter().cycle();
    let mut batches = Vec::new();
    while !rest.is_empty() {
        let size = sizes.next().map_or(1, |size| usize::from(*size) % 7 + 1);
        let tail = rest.split_off(size.min(rest.len()));
        batches.push(std::mem::replace(&mut rest, tail));
    }
    batches
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None, cases: 64, ..ProptestConfig::default()
    })]

    #[test]
    fn what_was_live_is_what_replay_gives(log in logs(), sizes in any::<[u8; 5]>()) {
        block_on(async {
            let store = MemoryStore::shared();
            let sessions = Sessions::builder(store.clone()).build();
            let session = sessions.create(NewSession::default()).await.unwrap();
            for batch in batches(&log, &sizes) {
                session.append(batch).await.unwrap();
            }
            let stored: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
            let live = session.with_state(shown);
            prop_assert_eq!(live, shown(&fold(&stored)));
            let same = stored.iter().zip(&log).all(|(a, b)| a.clone().into_new() == b.clone().into_new());
            prop_assert!(same && stored.len() == log.len());
            Ok(())
        })?;
    }

    #[test]
    fn a_refused_append_changes_nothing_in_memory_or_in_the_store(log in logs()) {
        block_on(async {
            let store = MemoryStore::shared();
            let sessions = Sessions::builder(store.clone()).build();
            let session = sessions.create(NewSession::default()).await.unwrap();
            let all = log.into_iter().map(Event::into_new).collect();
            session.append(all).await.unwrap();
            let entry = store.entry(session.id()).await.unwrap();
            let stored: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
            let live = session.with_state(shown);
            for batch in session.with_state(refused) {
                let error = session.append(batch.clone()).await.unwrap_err();
                prop_assert!(matches!(error, AppendFailure::Refused { .. }), "{batch:?}: {error}");
                prop_assert_eq!(&session.with_state(shown), &live);
                prop_assert_eq!(&store.entry(session.id()).await.unwrap(), &entry);
                let again: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
                prop_assert_eq!(&again, &stored);
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_append_refuses_seed_and_load_refuse(log in logs()) {
        block_on(async {
            let store = MemoryStore::shared();
            let sessions = Sessions::builder(store.clone()).build();
            let state = fold(&log);
            for (nth, batch) in refused(&state).into_iter().enumerate() {
                let next = (state.next_seq().get()..).map(seq);
                let batch = batch.into_iter().zip(next).map(|(event, seq)| event.at(seq, TIME));
                let events: Vec<Event> = log.iter().cloned().chain(batch).collect();
                let seed = NewSession { seed: Some(events.clone()), ..NewSession::default() };
                let error = sessions.create(seed).await.unwrap_err();
                prop_assert!(matches!(error, CreateFailure::Seed { .. }), "{nth}: {error}");

                let header = header(&format!("{nth}"));
                store.create(&header, events).await.unwrap();
                let error = sessions.open(&header.id).await.unwrap_err();
                prop_assert!(matches!(error, OpenFailure::Reconstruct { .. }), "{nth}: {error}");
            }
            Ok(())
        })?;
    }

    #[test]
    fn what_append_accepts_seed_and_load_accept(log in logs()) {
        block_on(async {
            let store = MemoryStore::shared();
            let sessions = Sessions::builder(store.clone()).build();
            let seed = NewSession { seed: Some(log.clone()), ..NewSession::default() };
            let session = sessions.create(seed).await;
            prop_assert!(session.is_ok(), "{:?}", session.err());
            let id = session.unwrap().id().clone();
            sessions.close(&id).await;
            let again = sessions.open(&id).await;
            prop_assert!(again.is_ok(), "{:?}", again.err());
            Ok(())
        })?;
    }
}

/// Chunk events of one step, with everything that a packed row has to give back exactly.
fn chunks() -> impl Strategy<Value = Vec<Event>> {
    let text = prop_oneof![
        Just(r#""""#.to_owned()),
        Just(r#""\ud83d""#.to_owned()),
        Just(r#""a\u0041\/""#.to_owned()),
        ".{0,4}".prop_map(|text: String| serde_json::to_string(&text).unwrap()),
    ];
    let chunk = (0..6_u8, 0..2_u8, text).prop_map(|(kind, index, text)| match kind {
        0 | 1 => format!(r#"{{"type":"text-delta","index":{index},"text":{text}}}"#),
        2 => format!(r#"{{"type":"reasoning-delta","index":{index},"text":{text}}}"#),
        3 => format!(
            r#"{{"type":"tool-call-delta","index":{index},"id":"c","argumentsDelta":{text}}}"#
        ),
        4 => format!(
            r#"{{"type":"tool-call-delta","index":{index},"id":"c","name":"n","argumentsDelta":{text}}}"#
        ),
        _ => format!(r#"{{"type":"text-delta","index":{index},"text":{text},"extra":1}}"#),
    });
    let times = prop_oneof![
        -5_i64..50,
        Just(9_007_199_254_740_991),
        Just(-9_007_199_254_740_991),
        any::<i64>(),
    ];
    // Often the same chunk several times, so that there are runs.
    let run = (chunk, proptest::collection::vec(times, 1..6), 0..3_u8);
    proptest::collection::vec(run, 0..12).prop_map(|runs| {
        let mut events = Vec::new();
        for (chunk, times, odd) in runs {
            for time in times {
                let data = format!(r#"{{"turn":1,"step":1,"chunk":{chunk}}}"#);
                let data = Payload::from_text(&data).unwrap();
                let kind = if odd == 2 {
                    "acme/chunk"
                } else {
                    "assistant/chunk"
                };
                let event = NewEvent::raw(kind, data, None, odd == 1 && time == 7);
                let seq = Seq::ZERO.plus(events.len() as u64);
                events.push(event.at(seq, UnixMillis::new(time)));
            }
        }
        events
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn unpacking_gives_back_what_was_packed(events in chunks()) {
        let mut again = Vec::new();
        for row in jsonl::pack(&events) {
            match row {
                Row::Event(event) => again.push(event),
                Row::Packed(row) => {
                    let run = row.unpack(Seq::ZERO, UnixMillis::EPOCH).unwrap();
                    prop_assert!(run.len() >= 3, "a short run stays as it is");
                    again.extend(run);
                }
            }
        }
        prop_assert_eq!(again, events);
    }
}

#[test]
fn an_empty_list_of_todos_is_a_valid_event() {
    let turn = NewEvent::new(&TurnStart { turn: 1 }).at(Seq::ZERO, TIME);
    let todos = NewEvent::new(&TodoWrite::default()).at(Seq::ZERO.next(), TIME);
    fold(&[turn, todos]);
}
