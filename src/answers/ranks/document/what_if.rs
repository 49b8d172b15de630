//! What a job would take if something were different, as a table of rules.

use std::io;

use serde::Serialize;

use super::name_lanes;
use super::verdict::damaged;
use crate::answers::ranks::timeline::lanes;
use crate::answers::ranks::what_if::{RerunSlice, RuleAnswer, WhatIf};
use crate::chrome::{TraceWriter, Track};
use crate::document::answer::{Answer, no_such_form};
use crate::document::findings::Document;
use crate::document::form::Form;
use crate::document::format::{count, duration, percent, visible};
use crate::document::table::{Cell, Column, Table, number, words, write_csv};
use crate::time::{Ns, Window};

/// Reruns by rules, and how to show them.
#[derive(Debug, Clone)]
pub struct WhatIfAnswer<'a> {
    pub found: &'a WhatIf,
    /// The name of all traces together.
    pub name: &'a str,
}

impl WhatIfAnswer<'_> {
    /// The recording and the rerun of the first answer as processes beside each other, for each rank.
    fn trace(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let mut trace = TraceWriter::new(out);
        // Viewers take the thread with its process's number for the main thread.
        let tids = 2 * self.found.ranks.len() as u32;
        let rule = self.found.answers.first().map_or("nothing different", |answer| &answer.rule);
        for (of, recorded) in self.found.ranks.iter().zip((0..).step_by(2)) {
            let rerun = format!("rank {}, rerun: {rule}", of.rank);
            for (pid, name, window) in [
                (
                    recorded,
                    format!("rank {}, recorded", of.rank),
                    (|slice| slice.recorded) as fn(&RerunSlice) -> Window,
                ),
                (recorded + 1, rerun, |slice| slice.rerun),
            ] {
                trace.process(pid, &name)?;
                let mut first = tids;
                for (is_cpu, kind) in [(true, ("thread", "thread")), (false, ("stream", "stream"))] {
                    let mut slices: Vec<&RerunSlice> =
                        of.slices.iter().filter(|slice| slice.is_cpu == is_cpu).collect();
                    slices.sort_by_key(|slice| (window(slice).start, window(slice).end));
                    let (keys, of_slice) = lanes(slices.iter().map(|slice| (slice.lane, window(slice))));
                    name_lanes(&mut trace, (pid, first), &keys, kind)?;
                    for (slice, lane) in slices.into_iter().zip(of_slice) {
                        let (Window { start, end }, name) = (window(slice), &of.texts[slice.name as usize]);
                        let track = Track { pid, tid: first + lane };
                        trace.slice(track, (start, Some(end)), (kind.0, name), &serde_json::Map::new())?;
                    }
                    first += keys.len() as u32;
                }
            }
        }
        trace.finish()
    }
}

/// How much of a rule is shown beside its figures; kernels have names of any length.
const RULE: usize = 48;

/// The context is the length of the job in ns.
const COLUMNS: &[Column<RuleAnswer, Ns>] = &[
    words("rule", "rule").short(RULE).read(|answer, _| Cell::Text(visible(&answer.rule).into_owned())),
    number("saves_ns", "would save").read(|answer, _| Cell::Time(Ns(answer.saves_ns))),
    number("share", "of all").read(|answer, length| Cell::known(Ns(answer.saves_ns).share_of(*length), Cell::Share)),
    number("left_ns", "left").read(|answer, length| Cell::Time(*length - Ns(answer.saves_ns))),
];

fn rows(found: &WhatIf) -> impl Iterator<Item = (&RuleAnswer, Ns)> {
    found.answers.iter().map(|answer| (answer, Ns(found.length_ns)))
}

pub(crate) fn table(found: &WhatIf) -> Table {
    Table::new("what-if", "What if", COLUMNS, rows(found))
}

impl Answer for WhatIfAnswer<'_> {
    const SCHEMA: &'static str = "what-if";

    const OWN_FORMS: &'static [Form] = &[Form::Csv, Form::Perfetto];

    fn inputs(&self) -> Option<&str> {
        Some(self.name)
    }

    fn document(&self) -> Document {
        let of = self.found;
        let length = duration(Ns(of.length_ns));
        let whole = match of.steps {
            0 | 1 => format!("The job takes {length} from its first start to its last end."),
            steps => format!("The job takes {length} in {} steps.", count(steps.into())),
        };
        let most = of.answers.iter().max_by_key(|answer| (answer.saves_ns, std::cmp::Reverse(&answer.rule)));
        let error = of.error.map(|error| error.of_saving(of.steps));
        let share = |most: &RuleAnswer| Ns(most.saves_ns).share_of(Ns(of.length_ns)).unwrap_or_default();
        let most = most.filter(|most| share(most) > error.unwrap_or_default()).map(|most| {
            let left = duration(Ns(of.length_ns - most.saves_ns));
            format!("With `{}` it would take {left} (−{}).", visible(&most.rule), percent(share(most)))
        });
        let trust = match error {
            Some(error) => format!(
                "Each line is a rerun, wrong by up to {}: so much the length changes if like ranks exchange their work. What several save does not add up.",
                percent(error)
            ),
            None => {
                "Each line is a rerun. How wrong it is cannot be measured: no two ranks do the same work.".to_owned()
            }
        };
        let below = (of.below_error > 0)
            .then(|| format!("{} more rules were tried; they save no more than the error.", count(of.below_error)));
        let without_root = (of.without_root > 0).then(|| {
            format!(
                "The root of {} collectives is unknown, or not here: in reruns all ranks of these wait for each other.",
                count(of.without_root)
            )
        });
        Document {
            title: "What if".to_owned(),
            damage: damaged(&of.report),
            verdict: std::iter::once(whole).chain(most).chain([trust]).collect(),
            notes: below.into_iter().chain(without_root).collect(),
            ..Document::default()
        }
    }

    fn data(&self) -> impl Serialize {
        self.found
    }

    fn tables(&self) -> Vec<Table> {
        vec![table(self.found)]
    }

    fn csv(&self, out: &mut Vec<u8>) -> io::Result<()> {
        write_csv(&[Table::for_programs("rule", COLUMNS, rows(self.found))], out)
    }

    fn other(&self, form: Form, out: &mut Vec<u8>) -> io::Result<()> {
        match form {
            Form::Perfetto => self.trace(out),
            form => Err(no_such_form(form)),
        }
    }
}
