//! Which operations belong together: what was called within one group, and what NCCL planned for one kernel.
//!
//! From version 5 of its interface on, NCCL reports both. Before that, and without the plugin, the interceptor's calls that begin and end groups
//! show the first; version 4 names the second as the parent of an operation.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use nccl_stacks_recorder_format::Record;

use super::facts::Facts;
use crate::tables::Group;
use nccl_stacks_trace::time::Ns;

/// What a program called within one group.
pub(super) const CALLS: &str = "calls";

/// What NCCL has planned together.
pub(super) const KERNEL: &str = "kernel";

#[derive(Default)]
pub(super) struct Groups {
    all: Vec<Group>,
    members: Vec<(u32, u32)>,
    /// By communicator: the newest group that NCCL has planned, which its next operations belong to unless they say something else.
    newest: HashMap<u16, u32, RandomState>,
    /// By thread: the group that its calls have begun.
    open: HashMap<u32, u32, RandomState>,
}

impl Groups {
    fn push(&mut self, kind: &'static str, depth: Option<u32>, start: Option<Ns>, facts: &Facts<'_>) -> u32 {
        self.all.push(Group { kind, rank: facts.rank, depth, start, ..Group::default() });
        self.all.len() as u32 - 1
    }

    pub(super) fn of_calls(&mut self, record: &Record, facts: &Facts<'_>) -> u32 {
        self.push(CALLS, u32::try_from(record.a).ok(), facts.time(record.time), facts)
    }

    pub(super) fn of_kernel(&mut self, record: &Record, facts: &Facts<'_>) -> u32 {
        let group = self.push(KERNEL, None, facts.time(record.time), facts);
        self.newest.insert(record.communicator, group);
        group
    }

    /// A thread has called `ncclGroupStart` within so many groups.
    pub(super) fn begin(&mut self, record: &Record, facts: &Facts<'_>) {
        let depth = u32::try_from(record.parent).unwrap_or(u32::MAX).saturating_add(1);
        match self.open.get(&record.thread).filter(|_| depth > 1) {
            Some(open) => {
                let group = &mut self.all[*open as usize];
                group.depth = group.depth.max(Some(depth));
            }
            None => {
                let group = self.push(CALLS, Some(depth), facts.time(record.time), facts);
                self.open.insert(record.thread, group);
            }
        }
    }

    pub(super) fn called(&mut self, thread: u32, row: u32) {
        if let Some(group) = self.open.get(&thread).copied() {
            self.add(group, row);
        }
    }

    pub(super) fn finish(&mut self, thread: u32, end: Option<Ns>) {
        if let Some(group) = self.open.remove(&thread) {
            self.end(group, end);
        }
    }

    pub(super) fn end(&mut self, group: u32, end: Option<Ns>) {
        let group = &mut self.all[group as usize];
        group.end = group.end.or(end);
    }

    pub(super) fn add(&mut self, group: u32, row: u32) {
        self.all[group as usize].operations += 1;
        self.members.push((group, row));
    }

    /// NCCL has planned an operation, which belongs to the communicator's newest group as far as is known by now.
    pub(super) fn planned(&mut self, communicator: u16, row: u32) {
        if let Some(group) = self.newest.get(&communicator).copied() {
            self.add(group, row);
        }
    }

    /// The operation that was planned last belongs to another group, or to none.
    pub(super) fn moved(&mut self, row: u32, group: Option<u32>) {
        let is_planned = |(of, member): &(u32, u32)| *member == row && self.all[*of as usize].kind == KERNEL;
        if let Some((of, _)) = self.members.pop_if(|last| is_planned(last)) {
            self.all[of as usize].operations -= 1;
        }
        if let Some(group) = group {
            self.add(group, row);
        }
    }

    /// The groups with operations, and the pairs of a group and the position of an operation. `place`: where a row is in the end.
    pub(super) fn into_rows(self, first: usize, place: &[Option<usize>]) -> (Vec<Group>, Vec<(usize, usize)>) {
        let mut places = Vec::with_capacity(self.all.len());
        let mut rows = Vec::new();
        for group in self.all {
            places.push(first + rows.len());
            // A group of nothing is the frame of calls that make communicators.
            rows.extend(Some(group).filter(|group| group.operations > 0));
        }
        let members = self.members.into_iter();
        let member = |(group, row): (u32, u32)| Some((places[group as usize], place[row as usize]?));
        (rows, members.filter_map(member).collect())
    }
}
