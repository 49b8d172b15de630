//! The pieces of a compiled model that was split at operators that stay eager, as vLLM, SGLang and TensorRT-LLM do for their CUDA graphs.
//!
//! A generated function runs the pieces and the operators between them, one after the other. All pieces have the same call path; only a piece's
//! number and the operators before and after it show its place in the model. These become a frame of the call path, above the wrapper that runs
//! the piece: `piece 12 of 49 of Qwen3MoeModel, between …`. Without exact names, pieces between the same operators are folded like layers, and the
//! frame has all their numbers. A call that ran fewer pieces than another call of the same function and model was cut by the start or end of the
//! recording: its pieces have no numbers.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::callers::Callers;
use crate::id::{SliceId, ThreadId};
use crate::names::category::{CategoryKind, OPERATORS};
use crate::names::frames::{is_generated, is_piece_wrapper, model_class};
use crate::store::Store;
use crate::store::slices::UNFINISHED;
use crate::store::strings::StringId;
use crate::time::Ns;

/// The namespace of PyTorch's own operators. Models are split at other operators.
const ATEN: &str = "aten::";

/// How many nested generated functions are considered: the caller of a piece, the function of an operator between two pieces, and a few more. A
/// hostile trace could nest any number.
const MAX_NESTED: usize = 8;

/// The frame of each piece that generated functions run, by the call of its wrapper.
pub(super) fn frames(
    store: &Store,
    callers: &mut Callers<'_>,
    exact_names: bool,
) -> HashMap<SliceId, String, FixedState> {
    let mut calls = calls(store);
    let mut most: HashMap<(StringId, Option<&str>), usize> = HashMap::new();
    for pieces in &mut calls {
        pieces.model = std::iter::successors(Some(pieces.call), |slice| callers.caller(*slice))
            .find_map(|slice| model_class(store.slice_name(slice)));
        let most = most.entry(pieces.function(store)).or_default();
        *most = pieces.wrappers.len().max(*most);
    }
    // If generated functions are nested, the inner one comes later, and names the piece.
    calls.iter().flat_map(|pieces| pieces.frames(most[&pieces.function(store)], exact_names)).collect()
}

/// The calls of generated functions that run pieces, in order.
fn calls(store: &Store) -> Vec<Pieces<'_>> {
    let operators: Vec<StringId> = OPERATORS.iter().filter_map(|category| store.strings.find(category)).collect();
    let mut kinds: Vec<Kind> = vec![Kind::Other; store.strings.len()];
    for name in store.names.iter().filter(|name| name.of_cpu) {
        kinds[name.id.0 as usize] = Kind::of_frame(store.strings.get(name.id).unwrap_or_default());
    }
    if !kinds.contains(&Kind::Generated) {
        return Vec::new();
    }
    let mut open: HashMap<Option<ThreadId>, Vec<Pieces<'_>>, FixedState> = HashMap::default();
    let mut calls = Vec::new();
    for slice in store.slices.ids() {
        let kind = match store.category_kind(slice) {
            CategoryKind::Frame => kinds[store.slices.name(slice).0 as usize],
            CategoryKind::Cpu if operators.contains(&store.slices.category(slice)) => Kind::Operator,
            _ => continue,
        };
        if kind == Kind::Other || (kind != Kind::Generated && open.is_empty()) {
            continue;
        }
        let open = open.entry(store.thread_of(slice)).or_default();
        let ts = store.slices.ts(slice);
        calls.extend(open.extract_if(.., |pieces| pieces.end.is_some_and(|end| end <= ts)));
        match kind {
            Kind::Generated if open.len() < MAX_NESTED => open.push(Pieces::new(store, slice)),
            Kind::Generated | Kind::Other => {}
            Kind::Wrapper | Kind::Operator => open.iter_mut().for_each(|pieces| pieces.see(store, slice, kind)),
        }
    }
    calls.extend(open.into_values().flatten());
    calls.retain(|pieces| !pieces.wrappers.is_empty());
    calls.sort_unstable_by_key(|pieces| pieces.call);
    calls
}

/// The role of a slice for the pieces of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Generated,
    Wrapper,
    Operator,
    Other,
}

impl Kind {
    fn of_frame(name: &str) -> Self {
        match name {
            _ if is_generated(name) => Kind::Generated,
            _ if is_piece_wrapper(name) => Kind::Wrapper,
            _ => Kind::Other,
        }
    }
}

/// The pieces that one call of a generated function runs, and the operators between them.
#[derive(Debug)]
struct Pieces<'a> {
    call: SliceId,
    /// `None` if it never ended.
    end: Option<Ns>,
    /// The class of the model's module.
    model: Option<&'a str>,
    /// The call of each wrapper, and the number of operators before it.
    wrappers: Vec<(SliceId, usize)>,
    /// One operator for each non-empty gap between two pieces, and one for what follows the last piece.
    operators: Vec<&'a str>,
    /// Whether the last operator belongs to a gap after the last piece.
    in_gap: bool,
    /// The end of the last wrapper or operator: slices that begin before it are inside it.
    until: Option<Ns>,
}

