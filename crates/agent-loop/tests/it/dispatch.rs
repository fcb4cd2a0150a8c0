//! Tool calls: which run together, and in which order their results are logged.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use agent_loop::AgentConfig;
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use crate::support::{Bench, calls, ok, plays, says};

#[tokio::test]
async fn parallel_calls_overlap_and_their_results_stay_in_the_models_order() {
    let asks = [("c1", "slow", json!({})), ("c2", "fast", json!({}))];
    let mut bench = Bench::new(vec![calls(&asks), says("ok")]).await;
    let done = Arc::new(Notify::new());
    let fast_is_done = Arc::clone(&done);
    bench.tool("slow", true, move |_, _| {
        let done = Arc::clone(&fast_is_done);
        async move {
            done.notified().await;
            ok("slow")
        }
    });
    bench.tool("fast", true, move |_, _| {
        done.notify_one();
        async { ok("fast") }
    });
    bench.prompt("go").await.unwrap();
    let texts: Vec<_> = bench
        .results()
        .await
        .into_iter()
        .map(|(_, _, text)| text)
        .collect();
    assert_eq!(texts, ["slow", "fast"]);
    bench.check().await;
}

#[tokio::test]
async fn a_call_that_is_not_parallel_safe_runs_alone() {
    let asks = ["safe", "safe", "alone", "safe"].iter().enumerate();
    let asks: Vec<_> = asks
        .map(|(n, name)| (["a", "b", "c", "d"][n], *name, json!({})))
        .collect();
    let mut bench = Bench::new(vec![calls(&asks), says("ok")]).await;
    let order = Arc::new(Mutex::new(Vec::new()));
    for (name, parallel) in [("safe", true), ("alone", false)] {
        let order = Arc::clone(&order);
        bench.tool(name, parallel, move |_, context| {
            let order = Arc::clone(&order);
            async move {
                order.lock().unwrap().push(format!("+{}", context.call_id));
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                order.lock().unwrap().push(format!("-{}", context.call_id));
                ok("")
            }
        });
    }
    bench.prompt("go").await.unwrap();
    assert_eq!(order.lock().unwrap().join(" "), "+a +b -a -b +c -c +d -d");
    let kinds = bench.kinds().await;
    let from = kinds.iter().position(|kind| kind == "tool/call").unwrap();
    let (call, result) = ("tool/call", "tool/result");
    let tools: Vec<_> = kinds[from..]
        .iter()
        .take_while(|kind| kind.starts_with("tool/"))
        .collect();
    assert_eq!(
        tools,
        [call, call, result, result, call, result, call, result]
    );
    bench.check().await;
}

#[tokio::test]
async fn no_more_tools_run_at_once_than_allowed() {
    let config = AgentConfig {
        max_parallel_tools: 2,
        ..AgentConfig::default()
    };
    let ids = ["a", "b", "c", "d", "e", "f"];
    let asks = ids.map(|id| (id, "meet", json!({})));
    let mut bench = Bench::with(config, vec![calls(&asks), says("ok")]).await;
    let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let seen = Arc::clone(&most);
    let pair = Arc::new(Barrier::new(2));
    bench.tool("meet", true, move |_, _| {
        let (running, most, pair) = (Arc::clone(&running), Arc::clone(&most), Arc::clone(&pair));
        async move {
            let now = running.fetch_add(1, Ordering::SeqCst) + 1;
            most.fetch_max(now, Ordering::SeqCst);
            pair.wait().await;
            running.fetch_sub(1, Ordering::SeqCst);
            ok("")
        }
    });
    bench.prompt("go").await.unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    bench.check().await;
}

#[tokio::test]
async fn a_call_is_in_the_log_before_its_body_runs() {
    let mut bench = Bench::new(vec![calls(&[("c1", "look", json!({}))]), says("ok")]).await;
    bench.tool("look", false, |_, context| async move {
        let session = context.session.unwrap();
        let last = session.page(session.head().unwrap()).await.unwrap();
        ok(last[0].kind())
    });
    bench.prompt("go").await.unwrap();
    assert_eq!(bench.results().await[0].2, "tool/call");
}

#[tokio::test]
async fn calls_without_a_name_or_an_id_of_their_own_are_answered_all_the_same() {
    let end = |index: u64, id: &str, name: &str| {
        let block = json!({ "type": "tool-call", "id": id, "name": name, "arguments": "" });
        json!({ "type": "block-end", "index": index, "block": block })
    };
    let answer = plays(json!([
        end(0, "c", "noop"),
        end(1, "c", "noop"),
        end(2, "", "")
    ]));
    let mut bench = Bench::new(vec![answer, says("ok")]).await;
    bench.tool("noop", true, |_, _| async { ok("done") });
    bench.prompt("go").await.unwrap();
    let results = bench.results().await;
    let results: Vec<_> = results
        .iter()
        .map(|(call, _, text)| format!("{call}: {text}"))
        .collect();
    let unknown = "id-3: Error: unknown tool \"unnamed\"; there are: noop";
    assert_eq!(results, ["c: done", "id-2: done", unknown]);
    bench.check().await;
}
