//! The measures of a stack in both traces, as cells.

use crate::analysis::cost::Order;
use crate::analysis::cost::Totals;
use crate::analysis::delta::Fate;
use crate::analysis::diff::Change;
use crate::report::format;

/// A measure on one side; `-` if the trace does not have the stack.
pub(super) fn value(side: Option<Totals>, measure: Order) -> String {
    side.map_or("-".to_owned(), |totals| format::value(measure, totals.by(measure)))
}

/// The change of a stack that both traces have.
pub(super) fn change(stack: &Change, measure: Order) -> Option<String> {
    stack.delta(measure).map(|delta| format::change(measure, delta))
}

/// `new` or `vanished`; nothing for a stack that both traces have.
pub(super) fn fate(stack: &Change) -> Option<&'static str> {
    match stack.fate() {
        Fate::New => Some("new"),
        Fate::Vanished => Some("vanished"),
        Fate::Changed => None,
    }
}
