//! The clocks of the ranks, none of which shows the true time: each has a constant offset and runs a little fast or slow. Ranks of one host share
//! its clock, but for what converting the times of their GPUs costs.

use super::rng::Rng;
use super::truth::RankTruth;
use super::{Job, Offsets};

/// When every job starts, in nanoseconds since 1970.
const START: i64 = 1_759_300_374_000_000_000;

/// How far a GPU's times are from its host's clock at most, in nanoseconds.
const CONVERSION: f64 = 1_000.0;

#[derive(Clone, Copy)]
pub(super) struct Clock {
    offset: i64,
    drift_ppm: f64,
}

impl Clock {
    pub(super) fn new(job: &Job, rank: u32) -> Self {
        let of_gpu = u64::from(rank) + 2_000_000_000;
        let per_host = job.ranks().div_ceil(job.hosts.max(1));
        let seed = if job.hosts == 0 { of_gpu } else { u64::from(rank / per_host) + 3_000_000_000 };
        let conversion = if job.hosts == 0 { 0.0 } else { Rng::new(job.seed, of_gpu).either_side() * CONVERSION };
        let mut rng = Rng::new(job.seed, seed);
        let (offset, drift) = (rng.either_side(), rng.either_side());
        let offset = match job.offsets {
            Offsets::None => 0,
            Offsets::Random { max_ns } => (offset * max_ns as f64).round() as i64,
        };
        Self { offset: offset + conversion.round() as i64, drift_ppm: drift * job.drift_ppm }
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
