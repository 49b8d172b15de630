//! The arguments that a load keeps: all of an event's, or those of some keys of some events.

use std::ops::Range;

use memchr::memmem::Finder;

use super::args::{self, flatten_member};
use super::marks::Marks;
use super::repair::{Outcome, Recoverer};
use super::scan::SyntaxError;
use super::search::{Key, Search};
use crate::damage::Damage;
use crate::event::{ArgList, ArgValue, ArgsWanted, EventIds, Keep, KeySet};
use crate::names::args::{self as keys, in_table};
use crate::names::category::CategoryKind;

/// Fills a list with the arguments of one event.
pub(super) struct KeptArgs {
    /// `None`: all of them.
    keys: Option<KeptKeys>,
    recoverer: Recoverer,
}

struct KeptKeys {
    set: KeySet,
    /// Each with its key in the table of arguments.
    keys: Vec<(Key, String)>,
    /// Keys of which only their presence in an operator is kept.
    present: Vec<(Key, String)>,
    /// Find the keys of [`Keep::IfRecorded`], of [`Keep::IfAnnotated`], and of kernels without a category, each in quotes.
    record: Finder<'static>,
    annotation: Finder<'static>,
    without_category: Finder<'static>,
}

/// The event that has the arguments.
#[derive(Clone, Copy)]
pub(super) struct Owner<'a> {
    pub(super) kind: CategoryKind,
    pub(super) has_category: bool,
    /// Whether a graph launched it is among these. Only such kernels have annotations.
    pub(super) ids: &'a EventIds,
    /// Empty if it has none.
    pub(super) name: &'a [u8],
    /// Whether its arguments are known to be nothing but numbers and nulls.
    pub(super) is_flat: bool,
}

/// Finds a key in quotes.
fn quoted(key: &str) -> Finder<'static> {
    Finder::new(format!("\"{key}\"").as_bytes()).into_owned()
}

impl KeptArgs {
    pub(super) fn new(wanted: ArgsWanted) -> Self {
        let found = |keys: &[&str]| keys.iter().map(|key| (Key::new(key), in_table(key))).collect();
        let keys = wanted.keys().map(|(set, present)| KeptKeys {
            set,
            keys: found(set.keys),
            present: found(present),
            record: quoted(keys::COLLECTIVE),
            annotation: quoted(keys::ANNOTATION),
            without_category: quoted(KeySet::MARKER_WITHOUT_CATEGORY),
        });
        KeptArgs { keys, recoverer: Recoverer::default() }
    }

    /// Adds the rows of the `args` object in a range of a marked text, and what was wrong with them.
    #[inline(always)]
    pub(super) fn read(
        &mut self,
        owner: Owner<'_>,
        text: &[u8],
        object: Range<usize>,
        marks: &mut Marks,
        list: &mut ArgList,
        faults: &mut Vec<Damage>,
    ) {
        match &self.keys {
            None => flatten_all(&mut self.recoverer, &text[object], list, faults),
            Some(kept) => {
                let are_wanted = kept.are_wanted(owner, &text[object.clone()]);
                let from = object.start + 1;
                if are_wanted {
                    kept.read(Search::new(text, object.clone(), from, marks), list, faults);
                }
                if !kept.present.is_empty() && owner.kind == CategoryKind::Cpu {
                    kept.see(Search::new(text, object, from, marks), list);
                }
            }
        }
    }
}

impl KeptKeys {
    #[inline(always)]
    fn are_wanted(&self, owner: Owner<'_>, object: &[u8]) -> bool {
        if owner.is_flat && !self.set.may_be_numbers() {
            return false;
        }
        let is_of_graph = || matches!(owner.ids, EventIds::Gpu { graph_node_id: 1.., .. });
        let is_annotated = || is_of_graph() && self.annotation.find(object).is_some();
        match self.set.keep(owner.kind, owner.name) {
            Keep::Nothing => !owner.has_category && self.without_category.find(object).is_some(),
            Keep::IfAnnotated => is_annotated(),
            Keep::IfRecorded => self.record.find(object).is_some() || is_annotated(),
            Keep::Keys => true,
        }
    }

    #[inline(never)]
    fn read(&self, mut search: Search<'_, '_>, list: &mut ArgList, faults: &mut Vec<Damage>) {
        for (key, in_table) in &self.keys {
            match search.value(key).map(|value| flatten_member(in_table, value, list)) {
                None | Some(Ok(false)) => {}
                Some(Ok(true)) => faults.push(Damage::ArgsTooDeep),
                Some(Err(SyntaxError)) => faults.push(Damage::ArgsSyntax),
            }
        }
    }

    /// Adds a row for each key that is there, whatever its value is.
    #[inline(never)]
    fn see(&self, mut search: Search<'_, '_>, list: &mut ArgList) {
        for (key, in_table) in &self.present {
            if search.value(key).is_some() {
                list.push(in_table, None, ArgValue::Bool(true));
            }
        }
    }
}

/// Flattens an `args` object, also if it is not quite JSON.
#[inline(never)]
fn flatten_all(recoverer: &mut Recoverer, object: &[u8], list: &mut ArgList, faults: &mut Vec<Damage>) {
    match args::flatten(object, list) {
        Ok(false) => {}
        Ok(true) => faults.push(Damage::ArgsTooDeep),
        Err(_) => flatten_recovered(recoverer, object, list, faults),
    }
}

