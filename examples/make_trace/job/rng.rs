//! The random numbers of a simulated job. The generator is its own, not a crate's or the one beside this folder, because the same job must
//! give the same bytes wherever this folder is compiled.

/// `splitmix64`. Each purpose and each rank has its own generator, so that none depends on how many numbers another has drawn.
pub(super) struct Rng(u64);

impl Rng {
    pub(super) fn new(seed: u64, purpose: u64) -> Self {
        Self(mix(seed.wrapping_add(0x51_7C_C1_B7_27_22_0A_95)) ^ mix(purpose.wrapping_add(1)))
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `0..=high`; 0 if `high` is not positive.
    pub(super) fn up_to(&mut self, high: i64) -> i64 {
        let high = u64::try_from(high).unwrap_or(0);
        (self.next() % (high + 1)) as i64
    }

    /// A number in `0..end`; 0 if there is none.
    pub(super) fn index(&mut self, end: usize) -> usize {
        (self.next() % (end as u64).max(1)) as usize
    }

    /// A number in `-1.0..1.0`.
    pub(super) fn either_side(&mut self) -> f64 {
        const STEPS: f64 = (1_u64 << 52) as f64;
        (self.next() >> 11) as f64 / STEPS - 1.0
    }
}

/// Mixes the bits of a number.
fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
