//! PyTorch's records of collectives: `record_param_comms` and its copy in the arguments of NCCL's kernels.
//!
//! Kineto copies the record to the kernel that is linked to it (`External id`). If it did not, the record is among the callers of the launch. A
//! kernel that a graph replays has neither.

use std::collections::HashMap;
use std::rc::Rc;

use foldhash::fast::FixedState;

use crate::event::ArgValue;
use crate::id::SliceId;
use crate::names::args;
use crate::names::collectives::{Collective, element_bytes};
use crate::store::Store;
use crate::store::args::ArgSetId;
use crate::store::strings::StringId;

/// A process group as recorded.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RecordedGroup {
    /// PyTorch's name of it, usually a number.
    pub(crate) name: Option<String>,
    /// Its purpose: `default_pg`, `mesh_tp`.
    pub(crate) description: Option<String>,
    /// The number of its ranks.
    pub(crate) size: Option<u64>,
    /// Its global ranks as text: `[0, 1, 2, 3]`; abbreviated from 30 ranks on.
    pub(crate) ranks: Option<String>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Record {
    /// The name in PyTorch's words: `allreduce`, `_allgather_base`.
    pub(crate) name: Option<String>,
    /// The collective with this name, if known.
    pub(crate) collective: Option<Collective>,
    /// The element type in PyTorch's words: `BFloat16`.
    pub(crate) dtype: Option<String>,
    /// The number of input elements on this rank.
    pub(crate) in_elements: Option<u64>,
    /// The number of output elements on this rank.
    pub(crate) out_elements: Option<u64>,
    /// The size in bytes, counted as in nccl-tests ([`Collective::size`]).
    pub(crate) bytes: Option<u64>,
    pub(crate) group: RecordedGroup,
}

/// Reads the records of a trace, each argument set once.
#[derive(Debug)]
pub(crate) struct Records<'a> {
    store: &'a Store,
    sets: HashMap<ArgSetId, Option<Rc<Record>>, FixedState>,
    keys: Keys,
}

/// The argument keys as texts of the trace; [`StringId::NULL`] if it does not have them.
#[derive(Debug)]
struct Keys {
    collective: StringId,
    in_elements: StringId,
    out_elements: StringId,
    size: StringId,
    dtype: StringId,
    group_name: StringId,
    group_description: StringId,
    group_ranks: StringId,
}

impl<'a> Records<'a> {
    /// Reads the arguments of a trace.
    pub(crate) fn new(store: &'a Store) -> Self {
        let key = |key| store.arg_key(key).unwrap_or(StringId::NULL);
        let keys = Keys {
            collective: key(args::COLLECTIVE),
            in_elements: key(args::IN_ELEMENTS),
            out_elements: key(args::OUT_ELEMENTS),
            size: key(args::GROUP_SIZE),
            dtype: key(args::DTYPE),
            group_name: key(args::GROUP_NAME),
            group_description: key(args::GROUP_DESCRIPTION),
            group_ranks: key(args::GROUP_RANKS),
        };
        Records { store, sets: HashMap::default(), keys }
    }

    /// Whether the trace has any records.
    pub(crate) fn has_any(&self) -> bool {
        self.keys.collective != StringId::NULL
    }

    /// What a batch of sends and receives with these records gives, or gets if that is more, in bytes; `None` if a size is unknown.
    pub(crate) fn bytes_of_batch(&mut self, records: &[SliceId]) -> Option<u64> {
        let mut bytes = [Some(0_u64); 2];
        for slice in records {
            let Some(record) = self.get(self.store.slices.args(*slice)) else { continue };
            let sum = &mut bytes[usize::from(record.collective == Some(Collective::Send))];
            *sum = sum.zip(record.bytes).and_then(|(sum, bytes)| sum.checked_add(bytes));
        }
        let [received, sent] = bytes;
        received.zip(sent).map(|(received, sent)| received.max(sent))
    }

    /// The argument set that describes a kernel's collective: its own, or that of the record among its callers.
    pub(crate) fn set_of(&mut self, kernel: SliceId, record: Option<SliceId>) -> ArgSetId {
        let own = self.store.slices.args(kernel);
        if self.get(own).is_some() {
            return own;
        }
        record.map_or(ArgSetId::NONE, |slice| self.store.slices.args(slice))
    }

    /// The record in an argument set, if it is one.
    pub(crate) fn get(&mut self, set: ArgSetId) -> Option<Rc<Record>> {
        if set == ArgSetId::NONE {
            return None;
        }
        if let Some(known) = self.sets.get(&set) {
            return known.clone();
        }
        let record = self.read(set).map(Rc::new);
        self.sets.insert(set, record.clone());
        record
    }

    fn read(&self, set: ArgSetId) -> Option<Record> {
        let keys = &self.keys;
        let text = |key| match self.store.args.get(set, key)? {
            ArgValue::Text(id) => self.store.strings.get(id).map(str::to_owned),
            ArgValue::Int(number) => Some(number.to_string()),
            _ => None,
        };
        let number = |key| self.store.whole_arg(set, key).and_then(|number| u64::try_from(number).ok());
        let name = text(keys.collective)?;
        let collective = Collective::of_record(&name);
        let dtype = text(keys.dtype);
        // PyTorch did not know a group without ranks.
        let size = number(keys.size).filter(|ranks| *ranks > 0);
        let (in_elements, out_elements) = (number(keys.in_elements), number(keys.out_elements));
        let bytes = || {
            let each = element_bytes(dtype.as_deref()?)?;
            let (input, output) = (in_elements?.checked_mul(each)?, out_elements?.checked_mul(each)?);
            let collective = collective?;
            // Of these alone no side has all that is moved.
            let needs_ranks = matches!(collective, Collective::Gather | Collective::Scatter);
            let size = collective.size(input, output, if needs_ranks { size? } else { size.unwrap_or(1) });
            // Some calls record no output, such as `_allgather_base` of a coalesced group. Then the size is unknown, not 0.
            (size > 0 || input.max(output) == 0).then_some(size)
        };
        Some(Record {
            bytes: bytes(),
            group: RecordedGroup {
                name: text(keys.group_name),
                description: text(keys.group_description),
                size,
                ranks: text(keys.group_ranks),
            },
            name: Some(name),
            collective,
            dtype,
            in_elements,
            out_elements,
        })
    }
}