#[cold]
fn flatten_recovered(recoverer: &mut Recoverer, object: &[u8], list: &mut ArgList, faults: &mut Vec<Damage>) {
    if recoverer.object(object, 0, true) != (Outcome::Whole { end: object.len() }) {
        return faults.push(Damage::ArgsSyntax);
    }
    faults.extend(recoverer.faults.iter().map(|(kind, _)| *kind));
    list.clear();
    match args::flatten(&recoverer.json, list) {
        Ok(is_too_deep) => faults.extend(is_too_deep.then_some(Damage::ArgsTooDeep)),
        Err(_) => faults.push(Damage::ArgsSyntax),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventsOf;

    /// The rows that are kept of an `args` object.
    fn kept(wanted: ArgsWanted, kind: CategoryKind, name: &[u8], object: &str) -> (Vec<String>, Vec<Damage>) {
        let (mut list, mut faults) = (ArgList::default(), Vec::new());
        let owner = Owner { kind, has_category: true, ids: &EventIds::NONE, name, is_flat: false };
        let marks = &mut Marks::default();
        KeptArgs::new(wanted).read(owner, object.as_bytes(), 0..object.len(), marks, &mut list, &mut faults);
        (list.iter().map(|(key, flat_key, value)| format!("{key} {flat_key} {value:?}")).collect(), faults)
    }

    /// Whatever the category is, the rows of a key are those that it has among all.
    #[test]
    fn keys_of_any_event_are_kept() {
        let wanted = ArgsWanted::Keys(KeySet { keys: &["Input Dims", "grid", "stream", "none"], of: EventsOf::Any });
        let object = r#"{"Ev Idx":1,"stream":7,"Input Dims":[[2,3],[],[{"a":4}]],"x":{"grid":1},"grid":[512,1]}"#;
        for kind in [CategoryKind::Cpu, CategoryKind::Kernel, CategoryKind::Frame, CategoryKind::Runtime] {
            let (rows, faults) = kept(wanted, kind, b"aten::mm", object);
            assert_eq!(
                rows,
                [
                    "args.Input Dims[0][0] args.Input Dims Int(2)",
                    "args.Input Dims[0][1] args.Input Dims Int(3)",
                    "args.Input Dims[2][0].a args.Input Dims.a Int(4)",
                    "args.grid[0] args.grid Int(512)",
                    "args.grid[1] args.grid Int(1)",
                    "args.stream args.stream Int(7)",
                ]
            );
            assert_eq!(faults, []);
            let (all, _) = kept(ArgsWanted::All, kind, b"aten::mm", object);
            assert!(rows.iter().all(|row| all.contains(row)));
        }
        let deep = format!(r#"{{"grid":{}{}}}"#, "[".repeat(500), "]".repeat(500));
        assert_eq!(kept(wanted, CategoryKind::Cpu, b"", &deep), (vec![], vec![Damage::ArgsTooDeep]));
        assert_eq!(
            kept(wanted, CategoryKind::Cpu, b"", r#"{"grid":[1,nul]}"#),
            (vec!["args.grid[0] args.grid Int(1)".to_owned()], vec![Damage::ArgsSyntax])
        );
    }

    /// An empty list, null and a long text count alike; a key within a value is none of the event's.
    #[test]
    fn of_some_keys_only_their_presence_is_kept() {
        let present = &["Input Dims", "Input Strides", "cycles", "Call stack"];
        let values = KeySet { keys: &["Collective name"], of: EventsOf::Collectives };
        let wanted = ArgsWanted::Present { values, present };
        let long = "x".repeat(1 << 20);
        let object = format!(r#"{{"cycles":7,"Input Dims":[[]],"Ev Idx":1,"Input Strides":null,"kwargs":"{long}"}}"#);
        let seen = ["Input Dims", "Input Strides", "cycles"].map(|key| format!("args.{key} args.{key} Bool(true)"));
        assert_eq!(kept(wanted, CategoryKind::Cpu, b"aten::mm", &object), (seen.to_vec(), vec![]));
        for kind in [CategoryKind::Kernel, CategoryKind::Frame, CategoryKind::Runtime] {
            assert_eq!(kept(wanted, kind, b"aten::mm", &object), (vec![], vec![]));
        }
        let record = r#"{"Collective name":"allreduce","Input Dims":[],"Group size":2}"#;
        let rows = [
            r#"args.Collective name args.Collective name Text("allreduce")"#,
            "args.Input Dims args.Input Dims Bool(true)",
        ];
        assert_eq!(kept(wanted, CategoryKind::Cpu, b"record_param_comms", record).0, rows);
        assert_eq!(kept(wanted, CategoryKind::Kernel, b"ncclDevKernel", record).0, &rows[..1]);
    }

    #[test]
    fn collectives_are_records_and_their_kernels() {
        let object = r#"{"Collective name":"allreduce","stream":7,"Group size":2}"#;
        let rows =
            ["args.Collective name args.Collective name Text(\"allreduce\")", "args.Group size args.Group size Int(2)"];
        for (kind, name, object, is_one) in [
            (CategoryKind::Cpu, "record_param_comms", object, true),
            (CategoryKind::Cpu, "nccl:all_reduce", object, false),
            (CategoryKind::Kernel, "ncclDevKernel_AllReduce", object, true),
            (CategoryKind::Kernel, "_ZN4rccl11AllReduce", object, true),
            (CategoryKind::Kernel, "ncclDevKernel_AllReduce", r#"{"Group size":2}"#, false),
            (CategoryKind::Kernel, "gemm", object, false),
            (CategoryKind::Runtime, "record_param_comms", object, false),
        ] {
            let (found, _) = kept(ArgsWanted::COLLECTIVES, kind, name.as_bytes(), object);
            assert_eq!(found == rows, is_one, "{kind:?} {name}");
            assert_eq!(found.is_empty(), !is_one, "{kind:?} {name}");
        }
    }
}
