//! The clocks of the ranks, none of which shows the true time: each has a constant offset and runs a little fast or slow.

use super::rng::Rng;
use super::truth::RankTruth;
use super::{Job, Offsets};

/// When every job starts, in nanoseconds since 1970.
const START: i64 = 1_759_300_374_000_000_000;

#[derive(Clone, Copy)]
pub(super) struct Clock {
    offset: i64,
    drift_ppm: f64,
}

impl Clock {
    pub(super) fn new(job: &Job, rank: u32) -> Self {
        let mut rng = Rng::new(job.seed, u64::from(rank) + 2_000_000_000);
        let (offset, drift) = (rng.either_side(), rng.either_side());
        let offset = match job.offsets {
            Offsets::None => 0,
            Offsets::Random { max_ns } => (offset * max_ns as f64).round() as i64,
        };
        Self { offset, drift_ppm: drift * job.drift_ppm }
    }

    /// What it shows at a true time since the start of the job.
    pub(super) fn at(self, ns: i64) -> i64 {
        let drift = (ns as f64 * self.drift_ppm / 1e6).round() as i64;
        START + ns + self.offset + drift
    }

    pub(super) fn truth(self, rank: u32, missing: bool) -> RankTruth {
        RankTruth { rank, offset_ns: self.offset, drift_ppm: self.drift_ppm, missing }
    }
}
