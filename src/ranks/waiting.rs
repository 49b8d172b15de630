//! Who waited for whom, and how long.
//!
//! For a synchronising collective, and a member r of it: by clocks, r waited from its own start to the last member's; by lengths alone,
//! as long as its kernel took more than the shortest one. The rest is transfer. The last member has caused what the others
//! waited, and `added` is how much later it came than the last but one: what vanishes if it alone had been in time. Where that is within
//! the uncertainty, the ranks came together and nobody was late. At a broadcast the others wait for the root, at a reduce the root for the
//! others, and a send and its receive for each other; that is known by clocks only.

use super::clock::Clocks;
use super::job::Job;
use super::matching::{Column, Unit};
use super::part::{Row, Tie};
use crate::nccl::collectives::Collective;
use crate::time::Ns;

/// Ranks that come within this of each other come together.
pub const TOGETHER: Ns = Ns(5_000);

/// Who waited at one collective.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Measured {
    /// Which members waited, and how long.
    pub waits: Vec<(usize, Ns)>,
    /// The member that came last.
    pub last: usize,
    /// The same, if it was late: no other came at about the same time.
    pub late: Option<usize>,
    /// How much later the last came than the last but one.
    pub added: Ns,
    /// Whether that is by clocks.
    pub by_clocks: bool,
    /// Whether a rank that is here lacks it, so that another may have come last.
    pub is_doubtful: bool,
}

/// Measures a collective: by clocks where these are known, or by the lengths of kernels. `None` if nobody can have waited, or if nothing
/// says who did.
pub fn measure(job: &Job, clocks: &Clocks, unit: &Unit, column: &Column) -> Option<Measured> {
    if column.fault.is_some() || column.present() < 2 {
        return None;
    }
    if clocks.cover(unit) {
        by_clocks(job, clocks, unit, column)
    } else if column.tie.synchronises() {
        by_lengths(job, unit, column)
    } else {
        None
    }
}

/// By the lengths of kernels.
pub fn by_lengths(job: &Job, unit: &Unit, column: &Column) -> Option<Measured> {
    if !column.tie.synchronises() || column.fault.is_some() || column.present() < 2 {
        return None;
    }
    let rows: Vec<(usize, &Row)> = unit.rows(job, column).collect();
    let last = rows.iter().min_by_key(|(member, row)| (row.dur, *member)).map(|(member, _)| *member)?;
    let shortest = rows.iter().map(|(_, row)| row.dur).min()?;
    let second = rows.iter().filter(|(member, _)| *member != last).map(|(_, row)| row.dur).min()?;
    let waits = rows.iter().map(|(member, row)| (*member, row.dur - shortest)).collect();
    Some(measured(column, waits, last, second - shortest, TOGETHER, false))
}

fn by_clocks(job: &Job, clocks: &Clocks, unit: &Unit, column: &Column) -> Option<Measured> {
    if column.tie == Tie::Unknown {
        return None;
    }
    let start = |member: usize, row: &Row| clocks.ranks[unit.members[member]].aligned(row.start);
    let starts: Vec<(usize, Ns)> = unit.rows(job, column).map(|(member, row)| (member, start(member, row))).collect();
    let latest = *starts.iter().max_by_key(|(member, start)| (*start, std::cmp::Reverse(*member)))?;
    // For whom all others wait, and who waits for the last: all, or the root alone.
    let root = if column.tie == Tie::Rooted { Some(root_of(job, unit, column)?) } else { None };
    let (last, awaited) = match root {
        Some((at, true)) => *starts.iter().find(|(member, _)| *member == at)?,
        _ => latest,
    };
    let may_wait = |member: usize| match root {
        None => true,
        Some((at, gives)) => gives != (at == member),
    };
    let wait = |((member, row), (_, start)): ((usize, &Row), &(usize, Ns))| {
        let wait = if may_wait(member) { (awaited - *start).max(Ns::ZERO) } else { Ns::ZERO };
        (member, wait.min(row.dur))
    };
    let waits: Vec<(usize, Ns)> = unit.rows(job, column).zip(&starts).map(wait).collect();
    let second = starts.iter().filter(|(member, _)| *member != last).map(|(_, start)| *start).max()?;
    let uncertain = TOGETHER.max(Ns(clocks.uncertainty().0.saturating_mul(3)));
    Some(measured(column, waits, last, (awaited - second).max(Ns::ZERO), uncertain, true))
}

fn measured(
    column: &Column,
    waits: Vec<(usize, Ns)>,
    last: usize,
    added: Ns,
    together: Ns,
    by_clocks: bool,
) -> Measured {
    let is_doubtful = column.rows.iter().any(Option::is_none);
    let late = Some(last).filter(|_| added >= together && !is_doubtful);
    Measured { waits, last, late, added, by_clocks, is_doubtful }
}

/// The root's place among the members, and whether it gives (broadcast, scatter) or takes.
fn root_of(job: &Job, unit: &Unit, column: &Column) -> Option<(usize, bool)> {
    let (member, row) = unit.rows(job, column).next()?;
    let kind = job.parts[unit.members[member]].kind(row);
    let collective = Collective::of_record(kind.collective.as_deref()?)?;
    let root = *unit.group.ranks.as_ref()?.get(usize::try_from(kind.peer?).ok()?)?;
    let place = unit.members.iter().position(|part| job.ranks[*part] == root)?;
    column.rows[place]?;
    Some((place, matches!(collective, Collective::Broadcast | Collective::Scatter)))
}
