//! What long logs and many open sessions take in memory, measured in processes of their own.

mod log;

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use futures::stream::BoxStream;
use futures::{StreamExt as _, TryStreamExt as _};
use minutebook_tests::{Place, program};
use projection::{CheckpointPolicy, Projections};
use session_core::store::{EventStore as _, ReadError, ReadRange};
use session_core::{
    Durability, Event, Header, OpenOptions, Seq, SessionId, Sessions, SqliteStore, UnixMillis,
    Vocabulary, follow,
};
use todo_tool::Todos;

use self::log::Log;

/// The most that a process may hold that follows or replays a session, however long, in KiB. Below
/// what is promised for a million events, so that fewer of them that were all held would show.
const LONG_KIB: u64 = 64 * 1024;
/// The most that open idle sessions may add to one, in KiB.
const IDLE_KIB: u64 = 64 * 1024;
const IDLE_SESSIONS: u64 = 1_000;
/// Events in one append.
const BATCH: usize = 512;

/// Tells a process which job to do, and on which database.
const JOB: &str = "MINUTEBOOK_TEST_MEASURED_JOB";

/// A million events take minutes without optimisation. The bound is the same for fewer of them.
fn long() -> u64 {
    #[expect(
        clippy::disallowed_methods,
        reason = "a tester may ask for the full size"
    )]
    let is_full = env::var("MINUTEBOOK_TEST_FULL").is_ok_and(|value| value == "1");
    if is_full { 1_000_000 } else { 200_000 }
}

async fn open(path: &Path) -> Arc<SqliteStore> {
    let options = OpenOptions {
        durability: Durability::Process,
        ..OpenOptions::default()
    };
    Arc::new(options.open(path).await.unwrap())
}

/// Writes a log of at least `length` events, in whole turns; says how many it has.
async fn fill(path: &Path, id: &SessionId, length: u64) -> u64 {
    let store = open(path).await;
    let header = Header::new(id.clone(), UnixMillis::EPOCH);
    store.create(&header, Vec::new()).await.unwrap();
    let (mut log, mut batch, mut written) = (Log::new(), Vec::new(), 0);
    while written < length {
        batch.extend(log.turn());
        if batch.len() >= BATCH || written + batch.len() as u64 >= length {
            let first = Seq::new(written).unwrap();
            written += batch.len() as u64;
            let batch = std::mem::take(&mut batch);
            store.append(id, first, batch, None).await.unwrap();
        }
    }
    store.close().await;
    written
}

/// A number of the memory of a process, in KiB.
fn memory(process: &str, field: &str) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix(field))?;
    line.strip_prefix(':')?
        .trim()
        .strip_suffix(" kB")?
        .parse()
        .ok()
}

/// Does a job in a process of its own; returns the two numbers that it ends with.
fn measured(job: &str, place: &Place) -> (u64, u64) {
    let ran = Command::new(env::current_exe().unwrap())
        .args(["memory::a_process_that_is_measured", "--exact", "--ignored"])
        .arg("--nocapture")
        .env(JOB, format!("{job}:{}", place.db().display()))
        .output()
        .unwrap();
    assert!(ran.status.success(), "{job}: {ran:?}");
    let out = String::from_utf8(ran.stdout).unwrap();
    let (_, numbers) = out.split_once("measured: ").unwrap();
    let mut numbers = numbers.split_whitespace().map(|text| text.parse().unwrap());
    (numbers.next().unwrap(), numbers.next().unwrap())
}

#[test]
#[ignore = "a process that other tests start"]
fn a_process_that_is_measured() {
    #[expect(
        clippy::disallowed_methods,
        reason = "told by the test that started it"
    )]
    let Ok(job) = env::var(JOB) else { return };
    let (job, path) = job.split_once(':').unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .unwrap();
    let (first, second) = runtime.block_on(do_job(job, Path::new(path)));
    println!("measured: {first} {second}");
}

async fn do_job(job: &str, path: &Path) -> (u64, u64) {
    let store = open(path).await;
    if job == "idle" {
        return idle(&store).await;
    }
    let id = long_id();
    let range = ReadRange::ALL;
    let next = store.entry(&id).await.unwrap().next_seq;
    let length = usize::try_from(next.get()).unwrap();
    let count = match job {
        "read" => count(store.read(&id, range)).await,
        "backward" => count(store.read(&id, ReadRange::backward_before(None))).await,
        "follow" => count(follow(store.clone(), id, Seq::ZERO).take(length).boxed()).await,
        "open" => {
            let sessions = Sessions::builder(store.clone())
                .leases(store.clone())
                .vocabulary(Vocabulary::original_harness())
                .build();
            let session = sessions.open(&id).await.unwrap();
            let followed = session.subscribe(Seq::ZERO).take(length).boxed();
            let count = count(followed).await;
            assert_eq!(session.with_state(|state| state.next_seq().get()), count);
            count
        }
        _ => panic!("no such job: {job}"),
    };
    (count, memory("self", "VmHWM").unwrap())
}

