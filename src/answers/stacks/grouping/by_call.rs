//! Keys from the code that launched a kernel: its call path, and the operators, annotations and steps around the launch.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::value::{GroupValue, Values};
use super::{GroupBy, Naming};
use crate::answers::stacks::steps::Steps;
use crate::attribution::callers::Callers;
use crate::attribution::forward::Forwards;
use crate::attribution::nearest::Nearest;
use crate::attribution::stack_key::StackKey;
use crate::attribution::{Attribution, KernelLaunch};
use crate::id::{PathId, SliceId, ThreadId};
use crate::names::args::COLLECTIVE_RECORD;
use crate::names::frames::{fold_level, is_plumbing, location, module};
use crate::names::{gradients, steps};
use crate::recorded_args::{Operators, Recorded};
use crate::store::Store;
use crate::store::strings::StringId;

/// The value of the `forward` key for kernels outside the backward pass.
const NOT_BACKWARD: &str = "(not backward)";

/// The value of the `forward` key for kernels launched by the user's own gradient hook: its collectives serve more than one parameter.
const OWN_HOOK: &str = "(hook of a gradient)";

/// The maximum length shown of a malformed value, in characters.
const SHOWN: usize = 80;

/// What determines the values of call paths: path, capture, forward pass, whether that is unknown, thread.
type Path = (Option<PathId>, Option<PathId>, Option<PathId>, bool, Option<ThreadId>);

pub(super) struct ByCall<'a> {
    store: &'a Store,
    attribution: &'a Attribution,
    depth: Option<usize>,
    naming: Naming<'a>,
    callers: Callers<'a>,
    operators: Operators<'a>,
    forwards: Forwards<'a>,
    record: Option<StringId>,
    annotation: Option<StringId>,
    /// By index of the key.
    nearest: HashMap<usize, Nearest>,
    /// The nearest operators of the backward pass, for modules.
    backward: Nearest,
    by_path: HashMap<(usize, Path), u32, FixedState>,
    by_slice: HashMap<(usize, SliceId), u32, FixedState>,
    steps: Option<Steps>,
}

impl<'a> ByCall<'a> {
    pub(super) fn new(
        store: &'a Store,
        attribution: &'a Attribution,
        depth: Option<usize>,
        naming: Naming<'a>,
    ) -> Self {
        ByCall {
            store,
            attribution,
            depth,
            naming,
            callers: Callers::new(store),
            operators: Operators::new(store),
            forwards: Forwards::new(store),
            record: store.strings.find(COLLECTIVE_RECORD),
            annotation: store.strings.find(steps::ANNOTATION),
            nearest: HashMap::new(),
            backward: Nearest::default(),
            by_path: HashMap::default(),
            by_slice: HashMap::default(),
            steps: None,
        }
    }

    /// The number of a kernel's value. `at` is the index of the key.
    pub(super) fn number(&mut self, values: &mut Values, at: usize, key: &GroupBy, row: &KernelLaunch) -> u32 {
        if let Some(slice) = self.deciding_slice(at, key, row) {
            if let Some(known) = self.by_slice.get(&(at, slice)) {
                return *known;
            }
            let number = values.number(self.of_slice(key, slice));
            self.by_slice.insert((at, slice), number);
            return number;
        }
        if let GroupBy::Step = key {
            return values.number(self.step(row).map_or_else(GroupValue::default, GroupValue::single));
        }
        let path = (row.path, row.capture, row.forward, row.forward_unknown, row.helper_thread);
        if let Some(known) = self.by_path.get(&(at, path)) {
            return *known;
        }
        let number = values.number(self.of_path(key, row));
        self.by_path.insert((at, path), number);
        number
    }

    /// The slice that determines a value, if there is one. Captured code exists only as a call path.
    fn deciding_slice(&mut self, at: usize, key: &GroupBy, row: &KernelLaunch) -> Option<SliceId> {
        if matches!(key, GroupBy::Module) && (!self.operators.has_modules() || self.has_module_frames(row)) {
            return None;
        }
        let Self { store, operators, callers, nearest, record, annotation, .. } = self;
        let mut of_launch = |is_it: &dyn Fn(SliceId) -> bool| {
            nearest.entry(at).or_default().of_launch(callers, row.launched.call?, is_it)
        };
        match key {
            GroupBy::Op | GroupBy::Shape if row.capture.is_none() => {
                of_launch(&|slice| operators.is_operator(slice) && Some(store.slices.name(slice)) != *record)
            }
            GroupBy::Annotation => of_launch(&|slice| {
                Some(store.slices.category(slice)) == *annotation
                    && steps::priority(store.slice_name(slice), true).is_some_and(|priority| priority > 0)
            }),
            GroupBy::Arg(name) => match operators.argument(row.launched.kernel, name) {
                Some(_) => Some(row.launched.kernel),
                None => of_launch(&|slice| operators.argument(slice, name).is_some()),
            },
            GroupBy::Module => {
                of_launch(&|slice| operators.module(slice).is_some()).or_else(|| self.forward_module(row))
            }
            _ => None,
        }
    }

    /// Whether frames name the modules. Frames take precedence: PyTorch writes a hierarchy only to TorchScript operators, and a module would split in
    /// two if some of its kernels used the names of the hierarchy.
    fn has_module_frames(&self, row: &KernelLaunch) -> bool {
        self.frames(row).any(|frame| module(frame).is_some())
    }

    fn forward_module(&mut self, row: &KernelLaunch) -> Option<SliceId> {
        let store = self.store;
        let is_backward = |slice| store.autograd(slice).is_some_and(|number| number.forward_thread != 0);
        let backward = self.backward.of_launch(&mut self.callers, row.launched.call?, is_backward)?;
        let operator = self.forwards.forward(backward, &mut self.callers).operator()?;
        Some(operator).filter(|operator| self.operators.module(*operator).is_some())
    }

