//! Measures eventsdb for the runner of the benches, which starts it.

mod peers;

use anyhow::Result;
use workload::child::{self, Job};

fn main() -> Result<()> {
    let (word, job) = Job::of_process()?;
    child::run::<peers::eventsdb::EventsDb>(&word, &job)
}
