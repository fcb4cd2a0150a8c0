//! A database of each released schema, made by the build of its time, is read and gone on with.
//! `cargo run -p session-core --example golden` makes them.

use std::fs;
use std::path::{Path, PathBuf};

use session_core::jsonl::Decoder;
use session_core::store::{CheckpointStore as _, FenceToken, LeaseError, LeaseStore as _, Owner};
use session_core::{
    CatalogueChange, CatalogueEntry, ChainHash, Event, EventStore as _, Header, ListQuery,
    NewEvent, Payload, RandomIds, SessionId, SqliteStore,
};

use crate::support::{Place, TIME, log, seq};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// A copy of the database of a schema, and what its sessions were when it was made.
fn copy(schema: &str) -> (Place, Vec<(Header, Vec<Event>)>) {
    let place = Place::new();
    fs::copy(golden().join(format!("{schema}.db")), place.file()).unwrap();
    let exported = ["talk", "fork", "made-up"].map(|id| {
        let file = golden().join(format!("{schema}.{id}.jsonl"));
        let text = fs::read_to_string(file).unwrap();
        let mut lines = text.lines();
        let mut decoder = Decoder::new(lines.next().unwrap()).unwrap();
        assert_eq!(decoder.header().id, id.into());
        let events = lines.flat_map(|line| decoder.push(line).unwrap());
        let events: Vec<Event> = events.collect();
        assert!(events.len() > 50);
        (decoder.header().clone(), events)
    });
    (place, exported.into())
}

/// The schemas that a database lies here for.
fn schemas() -> Vec<String> {
    let files = fs::read_dir(golden()).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut schemas: Vec<String> = names
        .filter_map(|name| Some(name.strip_suffix(".db")?.to_owned()))
        .collect();
    schemas.sort();
    assert!(schemas.contains(&"0001".to_owned()), "{schemas:?}");
    schemas
}

async fn assert_whole(store: &SqliteStore, id: &SessionId, expected: &[Event]) {
    assert_eq!(log(store, id.as_str()).await, expected);
    let heads = [expected.len(), expected.len() / 2, expected.len() - 1];
    for until in heads {
        let head = ChainHash::GENESIS.over(&expected[..until]);
        let stored = store.chain_at(id, seq(until as u64)).await.unwrap();
        assert_eq!(stored, head, "{id} at {until}");
    }
}

#[tokio::test]
async fn a_database_of_each_schema_reads_as_when_it_was_made() {
    for schema in schemas() {
        let (place, exported) = copy(&schema);
        let store = place.open().await;
        assert_eq!(store.integrity().await.unwrap(), [""; 0]);
        let mut query = ListQuery::default();
        query.filter.include_blank = true;
        let listed = store.list(&query).await.unwrap();
        assert_eq!((listed.entries.len(), listed.damaged.len()), (3, 0));
        for (header, events) in &exported {
            assert_whole(&store, &header.id, events).await;
            let mut entry = CatalogueEntry::new(header.clone());
            entry.apply(CatalogueChange::of(events));
            assert_eq!(store.entry(&header.id).await.unwrap(), entry);
            assert!(listed.entries.contains(&entry));
        }
        let talk = store.entry(&"talk".into()).await.unwrap();
        assert_eq!(talk.title.as_deref(), Some("Mend the valve gear"));
        assert!(store.entry(&"fork".into()).await.unwrap().is_open);

        let checkpoints = store.load(&"talk".into()).await.unwrap();
        let said: Vec<_> = checkpoints
            .iter()
            .map(|row| {
                (
                    row.key.as_str(),
                    row.state_version,
                    row.seq,
                    row.state.as_str(),
                )
            })
            .collect();
        let state = r#"{"kept":["to the letter"]}"#;
        let expected = [("plan", 3, seq(60), state), ("title", 3, seq(89), state)];
        assert_eq!(said, expected);
    }
}

#[tokio::test]
async fn a_database_of_each_schema_is_gone_on_with() {
    for schema in schemas() {
        let (place, exported) = copy(&schema);
        let store = place.open().await;
        // Of the one the lease was given back, of the other somebody elsewhere has it.
        let me = Owner::this_process(&RandomIds);
        let lease = store.acquire(&"talk".into(), &me, TIME).await.unwrap();
        assert_eq!(lease.token, FenceToken::new(2));
        match store.acquire(&"made-up".into(), &me, TIME).await {
            Err(LeaseError::Held { owner, .. }) => assert_eq!(owner.id, "holder"),
            other => panic!("{other:?}"),
        }
        let fences = [Some(lease.token), None, Some(FenceToken::new(1))];
        let mut grown = exported;
        for ((header, events), fence) in grown.iter_mut().zip(fences) {
            let end = events.len() as u64;
            let more = (end..end + 5).map(|nth| {
                let data = Payload::of(&"more ".repeat(200)).unwrap();
                NewEvent::raw("acme/odd", data, None, true).at(seq(nth), TIME)
            });
            let more: Vec<Event> = more.collect();
            let appended = store
                .append(&header.id, seq(end), more.clone(), fence)
                .await;
            appended.unwrap();
            events.extend(more);
        }
        store.close().await;
        let store = place.open().await;
        for (header, events) in &grown {
            assert_whole(&store, &header.id, events).await;
        }
        assert_eq!(store.integrity().await.unwrap(), [""; 0]);
    }
}

#[tokio::test]
async fn each_of_these_databases_has_rows_of_every_form() {
    for schema in schemas() {
        let (place, _) = copy(&schema);
        let mut raw = place.raw().await;
        for rows in [
            "record where typeof(data) = 'blob' and type is null",
            "record where typeof(data) = 'blob' and type is not null",
            "record where typeof(data) = 'text' and type is null",
            "record where typeof(data) = 'text' and type is not null",
            "record where data like '[%\"chunks\":%'",
            "record where surface_op is not null",
            "record where sources is not null",
            "record where ignorable",
            "session where origin is not null",
            "session where title is not null",
            "session where is_open",
            "lease where owner is null",
            "lease where owner is not null",
        ] {
            let sql = format!("select count(*) from {rows}");
            let count: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(sql))
                .fetch_one(&mut raw)
                .await
                .unwrap();
            assert!(count > 0, "{schema}: no {rows}");
        }
    }
}
