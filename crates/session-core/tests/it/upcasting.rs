//! Stored events are read in their present shape, and stay as they are.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};
use proptest::prelude::*;
use serde::{Deserialize, Serialize};
use session_core::event::{EventData, LogOnly};
use session_core::store::{ReadError, ReadRange, Upcasting};
use session_core::testing::valid_log;
use session_core::{
    AppendFailure, CreateFailure, Event, EventStore as _, MemoryStore, NewEvent, NewSession,
    OpenFailure, Payload, Seq, Sessions, ShapeError, Upcaster, Violation, Vocabulary, follow,
};

use crate::support::{TIME, header, log, seq, within};

/// The third shape of a note. The first was a mere text, the second had no tags.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    text: String,
    tags: Vec<String>,
}

impl EventData for Note {
    const TYPE: &'static str = "acme/note";
}
impl LogOnly for Note {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Untagged {
    text: String,
}

const FIRST: &str = r#""one""#;
const SECOND: &str = r#"{"text":"one"}"#;
const PRESENT: &str = r#"{"text":"one","tags":[]}"#;

fn shape<T: Serialize>(value: &T) -> Result<Payload, ShapeError> {
    let reason = |error: session_core::InvalidJson| error.to_string();
    Payload::of(value).map_err(|error| ShapeError {
        reason: reason(error),
    })
}

fn from_text() -> Upcaster {
    Upcaster::new(Note::TYPE, "note-as-object", |data| {
        let text = data.decode::<String>();
        text.map_or_else(|_| Ok(data.clone()), |text| shape(&Untagged { text }))
    })
}

fn with_tags() -> Upcaster {
    Upcaster::new(Note::TYPE, "note-with-tags", |data| {
        if data.decode::<String>().is_ok() {
            let reason = "a note is no text any more".to_owned();
            return Err(ShapeError { reason });
        }
        let tagged = |Untagged { text }| {
            shape(&Note {
                text,
                tags: Vec::new(),
            })
        };
        data.decode().map_or_else(|_| Ok(data.clone()), tagged)
    })
}

fn vocabulary() -> Vocabulary {
    Vocabulary::core()
        .with::<Note>()
        .with_upcaster(from_text())
        .with_upcaster(with_tags())
}

/// An event as an older build has left it.
fn note(place: u64, data: &str) -> Event {
    let data = Payload::from_text(data).unwrap();
    NewEvent::raw(Note::TYPE, data, None, false).at(seq(place), TIME)
}

async fn stored(data: &[&str]) -> Arc<MemoryStore> {
    let store = MemoryStore::shared();
    let notes = (0..).zip(data).map(|(place, data)| note(place, data));
    store.create(&header("a"), notes.collect()).await.unwrap();
    store
}

fn on(store: &Arc<MemoryStore>, vocabulary: Vocabulary) -> Sessions {
    Sessions::builder(store.clone())
        .vocabulary(vocabulary)
        .build()
}

fn payloads(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.data().as_str()).collect()
}

#[tokio::test]
async fn an_event_of_every_older_shape_is_read_in_the_present_one() {
    let old = [FIRST, SECOND, PRESENT];
    let store = stored(&old).await;
    let sessions = on(&store, vocabulary());
    let present = [PRESENT; 3];

    let cold = sessions.store();
    assert_eq!(payloads(&log(&**cold, "a").await), present);
    let backward = cold.read(&"a".into(), ReadRange::backward_before(Some(seq(2))));
    let backward: Vec<Event> = backward.try_collect().await.unwrap();
    assert_eq!(payloads(&backward), [PRESENT; 2]);
    assert_eq!(backward[0].seq(), seq(1));

    let followed = follow(cold.clone(), "a".into(), Seq::ZERO).take(3);
    let followed: Vec<Event> = within(followed.try_collect()).await.unwrap();
    assert_eq!(payloads(&followed), present);

    let session = sessions.open(&"a".into()).await.unwrap();
    let read: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
    assert_eq!(payloads(&read), present);
    assert_eq!(payloads(&session.page(Seq::ZERO).await.unwrap()), present);
    let subscribed = session.subscribe(Seq::ZERO).take(3);
    let subscribed: Vec<Event> = within(subscribed.try_collect()).await.unwrap();
    let decoded: Vec<Note> = subscribed.iter().filter_map(Event::decode).collect();
    assert_eq!(decoded.len(), 3);
    assert!(
        decoded
            .iter()
            .all(|note| note.text == "one" && note.tags.is_empty())
    );

    // The stored bytes stay.
    assert_eq!(payloads(&log(&*store, "a").await), old);
}

#[tokio::test]
async fn a_new_event_is_stored_and_read_as_it_was_appended() {
    let store = stored(&[FIRST]).await;
    let session = on(&store, vocabulary()).open(&"a".into()).await.unwrap();
    let new = Note {
        text: "two".into(),
        tags: vec!["x".into()],
    };
    let appended = session.append(vec![NewEvent::new(&new)]).await.unwrap();
    assert_eq!(appended[0].decode::<Note>().as_ref(), Some(&new));
    let read: Vec<Event> = session.read(ReadRange::ALL).try_collect().await.unwrap();
    assert_eq!(read.last(), appended.last());
    assert_eq!(log(&*store, "a").await.last(), appended.last());
}

