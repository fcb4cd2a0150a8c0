//! Leases and fences.

use std::sync::Arc;

use super::Store;
use super::given::{at_once, id, log, notes, position, session, shown};
use crate::store::{AppendError, Lease, LeaseError, Owner};
use crate::{RandomIds, Seq, UnixMillis};

const NOW: UnixMillis = UnixMillis::new(77);

fn owner() -> Owner {
    Owner::this_process(&RandomIds)
}

/// An owner whose process has ended.
fn gone() -> Owner {
    Owner {
        started: "an earlier start".into(),
        ..owner()
    }
}

async fn acquire(store: &impl Store, owner: &Owner) -> Lease {
    store.acquire(&id("a"), owner, NOW).await.unwrap()
}

async fn append(store: &impl Store, lease: &Lease, at: u64) -> Result<(), AppendError> {
    let batch = notes(at..at + 1);
    store
        .append(&id("a"), position(at), batch, Some(lease.token))
        .await
}

async fn is_fenced(store: &impl Store, lease: &Lease) {
    let before = shown(store, "a").await;
    let at = before.0.next_seq.get();
    match append(store, lease, at).await.unwrap_err() {
        AppendError::Fenced { session } => assert_eq!(session, id("a")),
        other => panic!("{other}"),
    }
    assert_eq!(shown(store, "a").await, before);
}

pub async fn a_lease_lets_its_holder_append<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let lease = acquire(&**store, &owner()).await;
    assert_eq!(lease.session, id("a"));
    append(&**store, &lease, 0).await.unwrap();
    append(&**store, &lease, 1).await.unwrap();
    assert_eq!(log(&**store, "a").await, notes(0..2));
}

pub async fn a_lease_that_is_held_is_refused_with_its_holder<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let holder = owner();
    let lease = acquire(&**store, &holder).await;
    let later = UnixMillis::new(99);
    let refused = store.acquire(&id("a"), &owner(), later).await;
    match refused.unwrap_err() {
        LeaseError::Held {
            session,
            owner,
            since,
        } => assert_eq!((session, *owner, since), (id("a"), holder, NOW)),
        other => panic!("{other}"),
    }
    append(&**store, &lease, 0).await.unwrap();
}

pub async fn the_same_owner_asking_again_gets_a_newer_token<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let owner = owner();
    let (older, newer) = (
        acquire(&**store, &owner).await,
        acquire(&**store, &owner).await,
    );
    assert!(newer.token > older.token);
    append(&**store, &newer, 0).await.unwrap();
    is_fenced(&**store, &older).await;
}

pub async fn an_older_token_is_fenced_and_writes_nothing<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 3).await;
    let older = acquire(&**store, &gone()).await;
    append(&**store, &older, 3).await.unwrap();
    let newer = acquire(&**store, &owner()).await;
    is_fenced(&**store, &older).await;
    append(&**store, &newer, 4).await.unwrap();
    is_fenced(&**store, &older).await;
}

pub async fn a_released_token_is_fenced<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let lease = acquire(&**store, &owner()).await;
    append(&**store, &lease, 0).await.unwrap();
    store.release(&lease).await.unwrap();
    is_fenced(&**store, &lease).await;
    // Once more is once too many, and harms nobody.
    store.release(&lease).await.unwrap();
}

pub async fn a_released_lease_can_be_taken<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let first = acquire(&**store, &owner()).await;
    store.release(&first).await.unwrap();
    let second = acquire(&**store, &owner()).await;
    append(&**store, &second, 0).await.unwrap();
    is_fenced(&**store, &first).await;
}

pub async fn a_holder_that_is_gone_loses_the_lease<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let lost = acquire(&**store, &gone()).await;
    let lease = acquire(&**store, &owner()).await;
    append(&**store, &lease, 0).await.unwrap();
    is_fenced(&**store, &lost).await;
}

pub async fn giving_back_a_lease_that_was_taken_over_leaves_it_with_its_holder<S: Store>(
    store: &Arc<S>,
) {
    session(&**store, "a", 0).await;
    let lost = acquire(&**store, &gone()).await;
    let lease = acquire(&**store, &owner()).await;
    store.release(&lost).await.unwrap();
    append(&**store, &lease, 0).await.unwrap();
    let refused = store.acquire(&id("a"), &owner(), NOW).await.unwrap_err();
    assert!(matches!(refused, LeaseError::Held { .. }), "{refused}");
}

pub async fn tokens_only_count_up<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let mut last = None;
    for _ in 0..5 {
        let lease = acquire(&**store, &owner()).await;
        assert!(Some(lease.token) > last);
        last = Some(lease.token);
        store.release(&lease).await.unwrap();
    }
}

pub async fn an_append_that_shows_no_token_is_not_fenced<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    acquire(&**store, &owner()).await;
    store
        .append(&id("a"), Seq::ZERO, notes(0..1), None)
        .await
        .unwrap();
}

pub async fn a_session_that_is_unknown_has_no_lease<S: Store>(store: &Arc<S>) {
    let refused = store.acquire(&id("b"), &owner(), NOW).await;
    match refused.unwrap_err() {
        LeaseError::NotFound { session } => assert_eq!(session, id("b")),
        other => panic!("{other}"),
    }
}

pub async fn one_of_many_askers_gets_the_lease<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let granted = at_once(store, 8, |store, _| async move {
        match store.acquire(&id("a"), &owner(), NOW).await {
            Ok(lease) => Some(lease),
            Err(LeaseError::Held { .. }) => None,
            Err(other) => panic!("{other}"),
        }
    })
    .await;
    let granted: Vec<Lease> = granted.into_iter().flatten().collect();
    let [lease] = &granted[..] else {
        panic!("{granted:?}");
    };
    append(&**store, lease, 0).await.unwrap();
}

pub async fn leases_of_different_sessions_do_not_meet<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    session(&**store, "b", 0).await;
    let a = acquire(&**store, &owner()).await;
    let b = store.acquire(&id("b"), &owner(), NOW).await.unwrap();
    store.release(&b).await.unwrap();
    append(&**store, &a, 0).await.unwrap();
}
