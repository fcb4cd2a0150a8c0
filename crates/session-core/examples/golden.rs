//! Writes the database and the exports that `tests/it/golden.rs` reads, anew, with this build:
//!
//! `cargo run -p session-core --example golden`
//!
//! A released schema has its files once and for all. Only while the migration may still change are
//! they written again, and then together with it.

use std::error::Error;
use std::fs;
use std::path::Path;

use futures::TryStreamExt as _;
use session_core::event::TurnStart;
use session_core::jsonl::{self, Decoder};
use session_core::store::{
    Checkpoint, CheckpointStore as _, EventStore as _, LeaseStore as _, Owner, Prefix, ReadRange,
};
use session_core::testing::valid_log;
use session_core::{
    CatalogueChange, Event, Header, NewEvent, Payload, Seq, SessionId, SqliteStore, UnixMillis,
};

/// The number of the migration.
const SCHEMA: &str = "0001";
const NOW: UnixMillis = UnixMillis::new(1_790_000_000_000);

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let golden = here.join("tests/golden");
    fs::create_dir_all(&golden)?;
    let file = golden.join(format!("{SCHEMA}.db"));
    if file.exists() {
        fs::remove_file(&file)?;
    }
    let store = SqliteStore::open(&file).await?;
    for header in [
        talk(&store).await?,
        fork(&store).await?,
        made_up(&store).await?,
    ] {
        let mut text = jsonl::header_line(&header)? + "\n";
        let log = store.read(&header.id, ReadRange::ALL);
        for event in log.try_collect::<Vec<Event>>().await? {
            text += &jsonl::event_line(&event)?;
            text.push('\n');
        }
        fs::write(golden.join(format!("{SCHEMA}.{}.jsonl", header.id)), text)?;
    }
    store.close().await;
    Ok(())
}

/// A conversation with streams and a title, appended in batches of many lengths, with checkpoints
/// and a lease that was given back.
async fn talk(store: &SqliteStore) -> Result<Header, Box<dyn Error>> {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let log = fs::read_to_string(fixture.join("valve-gear.jsonl"))?;
    let mut lines = log.lines();
    let mut decoder = Decoder::new(lines.next().unwrap_or_default())?;
    let mut events = Vec::new();
    for line in lines {
        events.extend(decoder.push(line)?);
    }
    let header = Header {
        id: "talk".into(),
        ..decoder.header().clone()
    };
    store.create(&header, Vec::new()).await?;
    let mut rest = events;
    for length in [1, 1, 1, 1, 3, 3, 40, usize::MAX] {
        let after = rest.split_off(length.min(rest.len()));
        append(store, &header.id, rest).await?;
        rest = after;
    }
    let checkpoint = |key: &str, seq: u32| -> Result<Checkpoint, Box<dyn Error>> {
        Ok(Checkpoint {
            key: key.into(),
            state_version: 3,
            seq: Seq::from(seq),
            state: Payload::from_text(r#"{"kept": ["to the letter"]}"#)?,
        })
    };
    let rows = vec![checkpoint("plan", 60)?, checkpoint("title", 89)?];
    store.save(&header.id, rows).await?;
    let lease = store.acquire(&header.id, &owner("gone"), NOW).await?;
    store.release(&lease).await?;
    Ok(header)
}

/// What comes of the conversation after its first turn, in a turn that is open.
async fn fork(store: &SqliteStore) -> Result<Header, Box<dyn Error>> {
    let mut header = Header::new("fork".into(), NOW);
    header.cwd = Some("/home/ada/other".into());
    let origin = Prefix {
        session: "talk".into(),
        until: Seq::from(82),
    };
    let range = ReadRange {
        until: Some(origin.until),
        ..ReadRange::ALL
    };
    let inherited: Vec<Event> = store.read(&origin.session, range).try_collect().await?;
    let inherited = CatalogueChange::of(&inherited);
    store.fork(&header, &origin, inherited, Vec::new()).await?;
    let turn = NewEvent::new(&TurnStart { turn: 2 }).at(origin.until, NOW);
    append(store, &header.id, vec![turn]).await?;
    Ok(header)
}

/// Every kind of event in no order that an agent would have, and some that nobody knows, under a
/// lease that is held.
async fn made_up(store: &SqliteStore) -> Result<Header, Box<dyn Error>> {
    let header = Header::new("made-up".into(), NOW);
    let choices: Vec<u8> = (0_u32..800)
        .map(|nth| nth.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let mut events = valid_log(&choices);
    let long = format!("\"{}\"", "the same again, ".repeat(100));
    let odd = [
        r#"  "𝔬𝔡𝔡\u0000" "#.trim(),
        "1.50e+02",
        "[null,-0,9007199254740993]",
        &long,
    ];
    for (data, is_ignorable) in odd.into_iter().zip([true, false, true, false]) {
        let event = NewEvent::raw("acme/odd", Payload::from_text(data)?, None, is_ignorable);
        let seq = Seq::ZERO.plus(events.len() as u64);
        events.push(event.at(seq, UnixMillis::new(-5)));
    }
    let singles = events.split_off(events.len() - 30);
    store.create(&header, events).await?;
    for event in singles {
        append(store, &header.id, vec![event]).await?;
    }
    store.acquire(&header.id, &owner("holder"), NOW).await?;
    Ok(header)
}

async fn append(
    store: &SqliteStore,
    session: &SessionId,
    batch: Vec<Event>,
) -> Result<(), Box<dyn Error>> {
    let Some(first) = batch.first() else {
        return Ok(());
    };
    let expected = first.seq();
    Ok(store.append(session, expected, batch, None).await?)
}

/// A process on a machine of no one's.
fn owner(id: &str) -> Owner {
    Owner {
        id: id.into(),
        host: "golden.invalid".into(),
        process: 1,
        started: "1".into(),
    }
}
