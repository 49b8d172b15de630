//! The modules around a slice, by Kineto's frames for calls of `torch.nn.Module`.
//!
//! A slice's modules are its caller's, plus itself if it is such a frame. So each slice is visited once.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::callers::Callers;
use crate::id::SliceId;
use crate::names::frames::module;
use crate::numbers::Numbers;
use crate::store::Store;
use crate::store::strings::StringId;

/// How many modules a path shows, the innermost ones. Models nest about ten; a hostile trace could nest any number.
const MAX_SHOWN: usize = 100;

/// Paths of modules, with shared prefixes stored once.
#[derive(Debug, Default)]
pub struct ModuleFrames {
    nodes: Vec<(Option<u32>, StringId)>,
    /// By index of the slice.
    of: Vec<Option<u32>>,
}

impl ModuleFrames {
    /// The paths of some slices.
    pub fn find(store: &Store, callers: &mut Callers<'_>, slices: &[SliceId]) -> Self {
        let (mut nodes, mut of) = (Numbers::default(), Vec::new());
        let mut known: HashMap<SliceId, Option<u32>, FixedState> = HashMap::default();
        for slice in slices {
            let path = callers.inherited(Some(*slice), &mut known, None, |around, slice| {
                module(store.slice_name(slice)).map(|_| nodes.number((around, store.slices.name(slice)))).or(around)
            });
            of.push(path);
        }
        ModuleFrames { nodes: nodes.list, of }
    }

    /// The path of the slice at an index: the modules' names joined by dots, outermost first. `None` outside modules.
    pub fn path(&self, store: &Store, position: usize) -> Option<String> {
        let mut next = *self.of.get(position)?;
        let mut names = Vec::new();
        while let Some((caller, name)) = next.and_then(|node| self.nodes.get(node as usize)) {
            if names.len() == MAX_SHOWN {
                names.push("…");
                break;
            }
            names.push(store.strings.get(*name).and_then(module).unwrap_or_default());
            next = *caller;
        }
        names.reverse();
        (!names.is_empty()).then(|| names.join("."))
    }
}
