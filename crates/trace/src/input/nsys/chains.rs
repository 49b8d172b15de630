//! Call chains of the CPU, where the recording has them (`--cudabacktrace`): the functions around a call into CUDA.

use std::ops::Range;

use rusqlite::Result;

use super::export::Export;
use super::tables::Table;

/// A row for each function of each chain. Depth 0 is the innermost.
const CHAINS: Table = Table { name: "CUDA_CALLCHAINS", columns: &["id", "stackDepth", "symbol"], process: None };

/// The deepest function of a chain that is kept. Nesting ends there in any case.
const DEEPEST: i64 = 255;

/// All chains, without their texts: 16 bytes for each function. The table has no index, so that one chain cannot be looked up.
#[derive(Debug, Default)]
pub(super) struct Chains(Vec<Frame>);

/// In order: by chain, the outermost function first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Frame {
    chain: u32,
    /// 255 less the depth.
    height: u8,
    symbol: i64,
}

impl Chains {
    pub(super) fn read(export: &Export) -> Result<Self> {
        let mut frames = Vec::new();
        export.tables.each(&export.connection, &CHAINS, None, export.bytes, |row| {
            let depth = row.number(1).filter(|depth| (0..=DEEPEST).contains(depth));
            let chain = row.number(0).and_then(|chain| u32::try_from(chain).ok());
            if let (Some(chain), Some(depth), Some(symbol)) = (chain, depth, row.number(2)) {
                frames.push(Frame { chain, height: (DEEPEST - depth) as u8, symbol });
            }
            Ok(true)
        })?;
        frames.sort_unstable();
        // Otherwise every call that names a chain could get the whole table.
        frames.dedup_by_key(|frame| (frame.chain, frame.height));
        Ok(Chains(frames))
    }

    /// Where the functions of a chain are.
    pub(super) fn range(&self, chain: i64) -> Range<usize> {
        let Ok(chain) = u32::try_from(chain) else { return 0..0 };
        let first = self.0.partition_point(|frame| frame.chain < chain);
        let length = self.0[first..].partition_point(|frame| frame.chain == chain);
        first..first + length
    }

    /// The number of the text of a function.
    pub(super) fn symbol(&self, at: usize) -> Option<i64> {
        self.0.get(at).map(|frame| frame.symbol)
    }
}
