//! The modules around a slice, by Kineto's frames for calls of `torch.nn.Module`.
//!
//! A slice's modules are its caller's, plus itself if it is such a frame. So each slice is visited once.

use std::collections::HashMap;

use super::callers::Callers;
use crate::id::SliceId;
use crate::names::frames::module;
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
        let mut frames = ModuleFrames::default();
        let mut known: HashMap<SliceId, Option<u32>, foldhash::fast::FixedState> = HashMap::default();
        let mut by_name: HashMap<(Option<u32>, StringId), u32, foldhash::fast::FixedState> = HashMap::default();
        for slice in slices {
            let (mut below, mut next, mut path) = (Vec::new(), Some(*slice), None);
            while let Some(slice) = next {
                if let Some(found) = known.get(&slice) {
                    path = *found;
                    break;
                }
                below.push(slice);
                next = callers.caller(slice);
            }
            for slice in below.into_iter().rev() {
                if module(store.slice_name(slice)).is_some() {
                    let node = (path, store.slices.name(slice));
                    path = Some(*by_name.entry(node).or_insert_with(|| {
                        frames.nodes.push(node);
                        frames.nodes.len() as u32 - 1
                    }));
                }
                known.insert(slice, path);
            }
            frames.of.push(path);
        }
        frames
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
