//! Completes the rows from all records together: times on one clock, states, numbers.
//!
//! The GPU's own times count from the epoch, too, by a counter that may have drifted away from the host's clock. What the host saw ties the two together:
//! if they are more than a millisecond apart in the median, starts and ends are put onto the host's clock. A row of a channel keeps the GPU's own.

use std::collections::BTreeMap;
use std::sync::Arc;

use nccl_stacks_recorder_format::layout::RINGS_AT;

use super::events::Events;
use super::facts::{Facts, Known};
use super::row::Row;
use crate::file::RecordFile;
use crate::joined::{APART, spans, usual};
use crate::operation::{Counts, Operation, Source, State};
use crate::reader::{Keep, last_of_each};
use crate::tables::{KernelChannel, ProxyOp, RankStatus, Records};
use nccl_stacks_trace::names::values::KERNEL_CHANNELS;
use nccl_stacks_trace::time::Ns;

pub(super) fn finish(mut events: Events<'_>, keep: Keep, records: &mut Records, file: &mut RecordFile) {
    for (what, count) in [
        ("records whose beginning the ring has overwritten", events.overwritten),
        ("records that belong to none that is in the file", events.strays),
        ("stops of channels that no kernel can have", events.unsound),
    ] {
        file.skip_several(what, count, Some(RINGS_AT as u64));
    }
    let facts = events.facts;
    let ahead = ahead(&events);
    for ahead in ahead.iter().filter(|ahead| **ahead != Ns::ZERO) {
        let seconds = ahead.as_f64() / -1e9;
        file.note(format!("A GPU's clock is {seconds:.3} s ahead of the host's. Starts and ends are on the host's."));
    }
    let failed_calls = std::mem::take(&mut events.failed_calls);
    for (row, channel) in &mut events.channels {
        channel.gpu_offset = ahead[gpu(&events.rows[*row as usize], facts)];
    }
    let spans = spans(events.rows.len(), || events.channels.iter().map(|(row, channel)| (*row as usize, channel)));
    let states = states(&events);
    let numbers = numbers(&events.rows, facts);
    let is_last = last_of_each(keep.of_others(), events.rows.iter().map(|row| row.communicator));
    let mut place = vec![None; events.rows.len()];
    let mut reached = vec![Reached::default(); facts.communicators.len()];
    for (at, row) in std::mem::take(&mut events.rows).into_iter().enumerate() {
        let (state, (number, counts)) = (states[at], numbers[at]);
        if let Some(reached) = row.communicator.and_then(|of| reached.get_mut(of as usize)) {
            reached.add(number.filter(|_| counts == Counts::Collectives), state, &row);
        }
        // What has not ended is what a hang is asked of.
        if !is_last[at] && state != State::Started {
            records.left_out += 1;
            continue;
        }
        let known = row.communicator.and_then(|of| facts.communicators.get(of as usize));
        let operation = Operation { sequence: number, counts, state, ..operation(row, known, facts) };
        let (start, end) = (spans[at].start, spans[at].end.filter(|_| state == State::Completed));
        let end = end.filter(|end| start.is_some_and(|start| start <= *end));
        place[at] = Some(records.push(Operation { start, end, ..operation }));
    }
    if keep.of_others().is_none() {
        let (groups, members) = std::mem::take(&mut events.groups).into_rows(records.groups.len(), &place);
        records.groups.extend(groups);
        records.group_members.extend(members);
    }
    let steps = records.proxy_steps.len();
    let profiled = events.profiler_events.into_iter();
    records.profiler_events.extend(profiled.map(|event| event.into_row(&place, steps, &events.channels)));
    let channels = events.channels.into_iter();
    let row = |(row, channel)| Some(KernelChannel { operation: Some(place[row as usize]?), ..channel });
    records.channels.extend(channels.filter_map(row));
    let mut place_of_proxy = vec![None; events.proxies.all.len()];
    for (at, proxy) in events.proxies.all.iter().enumerate() {
        let operation = proxy.operation.and_then(|row| place[row as usize]);
        // Of an operation that is not kept its proxies are not either.
        if proxy.operation.is_none() || operation.is_some() {
            place_of_proxy[at] = Some(records.proxy_ops.len());
            records.proxy_ops.push(ProxyOp { operation, ..proxy.row.clone() });
        }
    }
    records.proxy_steps.extend(events.proxies.steps(&place_of_proxy));
    let lacks_ends = facts.lacks_records() || events.rings.lacks_end;
    push_status(facts, &reached, lacks_ends, failed_calls, records);
}

