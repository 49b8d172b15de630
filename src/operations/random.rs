//! Random numbers from a fixed seed, so that equal input has equal output.

/// A xorshift generator. Its seed is not 0.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    /// From 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number below another one.
    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }

    /// Of a normal distribution with mean 0 and standard deviation 1 (Box and Muller).
    #[cfg(test)]
    pub(crate) fn normal(&mut self) -> f64 {
        (-2.0 * (1.0 - self.unit()).ln()).sqrt() * (std::f64::consts::TAU * self.unit()).cos()
    }

    /// The numbers below `n` in random order.
    #[cfg(test)]
    pub(crate) fn shuffled(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        (1..n).rev().for_each(|at| order.swap(at, self.below(at + 1)));
        order
    }
}
