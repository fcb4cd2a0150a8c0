//! Wake-ups, and following a log.

use std::sync::Arc;

use futures::StreamExt as _;

use super::Store;
use super::given::{
    at_once, begun_and_dropped, header, id, log, note, notes, position, session, within,
};
use crate::store::{EventStore, Scope, Wakeups};
use crate::{Seq, follow};

/// Waits until the log of `a` has `length` events, looking only when woken.
async fn woken_until(store: &impl Store, wakeups: &mut Wakeups, length: u64) {
    loop {
        within(wakeups.next()).await.unwrap();
        if log(store, "a").await.len() as u64 == length {
            return;
        }
    }
}

async fn append(store: &impl Store, at: u64) {
    store
        .append(&id("a"), position(at), notes(at..at + 1), None)
        .await
        .unwrap();
}

pub async fn wakes_once_the_change_can_be_read<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    for scope in [Scope::Session(id("a")), Scope::All] {
        let length = log(&**store, "a").await.len() as u64;
        let mut wakeups = store.watch(scope);
        let writer = Arc::clone(store);
        let writing = tokio::spawn(async move { append(&*writer, length).await });
        woken_until(&**store, &mut wakeups, length + 1).await;
        writing.await.unwrap();
    }
}

pub async fn wakes_for_a_change_that_came_while_nobody_waited<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let mut wakeups = store.watch(Scope::Session(id("a")));
    append(&**store, 0).await;
    woken_until(&**store, &mut wakeups, 1).await;
}

pub async fn wakes_for_a_new_session<S: Store>(store: &Arc<S>) {
    let mut all = store.watch(Scope::All);
    let mut one = store.watch(Scope::Session(id("a")));
    store.create(&header("a"), notes(0..2)).await.unwrap();
    woken_until(&**store, &mut all, 2).await;
    woken_until(&**store, &mut one, 2).await;
}

pub async fn a_dropped_wait_loses_no_wake_up<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let mut wakeups = store.watch(Scope::Session(id("a")));
    for at in 0..20 {
        begun_and_dropped(wakeups.next()).await;
        append(&**store, at).await;
        begun_and_dropped(async {
            tokio::task::yield_now().await;
            wakeups.next().await
        })
        .await;
        woken_or_seen(&**store, &mut wakeups, at + 1).await;
    }
}

/// Like [`woken_until`], for a listener that may have been woken for the change already.
async fn woken_or_seen(store: &impl Store, wakeups: &mut Wakeups, length: u64) {
    if (log(store, "a").await.len() as u64) < length {
        woken_until(store, wakeups, length).await;
    }
}

pub async fn a_listener_that_is_far_behind_is_still_woken<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    session(&**store, "b", 0).await;
    let mut wakeups = store.watch(Scope::Session(id("a")));
    append(&**store, 0).await;
    for at in 0..1000 {
        store
            .append(&id("b"), position(at), notes(at..at + 1), None)
            .await
            .unwrap();
    }
    woken_until(&**store, &mut wakeups, 1).await;
}

pub async fn a_follower_meets_history_and_live_tail_without_a_seam<S: Store>(store: &Arc<S>) {
    const LENGTH: u64 = 900;
    session(&**store, "a", 300).await;
    let reading: Arc<dyn EventStore> = Arc::clone(store) as _;
    let mut followers = [
        (0, follow(Arc::clone(&reading), id("a"), Seq::ZERO)),
        (299, follow(Arc::clone(&reading), id("a"), position(299))),
        (650, follow(reading, id("a"), position(650))),
    ];
    let writer = Arc::clone(store);
    let writing = tokio::spawn(async move {
        let mut next = 300;
        for step in [1, 3, 7].into_iter().cycle() {
            let to = (next + step).min(LENGTH);
            writer
                .append(&id("a"), position(next), notes(next..to), None)
                .await
                .unwrap();
            next = to;
            if next == LENGTH {
                break;
            }
        }
    });
    for (from, events) in &mut followers {
        for seq in *from..LENGTH {
            let event = within(events.next()).await.unwrap().unwrap();
            assert_eq!(event, note(seq));
        }
    }
    writing.await.unwrap();
}

pub async fn followers_of_many_sessions_see_each_their_own<S: Store>(store: &Arc<S>) {
    const LENGTH: u64 = 60;
    at_once(store, 6, |store, nth| async move {
        let name = format!("session {nth}");
        session(&*store, &name, 1).await;
        let mut events = follow(Arc::clone(&store) as _, id(&name), Seq::ZERO);
        for seq in 0..LENGTH {
            let event = within(events.next()).await.unwrap().unwrap();
            assert_eq!(event, note(seq));
            let batch = notes(seq + 1..seq + 2);
            store
                .append(&id(&name), position(seq + 1), batch, None)
                .await
                .unwrap();
        }
    })
    .await;
}