fn operation(row: Row, known: Option<&Known>, facts: &Facts<'_>) -> Operation {
    let mut operation = Operation {
        source: Source::RECORDER,
        rank: facts.rank,
        place: known.and_then(|known| known.place),
        communicator: known.and_then(|known| known.row),
        collective: row.name,
        dtype: row.dtype,
        peer: row.peer,
        enqueued: row.enqueued,
        launched: row.launched,
        algorithm: row.algorithm,
        protocol: row.protocol,
        channels: row.channels,
        stream_handle: row.stream,
        did_not_run: row.is_captured || row.is_failed,
        user_tag: row.tag,
        reduction: row.reduction,
        nccl_sequence: row.nccl_number.and_then(|number| i64::try_from(number).ok()),
        ..Operation::default()
    };
    operation.set_size(row.collective, row.count, known.and_then(|known| known.size));
    operation
}

/// The GPU of a row: the process's, or that of the communicator's rank if it has several.
fn gpu(row: &Row, facts: &Facts<'_>) -> usize {
    row.communicator.filter(|_| facts.has_several_ranks).map_or(0, |of| of as usize + 1)
}

/// By GPU: how far the host's clock is ahead of its own; zero if they agree.
fn ahead(events: &Events<'_>) -> Vec<Ns> {
    let facts = events.facts;
    let mut differences: Vec<Vec<Ns>> = vec![Vec::new(); facts.communicators.len() + 1];
    for (row, channel) in &events.channels {
        let difference = channel.start.zip(channel.gpu_start).map(|(host, gpu)| host - gpu);
        differences[gpu(&events.rows[*row as usize], facts)].extend(difference);
    }
    let is_apart = |of: &Ns| *of > APART || *of < Ns(-APART.0);
    differences.into_iter().map(|of| usual(of).filter(is_apart).unwrap_or_default()).collect()
}

fn states(events: &Events<'_>) -> Vec<State> {
    let facts = events.facts;
    let has_channels =
        facts.events().is_some_and(|events| events & KERNEL_CHANNELS != 0) || !events.channels.is_empty();
    let mut states: Vec<State> = events.rows.iter().map(|row| state(row, has_channels, facts)).collect();
    // Collectives of a communicator run one after the other: one that is open before one that is completed has lost its end.
    let mut is_completed = vec![false; facts.communicators.len()];
    for (row, state) in events.rows.iter().zip(&mut states).rev().filter(|(row, _)| !row.is_point_to_point()) {
        let Some(later) = row.communicator.and_then(|of| is_completed.get_mut(of as usize)) else { continue };
        match state {
            State::Completed => *later = true,
            state if *later => *state = State::Unknown,
            // Its end may be what is lost: that of a kernel which did not start in a ring without memory, any with the end of the file.
            State::Scheduled if facts.lacks_records() => *state = State::Unknown,
            state if events.rings.lacks_end => *state = State::Unknown,
            _ => {}
        }
    }
    states
}

/// The state by itself. Where nothing would show more it is unknown, not scheduled: a hang must not be seen in what was not asked for.
fn state(row: &Row, has_channels: bool, facts: &Facts<'_>) -> State {
    let size = row.communicator.and_then(|of| facts.communicators.get(of as usize)?.size);
    if row.is_captured || row.is_failed || row.is_copied || size == Some(1) {
        return State::Unknown;
    }
    let of = |started: bool, is_done: bool| match (started, is_done) {
        (false, _) => State::Scheduled,
        (true, false) => State::Started,
        (true, true) => State::Completed,
    };
    if has_channels {
        // NCCL's number of channels of sends and receives is not that of their kernel.
        let has_all = row.is_point_to_point() || row.channels.is_none_or(|all| row.started >= all);
        return match row.is_planned || facts.header.plugin > 0 {
            true => of(row.started > 0, has_all && row.stopped == row.started),
            false => State::Unknown,
        };
    }
    match row.proxies {
        0 => State::Unknown,
        proxies => of(true, row.proxies_done == proxies),
    }
}

