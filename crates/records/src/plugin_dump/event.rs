//! An event of a dump: the begin or the end of something, in one of the plugin's categories.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::text::hex;
use nccl_stacks_trace::names::values::{dtype_of_name, dtype_of_number};
use nccl_stacks_trace::time::Ns;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Category {
    /// A group of calls, or of what they enqueue.
    Group,
    /// A call of a collective, or of a send or receive.
    Api,
    Launch,
    /// A collective, or a send or receive.
    Operation,
    Channel,
    /// What the proxy's thread does as such.
    Control,
    Proxy,
    Step,
    /// A message of a step on the network.
    Message,
    /// A collective by copy engines.
    Copy,
    /// A part of such a collective.
    CopyPart,
}

impl Category {
    pub(super) const ALL: usize = Category::CopyPart as usize + 1;
}

/// The plugin's categories, and the names of their events; none where these are NCCL's functions.
const CATEGORIES: &[(&str, Category, &[&str])] = &[
    ("GROUP_API", Category::Group, &["Group API"]),
    ("GROUP", Category::Group, &["Group"]),
    ("COLL_API", Category::Api, &[]),
    ("P2P_API", Category::Api, &[]),
    ("KERNEL_LAUNCH", Category::Launch, &["KernelLaunch"]),
    ("COLL", Category::Operation, &[]),
    ("P2P", Category::Operation, &[]),
    ("GPU", Category::Channel, &["KernelCh"]),
    ("PROXY", Category::Control, &["Idle", "Active", "Sleep", "Wakeup", "Append"]),
    ("PROXY", Category::Proxy, &[]),
    ("NET", Category::Step, &["SendBufferWait", "SendGpuWait", "SendPeerWait", "SendWait"]),
    ("NET", Category::Step, &["RecvBufferWait", "RecvWait", "RecvFlushWait", "RecvGpuWait"]),
    ("NET_IB", Category::Message, &[]),
    ("NET_SOCK", Category::Message, &[]),
    ("CE_COLL", Category::Copy, &[]),
    ("CE_SYNC", Category::CopyPart, &[]),
    ("CE_BATCH", Category::CopyPart, &[]),
];

#[derive(Debug)]
pub(super) struct Event {
    pub(super) name: String,
    pub(super) category: Category,
    pub(super) cat: &'static str,
    pub(super) is_begin: bool,
    pub(super) id: i64,
    /// Its time since the plugin's first communicator of the process; `None` if that is 0, which the plugin never set.
    pub(super) time: Option<Ns>,
    pub(super) args: Map<String, Value>,
}

#[derive(Deserialize)]
struct Raw {
    name: String,
    cat: String,
    ph: String,
    id: i64,
    ts: f64,
    #[serde(default)]
    args: Map<String, Value>,
}

/// Whether an object has no fields.
pub(super) fn is_empty(text: &[u8]) -> bool {
    text.iter().all(|byte| matches!(byte, b'{' | b'}') || byte.is_ascii_whitespace())
}

impl Event {
    /// An object of a dump, as JSON; `None` if it is no event of the plugin.
    pub(super) fn parse(text: &[u8]) -> Option<Self> {
        let raw: Raw = serde_json::from_slice(text).ok()?;
        let is_name = |names: &[&str]| names.is_empty() || names.contains(&raw.name.as_str());
        let (cat, category, _) = CATEGORIES.iter().find(|(cat, _, names)| *cat == raw.cat && is_name(names))?;
        let is_begin = match raw.ph.as_str() {
            "b" => true,
            "e" => false,
            _ => return None,
        };
        // Beyond that a product with 1000 is no time any more.
        let time = (raw.ts > 0.0 && raw.ts < 9e15).then(|| Ns::rounded(raw.ts * 1000.0));
        Some(Event { name: raw.name, category: *category, cat, is_begin, id: raw.id, time, args: raw.args })
    }

    pub(super) fn number(&self, key: &str) -> Option<u64> {
        self.args.get(key)?.as_u64()
    }

    pub(super) fn small(&self, key: &str) -> Option<u32> {
        u32::try_from(self.number(key)?).ok()
    }

    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.args.get(key)?.as_str().filter(|text| !text.is_empty())
    }

    /// A time on the GPU's clock, in ns since the epoch; `None` if it is 0.
    pub(super) fn gpu_time(&self, key: &str) -> Option<Ns> {
        i64::try_from(self.number(key)?).ok().filter(|time| *time > 0).map(Ns)
    }

    /// The type of the elements in PyTorch's words: a name, or a number in 2.23.
    pub(super) fn dtype(&self, key: &str) -> Option<&'static str> {
        match self.args.get(key)? {
            Value::String(name) => dtype_of_name(name),
            number => dtype_of_number(number.as_u64()?),
        }
    }

    pub(super) fn stream(&self) -> Option<u64> {
        hex(self.text("Stream")?.strip_prefix("0x")?.as_bytes())
    }
}
