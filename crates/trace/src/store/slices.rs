//! The slices of a trace as columns.
//!
//! Memory limits which traces can be loaded, and allocating it takes much of the load time. So the fields of a slice are written once, into rows in
//! file order. A slice's id, its position in time order, maps to its row. Only what depends on the whole file is added at the end, as `Nested`.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};

use super::args::ArgSetId;
use super::ids::PackedIds;
use super::raw::{Extra, RawEvent, RawKind};
use super::strings::StringId;
use crate::id::{SliceId, TrackId};
use crate::time::{Ns, Window};

/// In the column of parents: none.
const NO_PARENT: u32 = u32::MAX;

/// The length of a slice that was never closed.
pub const UNFINISHED: Ns = Ns(-1);

/// The slices by id. Ids follow the order of starts.
#[derive(Debug, Default)]
pub struct Slices {
    pub(super) rows: Rows,
    nested: Nested,
}

/// The results of nesting, by id.
#[derive(Debug, Default)]
pub(super) struct Nested {
    order: Vec<u32>,
    depth: Vec<u16>,
    parent: Vec<u32>,
}

/// The lengths of slices, as known from their end events, in the order in which they were found. The last one of a slice counts.
#[derive(Debug, Default)]
pub(super) struct EndedSlices {
    /// [`WIDE`] if the length is the next one in `wide`.
    small: Vec<(SliceId, u32)>,
    wide: Vec<i64>,
}

/// The fields of slices, in file order.
#[derive(Debug, Default)]
pub(super) struct Rows {
    pub(super) ts: Vec<i64>,
    pub(super) dur: NarrowColumn,
    pub(super) track: Vec<u32>,
    pub(super) name: Vec<StringId>,
    pub(super) category: Vec<StringId>,
    args: ArgColumn,
    /// See [`PackedIds`].
    first_ids: NarrowColumn,
    second_ids: NarrowColumn,
    /// The [`PackedIds::rare`] of the few slices that have any, with the row, in order of rows.
    rare_ids: Vec<(u32, [i64; 3])>,
    /// The same from the end events of slices, by row. They take precedence.
    late_rare_ids: HashMap<u32, [i64; 3]>,
    /// The byte offset of each event in the text, if the load keeps offsets.
    pub(super) offsets: Vec<u64>,
    /// By row; few traces have them.
    thread_times: BTreeMap<u32, ThreadTimes>,
}

/// CPU time of a slice's thread: at its start, and how much passed during the slice.
pub type ThreadTimes = (Option<Ns>, Option<Ns>);

/// The row of an id that does not exist.
const NO_ROW: usize = usize::MAX;

thread_local! {
    static LOOKS: Cell<u64> = const { Cell::new(0) };
}

impl Slices {
    /// How often this thread has looked at a slice: tests compare traces of different lengths by it. Counted only with debug
    /// assertions, otherwise 0.
    #[doc(hidden)]
    pub fn looks() -> u64 {
        LOOKS.get()
    }

    #[inline]
    fn look() {
        if cfg!(debug_assertions) {
            LOOKS.set(LOOKS.get() + 1);
        }
    }

    /// The number of slices. Their ids are the numbers below it; the other methods take such an id.
    pub fn len(&self) -> usize {
        self.nested.order.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nested.order.is_empty()
    }

    pub fn ids(&self) -> impl DoubleEndedIterator<Item = SliceId> + ExactSizeIterator + use<> {
        (0..self.nested.order.len() as u32).map(SliceId)
    }

    pub fn ids_after(&self, id: SliceId) -> impl DoubleEndedIterator<Item = SliceId> + ExactSizeIterator + use<> {
        (id.0.saturating_add(1)..self.nested.order.len() as u32).map(SliceId)
    }

    #[inline]
    fn row(&self, id: SliceId) -> usize {
        Slices::look();
        self.nested.order.get(id.row()).map_or(NO_ROW, |row| *row as usize)
    }

