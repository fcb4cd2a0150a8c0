//! Checkpoints held against the log.

use projection::{Fault, FoldError};
use session_core::Seq;
use session_core::store::ReadError;

use crate::store::{Harness, row};
use crate::units::{Length, Plan, Title, title, write};

#[tokio::test]
async fn sound_checkpoints_have_no_fault() {
    let harness = Harness::new();
    let _plan = harness.projections.register_visible::<Plan>().unwrap();
    let _length = harness.projections.register::<Length<0>>().unwrap();
    let id = harness.stored(vec![write(["a"]), title("t")]).await;
    let verify = async || {
        harness
            .projections
            .verify(&*harness.store, &id)
            .await
            .unwrap()
    };
    assert_eq!(verify().await, []);
    harness
        .projections
        .cold_snapshot(&*harness.store, &id)
        .await
        .unwrap();
    assert_eq!(verify().await, []);
}

#[tokio::test]
async fn every_kind_of_fault_is_named() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _plan = projections.register_visible::<Plan>().unwrap();
    let _title = projections.register::<Title>().unwrap();
    let _zero = projections.register::<Length<0>>().unwrap();
    let _one = projections.register::<Length<1>>().unwrap();
    let _two = projections.register::<Length<2>>().unwrap();
    let id = harness
        .stored(vec![write(["a"]), title("boom"), title("t")])
        .await;
    harness.store.serve(vec![
        row("plan", 1, 1, r#"["b"]"#),
        row("title", 1, 2, r#""t""#),
        row("length-0", 1, 3, "4"),
        row("length-1", 1, 2, r#""three""#),
        row("length-2", 7, 2, "99"),
        row("unknown", 1, 2, "99"),
    ]);
    let mut faults = projections.verify(&*harness.store, &id).await.unwrap();
    faults.sort_by(|a, b| a.key.cmp(&b.key));
    let told: Vec<_> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(
        told[..3],
        [
            "checkpoint length-0 at event 3 is ahead of the log: length=3",
            "checkpoint length-1 at event 2 does not parse",
            "checkpoint plan at event 1 differs from what the log adds up to",
        ]
    );
    assert!(matches!(&faults[3].fault, Fault::Failed { reason } if reason.contains("event 1")));
    assert_eq!((faults[3].seq, faults.len()), (Seq::from(2), 4));
}

#[tokio::test]
async fn what_lies_beyond_a_damaged_event_is_neither_verified_nor_served() {
    let harness = Harness::new();
    let projections = &harness.projections;
    let _zero = projections.register_visible::<Length<0>>().unwrap();
    let _one = projections.register_visible::<Length<1>>().unwrap();
    let id = harness.stored(vec![title("t"); 4]).await;
    let rows = vec![row("length-0", 1, 1, "2"), row("length-1", 1, 2, "3")];
    harness.store.serve(rows);
    harness.store.damage(2);
    let faults = projections.verify(&*harness.store, &id).await.unwrap();
    assert_eq!(
        faults.iter().map(ToString::to_string).collect::<Vec<_>>(),
        [
            "checkpoint length-1 at event 2 cannot be held against the log, which is damaged at event 2"
        ]
    );
    let cold = projections.cold_snapshot(&*harness.store, &id).await;
    let damaged = Seq::from(2);
    assert!(matches!(
        cold,
        Err(FoldError::Read(ReadError::Damaged { seq, .. })) if seq == damaged
    ));
}