async fn count(events: BoxStream<'_, Result<Event, ReadError>>) -> u64 {
    let counted = events.try_fold(0, |count, _| async move { Ok(count + 1) });
    counted.await.unwrap()
}

fn long_id() -> SessionId {
    "long".into()
}

fn idle_id(nth: u64) -> SessionId {
    format!("idle-{nth}").into()
}

/// What the first open session takes, and what all of them take at the most.
async fn idle(store: &Arc<SqliteStore>) -> (u64, u64) {
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .vocabulary(Vocabulary::original_harness())
        .build();
    let projections = Projections::new(Some(store.clone()), CheckpointPolicy::default());
    let _unit = projections.register_visible::<Todos>().unwrap();
    let _observer = projections.attach(&sessions);
    let mut open = vec![sessions.open(&idle_id(0)).await.unwrap()];
    let one = memory("self", "VmRSS").unwrap();
    for nth in 1..IDLE_SESSIONS {
        open.push(sessions.open(&idle_id(nth)).await.unwrap());
    }
    let all = memory("self", "VmHWM").unwrap();
    assert!(open.iter().all(|session| !session.messages().is_empty()));
    (one, all)
}

/// Runs the program until it has printed so many lines; returns its peak in KiB.
fn printing(place: &Place, args: &[&str], lines: u64) -> u64 {
    let mut program = place.command(args).stdout(Stdio::piped()).spawn().unwrap();
    let process = program.id().to_string();
    let mut out = BufReader::new(program.stdout.take().unwrap());
    let (mut printed, mut peak, mut line) = (0, 0, Vec::new());
    while printed < lines && out.read_until(b'\n', &mut line).unwrap() > 0 {
        printed += 1;
        line.clear();
        // It is never further ahead than a pipe is deep.
        if printed % 500 == 0 {
            peak = peak.max(memory(&process, "VmHWM").unwrap_or(0));
        }
    }
    // Where it does not end by itself.
    program.kill().unwrap();
    program.wait().unwrap();
    assert_eq!(printed, lines, "{args:?}");
    assert!(peak > 0, "{args:?} was not measured");
    peak
}

#[tokio::test]
async fn following_and_replaying_a_session_of_a_million_events_takes_bounded_memory() {
    // Built before anything is timed.
    let _ = program();
    let place = Place::new();
    let (id, begun) = (long_id(), Instant::now());
    let length = fill(&place.db(), &id, long()).await;
    println!("{length} events written in {:.1?}", begun.elapsed());
    let mut peaks = Vec::new();
    for job in ["read", "backward", "follow", "open"] {
        let begun = Instant::now();
        let (read, peak) = measured(job, &place);
        assert_eq!(read, length, "{job}");
        println!("{job}: {peak} KiB, {:.1?}", begun.elapsed());
        peaks.push((job, peak));
    }
    let commands: [(&[&str], u64); 3] = [
        (&["events", id.as_str(), "--json"], length),
        (&["events", id.as_str(), "--json", "--follow"], length),
        (&["export", id.as_str()], length + 1),
    ];
    for (args, lines) in commands {
        let begun = Instant::now();
        let peak = printing(&place, args, lines);
        println!("{args:?}: {peak} KiB, {:.1?}", begun.elapsed());
        peaks.push((args[0], peak));
    }
    for (what, peak) in peaks {
        assert!(peak < LONG_KIB, "{what} of {length} events: {peak} KiB");
    }
}

#[tokio::test]
async fn a_thousand_open_idle_sessions_take_little_more_memory_than_one() {
    let place = Place::new();
    let store = open(&place.db()).await;
    for nth in 0..IDLE_SESSIONS {
        let mut log = Log::new();
        let seed: Vec<Event> = (0..3).flat_map(|_| log.turn()).collect();
        let header = Header::new(idle_id(nth), UnixMillis::EPOCH);
        store.create(&header, seed).await.unwrap();
    }
    store.close().await;
    let (one, all) = measured("idle", &place);
    println!("one: {one} KiB, {IDLE_SESSIONS}: {all} KiB");
    assert!(all > one, "nothing was measured");
    assert!(all - one < IDLE_KIB, "{one} KiB, then {all} KiB");
}
