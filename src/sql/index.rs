//! An index from values to rows, built for a column on first use, because most queries need few of them.

use std::ops::Range;

/// The rows of a column by value. Rows with the same value stay in row order.
#[derive(Debug)]
pub(super) enum Postings {
    /// For values close together: the rows of value `v` are `rows[offsets[v - min]..offsets[v - min + 1]]`.
    Dense { min: i64, offsets: Vec<u32>, rows: Vec<u32> },
    /// For values far apart, sorted: `rows[i]` has `values[i]`.
    Sparse { values: Vec<i64>, rows: Vec<u32> },
}

impl Postings {
    /// Indexes these rows of a column. NULLs are left out, because nothing equals NULL.
    pub(super) fn build(rows: impl Iterator<Item = u32>, value: impl Fn(usize) -> Option<i64>) -> Self {
        let (mut min, mut max) = (i64::MAX, i64::MIN);
        let mut pairs: Vec<(i64, u32)> = Vec::new();
        for row in rows {
            if let Some(value) = value(row as usize) {
                (min, max) = (min.min(value), max.max(value));
                pairs.push((value, row));
            }
        }
        let span = if pairs.is_empty() { 0 } else { max.abs_diff(min) };
        if span < 4 * pairs.len() as u64 + 1024 {
            return Self::dense(&pairs, if pairs.is_empty() { 0 } else { min }, span as usize);
        }
        pairs.sort_unstable();
        let (values, rows) = pairs.into_iter().unzip();
        Postings::Sparse { values, rows }
    }

    fn dense(pairs: &[(i64, u32)], min: i64, span: usize) -> Self {
        // Counting sort: count each value, then find its first position, then place the rows.
        let mut offsets = vec![0u32; span + 2];
        let slot = |v: i64| v.abs_diff(min) as usize;
        for (value, _) in pairs {
            offsets[slot(*value) + 1] += 1;
        }
        for i in 1..offsets.len() {
            offsets[i] += offsets[i - 1];
        }
        let mut rows = vec![0u32; pairs.len()];
        let mut next = offsets.clone();
        for (value, row) in pairs {
            let next = &mut next[slot(*value)];
            rows[*next as usize] = *row;
            *next += 1;
        }
        Postings::Dense { min, offsets, rows }
    }

    /// The positions of a value's rows, for [`Postings::row`]. Empty if there are none.
    pub(super) fn find(&self, wanted: i64) -> Range<usize> {
        match self {
            Postings::Dense { min, offsets, .. } => {
                let slot = (wanted >= *min).then(|| usize::try_from(wanted.abs_diff(*min)).ok()).flatten();
                match slot.and_then(|slot| offsets.get(slot..slot.checked_add(2)?)) {
                    Some(bounds) => bounds[0] as usize..bounds[1] as usize,
                    None => 0..0,
                }
            }
            Postings::Sparse { values, .. } => {
                values.partition_point(|v| *v < wanted)..values.partition_point(|v| *v <= wanted)
            }
        }
    }

    /// The row at a position; `u32::MAX` if there is none.
    pub(super) fn row(&self, at: usize) -> u32 {
        match self {
            Postings::Dense { rows, .. } | Postings::Sparse { rows, .. } => rows.get(at).copied().unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(values: &[Option<i64>], wanted: i64) -> Vec<u32> {
        let postings = Postings::build(0..values.len() as u32, |row| values[row]);
        postings.find(wanted).map(|at| postings.row(at)).collect()
    }

    #[test]
    fn rows_are_found_dense_and_sparse() {
        for step in [1, 1_000_000_000_000] {
            let values = [Some(3 * step), None, Some(-5 * step), Some(3 * step), Some(0)];
            assert_eq!(rows_of(&values, 3 * step), [0, 3]);
            assert_eq!(rows_of(&values, -5 * step), [2]);
            assert_eq!(rows_of(&values, 0), [4]);
            for missing in [1, -6 * step, 4 * step, i64::MIN, i64::MAX] {
                assert!(rows_of(&values, missing).is_empty(), "{missing}");
            }
        }
        assert!(rows_of(&[], 0).is_empty());
        assert!(rows_of(&[None, None], 0).is_empty());
        assert_eq!(rows_of(&[Some(i64::MIN), Some(i64::MAX)], i64::MAX), [1]);
    }
}
