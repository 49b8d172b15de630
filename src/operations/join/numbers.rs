//! Records without times, by their numbers: NCCL counts the calls of each function of a communicator, and so can the kernels of a trace be
//! counted, from another beginning.
//!
//! Sizes and lengths show which beginning it is. Where several fit equally, none is taken. Numbers that both sides count from the same
//! beginning need none of this: see [`alignment`](crate::operations::alignment).

use crate::operation::Operation;
use crate::statistics::Deviation;

/// At most this many records are compared for each beginning.
const LOOKED_AT: usize = 256;

/// A beginning is clearly better by lengths if those of another beginning are further off by this factor.
const CLEARLY: f64 = 2.0;

/// A beginning with a smaller share of the sizes that agree at the best one is clearly worse.
const AS_MANY: f64 = 0.9;

/// Fewer lengths than this agree by chance.
const FEW: usize = 4;

/// How well a beginning fits.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Fitness {
    /// How many of the records that are looked at have a kernel of their size.
    agree: usize,
    /// The median difference of the lengths, in ns; `None` without lengths.
    apart: Option<f64>,
}

/// The kernel of each record, as places in `kernels` and `records`, which are of one function in order. `same_size` compares two of them.
/// `None` if several beginnings fit equally.
pub(super) fn pairs(
    kernels: &[&Operation],
    records: &[&Operation],
    same_size: impl Fn(&Operation, &Operation) -> bool,
) -> Option<Vec<(usize, usize)>> {
    let numbers: Vec<i64> = records.iter().map(|record| record.sequence.unwrap_or_default()).collect();
    let (first, last) = (*numbers.iter().min()?, *numbers.iter().max()?);
    let many = kernels.len() as i64;
    // A job's records may be of days: only beginnings at which a kernel has a record count.
    let step = numbers.len().div_ceil(LOOKED_AT);
    let at = |begin: i64, record: usize| {
        let place = usize::try_from(numbers[record].checked_sub(begin)?).ok()?;
        kernels.get(place).map(|kernel| (place, *kernel))
    };
    let fitness = |begin: i64| {
        let mut agree = 0;
        let mut lengths = Vec::new();
        for record in (0..records.len()).step_by(step) {
            let Some((_, kernel)) = at(begin, record) else { continue };
            if same_size(kernel, records[record]) {
                agree += 1;
                let of = kernel.took().zip(records[record].took());
                lengths.extend(of.map(|(kernel, record)| (kernel - record).as_f64()));
            }
        }
        // A kernel is longer than what NCCL measures by what its launch takes: how much that differs, and not how much it is.
        Fitness { agree, apart: (lengths.len() >= FEW).then(|| Deviation::measure(lengths).distance) }
    };
    if last.saturating_sub(first) > FURTHEST {
        return None;
    }
    let begins = first.saturating_sub(many - 1)..=last;
    let mut all: Vec<(i64, Fitness)> =
        begins.map(|begin| (begin, fitness(begin))).filter(|(_, of)| of.agree > 0).collect();
    if all.iter().any(|(_, of)| of.apart.is_some()) {
        all.retain(|(_, of)| of.apart.is_some());
    }
    let begin = best_of(all)?;
    let pair = |record: usize| {
        let (place, kernel) = at(begin, record)?;
        same_size(kernel, records[record]).then_some((place, record))
    };
    Some((0..records.len()).filter_map(pair).collect())
}

/// Numbers that are further apart are not those of one job.
const FURTHEST: i64 = 10_000_000;

/// The beginning that fits clearly better than all others.
fn best_of(mut all: Vec<(i64, Fitness)>) -> Option<i64> {
    all.sort_by(|(_, a), (_, b)| better(a).total_cmp(&better(b)).then(b.agree.cmp(&a.agree)));
    let ((begin, best), others) = all.split_first()?;
    others.iter().all(|(_, other)| is_clear(best, other)).then_some(*begin)
}

/// By what beginnings are ordered, the best first: how far lengths are apart for each record that agrees.
fn better(fitness: &Fitness) -> f64 {
    let agree = fitness.agree as f64;
    fitness.apart.map_or(-agree, |apart| (apart + 1.0) / agree)
}

/// Whether the best beginning is clearly better than another.
fn is_clear(best: &Fitness, other: &Fitness) -> bool {
    if (other.agree as f64) < AS_MANY * best.agree as f64 {
        return true;
    }
    match (best.apart, other.apart) {
        (Some(best), Some(other)) => (best + 1.0) * CLEARLY <= other,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn operation(sequence: i64, size: u64) -> Operation {
        Operation { sequence: Some(sequence), bytes: Some(size), ..Operation::default() }
    }

    fn found(kernels: &[Operation], records: &[Operation]) -> Option<Vec<(usize, usize)>> {
        let (kernels, records): (Vec<_>, Vec<_>) = (kernels.iter().collect(), records.iter().collect());
        pairs(&kernels, &records, |a, b| a.bytes == b.bytes)
    }

    #[test]
    fn sizes_show_the_beginning() {
        let sizes = [1, 1, 5, 1, 7, 1, 1, 1, 9, 1, 1, 1];
        let kernels: Vec<Operation> = sizes.iter().map(|size| operation(0, *size)).collect();
        let records: Vec<Operation> = (2..9).map(|at| operation(at + 100, sizes[at as usize])).collect();
        let expected: Vec<_> = (0..7).map(|place| (place + 2, place)).collect();
        assert_eq!(found(&kernels, &records), Some(expected));
    }

    /// The second best by lengths has few records, and the third is nearly as good as the best.
    #[test]
    fn each_other_beginning_has_to_be_clearly_worse() {
        let fitness = |agree, apart| (0, Fitness { agree, apart: Some(apart) });
        let all = [fitness(100, 10.0), fitness(50, 6.0), fitness(95, 15.0)];
        assert!(is_clear(&all[0].1, &all[1].1) && !is_clear(&all[0].1, &all[2].1));
        assert_eq!(best_of(all.to_vec()), None);
        assert_eq!(best_of(all[..2].to_vec()), Some(0));
    }

    #[test]
    fn what_fits_at_several_places_is_left_out() {
        let kernels: Vec<Operation> = (0..10).map(|_| operation(0, 8)).collect();
        let records: Vec<Operation> = (0..5).map(|at| operation(at, 8)).collect();
        assert_eq!(found(&kernels, &records), None);
        assert_eq!(found(&kernels, &[]), None);
        assert_eq!(found(&kernels, &[operation(i64::MIN, 8), operation(i64::MAX, 8)]), None);
    }
}