impl<'a> Pieces<'a> {
    fn new(store: &Store, call: SliceId) -> Self {
        let (end, until) = (end(store, call), Some(store.slices.ts(call)));
        Pieces { call, end, model: None, wrappers: Vec::new(), operators: Vec::new(), in_gap: false, until }
    }

    fn function(&self, store: &Store) -> (StringId, Option<&'a str>) {
        (store.slices.name(self.call), self.model)
    }

    /// Visits a slice of the thread that begins before the call ends.
    fn see(&mut self, store: &'a Store, slice: SliceId, kind: Kind) {
        if self.until.is_none_or(|until| store.slices.ts(slice) < until) {
            return;
        }
        self.until = end(store, slice);
        if kind == Kind::Wrapper {
            self.wrappers.push((slice, self.operators.len()));
            self.in_gap = false;
            return;
        }
        // A gap is named after its last operator that is not PyTorch's own, or else its last.
        let name = store.slice_name(slice);
        match self.operators.last_mut().filter(|_| self.in_gap) {
            Some(known) if name.starts_with(ATEN) && !known.starts_with(ATEN) => {}
            Some(known) => *known = name,
            None => self.operators.push(name),
        }
        self.in_gap = true;
    }

    /// The frame of each piece. `all` is the number of pieces that the function runs.
    fn frames(&self, all: usize, exact_names: bool) -> Vec<(SliceId, String)> {
        let Pieces { model, wrappers, operators, .. } = self;
        if wrappers.len() < all {
            let cut = format!("a piece of {}", model.unwrap_or("a compiled model"));
            return wrappers.iter().map(|(wrapper, _)| (*wrapper, cut.clone())).collect();
        }
        let beside = |next: usize| {
            let operator = |at: usize| operators.get(at).copied();
            (next.checked_sub(1).and_then(operator), operator(next))
        };
        let mut alike: HashMap<(Option<&str>, Option<&str>), Vec<usize>> = HashMap::new();
        for (number, (_, next)) in (1..).zip(wrappers) {
            alike.entry(beside(*next)).or_default().push(number);
        }
        let frame = |(number, (wrapper, next)): (usize, &(SliceId, usize))| {
            let (before, after) = beside(*next);
            let one = [number];
            let numbers = if exact_names { &one[..] } else { &alike[&(before, after)] };
            let place = place(before, after, numbers.len() > 1);
            (*wrapper, format!("{}{place}", which(numbers, all, *model)))
        };
        (1..).zip(wrappers).map(frame).collect()
    }
}

fn end(store: &Store, slice: SliceId) -> Option<Ns> {
    let dur = store.slices.dur(slice);
    (dur != UNFINISHED).then(|| store.slices.ts(slice) + dur)
}

/// `pieces 2 to 48 of 49 of Qwen3MoeModel`
fn which(numbers: &[usize], all: usize, model: Option<&str>) -> String {
    let of_model = model.map_or(String::new(), |model| format!(" of {model}"));
    let (first, last) = (numbers.first().copied().unwrap_or(0), numbers.last().copied().unwrap_or(0));
    let numbers = match numbers.len() {
        1 => format!("piece {first}"),
        2 => format!("pieces {first} and {last}"),
        several if last - first + 1 == several => format!("pieces {first} to {last}"),
        // `pieces 3, 5 … 47`
        _ => format!("pieces {first}, {} … {last}", numbers[1]),
    };
    format!("{numbers} of {all}{of_model}")
}

/// `, between vllm::attention and vllm::moe`
fn place(before: Option<&str>, after: Option<&str>, are_several: bool) -> String {
    let each = if are_several { "each " } else { "" };
    match (before, after) {
        (Some(before), Some(after)) if before == after => format!(", {each}between two calls of {before}"),
        (Some(before), Some(after)) => format!(", {each}between {before} and {after}"),
        (Some(before), None) => format!(", after {before}"),
        (None, Some(after)) => format!(", before {after}"),
        (None, None) => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_named_by_number_and_place() {
        for (numbers, want) in [
            (&[12][..], "piece 12 of 49 of Net"),
            (&[2, 3], "pieces 2 and 3 of 49 of Net"),
            (&[2, 3, 4], "pieces 2 to 4 of 49 of Net"),
            (&[2, 4, 6, 8], "pieces 2, 4 … 8 of 49 of Net"),
        ] {
            assert_eq!(which(numbers, 49, Some("Net")), want);
        }
        assert_eq!(which(&[1], 1, None), "piece 1 of 1");
        for (beside, several, want) in [
            ((Some("a"), Some("b")), false, ", between a and b"),
            ((Some("a"), Some("b")), true, ", each between a and b"),
            ((Some("a"), Some("a")), true, ", each between two calls of a"),
            ((None, Some("b")), false, ", before b"),
            ((Some("a"), None), false, ", after a"),
            ((None, None), false, ""),
        ] {
            assert_eq!(place(beside.0, beside.1, several), want);
        }
    }
}
