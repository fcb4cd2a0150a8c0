//! Measures Minutebook beside its peers. See README.md.

mod peers;
mod runner;
mod table;

use anyhow::Result;
use workload::Peer as _;
use workload::child::{self, FOLLOW, Job, MEASURE};

use crate::peers::minutebook::Minutebook;
use crate::peers::raw::Raw;
use crate::peers::rusqlite_direct::RusqliteDirect;
use crate::peers::rusqlite_gc::RusqliteGc;
use crate::peers::salamander::Salamander;
use crate::peers::sqlx_plain::SqlxPlain;

/// The peers of this binary, in the order of the tables.
const PEERS: [&str; 7] = [
    Minutebook::<true>::NAME,
    Minutebook::<false>::NAME,
    SqlxPlain::NAME,
    RusqliteGc::NAME,
    RusqliteDirect::NAME,
    Salamander::NAME,
    Raw::NAME,
];

fn main() -> Result<()> {
    let first = std::env::args().nth(1);
    if !first.is_some_and(|word| word == MEASURE || word == FOLLOW) {
        return runner::run();
    }
    let (word, job) = Job::of_process()?;
    match job.peer.as_str() {
        Minutebook::<true>::NAME => child::run::<Minutebook<true>>(&word, &job),
        Minutebook::<false>::NAME => child::run::<Minutebook<false>>(&word, &job),
        SqlxPlain::NAME => child::run::<SqlxPlain>(&word, &job),
        RusqliteGc::NAME => child::run::<RusqliteGc>(&word, &job),
        RusqliteDirect::NAME => child::run::<RusqliteDirect>(&word, &job),
        Salamander::NAME => child::run::<Salamander>(&word, &job),
        Raw::NAME => child::run::<Raw>(&word, &job),
        unknown => anyhow::bail!("unknown peer {unknown}"),
    }
}