    /// Start; never decreases from one id to the next.
    #[inline]
    pub fn ts(&self, id: SliceId) -> Ns {
        Ns(self.rows.ts[self.row(id)])
    }

    /// Length, or [`UNFINISHED`].
    #[inline]
    pub fn dur(&self, id: SliceId) -> Ns {
        Ns(self.rows.dur.get(self.row(id)))
    }

    /// From its start to its end; of one without an end, its start alone.
    #[inline]
    pub fn window(&self, id: SliceId) -> Window {
        Window::new(self.ts(id), self.dur(id))
    }

    #[inline]
    pub fn track(&self, id: SliceId) -> TrackId {
        TrackId(self.rows.track[self.row(id)])
    }

    #[inline]
    pub fn name(&self, id: SliceId) -> StringId {
        self.rows.name[self.row(id)]
    }

    #[inline]
    pub fn category(&self, id: SliceId) -> StringId {
        self.rows.category[self.row(id)]
    }

    /// How many slices enclose it on its track.
    pub fn depth(&self, id: SliceId) -> u16 {
        self.nested.depth[id.row()]
    }

    /// The innermost slice that encloses it; `None` if there is none.
    #[inline]
    pub fn parent(&self, id: SliceId) -> Option<SliceId> {
        Slices::look();
        Some(self.nested.parent[id.row()]).filter(|parent| *parent != NO_PARENT).map(SliceId)
    }

    pub fn args(&self, id: SliceId) -> ArgSetId {
        self.rows.args.get(self.row(id))
    }

    /// The byte offset in the text of the event that created or opened it, if the load keeps offsets.
    pub fn offset(&self, id: SliceId) -> Option<u64> {
        self.rows.offsets.get(self.row(id)).copied()
    }

    pub(super) fn packed_ids(&self, id: SliceId) -> PackedIds {
        let row = self.row(id);
        let rare = match self.rows.late_rare_ids.get(&(row as u32)) {
            Some(late) => *late,
            None => self.rows.find_rare_ids(row).map_or([0; 3], |at| self.rows.rare_ids[at].1),
        };
        PackedIds { first: self.rows.first_ids.get(row), second: self.rows.second_ids.get(row), rare }
    }

    /// The first two of its ids, without the rare ones.
    #[inline]
    pub(super) fn common_ids(&self, id: SliceId) -> (i64, i64) {
        let row = self.row(id);
        (self.rows.first_ids.get(row), self.rows.second_ids.get(row))
    }

    pub fn thread_times(&self, id: SliceId) -> ThreadTimes {
        self.rows.thread_times.get(&(self.row(id) as u32)).copied().unwrap_or_default()
    }

    /// Moves nested slices to the tracks of lanes.
    pub(super) fn set_tracks(&mut self, spilled: &[(SliceId, TrackId)]) {
        for (slice, lane) in spilled {
            let row = self.row(*slice);
            self.rows.track[row] = lane.0;
        }
    }

    /// Sets the lengths of slices that end events closed.
    pub(super) fn set_durs(&mut self, ended: &EndedSlices) {
        let mut wide = ended.wide.iter();
        for (slice, small) in &ended.small {
            let dur = if *small == WIDE { wide.next().copied().unwrap_or_default() } else { i64::from(*small) };
            let row = self.row(*slice);
            self.rows.dur.set(row, dur);
        }
    }

    pub(super) fn set_args(&mut self, id: SliceId, args: ArgSetId) {
        let row = self.row(id);
        self.rows.args.set(row, args);
    }

    /// Sets its ids, except those that are 0.
    pub(super) fn add_ids(&mut self, id: SliceId, ids: PackedIds) {
        let row = self.row(id);
        if ids.first != 0 {
            self.rows.first_ids.set(row, ids.first);
        }
        if ids.second != 0 {
            self.rows.second_ids.set(row, ids.second);
        }
        if ids.rare != [0; 3] {
            self.rows.late_rare_ids.insert(row as u32, ids.rare);
        }
    }

