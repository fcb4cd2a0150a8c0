//! Reading logs.

use std::sync::Arc;

use futures::{StreamExt as _, TryStreamExt as _};

use super::Store;
use super::given::{add, id, log, note, notes, position, read, session};
use crate::store::{ReadError, ReadRange};
use crate::{Event, NewEvent, Payload, Seq, SurfaceMeta, UnixMillis};

pub async fn an_empty_log_reads_as_empty<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    for range in [
        ReadRange::ALL,
        ReadRange::from(position(5)),
        ReadRange::backward_before(None),
        ReadRange::backward_before(Some(Seq::ZERO)),
    ] {
        assert_eq!(read(&**store, "a", range).await, []);
    }
}

pub async fn an_unknown_session_is_not_found<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 1).await;
    let not_found = |error: ReadError| match error {
        ReadError::NotFound { session } => assert_eq!(session, id("b")),
        other => panic!("{other}"),
    };
    for range in [
        ReadRange::ALL,
        ReadRange::from(position(5)),
        ReadRange::backward_before(None),
    ] {
        let mut events = store.read(&id("b"), range);
        not_found(events.next().await.unwrap().unwrap_err());
    }
    not_found(store.entry(&id("b")).await.unwrap_err());
}

pub async fn reads_any_range_in_either_direction<S: Store>(store: &Arc<S>) {
    const LENGTH: u64 = 7;
    session(&**store, "a", LENGTH).await;
    let bounds = [
        None,
        Some(0),
        Some(1),
        Some(3),
        Some(6),
        Some(7),
        Some(8),
        Some(Seq::MAX.get()),
    ];
    for from in 0..LENGTH + 2 {
        for until in bounds {
            check_range(&**store, LENGTH, from, until).await;
        }
    }
}

pub async fn reads_over_the_borders_of_pages<S: Store>(store: &Arc<S>) {
    for length in [255, 256, 257, 511, 512, 513, 1025] {
        let name = format!("{length}");
        session(&**store, &name, length).await;
        assert_eq!(log(&**store, &name).await, notes(0..length), "{length}");
    }
    session(&**store, "a", 1025).await;
    for from in [0, 1, 255, 256, 257, 768, 769, 1024, 1025] {
        for until in [
            None,
            Some(1),
            Some(256),
            Some(257),
            Some(512),
            Some(1024),
            Some(1025),
        ] {
            check_range(&**store, 1025, from, until).await;
        }
    }
}

/// Reads a range of session `a`, which holds `length` notes, forward and backward.
async fn check_range(store: &impl Store, length: u64, from: u64, until: Option<u64>) {
    let mut expected = notes(from..until.unwrap_or(length).min(length).max(from));
    for backward in [false, true] {
        let range = ReadRange {
            from: position(from),
            until: until.map(position),
            backward,
        };
        assert_eq!(read(store, "a", range).await, expected, "{range:?}");
        expected.reverse();
    }
}

pub async fn keeps_payloads_to_the_letter<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 0).await;
    let deep = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let payloads = [
        "null",
        "true",
        "0",
        "-0",
        "1e2",
        "1.50",
        "4.435375000000022",
        "9007199254740993",
        "123456789012345678901234567890",
        "-1e-400",
        r#""""#,
        r#""a\u0000b""#,
        r#""\ud800""#,
        r#""\udc00\ud800""#,
        r#""\u00e9é\/\"\\""#,
        "\"\u{7f}\u{80}\u{2028}\u{fffe}\u{10ffff}\"",
        r#""'; drop table event; --""#,
        "[]",
        "{}",
        r#"{"b":1,"a":2,"b":3}"#,
        r#"{"":{"__proto__":[1,2,{"constructor":null}]}}"#,
        &deep,
    ];
    let events = payloads.map(|text| {
        let data = Payload::from_text(text).unwrap();
        NewEvent::raw("conformance/any", data, None, true)
    });
    add(&**store, "a", events).await;
    let log = log(&**store, "a").await;
    let texts: Vec<&str> = log.iter().map(|event| event.data().as_str()).collect();
    assert_eq!(texts, payloads);
}

