//! Whatever a model streams, the log stays whole.

use agent_loop::ModelRequest;
use futures::stream::{self, StreamExt as _};
use proptest::prelude::*;
use serde_json::{Value, json};
use session_core::event::{StreamChunk, TurnError};
use session_core::{LogState, Vocabulary};
use tool_runtime::ToolFailure;

use crate::support::{Bench, check, chunks, ok, then_hangs, then_panics};

/// How a stream ends.
#[derive(Debug, Clone, Copy)]
enum Ending {
    ByItself,
    WithAnError,
    WithAPanic,
    Never,
}

fn chunk() -> impl Strategy<Value = Value> {
    let index = 0..4_u64;
    let text = "[a \n]{0,3}";
    let id = "[ab]{0,1}";
    let name = prop_oneof![
        Just(""),
        Just("safe"),
        Just("alone"),
        Just("fail"),
        Just("panic"),
        Just("none")
    ];
    let arguments = prop_oneof![
        Just(""),
        Just("{}"),
        Just("{\"a\":1}"),
        Just("{"),
        Just("[]")
    ];
    let block = prop_oneof![
        text.prop_map(|text| json!({ "type": "text", "text": text })),
        text.prop_map(|text| json!({ "type": "reasoning", "text": text })),
        (id, name.clone(), arguments.clone()).prop_map(|(id, name, arguments)| {
            json!({ "type": "tool-call", "id": id, "name": name, "arguments": arguments })
        }),
        Just(json!({ "type": "image", "data": "x" })),
    ];
    let finish = prop_oneof![
        3 => Just(json!({ "kind": "stop" })),
        3 => Just(json!({ "kind": "tool-calls" })),
        1 => Just(json!({ "kind": "max-tokens" })),
        1 => Just(json!({ "kind": "error", "failure": { "message": "m", "code": "C" } })),
        1 => Just(json!({ "kind": "unheard-of" })),
    ];
    prop_oneof![
        (index.clone(), prop_oneof![Just("text"), Just("reasoning"), Just("tool-call")])
            .prop_map(|(index, kind)| json!({ "type": "block-start", "index": index, "blockType": kind })),
        (index.clone(), text).prop_map(|(index, text)| json!({ "type": "text-delta", "index": index, "text": text })),
        (index.clone(), text).prop_map(|(index, text)| json!({ "type": "reasoning-delta", "index": index, "text": text })),
        (index.clone(), id, name, arguments).prop_map(|(index, id, name, arguments)| {
            json!({ "type": "tool-call-delta", "index": index, "id": id, "name": name, "argumentsDelta": arguments })
        }),
        (index, block).prop_map(|(index, block)| json!({ "type": "block-end", "index": index, "block": block })),
        Just(json!({ "type": "usage", "usage": { "inputTokens": 1, "outputTokens": 1 } })),
        finish.prop_map(|reason| json!({ "type": "finish", "reason": reason })),
        Just(json!({ "type": "unheard-of", "n": 1 })),
    ]
}

fn answer() -> impl Strategy<Value = (Vec<Value>, Ending)> {
    let ending = prop_oneof![
        8 => Just(Ending::ByItself),
        1 => Just(Ending::WithAnError),
        1 => Just(Ending::WithAPanic),
        1 => Just(Ending::Never),
    ];
    (prop::collection::vec(chunk(), 0..8), ending)
}

async fn play(answers: Vec<(Vec<Value>, Ending)>, abort_at: Option<u64>) {
    let answers = answers.into_iter().map(|(list, ending)| {
        let list: Vec<StreamChunk> = chunks(Value::Array(list));
        let answer = stream::iter(list.into_iter().map(Ok)).boxed();
        match ending {
            Ending::ByItself => answer,
            Ending::WithAnError => {
                let error = TurnError::unknown("as told");
                answer.chain(stream::iter([Err(error.into())])).boxed()
            }
            Ending::WithAPanic => then_panics(answer),
            Ending::Never => then_hangs(answer),
        }
    });
    let mut bench = Bench::new(answers.collect()).await;
    bench.tool("safe", true, |_, _| async { ok("a") });
    bench.tool("alone", false, |_, _| async { ok("b") });
    bench.tool("fail", true, |_, _| async { Err(ToolFailure::new("no")) });
    bench.tool("panic", true, |_, _| async { panic!("on purpose") });
    let token = bench.cancel.token().clone();
    bench.on_event(move |event| {
        if Some(event.seq().get()) == abort_at {
            token.cancel();
        }
    });
    let work = tokio::time::timeout(std::time::Duration::from_secs(60), bench.prompt("go"));
    let hung = work.await.is_err();
    if hung {
        // Nobody aborts a stream that never ends, so that the turn is cut off like in a crash.
        let id = bench.session.id().clone();
        bench.sessions.close(&id).await;
        bench.session = bench.sessions.open(&id).await.unwrap();
    }
    let events = bench.events().await;
    check(&bench.session, &events);
    let state = LogState::fold(&Vocabulary::core(), &events).unwrap();
    assert!(bench.model.asked().is_empty() || ModelRequest::rebuild(&state).is_some());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn whatever_is_streamed_and_whenever_it_is_aborted_the_log_stays_whole(
        answers in prop::collection::vec(answer(), 0..4),
        abort_at in prop::option::of(0..40_u64),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(play(answers, abort_at));
    }
}
