//! Who waited for whom, and how long.
//!
//! For a synchronising collective, and a member r of it: by clocks, r waited from its own start to the last member's; by lengths alone,
//! as long as its kernel took more than the shortest one. The rest is transfer. The last member has caused what the others
//! waited. Where it came later than the last but one by no more than the uncertainty, the ranks came together and nobody was late. At a
//! broadcast the others wait for the root, at a reduce the root for the others, and a send and its receive for each other; that is known by
//! clocks only.

use super::job::Matched;
use super::reduction::{Row, Tie};
use crate::operations::clocks::Clocks;
use crate::operations::matching::MatchedCollective;
use crate::time::Ns;

/// Ranks that come within this of each other come together.
pub const TOGETHER: Ns = Ns(5_000);

/// Who waited at one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// Which members waited, and how long. Those whose kernel counts elsewhere are not here.
    pub waits: Vec<(usize, Ns)>,
    pub last: usize,
    /// The same, if it was late: no other came at about the same time.
    pub late: Option<usize>,
    pub by_clocks: bool,
    /// Whether a rank that is here lacks it, so that another may have come last.
    pub is_doubtful: bool,
}

impl Measured {
    /// How long all members waited together.
    pub fn waited(&self) -> Ns {
        self.waits.iter().map(|(_, wait)| *wait).sum()
    }
}

/// Measures a collective: by clocks where these are known, or by the lengths of kernels. `None` if nobody can have waited, if nothing
/// says who did, or outside of the span that the traces of all ranks have.
pub fn measure(of: Matched<'_>, clocks: &Clocks) -> Option<Measured> {
    let collective = of.collective;
    let is_counted = collective.elsewhere.len() < collective.present();
    if collective.fault.is_some() || collective.present() < 2 || !is_counted || !of.is_in_common() {
        return None;
    }
    if clocks.cover(of.group) {
        by_clocks(of, clocks)
    } else if collective.tie.ends_together() {
        by_lengths(of)
    } else {
        None
    }
}

pub fn by_lengths(of: Matched<'_>) -> Option<Measured> {
    let collective = of.collective;
    if !collective.tie.ends_together() || collective.fault.is_some() || collective.present() < 2 || !of.is_in_common() {
        return None;
    }
    let rows: Vec<(usize, &Row)> = of.rows().collect();
    let last = rows.iter().min_by_key(|(member, row)| (row.dur, *member)).map(|(member, _)| *member)?;
    let shortest = rows.iter().map(|(_, row)| row.dur).min()?;
    let second = rows.iter().filter(|(member, _)| *member != last).map(|(_, row)| row.dur).min()?;
    let waits = rows.iter().map(|(member, row)| (*member, row.dur - shortest)).collect();
    Some(measured(collective, waits, last, second - shortest, TOGETHER, false))
}

fn by_clocks(of: Matched<'_>, clocks: &Clocks) -> Option<Measured> {
    let collective = of.collective;
    if collective.tie == Tie::Unknown {
        return None;
    }
    let start = |(member, row): (usize, &Row)| (member, clocks.ranks[of.rank(member)].aligned(row.start));
    let starts: Vec<(usize, Ns)> = of.rows().map(start).collect();
    let latest = *starts.iter().max_by_key(|(member, start)| (*start, std::cmp::Reverse(*member)))?;
    if collective.tie == Tie::Rooted && collective.root.is_none() {
        return None;
    }
    // For whom all others wait.
    let (last, awaited) = match collective.root {
        Some((at, true)) => *starts.iter().find(|(member, _)| *member == at)?,
        _ => latest,
    };
    let wait = |((member, row), (_, start)): ((usize, &Row), &(usize, Ns))| {
        let wait = if collective.waits(member) { (awaited - *start).max(Ns::ZERO) } else { Ns::ZERO };
        (member, wait.min(row.dur))
    };
    let counted = of.rows().zip(&starts).filter(|((member, _), _)| collective.counts(*member));
    let waits: Vec<(usize, Ns)> = counted.map(wait).collect();
    let (second, start) = *starts.iter().filter(|(member, _)| *member != last).max_by_key(|(_, start)| *start)?;
    let uncertain = TOGETHER.max(clocks.uncertainty(of.rank(last), of.rank(second)));
    Some(measured(collective, waits, last, (awaited - start).max(Ns::ZERO), uncertain, true))
}

fn measured(
    collective: &MatchedCollective,
    waits: Vec<(usize, Ns)>,
    last: usize,
    after: Ns,
    together: Ns,
    by_clocks: bool,
) -> Measured {
    let is_doubtful = collective.rows.iter().any(Option::is_none);
    let late = Some(last).filter(|_| after >= together && !is_doubtful);
    Measured { waits, last, late, by_clocks, is_doubtful }
}
