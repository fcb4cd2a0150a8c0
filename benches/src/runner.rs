//! Starts measuring processes in turn, and gathers what they print.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Parser;
use workload::Task;
use workload::child::{Figures, Job, MEASURE};

use crate::PEERS;
use crate::table::{self, Rounds, WORKLOADS, Workload};

/// The peer that lives in a workspace of its own.
const EVENTSDB: &str = "eventsdb (NORMAL)";
/// By how much `--quick` divides the sizes.
const QUICK: usize = 20;

#[derive(Debug, Parser)]
#[command(about = "Measures Minutebook beside its peers")]
struct Args {
    /// Rounds; each runs every peer once.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// Only these workloads, such as W1,W4b.
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Only the peers whose names begin so, beside Minutebook.
    #[arg(long, value_delimiter = ',')]
    peers: Vec<String>,
    /// A twentieth of the sizes, to see that everything runs.
    #[arg(long)]
    quick: bool,
    /// Where the stores are made; a folder on a disk, not in memory.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where the events come from.
    #[arg(long, default_value_t = 20_261_130)]
    seed: u64,
}

struct Runner {
    dir: PathBuf,
    seed: u64,
    divisor: usize,
    peers: Vec<String>,
    eventsdb: Option<PathBuf>,
}

pub(crate) fn run() -> Result<()> {
    let args = Args::parse();
    for only in &args.only {
        let known = WORKLOADS.iter().any(|workload| workload.id == only);
        ensure!(known, "unknown workload {only}");
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dir = args.dir.unwrap_or_else(|| home.join("target/data"));
    std::fs::create_dir_all(&dir)?;
    let wanted = |peer: &str| {
        args.peers.is_empty()
            || peer == PEERS[0]
            || args.peers.iter().any(|name| peer.starts_with(name))
    };
    let mut peers: Vec<String> = PEERS.iter().map(|peer| (*peer).to_owned()).collect();
    peers.insert(5, EVENTSDB.to_owned());
    peers.retain(|peer| wanted(peer));
    let eventsdb = peers
        .iter()
        .any(|peer| peer == EVENTSDB)
        .then(|| build_eventsdb(home))
        .transpose()?;
    let runner = Runner {
        dir,
        seed: args.seed,
        divisor: if args.quick { QUICK } else { 1 },
        peers,
        eventsdb,
    };
    let workloads: Vec<&Workload> = WORKLOADS
        .iter()
        .filter(|workload| args.only.is_empty() || args.only.iter().any(|id| id == workload.id))
        .collect();
    runner.all(&workloads, args.rounds)
}

/// Builds the binary of the peer whose SQLite library cannot be linked into this one.
fn build_eventsdb(home: &Path) -> Result<PathBuf> {
    let target = home.join("target");
    let status = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()))
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(home.join("eventsdb/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        .status()
        .context("cargo could not be started")?;
    ensure!(status.success(), "benches/eventsdb was not built");
    Ok(target.join("release/bench-eventsdb"))
}

impl Runner {
    fn all(&self, workloads: &[&Workload], rounds: usize) -> Result<()> {
        println!("Sizes divided by {}, seed {}.", self.divisor, self.seed);
        let reads_long = |workload: &&&Workload| {
            let mut tasks = workload.tasks.iter();
            tasks.any(|task| task.reads_the_long_session())
        };
        let is_filled = workloads.iter().any(|workload| reads_long(&workload));
        let mut filled = false;
        for workload in workloads {
            if !filled && reads_long(&workload) {
                filled = true;
                for peer in &self.peers {
                    self.fill(peer)?;
                }
            }
            let results = self.workload(workload, rounds)?;
            table::print(workload, rounds, &results);
        }
        if is_filled {
            for peer in &self.peers {
                remove(&self.long(peer))?;
            }
        }
        Ok(())
    }

    fn workload(&self, workload: &Workload, rounds: usize) -> Result<Vec<(String, Rounds)>> {
        let mut results: Vec<(String, Rounds)> = self
            .peers
            .iter()
            .map(|peer| (peer.clone(), Rounds::new()))
            .collect();
        for round in 0..rounds {
            let count = results.len();
            for nth in 0..count {
                // Each round begins with another peer, so that none always follows the same one.
                let (peer, figures) = &mut results[(nth + round) % count];
                for task in workload.tasks {
                    for (name, figure) in self.task(*task, peer)?.figures.unwrap_or_default() {
                        figures.entry(name).or_default().push(figure);
                    }
                }
                eprintln!("{} round {}: {peer}", workload.id, round + 1);
            }
        }
        results.retain(|(_, figures)| !figures.is_empty());
        Ok(results)
    }

    fn fill(&self, peer: &str) -> Result<()> {
        let dir = self.long(peer);
        remove(&dir)?;
        let figures = self.measure(Task::Fill, peer, &dir)?.figures;
        let seconds = figures.and_then(|figures| figures.get("seconds").copied());
        match seconds {
            Some(seconds) => eprintln!("filled in {seconds:.0} s: {peer}"),
            None => remove(&dir)?,
        }
        Ok(())
    }

    fn long(&self, peer: &str) -> PathBuf {
        self.dir.join(format!("long-{}", peer.replace(' ', "-")))
    }

    fn task(&self, task: Task, peer: &str) -> Result<Figures> {
        if task.reads_the_long_session() {
            let dir = self.long(peer);
            return if dir.exists() {
                self.measure(task, peer, &dir)
            } else {
                Ok(Figures::default())
            };
        }
        let dir = self.dir.join("store");
        remove(&dir)?;
        let figures = self.measure(task, peer, &dir);
        remove(&dir)?;
        figures
    }

    fn measure(&self, task: Task, peer: &str, dir: &Path) -> Result<Figures> {
        make_private(dir)?;
        let job = Job {
            task,
            peer: peer.to_owned(),
            dir: dir.to_owned(),
            seed: self.seed,
            divisor: self.divisor,
        };
        let program = match &self.eventsdb {
            Some(path) if peer == EVENTSDB => path.clone(),
            _ => std::env::current_exe()?,
        };
        let output = Command::new(program)
            .args(job.args(MEASURE))
            .stderr(Stdio::inherit())
            .output()?;
        ensure!(output.status.success(), "{task:?} failed: {peer}");
        let text = String::from_utf8(output.stdout)?;
        serde_json::from_str(text.trim()).with_context(|| format!("{peer} printed {text}"))
    }
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
        _ => Ok(()),
    }
}

/// A folder that Minutebook accepts for its database.
fn make_private(dir: &Path) -> Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true).mode(0o700).create(dir)?;
    Ok(())
}
