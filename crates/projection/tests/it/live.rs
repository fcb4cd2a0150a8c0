//! Values of sessions that are open.

use std::sync::atomic::{AtomicU64, Ordering};

use projection::{RegisterError, StateError};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use session_core::{NewEvent, Seq};

use crate::store::Harness;
use crate::units::{LaterPlan, Length, Plan, Shy, step_start, title, turn_end, turn_start, write};

/// What the plan is after each log.
#[tokio::test]
async fn the_standing_plan_follows_the_truth_table() {
    let (a, b) = (|| write(["a"]), || write(["b"]));
    let cases: Vec<(Vec<NewEvent>, Value)> = vec![
        (vec![], json!(null)),
        (vec![turn_start(1), a()], json!(["a"])),
        (vec![turn_start(1), a(), turn_end(1)], json!(["a"])),
        (
            vec![turn_start(1), a(), turn_end(1), turn_start(2)],
            json!(null),
        ),
        (
            vec![turn_start(1), a(), turn_end(1), turn_start(2), b()],
            json!(["b"]),
        ),
        (vec![turn_start(1), a(), write([])], json!([])),
        (vec![turn_start(1), a(), title("t")], json!(["a"])),
    ];
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    for (events, expected) in cases {
        let what = format!("{events:?}");
        let session = harness.session(events).await;
        let snapshot = harness.projections.snapshot(&session).await.unwrap();
        assert_eq!(snapshot.values["plan"], expected, "{what}");
        assert_eq!(snapshot.as_of_seq, session.head(), "{what}");
    }
}

#[tokio::test]
async fn a_plan_outlives_the_turn_that_a_crash_left_open() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let id = harness.stored(vec![turn_start(1), write(["a"])]).await;
    let session = harness.sessions.open(&id).await.unwrap();
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(["a"]));
    assert_eq!(snapshot.as_of_seq, Some(Seq::from(2)));
}

#[tokio::test]
async fn a_snapshot_has_one_wire_shape() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let session = harness.session(vec![]).await;
    let wire = async || {
        let snapshot = harness.projections.snapshot(&session).await.unwrap();
        serde_json::to_string(&snapshot).unwrap()
    };
    assert_eq!(wire().await, r#"{"asOfSeq":null,"values":{"plan":null}}"#);
    session
        .append(vec![turn_start(1), write(["a"])])
        .await
        .unwrap();
    assert_eq!(wire().await, r#"{"asOfSeq":1,"values":{"plan":["a"]}}"#);
}

#[tokio::test]
async fn the_watermark_moves_on_events_that_are_nobodys() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    let before = harness.projections.snapshot(&session).await.unwrap();
    session.append(vec![step_start()]).await.unwrap();
    let after = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(before.values, after.values);
    assert_eq!(before.as_of_seq, Some(Seq::from(1)));
    assert_eq!(after.as_of_seq, Some(Seq::from(2)));
}

#[tokio::test]
async fn without_units_a_snapshot_still_tells_where_the_log_ends() {
    let harness = Harness::new();
    let session = harness.session(vec![turn_start(1)]).await;
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.as_of_seq, Some(Seq::ZERO));
    assert!(snapshot.values.is_empty());
}

#[tokio::test]
async fn a_unit_registered_late_folds_the_log_that_it_missed() {
    let harness = Harness::new();
    let _length = harness.projections.register::<Length<0>>().unwrap();
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    harness.projections.snapshot(&session).await.unwrap();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(["a"]));
}

#[tokio::test]
async fn a_unit_lives_as_long_as_its_last_guard() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let one = projections.register_visible::<Plan>().unwrap();
    let other = projections.register_visible::<Plan>().unwrap();
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    drop(one);
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(["a"]));
    drop(other);
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert!(snapshot.values.is_empty());

    let _again = projections.register_visible::<Plan>().unwrap();
    session.append(vec![write(["b"])]).await.unwrap();
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(["b"]));
}

