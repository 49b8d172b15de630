//! The ids in an event's `args`: those that a template has read already, and all others by searching the text.

use std::ops::Range;

use super::marks::Marks;
use super::search::{Key, Search};
use crate::event::EventIds;
use crate::event::ids::{IdArg, IdSource, IdValue};
use crate::names::category::CategoryKind;

/// What is known of an event's ids before its arguments are searched.
#[derive(Debug, Clone, Copy)]
pub(super) struct KnownIds {
    /// By [`IdArg`].
    pub(super) values: [IdValue; IdArg::COUNT],
    /// The byte after the arguments that were read; 0: none were.
    pub(super) end: u32,
    /// Whether that is all of them, so that an event has no other arguments than whole numbers and nulls.
    pub(super) are_all: bool,
}

impl KnownIds {
    pub(super) const NONE: KnownIds = KnownIds { values: [IdValue::Missing; IdArg::COUNT], end: 0, are_all: false };
}

/// Finds ids in `args`.
pub(super) struct IdFinder {
    /// By [`IdArg`].
    keys: [Key; IdArg::COUNT],
}

impl IdFinder {
    pub(super) fn new() -> Self {
        IdFinder { keys: IdArg::ALL.map(|arg| Key::new(arg.key())) }
    }

    /// The ids in an `args` object within a marked text, by what its event is.
    #[inline]
    pub(super) fn find(
        &self,
        kind: CategoryKind,
        text: &[u8],
        object: Range<usize>,
        known: &KnownIds,
        marks: &mut Marks,
    ) -> EventIds {
        let from = (object.start + 1).max(known.end as usize);
        EventIds::read(kind, &mut Ids { known, search: Search::new(text, object, from, marks), keys: &self.keys })
    }
}

/// The ids of one object.
struct Ids<'a, 'm, 'k> {
    known: &'k KnownIds,
    search: Search<'a, 'm>,
    keys: &'k [Key; IdArg::COUNT],
}

