//! Many processes share one database, and each is killed again and again.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{BufRead as _, BufReader, Read as _};
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use futures::TryStreamExt as _;
use minutebook_tests::{Place, program};
use serde_json::{Value, json};
use session_core::event::{EventData as _, TurnEnd, UserMessage};
use session_core::store::{EventStore as _, ReadRange};
use session_core::{Event, ListFilter, ListQuery, SessionId, Sessions, SqliteStore, Vocabulary};

/// Enough to meet every state of a process many times. With 1,000 it was run by hand, and is to be
/// again after changes of how logs are written.
const KILLS: u64 = 200;

/// What each of the processes does, all at once.
const CROWD: [Role; 8] = [
    Role::Writer,
    Role::Writer,
    Role::Writer,
    Role::Writer,
    Role::Writer,
    Role::Follower,
    Role::Follower,
    Role::Lister,
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Role {
    /// Holds conversations of its own, and goes on with them after it was killed.
    Writer,
    /// Follows a conversation that another one holds.
    Follower,
    /// Lists what there is.
    Lister,
}

/// A turn of some 100 ms with text and two lists.
fn script() -> Value {
    let list = |status: &str| {
        let todos = json!([{ "content": "the only item", "status": status }]);
        json!({
            "reasoning": "What is left to do?",
            "text": "Going on.",
            "tool_calls": [{ "name": "todo_write", "arguments": { "todos": todos } }],
            "chunk_delay_ms": 2,
        })
    };
    json!({ "responses": [list("in_progress"), list("completed"), { "text": "Done." }] })
}

/// What all of them know of each other.
#[derive(Default)]
struct Crowd {
    kills: AtomicU64,
    prompts: AtomicU64,
    told: Mutex<Told>,
}

/// What the program printed.
#[derive(Default)]
struct Told {
    /// What writers acknowledged: the line of each position.
    acknowledged: HashMap<SessionId, BTreeMap<usize, String>>,
    /// What followers saw.
    followed: Vec<(SessionId, Vec<String>)>,
    /// Kills that met an open turn.
    open: u64,
    /// From the start of a process to its answer, for those that went on with a session whose
    /// writer was killed.
    takeovers: Vec<Duration>,
}

/// A process that was started, let run for a while, and killed.
struct Run {
    /// The lines that it printed to their end.
    lines: Vec<String>,
    /// When the first of them came.
    answered: Option<Duration>,
    was_killed: bool,
}

fn run_and_kill(place: &Place, args: &[&str], after: Duration) -> Run {
    let begun = Instant::now();
    let mut program = place
        .command(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = program.stdout.take().unwrap();
    let reading = thread::spawn(move || {
        let mut stdout = BufReader::new(stdout);
        let (mut lines, mut answered) = (Vec::new(), None);
        let mut line = String::new();
        while stdout.read_line(&mut line).unwrap() > 0 {
            answered = answered.or_else(|| Some(begun.elapsed()));
            // A line that was cut short acknowledges nothing.
            if let Some(whole) = line.strip_suffix('\n') {
                lines.push(whole.to_owned());
            }
            line.clear();
        }
        (lines, answered)
    });
    thread::sleep(after);
    program.kill().unwrap();
    let status = program.wait().unwrap();
    let mut errors = String::new();
    let mut stderr = program.stderr.take().unwrap();
    stderr.read_to_string(&mut errors).unwrap();
    let (lines, answered) = reading.join().unwrap();
    // One that ended before it was killed has ended well.
    assert!(
        matches!(status.code(), None | Some(0)),
        "{args:?}: {status}\n{errors}"
    );
    Run {
        lines,
        answered,
        was_killed: status.code().is_none(),
    }
}

/// Numbers without a pattern, the same in each run.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

impl Crowd {
    fn live(&self, place: &Place, role: Role, model: &str, whole: Duration, numbers: &mut Numbers) {
        let whole = u64::try_from(whole.as_micros()).unwrap();
        let mut session = None;
        while self.kills.load(Ordering::SeqCst) < KILLS {
            // They slow each other down, so a turn takes several times as long as it does alone.
            let limit = match role {
                Role::Writer | Role::Follower => whole * 3,
                Role::Lister => whole,
            };
            let after = Duration::from_micros(numbers.below(limit));
            let was_killed = match role {
                Role::Writer => {
                    if numbers.below(6) == 0 {
                        session = None;
                    }
                    self.write(place, model, &mut session, after)
                }
                Role::Follower => self.follow(place, numbers, after),
                Role::Lister => {
                    let run = run_and_kill(place, &["sessions", "--json"], after);
                    for line in &run.lines {
                        serde_json::from_str::<Value>(line).unwrap();
                    }
                    run.was_killed
                }
            };
            self.kills
                .fetch_add(u64::from(was_killed), Ordering::SeqCst);
        }
    }

    fn write(
        &self,
        place: &Place,
        model: &str,
        session: &mut Option<(SessionId, bool)>,
        after: Duration,
    ) -> bool {
        let prompt = format!("prompt {}", self.prompts.fetch_add(1, Ordering::SeqCst));
        let mut args = vec!["chat", &prompt, "--json", "--model", model];
        if let Some((id, _)) = &*session {
            args.extend(["--session", id.as_str()]);
        }
        let run = run_and_kill(place, &args, after);
        let mut lines = run.lines.iter();
        let Some(header) = lines.next() else {
            return run.was_killed;
        };
        let header: Value = serde_json::from_str(header).unwrap();
        let id = SessionId::from(header["id"].as_str().unwrap());
        let mut told = self.told.lock().unwrap();
        if let Some((expected, was_killed)) = session {
            assert_eq!(id, *expected);
            if *was_killed {
                told.takeovers.extend(run.answered);
            }
        }
        let acknowledged = told.acknowledged.entry(id.clone()).or_default();
        let mut is_open = false;
        for line in lines {
            let event: Event = serde_json::from_str(line).unwrap();
            is_open = event.kind() != TurnEnd::TYPE;
            let at = usize::try_from(event.seq().get()).unwrap();
            let before = acknowledged.insert(at, line.clone());
            assert_eq!(before, None, "two events were acknowledged at one position");
        }
        told.open += u64::from(run.was_killed && is_open);
        *session = Some((id, run.was_killed));
        run.was_killed
    }

    fn follow(&self, place: &Place, numbers: &mut Numbers, after: Duration) -> bool {
        let known: Vec<SessionId> = {
            let told = self.told.lock().unwrap();
            told.acknowledged.keys().cloned().collect()
        };
        let Ok(count @ 1..) = u64::try_from(known.len()) else {
            thread::sleep(after);
            return false;
        };
        let nth = usize::try_from(numbers.below(count)).unwrap();
        let id = &known[nth];
        let args = ["events", id.as_str(), "--follow", "--json"];
        let run = run_and_kill(place, &args, after);
        let mut told = self.told.lock().unwrap();
        told.followed.push((id.clone(), run.lines));
        run.was_killed
    }
}

#[test]
fn nothing_acknowledged_is_lost_or_doubled_when_a_crowd_is_killed_at_random() {
    let place = Place::new();
    let file = place.dir().join("script.json");
    std::fs::write(&file, script().to_string()).unwrap();
    let model = format!("script:{}", file.display());
    // Built before anything is timed.
    let _ = program();
    // The first run makes the database, and says how long a whole turn takes here.
    let begun = Instant::now();
    let _ = place
        .run(&["chat", "first", "--json", "--model", &model])
        .ok();
    let whole = begun.elapsed();

    let crowd = Crowd::default();
    let begun = Instant::now();
    thread::scope(|scope| {
        for (role, nth) in CROWD.into_iter().zip(1_u64..) {
            let (place, crowd, model) = (&place, &crowd, &model);
            let mut numbers = Numbers(nth.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            scope.spawn(move || crowd.live(place, role, model, whole, &mut numbers));
        }
    });
    let lasted = begun.elapsed();

    let told = crowd.told.into_inner().unwrap();
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.enable_all().build().unwrap();
    let (logs, slowest) = runtime.block_on(open_all(&place));
    for (id, acknowledged) in &told.acknowledged {
        let log = &logs[id];
        for (at, line) in acknowledged {
            assert_eq!(log.get(*at), Some(line), "an acknowledged event is missing");
        }
    }
    for (id, followed) in &told.followed {
        assert!(logs[id].starts_with(followed), "a follower saw another log");
    }
    let _ = place.run(&["verify"]).ok();

    let acknowledged: usize = told.acknowledged.values().map(BTreeMap::len).sum();
    let answered = told.takeovers.iter().max().copied().unwrap_or_default();
    println!(
        "{KILLS} kills in {lasted:.1?}, {} of them inside a turn; {} sessions, {acknowledged} \
         events acknowledged; {} takeovers by a process that went on: at most {answered:.0?} from \
         its start; by the test: at most {slowest:.0?}",
        told.open,
        logs.len(),
        told.takeovers.len(),
    );
    assert!(told.open > KILLS / 20, "too few kills met an open turn");
    assert!(!told.takeovers.is_empty(), "nobody went on with a session");
    assert!(acknowledged > 500, "only {acknowledged} were acknowledged");
    assert!(
        told.followed.iter().any(|(_, lines)| !lines.is_empty()),
        "no follower saw anything"
    );
}

/// Takes over every session, and returns the lines of its log, and how long the slowest took.
async fn open_all(place: &Place) -> (HashMap<SessionId, Vec<String>>, Duration) {
    let store = Arc::new(SqliteStore::open(place.db()).await.unwrap());
    let sessions = Sessions::builder(store.clone())
        .leases(store.clone())
        .vocabulary(Vocabulary::original_harness())
        .build();
    let mut query = ListQuery {
        filter: ListFilter {
            include_blank: true,
            ..ListFilter::default()
        },
        ..ListQuery::default()
    };
    let (mut logs, mut slowest) = (HashMap::new(), Duration::ZERO);
    let mut prompts = BTreeSet::new();
    loop {
        let page = store.list(&query).await.unwrap();
        assert_eq!(page.damaged, []);
        for entry in page.entries {
            let id = entry.header.id;
            let begun = Instant::now();
            let session = sessions.open(&id).await.unwrap();
            slowest = slowest.max(begun.elapsed());
            assert_eq!(session.with_state(|state| state.trace().open_turn()), None);
            let log: Vec<Event> = store.read(&id, ReadRange::ALL).try_collect().await.unwrap();
            for (event, seq) in log.iter().zip(0..) {
                assert_eq!(event.seq().get(), seq, "a gap");
                if let Some(UserMessage(message)) = event.decode() {
                    let text = serde_json::to_string(&message.content).unwrap();
                    assert!(prompts.insert(text), "a prompt is stored twice");
                }
            }
            let lines = log
                .iter()
                .map(|event| serde_json::to_string(event).unwrap());
            logs.insert(id, lines.collect());
        }
        query.after = page.next;
        if query.after.is_none() {
            break;
        }
    }
    sessions.close_all().await;
    store.close().await;
    (logs, slowest)
}
