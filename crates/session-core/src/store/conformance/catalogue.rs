//! The catalogue that appends keep.

use std::sync::Arc;

use super::Store;
use super::given::{CREATED, add, header, id, listed, message, note, position, prompt, session};
use crate::event::{MessageSource, SessionTitle, TitleSource, TurnEnd, TurnEndReason, TurnStart};
use crate::{CatalogueEntry, Event, ListFilter, NewEvent, Payload, Seq, SurfaceMeta, UnixMillis};

async fn entry(store: &impl Store) -> CatalogueEntry {
    store.entry(&id("a")).await.unwrap()
}

fn title(title: &str) -> NewEvent {
    NewEvent::new(&SessionTitle {
        title: title.into(),
        message_seqs: None,
        source: TitleSource::User,
    })
}

fn turn_start() -> NewEvent {
    NewEvent::new(&TurnStart { turn: 1 })
}

fn turn_end() -> NewEvent {
    NewEvent::new(&TurnEnd {
        turn: 1,
        reason: TurnEndReason::Completed,
    })
}

pub async fn counts_the_events<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    assert_eq!(entry(&**store).await.next_seq, Seq::ZERO);
    for (events, length) in [(1, 1), (300, 301), (2, 303)] {
        add(&**store, "a", vec![note(0).into_new(); events]).await;
        assert_eq!(entry(&**store).await.next_seq, position(length));
    }
}

pub async fn keeps_the_last_title<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    assert_eq!(entry(&**store).await.title, None);
    add(&**store, "a", [title("one")]).await;
    add(&**store, "a", [note(0).into_new()]).await;
    assert_eq!(entry(&**store).await.title.as_deref(), Some("one"));
    add(&**store, "a", [title("two"), title("three"), turn_start()]).await;
    assert_eq!(entry(&**store).await.title.as_deref(), Some("three"));
}

pub async fn keeps_a_title_to_the_letter<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    for text in ["a\0b", "\0", "'; --", "ünï 🦀", "\u{202e}\u{1b}[31m", " a "] {
        add(&**store, "a", [title(text)]).await;
        assert_eq!(entry(&**store).await.title.as_deref(), Some(text));
    }
}

pub async fn a_session_is_blank_until_a_turn_starts<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    add(&**store, "a", [title("one")]).await;
    add(&**store, "a", [prompt(5)]).await;
    assert!(entry(&**store).await.is_blank);
    add(&**store, "a", [turn_start()]).await;
    assert!(!entry(&**store).await.is_blank);
    add(&**store, "a", [turn_end()]).await;
    add(&**store, "a", [note(0).into_new()]).await;
    assert!(!entry(&**store).await.is_blank);
}

pub async fn a_session_is_open_from_the_start_of_a_turn_to_its_end<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    assert!(!entry(&**store).await.is_open);
    add(&**store, "a", [turn_start()]).await;
    assert!(entry(&**store).await.is_open);
    add(&**store, "a", [note(0).into_new()]).await;
    assert!(entry(&**store).await.is_open);
    add(&**store, "a", [turn_end()]).await;
    assert!(!entry(&**store).await.is_open);
    add(&**store, "a", [turn_start(), turn_end()]).await;
    assert!(!entry(&**store).await.is_open);
    add(&**store, "a", [turn_start(), turn_end(), turn_start()]).await;
    assert!(entry(&**store).await.is_open);
}

pub async fn only_a_person_who_speaks_updates_a_session<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    assert_eq!(entry(&**store).await.updated_at, CREATED);

    let later = UnixMillis::new(CREATED.get() + 50);
    let source: MessageSource = serde_json::from_str(r#"{"kind":"plugin","plugin":"x"}"#).unwrap();
    let copy = SurfaceMeta::replace(Seq::ZERO, Seq::ZERO, vec![Seq::ZERO]);
    let others = [
        NewEvent::on_surface(&message(source), SurfaceMeta::append()),
        NewEvent::on_surface(&message(MessageSource::User), copy),
        NewEvent::raw("user/message", Payload::of(&1).unwrap(), None, false),
        turn_start(),
        title("one"),
    ];
    let batch: Vec<Event> = (0..)
        .zip(others)
        .map(|(seq, event)| event.at(position(seq), later))
        .collect();
    store
        .append(&id("a"), Seq::ZERO, batch, None)
        .await
        .unwrap();
    assert_eq!(entry(&**store).await.updated_at, CREATED);

    add(&**store, "a", [prompt(later.get())]).await;
    assert_eq!(entry(&**store).await.updated_at, later);
}

pub async fn a_prompt_from_the_past_does_not_set_a_session_back<S: Store>(store: &Arc<S>) {
    let spoken = CREATED.get() + 50;
    session(&**store, "a", 0).await;
    add(&**store, "a", [prompt(-5)]).await;
    assert_eq!(entry(&**store).await.updated_at, CREATED);
    add(&**store, "a", [prompt(spoken), prompt(3)]).await;
    assert_eq!(entry(&**store).await.updated_at, UnixMillis::new(spoken));
    add(&**store, "a", [prompt(CREATED.get() + 40)]).await;
    assert_eq!(entry(&**store).await.updated_at, UnixMillis::new(spoken));
}

pub async fn a_seed_counts_like_an_append<S: Store>(store: &Arc<S>) {
    let spoken = CREATED.get() + 9;
    let events = || [title("one").into(), turn_start().into(), prompt(spoken)];
    let seed: Vec<Event> = (0..)
        .zip(events())
        .map(|(seq, given)| given.event.at(position(seq), given.time))
        .collect();
    store.create(&header("a"), seed).await.unwrap();
    let mut expected = CatalogueEntry::new(header("a"));
    expected.updated_at = UnixMillis::new(spoken);
    expected.next_seq = position(3);
    expected.title = Some("one".into());
    (expected.is_blank, expected.is_open) = (false, true);
    assert_eq!(entry(&**store).await, expected);

    session(&**store, "b", 0).await;
    add(&**store, "b", events()).await;
    expected.header = header("b");
    assert_eq!(store.entry(&id("b")).await.unwrap(), expected);
}

pub async fn the_listing_and_the_entry_agree<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 2).await;
    add(&**store, "a", [title("one"), turn_start()]).await;
    let listed = listed(&**store, ListFilter::default()).await;
    assert_eq!(listed, [entry(&**store).await]);
}