impl IdSource for Ids<'_, '_, '_> {
    #[inline]
    fn value(&mut self, arg: IdArg) -> IdValue {
        match self.known.values[arg as usize] {
            IdValue::Missing if !self.known.are_all => self.search.id(&self.keys[arg as usize]),
            value => value,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ids::PythonCaller;

    fn ids(category: &str, object: &str) -> EventIds {
        let text = format!(r#"{{"cat":"{category}","args":{object}}}"#);
        let object = text.len() - 1 - object.len()..text.len() - 1;
        let kind = CategoryKind::from_name(category);
        IdFinder::new().find(kind, text.as_bytes(), object, &KnownIds::NONE, &mut Marks::default())
    }

    /// Among them what only looks like the key: values, parts of texts, escaped quotes, deeper places.
    #[test]
    fn the_correlation_id_is_found() {
        for (object, want) in [
            (r#"{"x":{"correlation":9},"correlation":7,"External id":1,"stream":7.5}"#, 7),
            (r#"{"a":"correlation","correlation" : 5}"#, 5),
            (r#"{"a":"\"correlation\":3","b":["correlation",{"correlation":4}]}"#, 0),
            (r#"{"correlation":1,"correlation":2}"#, 1),
            (r#"{"correlation":1,"correlation":null}"#, 1),
            (r#"{"correlation":true,"correlation":1}"#, 0),
            (r#"{"a":{},"correlation":"6"}"#, 6),
            (r#"{"a":{},"correlation":"text"}"#, 0),
            (r#"{"correlation":5.0}"#, 5),
            (r#"{"correlation":5.5}"#, 0),
            (r#"{"correlation":-5}"#, 0),
            (r#"{"correlation":9223372036854775807}"#, i64::MAX),
            (r#"{"correlation":18446744073709551615}"#, 0),
            (r#"{"correlation":[1]}"#, 0),
            (r#"{"correlation":}"#, 0),
            (r#"{"correlations":1,"correlation":null}"#, 0),
            ("{}", 0),
        ] {
            assert_eq!(ids("cuda_runtime", object), EventIds::Call { correlation: want }, "{object}");
            let EventIds::Gpu { correlation, .. } = ids("kernel", object) else { panic!("{object}") };
            assert_eq!(correlation, want, "{object}");
        }
    }

    #[test]
    fn each_category_has_its_own_ids() {
        use PythonCaller::{Frame, Nobody, Unknown};
        let python = |python_id, python_caller| EventIds::Python { python_id, python_caller };
        let operator =
            |sequence_number, forward_thread| EventIds::Operator { external_id: 3, sequence_number, forward_thread };
        let gpu_on = |stream, external_id, graph_id, graph_node_id| EventIds::Gpu {
            correlation: 4,
            external_id,
            graph_id,
            graph_node_id,
            stream,
        };
        let gpu = |external_id, graph_id, graph_node_id| gpu_on(None, external_id, graph_id, graph_node_id);
        for (category, object, want) in [
            ("python_function", r#"{"Python parent id": 4, "Python id": 5, "Ev Idx": 6}"#, python(5, Frame(4))),
            ("python_function", r#"{ "Python parent id": null, "Python id": 5 }"#, python(5, Nobody)),
            ("python_function", r#"{"Python id":5,"Ev Idx":1,"Python parent id":0}"#, python(5, Nobody)),
            ("python_function", r#"{"Python id":5}"#, python(5, Unknown)),
            ("python_function", r#"{"Ev Idx":{"Python id":5}}"#, python(0, Unknown)),
            ("python_function", r#"{"Python parent id":"7","Python id":8.0,"correlation":3}"#, python(8, Frame(7))),
            (
                "cpu_op",
                r#"{"External id": 3,"Record function id": 0, "Sequence number": 9, "Fwd thread id": 1}"#,
                operator(Some(9), 1),
            ),
            (
                "cpu_op",
                r#"{"External id": "3","Record function id": "12345", "Sequence number": "42", "Fwd thread id": "140735268359168"}"#,
                operator(Some(42), 140_735_268_359_168),
            ),
            ("cpu_op", r#"{"Sequence number":"42","Fwd thread id":"0x7f","External id":3}"#, operator(Some(42), 0)),
            ("cpu_op", r#"{"External id":"3","Sequence number":"-1"}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":"3","Sequence number":"4 2"}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Fwd thread id":2,"Sequence number":0,"x":1}"#, operator(Some(0), 2)),
            ("cpu_op", r#"{"Ev Idx":1,"External id":3,"Fwd thread id":2}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Sequence number":-1}"#, operator(None, 0)),
            ("cpu_op", r#"{"External id":3,"Call stack":"a \"Sequence number\": 4"}"#, operator(None, 0)),
            (
                "kernel",
                r#"{"External id":3,"correlation":4,"stream":7,"graph id":5,"graph node id":6}"#,
                gpu_on(Some(7), 3, 5, 6),
            ),
            ("kernel", r#"{"stream":0,"correlation":4,"x":{"stream":7}}"#, gpu_on(Some(0), 0, 0, 0)),
            ("gpu_memset", r#"{"stream":"0x7f","correlation":4}"#, gpu(0, 0, 0)),
            ("kernel", r#"{"stream":-1,"correlation":4,"x":{"stream":7}}"#, gpu(0, 0, 0)),
            ("kernel", r#"{"External id":"3","correlation":"4","graph id":"5","graph node id":"6"}"#, gpu(3, 5, 6)),
            ("kernel", r#"{"correlation":4,"graph node id":0,"graph id":5}"#, gpu(0, 0, 0)),
            ("gpu_memcpy", r#"{"graph node id":7,"correlation":4}"#, gpu(0, 0, 7)),
            ("cuda_runtime", r#"{"External id":3,"cbid":1,"correlation":4}"#, EventIds::Call { correlation: 4 }),
        ] {
            assert_eq!(ids(category, object), want, "{category} {object}");
        }
    }
}
