//! What NCCL prints as a warning: `node2:200:300 [0] transport/net_ib.cc:667 NCCL WARN NET/IB : Got completion from peer 10.0.0.2<41234> with status=12 …`.
//!
//! NCCL warns where it gives up: such a line names the host, the GPU and often the peer of what is wrong. A network that fails prints thousands of lines
//! that differ by numbers; they are one warning.

use std::collections::HashMap;

use super::super::tables::Warning;

/// So many warnings of a file are kept; of the others only the number.
const MOST: usize = 1000;

/// In bytes.
const LONGEST: usize = 512;

/// What a warning is about, by words of its text in lower case, with `|` between them: the first row that has one.
const KINDS: &[(&str, &str)] = &[
    ("mismatch", "mismatch"),
    (
        "setup",
        "duplicate gpu|already checked in|no cuda device|no cuda-capable device|driver version is insufficient|invalid device",
    ),
    (
        "network",
        "net/ib|net/socket|net/ofi|net :|ibv_|remote peer|socketprogress|connect to |socket|bootstrap|call to recv|call to send|call to write|call to \
         read|connection reset|connection refused|connection timed out|broken pipe",
    ),
    ("cuda", "cuda failure|cuda error|hip failure|illegal memory access|unspecified launch failure"),
    ("system", "unhandled system error|call to |failed with error|error while|shared memory"),
];

/// Process, GPU and text without numbers.
type Key = (Option<String>, Option<i64>, Option<i64>, String);

#[derive(Default)]
pub(super) struct Warnings {
    pub(super) all: Vec<Warning>,
    known: HashMap<Key, usize>,
    pub(super) lines: u64,
    /// How many are beyond the limit, and where the first is.
    pub(super) left_out: (u64, Option<u64>),
}

impl Warnings {
    pub(super) fn add(&mut self, process: &str, device: Option<u32>, text: &[u8], offset: u64) {
        self.lines += 1;
        let text = String::from_utf8_lossy(&text[..text.len().min(LONGEST)]);
        let text = text.trim();
        let (host, pid) = super::host_and_pid(process);
        let device = device.map(i64::from);
        let key =
            (host.clone(), pid, device, text.chars().filter(|letter| !letter.is_ascii_hexdigit()).collect::<String>());
        if let Some(at) = self.known.get(&key) {
            self.all[*at].count += 1;
            return;
        }
        if self.all.len() == MOST {
            self.left_out = (self.left_out.0 + 1, self.left_out.1.or(Some(offset)));
            return;
        }
        self.known.insert(key, self.all.len());
        self.all.push(Warning {
            file: 0,
            offset,
            host,
            pid,
            device,
            kind: kind(text),
            peer: peer(text),
            text: text.to_owned(),
            count: 1,
        });
    }
}

/// What a text is about; `other` if it has none of the words.
fn kind(text: &str) -> &'static str {
    let text = text.to_ascii_lowercase();
    let has = |words: &str| words.split('|').any(|word| text.contains(word));
    KINDS.iter().find(|(_, words)| has(words)).map_or("other", |(kind, _)| kind)
}

/// The other side: `peer 10.0.0.2<41234>`, `remote peer node2<41234>`, `Connect to 10.0.0.2<41234> failed`, `Call to recv from 10.0.0.2<41234> failed`.
fn peer(text: &str) -> Option<String> {
    let word = |after: &str| text.split_once(after).and_then(|(_, rest)| rest.split_whitespace().next());
    let has_port = |word: &&str| word.contains('<');
    let found = word("peer ").or_else(|| word("Connect to ")).or_else(|| word("connection to "));
    let found = found.or_else(|| word(" from ").filter(has_port)).or_else(|| word(" to ").filter(has_port))?;
    let name = found.split('<').next().unwrap_or(found).trim_matches(|letter: char| !letter.is_alphanumeric());
    let is_host = !name.is_empty() && (found.contains('<') || name.contains('.'));
    is_host.then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_and_peers_are_those_of_the_words() {
        for (text, of_kind, of_peer) in [
            (
                "NET/IB: Got completion from peer 10.0.0.2<41234> with status=12 opcode=0 len=0 vendor err 129 (Recv)",
                "network",
                Some("10.0.0.2"),
            ),
            ("Net : Call to recv from 10.200.84.247<58355> failed : Broken pipe", "network", Some("10.200.84.247")),
            ("[Proxy Service 9] Failed to execute operation Connect from rank 9, retcode 6", "other", None),
            (
                "Mismatched collective detected, please check your collective calls at and around rank 11.",
                "mismatch",
                None,
            ),
            ("Duplicate GPU detected : rank 2 and rank 0 both on CUDA device 1000", "setup", None),
            ("Call to posix_fallocate failed : No space left on device", "system", None),
            ("NET/IB : collective mismatch error local size 32768 remote 1048576", "mismatch", None),
            ("socketProgress: Connection closed by remote peer node2<56732>", "network", Some("node2")),
            ("Cuda failure 700 'an illegal memory access was encountered'", "cuda", None),
            ("Missing \"iommu=pt\" from kernel command line", "other", None),
        ] {
            assert_eq!((kind(text), peer(text).as_deref()), (of_kind, of_peer), "{text}");
        }
    }

    #[test]
    fn lines_that_differ_by_numbers_are_one_warning() {
        let mut warnings = Warnings::default();
        for (pid, status) in [(1, 12), (1, 13), (2, 12)] {
            warnings.add(&format!("n1:{pid}"), Some(0), format!("NET/IB: status={status}").as_bytes(), 0);
        }
        let counts: Vec<(Option<i64>, u64)> = warnings.all.iter().map(|of| (of.pid, of.count)).collect();
        assert_eq!((warnings.lines, counts), (3, vec![(Some(1), 2), (Some(2), 1)]));
    }
}