#[tokio::test]
async fn the_last_guard_frees_the_states() {
    static STATES: AtomicU64 = AtomicU64::new(0);

    #[derive(Serialize, Deserialize)]
    struct Counted;

    impl Drop for Counted {
        fn drop(&mut self) {
            STATES.fetch_sub(1, Ordering::SeqCst);
        }
    }

    struct Counting;
    impl projection::Unit for Counting {
        const KEY: &'static str = "counting";
        const STATE_VERSION: u32 = 1;
        type State = Counted;
        fn init() -> Counted {
            STATES.fetch_add(1, Ordering::SeqCst);
            Counted
        }
        fn apply(_: &mut Counted, _: &session_core::Event) -> projection::Changed {
            projection::Changed::No
        }
    }

    let harness = Harness::new();
    let guard = harness.projections.register::<Counting>().unwrap();
    let sessions = [harness.session(vec![]).await, harness.session(vec![]).await];
    for session in &sessions {
        harness.projections.snapshot(session).await.unwrap();
    }
    assert_eq!(STATES.load(Ordering::SeqCst), 2);
    harness.sessions.close(sessions[0].id()).await;
    assert_eq!(STATES.load(Ordering::SeqCst), 1);
    drop(guard);
    assert_eq!(STATES.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_key_at_another_version_is_refused_with_both_versions() {
    let projections = &Harness::new().projections;
    let plan = projections.register_visible::<Plan>().unwrap();
    let refused = projections.register::<LaterPlan>().unwrap_err();
    assert_eq!(
        refused,
        RegisterError::Version {
            key: "plan",
            registered: 1,
            refused: 2
        }
    );
    assert_eq!(
        refused.to_string(),
        "projection plan is registered at another version: registered=1, refused=2"
    );
    drop(plan);
    let _later = projections.register::<LaterPlan>().unwrap();
}

#[tokio::test]
async fn a_key_of_another_unit_is_refused() {
    struct Impostor;
    impl projection::Unit for Impostor {
        const KEY: &'static str = "shy";
        const STATE_VERSION: u32 = 1;
        type State = u8;
        fn init() -> u8 {
            0
        }
        fn apply(_: &mut u8, _: &session_core::Event) -> projection::Changed {
            projection::Changed::No
        }
    }
    let projections = &Harness::new().projections;
    let _shy = projections.register::<Shy>().unwrap();
    let refused = projections.register::<Impostor>().unwrap_err();
    assert_eq!(refused, RegisterError::OtherUnit { key: "shy" });
}

#[tokio::test]
async fn a_host_only_unit_is_read_by_the_host_alone() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let session = harness.session(vec![turn_start(1)]).await;
    let state = projections.state_of::<Length<0>>(&session).await;
    assert!(matches!(
        state,
        Err(StateError::NotRegistered { key: "length-0" })
    ));

    let _host = projections.register::<Length<0>>().unwrap();
    assert_eq!(
        projections.state_of::<Length<0>>(&session).await.unwrap(),
        1
    );
    let doubled = projections.with_state::<Length<0>, _>(&session, |length| length * 2);
    assert_eq!(doubled.await.unwrap(), 2);
    let values = async || projections.snapshot(&session).await.unwrap().values;
    assert!(values().await.is_empty());

    let visible = projections.register_visible::<Length<0>>().unwrap();
    assert_eq!(values().await["length-0"], 1);
    drop(visible);
    assert!(values().await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_snapshot_is_one_cut_while_events_are_appended() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _zero = projections.register_visible::<Length<0>>().unwrap();
    let _one = projections.register_visible::<Length<1>>().unwrap();
    let session = harness.session(vec![]).await;
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move {
                for _ in 0..100 {
                    session.append(vec![title("a"), title("b")]).await.unwrap();
                }
            })
        })
        .collect();
    let mut late = None;
    let mut seen = None;
    while seen < Some(Seq::from(799)) && !writers.iter().all(|writer| writer.is_finished()) {
        let before = session.head();
        let snapshot = projections.snapshot(&session).await.unwrap();
        let length = snapshot.as_of_seq.map_or(0, |seq| seq.get() + 1);
        for (key, value) in &snapshot.values {
            assert_eq!(*value, length, "{key}");
        }
        assert!(snapshot.as_of_seq >= before && snapshot.as_of_seq >= seen);
        seen = snapshot.as_of_seq;
        if late.is_none() && length > 200 {
            late = Some(projections.register_visible::<Length<2>>().unwrap());
        }
    }
    for writer in writers {
        writer.await.unwrap();
    }
    let _late = match late {
        Some(late) => late,
        None => projections.register_visible::<Length<2>>().unwrap(),
    };
    let snapshot = projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values.len(), 3);
    assert!(snapshot.values.values().all(|length| *length == 800));
}

#[tokio::test]
async fn a_closed_session_can_still_be_read() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let session = harness.session(vec![turn_start(1), write(["a"])]).await;
    harness.sessions.close(session.id()).await;
    let snapshot = harness.projections.snapshot(&session).await.unwrap();
    assert_eq!(snapshot.values["plan"], json!(["a"]));
}
