//! A process that measures one task.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use crate::{Peer, Sizes, Task, measure};

/// What a process prints: the figures of one task, by name. None if the peer cannot do it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Figures {
    /// The figures.
    pub figures: Option<BTreeMap<String, f64>>,
}

/// What the runner asks for.
#[derive(Debug, Clone)]
pub struct Job {
    /// The task.
    pub task: Task,
    /// The name of the peer.
    pub peer: String,
    /// The folder of the store.
    pub dir: PathBuf,
    /// Where the events come from.
    pub seed: u64,
    /// By how much the full sizes are divided.
    pub divisor: usize,
}

/// The word that begins the arguments of a measuring process.
pub const MEASURE: &str = "measure";
/// The word that begins the arguments of a process that follows another.
pub const FOLLOW: &str = "follow";

impl Job {
    /// The arguments that ask a process for this job.
    #[must_use]
    pub fn args(&self, word: &str) -> Vec<String> {
        vec![
            word.to_owned(),
            self.task.name(),
            self.peer.clone(),
            self.dir.display().to_string(),
            self.seed.to_string(),
            self.divisor.to_string(),
        ]
    }

    /// The job that the arguments of this process ask for, and the word that they begin with.
    ///
    /// # Errors
    ///
    /// Returns an error when they are no job.
    pub fn of_process() -> Result<(String, Self)> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [word, task, peer, dir, seed, divisor] = args.as_slice() else {
            anyhow::bail!("not a job: {args:?}");
        };
        let job = Self {
            task: Task::of(task).with_context(|| format!("unknown task {task}"))?,
            peer: peer.clone(),
            dir: dir.into(),
            seed: seed.parse()?,
            divisor: divisor.parse()?,
        };
        Ok((word.clone(), job))
    }

    pub(crate) fn sizes(&self) -> Sizes {
        Sizes::new(self.divisor)
    }
}

/// Does a job with a peer and prints one line.
///
/// # Errors
///
/// Returns an error when the peer fails or reads back something else than was written.
pub fn run<P: Peer>(word: &str, job: &Job) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let figures = if !P::supports(job.task) {
        None
    } else if word == FOLLOW {
        Some(runtime.block_on(measure::follow::follower::<P>(job.clone()))?)
    } else {
        // In a task of its own: the thread of `block_on` is no worker, and each message from a
        // worker to it would be one more wake-up.
        let job = job.clone();
        let task = runtime.spawn(async move { measure::run::<P>(&job).await });
        Some(runtime.block_on(task)??)
    };
    println!("{}", serde_json::to_string(&Figures { figures })?);
    Ok(())
}
