//! Subscribing to a live session.

use futures::StreamExt as _;
use session_core::event::EndSeed;
use session_core::{Event, MemoryStore, NewEvent, NewSession, Seq, Session, Sessions};

use crate::support::{seq, within};

/// More than a live session keeps at hand.
const BEYOND_THE_WINDOW: u64 = 1300;

fn marks(count: usize) -> Vec<NewEvent> {
    vec![NewEvent::new(&EndSeed {}); count]
}

async fn open() -> (Sessions, Session) {
    let sessions = Sessions::builder(MemoryStore::shared()).build();
    let session = sessions.create(NewSession::default()).await.unwrap();
    (sessions, session)
}

fn places(events: Vec<Event>) -> Vec<u64> {
    events.into_iter().map(|event| event.seq().get()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subscribers_meet_history_and_live_tail_without_a_seam() {
    const LENGTH: u64 = 2000;
    let (_sessions, session) = open().await;
    session.append(marks(100)).await.unwrap();
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let session = session.clone();
            tokio::spawn(async move {
                for size in [1, 2, 7].into_iter().cycle().take(150) {
                    if session.head() < Some(seq(LENGTH)) {
                        session.append(marks(size)).await.unwrap();
                    }
                }
            })
        })
        .collect();
    let readers: Vec<_> = [0, 50, 99, 100, 101, 700]
        .map(|from| {
            let events = session.subscribe(seq(from));
            tokio::spawn(async move {
                let events = events.take(usize::try_from(LENGTH - from).unwrap());
                let seen: Vec<Event> = events.map(Result::unwrap).collect().await;
                assert_eq!(places(seen), (from..LENGTH).collect::<Vec<_>>());
            })
        })
        .into();
    for task in writers.into_iter().chain(readers) {
        within(task).await.unwrap();
    }
}

#[tokio::test]
async fn a_subscriber_that_is_slower_than_the_window_misses_nothing() {
    let (_sessions, session) = open().await;
    session.append(marks(10)).await.unwrap();
    let mut events = session.subscribe(Seq::ZERO);
    let first = events.next().await.unwrap().unwrap();
    assert_eq!(first.seq(), Seq::ZERO);
    for _ in 0..BEYOND_THE_WINDOW / 10 {
        session.append(marks(10)).await.unwrap();
    }
    let rest = events.take(usize::try_from(BEYOND_THE_WINDOW).unwrap() + 9);
    let rest: Vec<Event> = within(rest.map(Result::unwrap).collect()).await;
    assert_eq!(
        places(rest),
        (1..BEYOND_THE_WINDOW + 10).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn a_batch_larger_than_the_window_reaches_subscribers_whole() {
    let (_sessions, session) = open().await;
    let events = session.subscribe(Seq::ZERO);
    let count = usize::try_from(BEYOND_THE_WINDOW).unwrap();
    session.append(marks(count)).await.unwrap();
    let seen: Vec<Event> = within(events.take(count).map(Result::unwrap).collect()).await;
    assert_eq!(places(seen), (0..BEYOND_THE_WINDOW).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_subscriber_may_wait_for_a_position_that_is_yet_to_come() {
    let (_sessions, session) = open().await;
    let mut events = session.subscribe(seq(5));
    session.append(marks(4)).await.unwrap();
    assert!(futures::poll!(events.next()).is_pending());
    session.append(marks(3)).await.unwrap();
    assert_eq!(within(events.next()).await.unwrap().unwrap().seq(), seq(5));
}

#[tokio::test]
async fn a_page_is_the_same_from_memory_and_from_the_store() {
    let (_sessions, session) = open().await;
    session.append(marks(600)).await.unwrap();
    for from in [0, 87, 88, 89, 599] {
        let page = places(session.page(seq(from)).await.unwrap());
        let expected: Vec<u64> = (from..600).take(page.len()).collect();
        assert_eq!(page, expected);
        assert!(!page.is_empty());
    }
    assert_eq!(session.page(seq(600)).await.unwrap(), []);
    assert_eq!(session.page(seq(9999)).await.unwrap(), []);
}

#[tokio::test]
async fn a_dropped_wait_loses_no_event() {
    let (_sessions, session) = open().await;
    let mut events = session.subscribe(Seq::ZERO);
    for place in 0..20 {
        assert!(futures::poll!(events.next()).is_pending());
        session.append(marks(1)).await.unwrap();
        let event = within(events.next()).await.unwrap().unwrap();
        assert_eq!(event.seq(), seq(place));
    }
}

#[tokio::test]
async fn subscribers_reach_the_end_when_the_session_is_closed() {
    let (sessions, session) = open().await;
    session.append(marks(3)).await.unwrap();
    let behind = session.subscribe(Seq::ZERO);
    let mut waiting = session.subscribe(seq(3));
    assert!(futures::poll!(waiting.next()).is_pending());
    sessions.close(session.id()).await;
    assert!(within(waiting.next()).await.is_none());
    let seen: Vec<Event> = within(behind.map(Result::unwrap).collect()).await;
    assert_eq!(places(seen), [0, 1, 2]);
    let late = session.subscribe(seq(1));
    let seen: Vec<Event> = within(late.map(Result::unwrap).collect()).await;
    assert_eq!(places(seen), [1, 2]);
}
