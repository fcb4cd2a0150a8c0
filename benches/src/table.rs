//! The workloads as tables.

use std::collections::BTreeMap;

use workload::{Task, median};

/// One column: a figure and what heads it.
pub(crate) struct Column {
    figure: &'static str,
    head: &'static str,
    /// Whether a further column has the ratio of Minutebook's to the peer's.
    is_compared: bool,
}

/// One workload.
pub(crate) struct Workload {
    pub(crate) id: &'static str,
    pub(crate) title: &'static str,
    pub(crate) tasks: &'static [Task],
    columns: &'static [Column],
}

const fn compared(figure: &'static str, head: &'static str) -> Column {
    Column {
        figure,
        head,
        is_compared: true,
    }
}

const fn plain(figure: &'static str, head: &'static str) -> Column {
    Column {
        figure,
        head,
        is_compared: false,
    }
}

const APPENDS: &[Column] = &[
    compared("ev_s", "events/s"),
    compared("p50_us", "p50 µs"),
    plain("p99_us", "p99 µs"),
];

pub(crate) const WORKLOADS: &[Workload] = &[
    Workload {
        id: "W1",
        title: "one session, each event acknowledged when durable",
        tasks: &[Task::OneSession],
        columns: APPENDS,
    },
    Workload {
        id: "W2",
        title: "64 sessions at once, each event acknowledged when durable",
        tasks: &[Task::ManySessions],
        columns: APPENDS,
    },
    Workload {
        id: "W3",
        title: "batches of 500 into one session",
        tasks: &[Task::Batches],
        columns: &[compared("ev_s", "events/s")],
    },
    Workload {
        id: "W4a",
        title: "open a large store and read a short session",
        tasks: &[Task::ReadShort],
        columns: &[
            compared("total_ms", "open + read ms"),
            plain("open_ms", "open ms"),
            plain("read_ms", "read ms"),
            compared("rss_mb", "peak RSS MB"),
        ],
    },
    Workload {
        id: "W4b",
        title: "replay a long session to typed events",
        tasks: &[Task::Replay],
        columns: &[
            compared("ev_s", "events/s"),
            plain("first_ms", "first event ms"),
            compared("rss_mb", "peak RSS MB"),
        ],
    },
    Workload {
        id: "W5",
        title: "50 events at the end and in the middle of a long session",
        tasks: &[Task::Pages],
        columns: &[
            compared("tail_p50_us", "tail p50 µs"),
            plain("tail_p99_us", "tail p99 µs"),
            compared("middle_p50_us", "middle p50 µs"),
            plain("middle_p99_us", "middle p99 µs"),
        ],
    },
    Workload {
        id: "W6",
        title: "the current task list of a long session",
        tasks: &[Task::Todos, Task::LiveTodos],
        columns: &[
            compared("p50_us", "closed session p50 µs"),
            plain("first_us", "first µs"),
            compared("rss_mb", "peak RSS MB"),
            plain("live_p50_us", "open session p50 µs"),
            plain("live_open_ms", "opening ms"),
            plain("live_rss_mb", "open, peak RSS MB"),
        ],
    },
    Workload {
        id: "W7",
        title: "from the call of append to a follower",
        tasks: &[Task::Subscribe, Task::Follow],
        columns: &[
            compared("p50_us", "same process p50 µs"),
            plain("p99_us", "p99 µs"),
            plain("ack_p50_us", "acknowledged p50 µs"),
            compared("other_p50_us", "other process p50 µs"),
            plain("other_p99_us", "p99 µs"),
            plain("other_cpu_ms", "follower CPU ms"),
        ],
    },
    Workload {
        id: "W8",
        title: "bytes on disk, and an idle store",
        tasks: &[Task::Disk, Task::DiskChunks, Task::Idle],
        columns: &[
            compared("bytes", "bytes/event, mixed"),
            plain("wire", "of JSON"),
            compared("chunks_bytes", "bytes/event, 96 % chunks"),
            plain("chunks_wire", "of JSON"),
            plain("rss_open_mb", "RSS opened MB"),
            plain("rss_written_mb", "RSS after writing MB"),
            plain("idle_cpu_ms_s", "idle CPU ms/s"),
        ],
    },
];

/// The figures of one peer in one workload, one value a round.
pub(crate) type Rounds = BTreeMap<String, Vec<f64>>;

/// Prints a workload as a Markdown table. The first peer is what the others are compared with.
pub(crate) fn print(workload: &Workload, rounds: usize, results: &[(String, Rounds)]) {
    println!("\n### {}: {}\n", workload.id, workload.title);
    let own = results.first().map(|(_, figures)| figures);
    let compared = || workload.columns.iter().filter(|column| column.is_compared);
    let heads = workload.columns.iter().map(|column| column.head.to_owned());
    let ratios = compared().map(|column| format!("Minutebook / peer, {}", column.head));
    row("peer", heads.chain(ratios));
    row(
        "---",
        workload
            .columns
            .iter()
            .chain(compared())
            .map(|_| "---".to_owned()),
    );
    for (nth, (peer, figures)) in results.iter().enumerate() {
        let cells = workload
            .columns
            .iter()
            .map(|column| cell(figures.get(column.figure)));
        let ratios = compared().map(|column| {
            let own = own.and_then(|own| own.get(column.figure));
            match (own, figures.get(column.figure)) {
                (Some(own), Some(peer)) if nth > 0 => {
                    format!("{:.2}", median(own) / median(peer))
                }
                _ => NONE.to_owned(),
            }
        });
        row(peer, cells.chain(ratios));
    }
    println!("\nMedian [min–max], rounds: {rounds}.");
}

fn row(first: &str, cells: impl Iterator<Item = String>) {
    let cells: Vec<String> = cells.collect();
    println!("| {first} | {} |", cells.join(" | "));
}

/// Stands where a peer has no figure.
const NONE: &str = "–";

fn cell(values: Option<&Vec<f64>>) -> String {
    let Some(values) = values else {
        return NONE.to_owned();
    };
    let (lowest, highest) = values
        .iter()
        .fold((f64::MAX, f64::MIN), |(low, high), value| {
            (low.min(*value), high.max(*value))
        });
    let middle = short(median(values));
    if values.len() < 2 || lowest == highest {
        return middle;
    }
    format!("{middle} [{}–{}]", short(lowest), short(highest))
}

/// Three figures that mean something, with commas between thousands.
fn short(value: f64) -> String {
    if value < 10.0 {
        return format!("{value:.2}");
    }
    if value < 100.0 {
        return format!("{value:.1}");
    }
    let digits = format!("{value:.0}");
    let mut out = String::new();
    for (nth, digit) in digits.chars().enumerate() {
        if nth > 0 && (digits.len() - nth).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}