    fn of_slice(&self, key: &GroupBy, slice: SliceId) -> GroupValue {
        match key {
            GroupBy::Shape => GroupValue::single(self.shape(slice)),
            GroupBy::Arg(name) => GroupValue::single(self.operators.argument(slice, name).unwrap_or_default()),
            GroupBy::Module => {
                let modules = self.operators.module(slice).unwrap_or_default().split('.').map(|name| self.level(name));
                GroupValue::modules(modules.collect(), self.depth)
            }
            _ => GroupValue::single(self.store.slice_name(slice)),
        }
    }

    /// A level of a module hierarchy. The number of a layer is folded, as in frames.
    fn level(&self, name: &str) -> String {
        if self.naming.exact_names { name.to_owned() } else { fold_level(name).to_owned() }
    }

    fn shape(&self, slice: SliceId) -> String {
        match self.operators.shape(slice) {
            Recorded::Known(shape) => shape,
            Recorded::Malformed(text) => format!("(malformed) {}", text.chars().take(SHOWN).collect::<String>()),
            Recorded::Missing => String::new(),
        }
    }

    fn of_path(&self, key: &GroupBy, row: &KernelLaunch) -> GroupValue {
        let known = match key {
            GroupBy::Stack => return self.stack(row),
            GroupBy::Frame => self.headline(&self.stack_key(row)),
            GroupBy::Function(pattern) => self
                .frames(row)
                .find(|frame| {
                    pattern.fits(frame) || location(frame).is_some_and(|(_, _, function)| pattern.fits(function))
                })
                .map(str::to_owned),
            GroupBy::Module => return GroupValue::modules(self.modules(row).unwrap_or_default(), self.depth),
            GroupBy::Op => self.captured_operator(row),
            GroupBy::Forward => return self.forward(row),
            _ => None,
        };
        known.map_or_else(GroupValue::default, GroupValue::single)
    }

    /// All frames that show where a kernel comes from, nearest first: those of its capture, of its launch, of the forward pass.
    fn frames(&self, row: &KernelLaunch) -> impl Iterator<Item = &'a str> {
        let paths = &self.attribution.paths;
        let all = [row.capture, row.path, row.forward].into_iter().flatten();
        all.flat_map(|path| paths.upwards(path)).map(|path| paths.name(path))
    }

    fn stack_key(&self, row: &KernelLaunch) -> StackKey {
        StackKey::from_kernel(self.store, &self.attribution.paths, row, self.naming.exact_names)
    }

    fn headline(&self, key: &StackKey) -> Option<String> {
        key.telling_frames(self.naming.user_code).into_iter().next()
    }

    fn stack(&self, row: &KernelLaunch) -> GroupValue {
        let key = self.stack_key(row);
        let Some(headline) = self.headline(&key) else { return GroupValue::default() };
        let marked =
            |mark: &str, frames: Vec<String>| std::iter::once(mark.to_owned()).chain(frames).collect::<Vec<_>>();
        let mut all = Vec::new();
        all.extend(key.captured.into_iter().flat_map(|path| marked("[graph capture]", path.frames)));
        all.extend(key.forward.into_iter().flat_map(|path| marked("[forward]", path.frames)));
        all.extend(key.thread.map(|thread| format!("[thread {thread}]")));
        all.extend(key.frames);
        GroupValue::calls(headline, all)
    }

    /// The modules around a launch according to `nn.Module` frames, outermost first: from its capture, the launch, or the forward pass.
    fn modules(&self, row: &KernelLaunch) -> Option<Vec<String>> {
        let paths = &self.attribution.paths;
        let of = |path: PathId| {
            let frames = paths.upwards(path).filter_map(|path| module(paths.name(path)));
            let mut modules: Vec<String> = frames.map(str::to_owned).collect();
            modules.reverse();
            modules
        };
        [row.capture, row.path, row.forward].into_iter().flatten().map(of).find(|modules| !modules.is_empty())
    }

    /// The operator of a capture: the innermost frame that belongs neither to Python nor to a collective.
    fn captured_operator(&self, row: &KernelLaunch) -> Option<String> {
        let paths = &self.attribution.paths;
        let mut names = paths.upwards(row.capture?).map(|path| paths.name(path));
        let is_operator = |name: &&str| {
            name.contains("::")
                && location(name).is_none()
                && module(name).is_none()
                && (!is_plumbing(name) || name.starts_with("c10d::"))
        };
        names.find(is_operator).map(str::to_owned)
    }

    fn forward(&self, row: &KernelLaunch) -> GroupValue {
        let Some(path) = row.forward else {
            let Some(launch) = row.path.filter(|_| !row.forward_unknown) else { return GroupValue::default() };
            let paths = &self.attribution.paths;
            let is_hook = paths.upwards(launch).any(|path| gradients::is_node(paths.name(path)));
            return GroupValue::single(if is_hook { OWN_HOOK } else { NOT_BACKWARD });
        };
        let frames = self.attribution.paths.call_path(path).frames;
        let operator = frames.last().cloned().unwrap_or_default();
        let key = StackKey { frames, ..StackKey::default() };
        let label = match self.headline(&key) {
            Some(headline) if headline != operator => format!("{operator} in {headline}"),
            _ => operator,
        };
        GroupValue::calls(label, key.frames)
    }

    fn step(&mut self, row: &KernelLaunch) -> Option<String> {
        let store = self.store;
        let steps = self.steps.get_or_insert_with(|| Steps::find(store));
        steps.of_call(store, row.launched.call?).map(|step| step.label.clone())
    }
}
