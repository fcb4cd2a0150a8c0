use futures::StreamExt as _;
use session_core::event::*;
use session_core::*;
use std::sync::Arc;
#[tokio::test]
async fn smoke() {
    let dir = tempfile::tempdir().unwrap();
    let store = Arc::new(SqliteStore::open(dir.path().join("a/b.db")).await.unwrap());
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .build();
    let s = sessions.create(NewSession::default()).await.unwrap();
    let mut sub = s.subscribe(Seq::ZERO);
    s.append(vec![NewEvent::new(&TurnStart { turn: 1 })])
        .await
        .unwrap();
    s.append(vec![
        NewEvent::new(&TodoWrite { todos: vec![] }),
        NewEvent::new(&StepStart { turn: 1, step: 1 }),
    ])
    .await
    .unwrap();
    for i in 0..3u32 {
        assert_eq!(sub.next().await.unwrap().unwrap().seq(), Seq::from(i));
    }
    assert!(
        s.append(vec![NewEvent::new(&TurnStart { turn: 1 })])
            .await
            .is_err()
    );
    let id = s.id().clone();
    let other = Arc::new(SqliteStore::open(dir.path().join("a/b.db")).await.unwrap());
    let mut f = follow(other.clone(), id.clone(), Seq::ZERO);
    for i in 0..3u32 {
        assert_eq!(f.next().await.unwrap().unwrap().seq(), Seq::from(i));
    }
    let sessions2 = Sessions::builder(other.clone())
        .leases(other.clone())
        .build();
    let e = sessions2.open(&id).await.unwrap_err();
    println!("{e}");
    sessions.close(&id).await;
    let s2 = sessions2.open(&id).await.unwrap();
    assert_eq!(s2.head(), Some(Seq::from(4)));
    assert_eq!(f.next().await.unwrap().unwrap().seq(), Seq::from(3));
    println!("{:?}", other.list(&ListQuery::default()).await.unwrap());
    println!("{}", e);
}