    /// Sets the CPU time that passed, from its value at the end.
    pub(super) fn set_thread_end(&mut self, id: SliceId, end: Ns) {
        if let Some(times) = self.rows.thread_times.get_mut(&(self.row(id) as u32)) {
            times.1 = times.0.map(|start| end - start);
        }
    }
}

impl Nested {
    pub(super) fn with_capacity(count: usize) -> Self {
        Nested { order: Vec::with_capacity(count), depth: Vec::with_capacity(count), parent: Vec::with_capacity(count) }
    }

    /// Assigns the next id to a row.
    #[inline]
    pub(super) fn push(&mut self, row: u32, depth: u16, parent: Option<SliceId>) -> SliceId {
        let id = SliceId::of_row(self.order.len());
        self.order.push(row);
        self.depth.push(depth);
        self.parent.push(parent.map_or(NO_PARENT, |parent| parent.0));
        id
    }

    pub(super) fn row(&self, id: SliceId) -> usize {
        self.order[id.row()] as usize
    }

    /// The latest id, if it belongs to this row.
    pub(super) fn last_id(&self, row: u32) -> Option<SliceId> {
        (self.order.last() == Some(&row)).then(|| SliceId::of_row(self.order.len() - 1))
    }

    pub(super) fn into_slices(self, rows: Rows) -> Slices {
        Slices { rows, nested: self }
    }
}

impl EndedSlices {
    /// Adds the length of a slice, in ns.
    pub(super) fn push(&mut self, slice: SliceId, dur: i64) {
        match u32::try_from(dur) {
            Ok(small) if small != WIDE => self.small.push((slice, small)),
            _ => {
                self.small.push((slice, WIDE));
                self.wide.push(dur);
            }
        }
    }
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.ts.len()
    }

    /// Adds a row. The slice of a begin event is unfinished; an instant has length 0.
    #[inline]
    pub(super) fn push(&mut self, raw: &RawEvent, extra: Option<&Extra>) {
        if raw.args != ArgSetId::NONE {
            self.args.set(self.ts.len(), raw.args);
        }
        if let Some(extra) = extra.filter(|extra| extra.thread_time != (None, None)) {
            self.thread_times.insert(self.ts.len() as u32, extra.thread_time);
        }
        let ids = extra.map_or_else(|| raw.small_ids(), |extra| extra.ids);
        self.first_ids.push(ids.first);
        self.second_ids.push(ids.second);
        if ids.rare != [0; 3] {
            self.rare_ids.push((self.ts.len() as u32, ids.rare));
        }
        self.dur.push(if raw.kind == RawKind::Begin { UNFINISHED.0 } else { raw.value });
        self.ts.push(raw.ts);
        self.track.push(raw.track);
        self.name.push(raw.name);
        self.category.push(raw.category);
    }

    /// Whether two rows of one stream have the same kernel: the same name and times, and the same correlation, which is not 0.
    pub(super) fn are_one(&self, one: usize, other: usize) -> bool {
        let is_same = self.ts[one] == self.ts[other] && self.dur.get(one) == self.dur.get(other);
        let correlation = self.first_ids.get(one);
        let is_long = self.dur.get(one) > 0;
        is_long
            && is_same
            && self.name[one] == self.name[other]
            && correlation != 0
            && correlation == self.first_ids.get(other)
    }

    fn find_rare_ids(&self, row: usize) -> Option<usize> {
        self.rare_ids.binary_search_by_key(&(row as u32), |(row, _)| *row).ok()
    }
}

/// The argument sets of rows. Sparse while few rows have one and they come in order, as when a load keeps almost none; then a dense column.
#[derive(Debug)]
enum ArgColumn {
    Sparse(Vec<(u32, ArgSetId)>),
    /// By row. Shorter than the other columns if the last slices have no arguments.
    Dense(Vec<ArgSetId>),
}

impl Default for ArgColumn {
    fn default() -> Self {
        ArgColumn::Sparse(Vec::new())
    }
}