pub async fn keeps_payloads_of_megabytes<S: Store>(store: &Arc<S>) {
    const LARGE: usize = 1_500_000;
    session(&**store, "a", 0).await;
    let large = |letter: &str| {
        let data = Payload::of(&letter.repeat(LARGE)).unwrap();
        NewEvent::raw("conformance/large", data, None, true)
    };
    let letters = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for letter in letters {
        add(&**store, "a", [large(letter)]).await;
    }
    for backward in [false, true] {
        let range = ReadRange {
            backward,
            ..ReadRange::ALL
        };
        let mut events = store.read(&id("a"), range);
        let mut due: Vec<&str> = letters.to_vec();
        if backward {
            due.reverse();
        }
        for letter in due {
            let event = events.try_next().await.unwrap().unwrap();
            assert!(event.data() == large(letter).data(), "{letter}");
        }
        assert!(events.next().await.is_none());
    }
}

pub async fn keeps_the_surface_metadata_and_the_order_of_sources<S: Store>(store: &Arc<S>) {
    let all = (0..300).rev().map(position).collect();
    let metadata = [
        None,
        Some(SurfaceMeta::append()),
        Some(SurfaceMeta::append_from(Vec::new())),
        Some(SurfaceMeta::append_from([2, 0, 1].map(position).into())),
        Some(SurfaceMeta::append_from(all)),
        Some(SurfaceMeta::replace(
            position(9),
            position(5),
            [5, 9].map(position).into(),
        )),
        Some(SurfaceMeta {
            sources: None,
            ..SurfaceMeta::replace(Seq::MAX, Seq::MAX, Vec::new())
        }),
    ];
    let event = |meta: Option<SurfaceMeta>| {
        let data = Payload::of(&1).unwrap();
        NewEvent::raw("user/message", data, meta, false)
    };
    session(&**store, "a", 0).await;
    add(&**store, "a", metadata.clone().map(event)).await;
    let log = log(&**store, "a").await;
    let read: Vec<_> = log.iter().map(|event| event.surface().cloned()).collect();
    assert_eq!(read, metadata);
}

pub async fn keeps_the_mark_of_ignorable_events<S: Store>(store: &Arc<S>) {
    let marks = [true, false, false, true];
    let data = Payload::of(&1).unwrap();
    session(&**store, "a", 0).await;
    let events = marks.map(|mark| NewEvent::raw("conformance/x", data.clone(), None, mark));
    add(&**store, "a", events).await;
    let log = log(&**store, "a").await;
    let read: Vec<bool> = log.iter().map(Event::is_ignorable).collect();
    assert_eq!(read, marks);
}

pub async fn keeps_times_before_the_epoch_and_out_of_order<S: Store>(store: &Arc<S>) {
    let times = [
        5,
        3,
        0,
        -1,
        -9_007_199_254_740_991,
        9_007_199_254_740_991,
        4,
    ];
    let batch: Vec<Event> = (0..)
        .zip(times)
        .map(|(seq, time)| {
            let event = note(seq).into_new();
            event.at(position(seq), UnixMillis::new(time))
        })
        .collect();
    session(&**store, "a", 0).await;
    store
        .append(&id("a"), Seq::ZERO, batch.clone(), None)
        .await
        .unwrap();
    assert_eq!(log(&**store, "a").await, batch);
}

pub async fn keeps_any_type<S: Store>(store: &Arc<S>) {
    let long = "x/".repeat(500);
    let types = [
        "turn/start",
        "Turn/Start",
        "",
        " ",
        "ünï/cødé",
        "a'b\"c",
        &long,
        "turn/start",
    ];
    let data = Payload::of(&1).unwrap();
    session(&**store, "a", 0).await;
    let events = types.map(|kind| NewEvent::raw(kind, data.clone(), None, true));
    add(&**store, "a", events).await;
    let log = log(&**store, "a").await;
    let read: Vec<&str> = log.iter().map(Event::kind).collect();
    assert_eq!(read, types);
}

pub async fn a_log_can_grow_while_it_is_read<S: Store>(store: &Arc<S>) {
    session(&**store, "a", 600).await;
    let mut events = store.read(&id("a"), ReadRange::ALL);
    let mut next = 0;
    while let Some(event) = events.next().await {
        assert_eq!(event.unwrap(), note(next));
        if next == 100 {
            store
                .append(&id("a"), position(600), notes(600..900), None)
                .await
                .unwrap();
        }
        next += 1;
    }
    assert!(next == 600 || next == 900, "{next}");
}