#[tokio::test]
async fn an_event_of_an_older_shape_is_not_appended() {
    let store = stored(&[FIRST]).await;
    let session = on(&store, vocabulary()).open(&"a".into()).await.unwrap();
    let old = NewEvent::raw(Note::TYPE, Payload::from_text(SECOND).unwrap(), None, false);
    match session.append(vec![old]).await.unwrap_err() {
        AppendFailure::Refused { source, .. } => {
            assert!(matches!(*source, Violation::Shape { .. }), "{source}");
        }
        other => panic!("{other}"),
    }
    assert_eq!(log(&*store, "a").await.len(), 1);
}

#[tokio::test]
async fn without_its_upcasters_a_log_of_an_older_shape_is_not_reconstructed() {
    let store = stored(&[FIRST]).await;
    let failure = on(&store, Vocabulary::core().with::<Note>())
        .open(&"a".into())
        .await;
    let failure = failure.err().unwrap();
    assert!(
        matches!(failure, OpenFailure::Reconstruct { .. }),
        "{failure}"
    );
}

#[tokio::test]
async fn upcasters_are_applied_in_the_order_of_their_registration() {
    let step = |name: &str| {
        let own = name.to_owned();
        Upcaster::new("acme/steps", name, move |data| {
            let mut steps: Vec<String> = data.decode().unwrap();
            steps.push(own.clone());
            shape(&steps)
        })
    };
    let vocabulary = Vocabulary::core()
        .with_upcaster(step("first"))
        .with_upcaster(step("second"));
    let event = |kind: &str| {
        let data = Payload::from_text("[]").unwrap();
        NewEvent::raw(kind, data, None, true).at(Seq::ZERO, TIME)
    };
    let upcast = vocabulary.upcast(event("acme/steps")).unwrap();
    assert_eq!(upcast.data().as_str(), r#"["first","second"]"#);
    // Everything but the payload is as it was, and other types are left alone.
    let (upcast, original) = (upcast.into_new(), event("acme/steps"));
    assert_eq!(upcast.kind(), original.kind());
    assert_eq!(
        vocabulary.upcast(event("acme/other")).unwrap(),
        event("acme/other")
    );
}

#[tokio::test]
async fn an_upcaster_that_fails_names_itself_and_the_event_and_the_others_are_read() {
    let store = stored(&[PRESENT, FIRST, SECOND]).await;
    // The one that would have made an object of the text is missing.
    let vocabulary = Vocabulary::core().with::<Note>().with_upcaster(with_tags());
    let sessions = on(&store, vocabulary);
    let id = "a".into();
    let read: Vec<_> = sessions.store().read(&id, ReadRange::ALL).collect().await;
    assert_eq!(read.len(), 2, "the error is the last item");
    assert_eq!(payloads(&[read[0].as_ref().unwrap().clone()]), [PRESENT]);
    let error = read[1].as_ref().unwrap_err();
    assert_eq!(error.at(), Some(seq(1)));
    assert_eq!(
        error.to_string(),
        "event 1 (acme/note) of session a was not brought to its present shape by the upcaster \
         \"note-with-tags\""
    );
    match error {
        ReadError::Upcast { source, .. } => assert_eq!(source.reason, "a note is no text any more"),
        other => panic!("{other}"),
    }

    let rest = sessions.store().read(&id, ReadRange::from(seq(2)));
    let rest: Vec<Event> = rest.try_collect().await.unwrap();
    assert_eq!(payloads(&rest), [PRESENT]);
    let failure = sessions.open(&id).await.err().unwrap();
    assert!(
        matches!(failure, OpenFailure::Read(ReadError::Upcast { .. })),
        "{failure}"
    );
}

#[tokio::test]
async fn a_seed_of_an_older_shape_is_checked_as_it_will_be_read_and_kept_as_it_is() {
    let store = MemoryStore::shared();
    let sessions = on(&store, vocabulary());
    let seeded = |data: &str| NewSession {
        id: Some("a".into()),
        seed: Some(vec![note(0, data)]),
        ..NewSession::default()
    };
    match sessions.create(seeded("7")).await.err().unwrap() {
        CreateFailure::Seed { source, .. } => {
            assert!(matches!(*source, Violation::Shape { .. }), "{source}");
        }
        other => panic!("{other}"),
    }
    let session = sessions.create(seeded(FIRST)).await.unwrap();
    assert_eq!(
        payloads(&session.page(Seq::ZERO).await.unwrap())[0],
        PRESENT
    );
    assert_eq!(payloads(&log(&*store, "a").await)[0], FIRST);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_an_upcaster_for_its_types_a_log_is_read_as_it_is(
        choices in proptest::collection::vec(any::<u8>(), 0..200),
        from in 0_u64..50,
        until in 0_u64..50,
        backward: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let store = MemoryStore::shared();
            store.create(&header("a"), valid_log(&choices)).await.unwrap();
            let range = ReadRange { from: seq(from), until: Some(seq(until)), backward };
            let id = "a".into();
            let expected: Vec<Event> = store.read(&id, range).try_collect().await.unwrap();
            for vocabulary in [Vocabulary::core(), vocabulary()] {
                let upcasting = Upcasting::new(store.clone(), Arc::new(vocabulary));
                let read: Vec<Event> = upcasting.read(&id, range).try_collect().await.unwrap();
                prop_assert_eq!(&read, &expected);
            }
            Ok(())
        })?;
    }
}
