//! Units fold events in their present shape.

use projection::{Changed, CheckpointPolicy, Projections, Unit, VisibleUnit};
use serde_json::json;
use session_core::{
    Event, EventStore as _, Header, MemoryStore, NewEvent, Payload, Seq, SessionId, Sessions,
    ShapeError, UnixMillis, Upcaster, Vocabulary,
};

/// The texts of all notes, which were mere texts once and are objects now.
struct Notes;

impl Unit for Notes {
    const KEY: &'static str = "notes";
    const STATE_VERSION: u32 = 1;
    type State = Vec<String>;

    fn init() -> Self::State {
        Vec::new()
    }

    fn apply(state: &mut Self::State, event: &Event) -> Changed {
        let Ok(note) = event.data().decode::<serde_json::Value>() else {
            return Changed::No;
        };
        match note["text"].as_str() {
            Some(text) => state.push(text.to_owned()),
            None => return Changed::No,
        }
        Changed::Yes
    }
}

impl VisibleUnit for Notes {
    type View = Vec<String>;

    fn view(state: &Self::State) -> Self::View {
        state.clone()
    }
}

fn as_object() -> Upcaster {
    Upcaster::new("acme/note", "note-as-object", |data| {
        let Ok(text) = data.decode::<String>() else {
            return Ok(data.clone());
        };
        Payload::of(&json!({ "text": text })).map_err(|error| ShapeError {
            reason: error.to_string(),
        })
    })
}

#[tokio::test]
async fn an_event_of_an_older_shape_is_folded_in_the_present_one_live_and_cold() {
    let store = MemoryStore::shared();
    let id = SessionId::from("a");
    let header = Header::new(id.clone(), UnixMillis::EPOCH);
    let notes = [r#""old""#, r#"{"text":"new"}"#];
    let seed = (0_u32..).zip(notes).map(|(seq, data)| {
        let data = Payload::from_text(data).unwrap();
        NewEvent::raw("acme/note", data, None, false).at(Seq::from(seq), UnixMillis::EPOCH)
    });
    store.create(&header, seed.collect()).await.unwrap();
    let vocabulary = Vocabulary::core().with_opaque("acme/note");
    let sessions = Sessions::builder(store.clone())
        .vocabulary(vocabulary.with_upcaster(as_object()))
        .build();
    let projections = Projections::new(None, CheckpointPolicy::default());
    let _notes = projections.register_visible::<Notes>().unwrap();

    let cold = projections.cold_snapshot(&**sessions.store(), &id).await;
    assert_eq!(cold.unwrap().values["notes"], json!(["old", "new"]));
    let session = sessions.open(&id).await.unwrap();
    let live = projections.snapshot(&session).await.unwrap();
    assert_eq!(live.values["notes"], json!(["old", "new"]));

    // The store behind has the old shape still.
    let stored = projections.cold_snapshot(&*store, &id).await.unwrap();
    assert_eq!(stored.values["notes"], json!(["new"]));
}