impl ArgColumn {
    fn get(&self, row: usize) -> ArgSetId {
        match self {
            ArgColumn::Sparse(few) => {
                few.binary_search_by_key(&row, |(row, _)| *row as usize).map_or(ArgSetId::NONE, |at| few[at].1)
            }
            ArgColumn::Dense(column) => column.get(row).copied().unwrap_or_default(),
        }
    }

    fn set(&mut self, row: usize, args: ArgSetId) {
        if let ArgColumn::Sparse(few) = self {
            let in_order = few.last().is_none_or(|(last, _)| (*last as usize) < row);
            // A pair takes the memory of two dense rows.
            if in_order && few.len() * 2 <= row {
                few.push((row as u32, args));
                return;
            }
            let mut column = vec![ArgSetId::NONE; few.last().map_or(0, |(last, _)| *last as usize + 1)];
            few.iter().for_each(|(row, args)| column[*row as usize] = *args);
            *self = ArgColumn::Dense(column);
        }
        if let ArgColumn::Dense(column) = self {
            if column.len() <= row {
                column.resize(row + 1, ArgSetId::NONE);
            }
            column[row] = args;
        }
    }
}

/// A column of numbers that almost always fit 32 bits: lengths in ns (up to four seconds), correlation ids.
#[derive(Debug, Default)]
pub(super) struct NarrowColumn {
    /// By row; [`WIDE`] if the number is in `wide`.
    small: Vec<u32>,
    wide: HashMap<usize, i64>,
}

const WIDE: u32 = u32::MAX;

impl NarrowColumn {
    #[inline]
    pub(super) fn get(&self, at: usize) -> i64 {
        self.widened(self.small[at], at)
    }

    /// The 32 bits of each number, for [`NarrowColumn::widened`].
    pub(super) fn small(&self) -> &[u32] {
        &self.small
    }

    /// The number of a row, given its 32 bits.
    #[inline]
    pub(super) fn widened(&self, small: u32, at: usize) -> i64 {
        match small {
            WIDE => self.wide.get(&at).copied().unwrap_or_default(),
            small => small.into(),
        }
    }

    #[inline]
    fn push(&mut self, value: i64) {
        match u32::try_from(value) {
            Ok(small) if small != WIDE => self.small.push(small),
            _ => {
                self.wide.insert(self.small.len(), value);
                self.small.push(WIDE);
            }
        }
    }

    fn set(&mut self, at: usize, value: i64) {
        match u32::try_from(value) {
            Ok(small) if small != WIDE => self.small[at] = small,
            _ => {
                self.wide.insert(at, value);
                self.small[at] = WIDE;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_may_be_of_few_rows_or_of_many() {
        let sets: [&[(usize, u32)]; 4] = [
            &[(0, 1), (1, 2), (2, 3), (3, 4)],
            &[(1, 1), (7, 2), (100, 3)],
            &[(50, 1), (100, 2), (60, 3)],
            &[(50, 1), (100, 2), (100, 3), (101, 4)],
        ];
        for set in sets {
            let (mut column, mut plain) = (ArgColumn::default(), [ArgSetId::NONE; 200]);
            for (row, args) in set {
                column.set(*row, ArgSetId(*args));
                plain[*row] = ArgSetId(*args);
            }
            plain.iter().enumerate().for_each(|(row, want)| assert_eq!(column.get(row), *want, "{set:?} {row}"));
        }
    }

    #[test]
    fn numbers_may_be_of_any_size() {
        let mut column = NarrowColumn::default();
        let numbers = [0, 7, -1, u32::MAX.into(), i64::from(u32::MAX) - 1, i64::MAX, i64::MIN];
        numbers.iter().for_each(|number| column.push(*number));
        assert_eq!([0, 1, 2, 3, 4, 5, 6].map(|at| column.get(at)), numbers);
        numbers.iter().rev().enumerate().for_each(|(at, number)| column.set(at, *number));
        assert_eq!([6, 5, 4, 3, 2, 1, 0].map(|at| column.get(at)), numbers);
    }
}
