//! Random numbers and random damage, from a generator with a fixed seed.

/// SplitMix64: small, and the same on every machine.
pub(crate) struct Random(pub(crate) u64);

/// How many rounds a random test runs: `count` times `NCCL_STACKS_TEST_ROUNDS`, if that is set, as in `.ci/nightly`.
pub(crate) fn rounds(count: usize) -> usize {
    count * std::env::var("NCCL_STACKS_TEST_ROUNDS").map_or(1, |times| times.parse().unwrap())
}

/// Whether the tests run many rounds. Tests without rounds then take the larger input, or all of their cases.
pub(crate) fn is_long() -> bool {
    rounds(1) > 1
}

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Bytes and tokens with a meaning to a JSON reader, and numbers at the limits of their types.
const SPLICES: &[&str] = &[
    "\"",
    "\\",
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "null",
    "\"args\":{",
    "9223372036854775807",
    "-9223372036854775808",
    "9223372036854775.807",
    "1e308",
    "1e-308",
    "-1",
    "0",
    "\"ph\":\"E\"",
    "\"ph\":\"B\"",
    "\"ph\":\"f\"",
    "\"dur\":",
    "\u{0}",
    "\\ud800",
    "\u{feff}",
    "99999999999999999999999999999999",
    "\"tts\":-9.2e15,",
    "\"bind_id\":1,\"flow_in\":true,",
];

/// Changes, removes, inserts or repeats some bytes.
pub(crate) fn damage(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes.truncate(at),
            1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
            2 => drop(bytes.drain(at..(at + random.below(40)).min(bytes.len()))),
            3 => {
                let from = random.below(bytes.len());
                let piece = bytes[from..(from + random.below(200)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
            _ => drop(bytes.splice(at..at, SPLICES[random.below(SPLICES.len())].bytes())),
        }
    }
    bytes
}