/// The number of each operation. Collectives are counted within their communicator, by what saw the call if anything did. If the recorder has not
/// counted them itself and rings have overwritten the first, NCCL's own numbers of each function are left. What failed has none: it is not
/// what the other ranks wait in, and the next call is.
fn numbers(rows: &[Row], facts: &Facts<'_>) -> Vec<(Option<i64>, Counts)> {
    #[derive(Clone, Default)]
    struct Numbering {
        has_calls: bool,
        is_counted: bool,
        next: i64,
        failed: Vec<u32>,
    }
    let mut of = vec![Numbering::default(); facts.communicators.len()];
    for row in rows {
        let Some(of) = row.communicator.and_then(|at| of.get_mut(at as usize)) else { continue };
        of.has_calls |= row.is_call;
        of.is_counted |= row.number.is_some();
        of.failed.extend(row.number.filter(|_| row.is_failed));
    }
    of.iter_mut().for_each(|of| of.failed.sort_unstable());
    let has_gaps = facts.overwritten() > 0 || facts.lacks_records();
    let number = |row: &Row| {
        let none = (None, Counts::Collectives);
        let Some(of) = row.communicator.and_then(|at| of.get_mut(at as usize)) else { return none };
        let is_one = if of.has_calls { row.is_call } else { row.is_planned };
        if row.is_point_to_point() || !is_one || row.is_failed {
            return none;
        }
        of.next += 1;
        match (of.is_counted, has_gaps) {
            (true, _) => {
                let failed = |number: u32| of.failed.partition_point(|failed| *failed < number) as i64;
                (row.number.map(|number| i64::from(number) - failed(number)), Counts::Collectives)
            }
            (false, false) => (Some(of.next), Counts::Collectives),
            (false, true) => (row.nccl_number.and_then(|number| i64::try_from(number).ok()), Counts::Function),
        }
    };
    rows.iter().map(number).collect()
}

#[derive(Clone, Copy, Default)]
struct Reached {
    enqueued: Option<i64>,
    started: Option<i64>,
    completed: Option<i64>,
    has_captures: bool,
    failed: i64,
}

impl Reached {
    fn add(&mut self, number: Option<i64>, state: State, row: &Row) {
        self.has_captures |= row.is_captured;
        self.failed += i64::from(row.is_failed && row.is_call && !row.is_point_to_point());
        self.enqueued = self.enqueued.max(number);
        if matches!(state, State::Started | State::Completed) {
            self.started = self.started.max(number);
        }
        if state == State::Completed {
            self.completed = self.completed.max(number);
        }
    }
}

/// What is known of the process, and of its rank in each communicator. `lacks_ends`: some records of what ended are lost.
fn push_status(
    facts: &Facts<'_>,
    reached: &[Reached],
    lacks_ends: bool,
    failed_calls: BTreeMap<(Arc<str>, u32), u64>,
    records: &mut Records,
) {
    let process = || RankStatus {
        source: Source::RECORDER,
        rank: facts.rank,
        host: Some(String::from_utf8_lossy(facts.header.host).into_owned()).filter(|host| !host.is_empty()),
        pid: Some(i64::from(facts.header.pid)),
        ..RankStatus::default()
    };
    records.rank_status.push(RankStatus { failed_calls, ..process() });
    for (known, reached) in facts.communicators.iter().zip(reached) {
        let counted = Some(i64::from(known.collectives())).filter(|count| *count > 0);
        let enqueued = reached.enqueued.max(counted.map(|count| count - reached.failed));
        // Without operations and without a count nothing says whether the rank called it.
        let may_be_nameless = !known.is_seen && facts.has_nameless;
        let is_known = enqueued.is_some() || facts.overwritten() == 0 && !may_be_nameless;
        if known.row.is_none() || !is_known {
            continue;
        }
        records.rank_status.push(RankStatus {
            communicator: known.row,
            place: known.place,
            last_enqueued: enqueued,
            last_started: reached.started.filter(|_| !reached.has_captures && !lacks_ends),
            last_completed: reached.completed.filter(|_| !reached.has_captures && !lacks_ends),
            ..process()
        });
    }
}
