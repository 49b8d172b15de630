//! What each moment of a simulated job happened after: so the job's critical path is known while it is simulated, forwards.

use std::collections::BTreeMap;

use serde::Serialize;

/// A moment of a rank: the rank, and its number among the rank's moments.
pub(super) type Place = (u32, u32);

/// A moment.
#[derive(Clone, Copy)]
struct Moment {
    /// What the time since the moment before it is.
    kind: &'static str,
    time: i64,
    before: Option<Place>,
}

/// The moments of a rank.
pub(super) struct Moments {
    rank: u32,
    moments: Vec<Moment>,
    /// The last one that a trace shows: the end of a kernel, or of a call that launches or waits.
    last: (i64, u32),
}

impl Moments {
    pub(super) fn new(rank: u32, start: i64) -> Self {
        let first = Moment { kind: "idle", time: start, before: None };
        Self { rank, moments: vec![first], last: (i64::MIN, 0) }
    }

    /// Adds a moment after another one.
    pub(super) fn push(&mut self, kind: &'static str, time: i64, before: Place) -> Place {
        self.moments.push(Moment { kind, time, before: Some(before) });
        (self.rank, self.moments.len() as u32 - 1)
    }

    /// A trace shows this moment.
    pub(super) fn show(&mut self, (_, at): Place) {
        self.last = self.last.max((self.moments[at as usize].time, at));
    }
}

/// How much of the critical path a rank has of a kind.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct PathTime {
    pub(crate) rank: u32,
    /// As the program names it: `cpu`, `launch-latency`, `compute`, `transfer`, `idle`.
    pub(crate) kind: &'static str,
    pub(crate) ns: i64,
}

/// The critical path of a job, by the moments of its ranks, in their order.
pub(super) fn critical_path(ranks: &[&Moments]) -> Vec<PathTime> {
    let last = ranks.iter().max_by_key(|rank| rank.last);
    let mut next: Option<Place> = last.map(|rank| (rank.rank, rank.last.1));
    let mut sums: BTreeMap<(u32, &'static str), i64> = BTreeMap::new();
    let moment = |(rank, at): Place| ranks[rank as usize].moments[at as usize];
    while let Some(place) = next {
        let Moment { kind, time, before } = moment(place);
        if let Some(before) = before {
            *sums.entry((place.0, kind)).or_default() += time - moment(before).time;
        }
        next = before;
    }
    sums.into_iter().filter(|(_, ns)| *ns > 0).map(|((rank, kind), ns)| PathTime { rank, kind, ns }).collect()
}
