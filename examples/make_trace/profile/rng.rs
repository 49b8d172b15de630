//! The random numbers behind sizes and times. The generator is our own, not a crate's, because the checked-in traces must not change when a
//! dependency does.

/// `splitmix64`: one multiplication chain per number, good enough to make times look irregular.
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number in `low..high`.
    pub(crate) fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low).max(1)
    }

    /// A number in `low..high`, mostly small: distributed like the times of real calls.
    pub(crate) fn skewed(&mut self, low: u64, high: u64) -> u64 {
        let part = ((self.next() >> 32) * (self.next() >> 32)) >> 32;
        low + (((high - low) * part) >> 32)
    }
}

/// Mixes the bits of a number.
pub(crate) fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    value ^ (value >> 31)
}
