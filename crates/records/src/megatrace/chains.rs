//! Which calls are missing from a log: Megatrace keeps the last 10,000 in memory, and numbers show which ones were overwritten.
//!
//! The patched library counts per communicator, and several of these may use one stream. Each number continues one of the counts that
//! are under way on the stream, or begins another.

use std::collections::HashMap;

/// No stream is used by more communicators than this.
const MOST: usize = 64;

/// The counts that are under way, by stream or group.
#[derive(Default)]
pub(super) struct Chains {
    last: HashMap<(u64, bool), Vec<i64>>,
}

impl Chains {
    /// How many calls are missing before the one with this number. `key` is the stream, or the group if `is_group`. The operations of
    /// one NCCL group have the same number.
    pub(super) fn missing_before(&mut self, key: u64, is_group: bool, number: i64, first: i64) -> u64 {
        let chains = self.last.entry((key, is_group)).or_default();
        if let Some(last) = chains.iter_mut().find(|last| (0..=1).contains(&(number - **last))) {
            *last = number;
            return 0;
        }
        let before = chains.iter_mut().filter(|last| **last < number).max_by_key(|last| **last);
        match before {
            Some(last) => {
                let missing = number - *last - 1;
                *last = number;
                missing.unsigned_abs()
            }
            None => {
                let missing = if chains.is_empty() { (number - first).max(0) } else { 0 };
                if chains.len() < MOST {
                    chains.push(number);
                }
                missing.unsigned_abs()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(numbers: &[i64]) -> u64 {
        let mut chains = Chains::default();
        numbers.iter().map(|number| chains.missing_before(1, false, *number, 0)).sum()
    }

    #[test]
    fn jumps_are_what_is_missing() {
        assert_eq!(missing(&[0, 1, 2, 3]), 0);
        // 2 to 9 were overwritten.
        assert_eq!(missing(&[0, 1, 10, 11]), 8);
        // All before the first.
        assert_eq!(missing(&[54, 55]), 54);
        // Grouped sends and receives have one number.
        assert_eq!(missing(&[0, 1, 1, 2, 2]), 0);
        // Two communicators on one stream.
        assert_eq!(missing(&[0, 1, 2, 0, 3, 1, 2, 4]), 0);
        // Numbers at the end of what they can be do not overflow.
        assert_eq!(missing(&[0, i64::MAX]), i64::MAX as u64 - 1);
    }
}
