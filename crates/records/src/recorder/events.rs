//! Which record belongs to which, by their handles, in the order of time.
//!
//! NCCL hands its plugin parents that have ended, and those of graphs again and again; a record only ever belongs to one that began before
//! it. The interceptor's record of a call has no handle that the plugin knows. But it is made before NCCL is entered, and what NCCL
//! reports of its API on the same thread until the call returns is of that call.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::RandomState;
use nccl_stacks_recorder_format::{Kind, Record, flag};

use super::facts::{Facts, gpu_time};
use super::groups::Groups;
use super::profiler_events::Profiled;
use super::proxies::Proxies;
use super::rings::{Named, Rings};
use super::row::Row;
use crate::tables::KernelChannel;
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::names::values::is_error;
use nccl_stacks_trace::time::Ns;

const CHANNEL_STOP: u64 = 22;

/// From this version on the plugin's interface says which call of the API an operation is of.
const WITH_API: u32 = 5;

const GROUP_START: &str = "ncclGroupStart";

const GROUP_END: &str = "ncclGroupEnd";

/// How many calls of a kind may wait for the end of their group.
const WAITING: usize = 4096;

#[derive(Clone, Copy)]
enum Entity {
    /// Nothing: it is no beginning, or it belongs to one that is not here.
    None,
    /// Not kept: launches, and calls of functions that are no collectives.
    Kept,
    Call(u32),
    Api(u32),
    Operation(u32),
    Channel(u32),
    Proxy(u32),
    Step(u32),
    Profiled(u32),
    Group(u32),
}

/// A call of the API as the plugin saw it.
struct Api {
    /// The operation that it is of, and whether NCCL has planned that.
    row: u32,
    is_taken: bool,
    /// The group of calls: the place of its record.
    group: Option<usize>,
}

/// A call of a thread that has not returned.
struct Open {
    at: usize,
    row: u32,
    is_seen: bool,
}

/// What is looked for among calls: communicator, function, and the other side.
type Alike = (Option<u32>, Option<Collective>, Option<i64>);

pub(super) struct Events<'a> {
    pub(super) facts: &'a Facts<'a>,
    pub(super) rings: &'a Rings,
    entities: Vec<Entity>,
    pub(super) rows: Vec<Row>,
    pub(super) channels: Vec<(u32, KernelChannel)>,
    pub(super) proxies: Proxies,
    pub(super) profiler_events: Vec<Profiled>,
    pub(super) groups: Groups,
    apis: Vec<Api>,
    open: HashMap<u32, Open, RandomState>,
    /// By group and stream: when the first kernel was launched.
    launches: HashMap<(usize, u64), Option<Ns>, RandomState>,
    /// Calls within groups that an older plugin reports when the group ends.
    waiting: HashMap<Alike, VecDeque<u32>, RandomState>,
    /// Records whose beginning is overwritten, and those whose beginning is not here.
    pub(super) overwritten: u64,
    pub(super) strays: u64,
    /// Stops of channels that no kernel can have.
    pub(super) unsound: u64,
    /// How many calls returned an error, by function and error.
    pub(super) failed_calls: BTreeMap<(Arc<str>, u32), u64>,
    /// By thread: the operations of the group that it has begun.
    grouped: HashMap<u32, Vec<u32>, RandomState>,
}

impl<'a> Events<'a> {
    pub(super) fn new(facts: &'a Facts<'a>, rings: &'a Rings) -> Self {
        Events {
            facts,
            rings,
            entities: vec![Entity::None; rings.len()],
            rows: Vec::new(),
            channels: Vec::new(),
            proxies: Proxies::default(),
            profiler_events: Vec::new(),
            groups: Groups::default(),
            apis: Vec::new(),
            open: HashMap::default(),
            launches: HashMap::default(),
            waiting: HashMap::default(),
            overwritten: 0,
            strays: 0,
            unsound: 0,
            failed_calls: BTreeMap::new(),
            grouped: HashMap::default(),
        }
    }

    /// Adds the record of a place. Those before it in time have been added.
    pub(super) fn add(&mut self, at: usize) {
        let record = self.rings.record(at);
        self.entities[at] = match record.kind {
            Kind::Call => self.call(at, record),
            Kind::CollApi | Kind::P2pApi => self.api(record),
            Kind::Coll | Kind::P2p | Kind::CeColl => self.operation(record),
            Kind::KernelLaunch => self.launch(record),
            Kind::GroupApi => Entity::Group(self.groups.of_calls(record, self.facts)),
            Kind::Group => Entity::Group(self.groups.of_kernel(record, self.facts)),
            Kind::KernelChannel => self.channel(record),
            Kind::ProxyOp => self.proxy(record),
            Kind::ProxyStep => self.step(record),
            Kind::State | Kind::Stop => {
                if record.kind == Kind::Stop {
                    self.result(record);
                }
                match self.parent(record) {
                    Some(parent) => self.change(parent, record),
                    None => self.stray(record),
                }
            }
            Kind::More => {
                self.add_more(record);
                Entity::Kept
            }
            _ => self.profiled(record),
        };
    }

    /// What a collective's user has tagged it with, and the group that NCCL has planned it in.
    fn add_more(&mut self, record: &Record) {
        let row = match self.parent(record) {
            Some(Entity::Operation(row) | Entity::Call(row)) => row,
            Some(Entity::Api(api)) => self.apis[api as usize].row,
            _ => return,
        };
        let of = &mut self.rows[row as usize];
        of.tag = of.tag.or(Some(record.a).filter(|tag| *tag != 0));
        if matches!(self.parent(record), Some(Entity::Operation(_))) && !self.rows[row as usize].is_copied {
            let group = self.group_of(record.b);
            self.groups.moved(row, group);
        }
    }

    fn group_of(&self, handle: u64) -> Option<u32> {
        match self.entities[self.rings.place(handle)?] {
            Entity::Group(group) => Some(group),
            _ => None,
        }
    }

    /// What a record belongs to; `None` if that is not here.
    fn parent(&self, record: &Record) -> Option<Entity> {
        Some(self.entities[self.rings.place(record.parent)?]).filter(|entity| !matches!(entity, Entity::None))
    }

    /// Counts a record that belongs to none that is here.
    fn stray(&mut self, record: &Record) -> Entity {
        match self.rings.named(record.parent) {
            Named::Overwritten => self.overwritten += 1,
            // Its parent belongs to nothing either, so the beginning of both is gone.
            Named::At(_) if self.overwritten > 0 => self.overwritten += 1,
            _ => self.strays += 1,
        }
        Entity::None
    }

    fn push(&mut self, row: Row) -> u32 {
        self.rows.push(row);
        self.rows.len() as u32 - 1
    }

    fn call(&mut self, at: usize, record: &Record) -> Entity {
        let mut row = Row { is_call: true, ..Row::from_record(record, self.facts) };
        if record.flags & flag::INSIDE_CALL != 0 {
            return Entity::Kept;
        }
        // A call that cannot fail or wait has no end of its own: it is over when the thread calls again.
        self.open.remove(&record.thread);
        if record.parent == 0 && !self.is_call_of(record, GROUP_END) {
            self.grouped.remove(&record.thread);
        }
        if self.facts.header.plugin < WITH_API && self.is_call_of(record, GROUP_START) {
            self.groups.begin(record, self.facts);
        }
        if row.collective.is_none() {
            return Entity::Kept;
        }
        row.set_number(record);
        let alike: Alike = (row.communicator, row.collective, row.peer);
        let waits = record.parent > 0 && self.facts.header.plugin < WITH_API && !row.is_captured;
        let row = self.push(row);
        if record.parent > 0 {
            self.grouped.entry(record.thread).or_default().push(row);
            self.groups.called(record.thread, row);
        }
        if !waits {
            self.open.insert(record.thread, Open { at, row, is_seen: false });
        } else {
            let waiting = self.waiting.entry(alike).or_default();
            if waiting.len() == WAITING {
                waiting.pop_front();
            }
            waiting.push_back(row);
        }
        Entity::Call(row)
    }

    fn api(&mut self, record: &Record) -> Entity {
        let row = Row::from_record(record, self.facts);
        let group = self.rings.place(record.parent);
        let row = match self.open_call(record.thread, &row) {
            Some(call) => {
                self.rows[call as usize].is_captured |= row.is_captured;
                call
            }
            None => self.push(row),
        };
        if let Some(group) = self.group_of(record.parent) {
            self.groups.add(group, row);
        }
        self.apis.push(Api { row, is_taken: false, group });
        Entity::Api(self.apis.len() as u32 - 1)
    }

    /// The call within which a thread is, if it is one like this and the plugin has not seen it.
    fn open_call(&mut self, thread: u32, like: &Row) -> Option<u32> {
        let open = self.open.get_mut(&thread).filter(|open| !open.is_seen)?;
        if !self.rows[open.row as usize].may_be(like) {
            return None;
        }
        open.is_seen = true;
        Some(open.row)
    }

    fn operation(&mut self, record: &Record) -> Entity {
        let mut new = Row::from_record(record, self.facts);
        let row = match self.parent(record) {
            Some(Entity::Api(api)) => self.of_api(api, new),
            _ => match self.open_call(record.thread, &new).or_else(|| self.waiting_call(&new)) {
                Some(row) => row,
                None => {
                    // A graph is carried out without a call.
                    new.is_replayed = new.is_captured;
                    new.enqueued = new.enqueued.filter(|_| !new.is_captured);
                    new.is_captured = false;
                    self.push(new)
                }
            },
        };
        let of = &mut self.rows[row as usize];
        of.plan(record, self.facts);
        of.set_number(record);
        match self.group_of(record.parent) {
            // The interface of version 4.
            Some(group) => self.groups.add(group, row),
            None if record.kind != Kind::CeColl => self.groups.planned(record.communicator, row),
            None => {}
        }
        Entity::Operation(row)
    }

    /// The operation of a call of the API. Those of a graph have one each time it is carried out.
    fn of_api(&mut self, api: u32, new: Row) -> u32 {
        let Api { row, is_taken, group } = self.apis[api as usize];
        let call = &self.rows[row as usize];
        let launched = group.zip(call.stream).and_then(|key| self.launches.get(&key).copied().flatten());
        if !is_taken && !call.is_captured {
            self.apis[api as usize].is_taken = true;
            let call = &mut self.rows[row as usize];
            call.launched = launched;
            call.communicator = call.communicator.or(new.communicator);
            return row;
        }
        let replay = Row {
            communicator: call.communicator.or(new.communicator),
            name: call.name.clone(),
            dtype: call.dtype.clone(),
            count: call.count,
            peer: call.peer,
            stream: call.stream,
            tag: call.tag,
            reduction: call.reduction,
            enqueued: None,
            is_captured: false,
            is_replayed: true,
            ..new
        };
        self.push(replay)
    }

    fn waiting_call(&mut self, like: &Row) -> Option<u32> {
        self.waiting.get_mut(&(like.communicator, like.collective, like.peer))?.pop_front()
    }

    fn launch(&mut self, record: &Record) -> Entity {
        if let Some(group) = self.rings.place(record.parent) {
            self.launches.entry((group, record.b)).or_insert_with(|| self.facts.time(record.time));
        }
        Entity::Kept
    }

    fn channel(&mut self, record: &Record) -> Entity {
        let Some(Entity::Operation(row)) = self.parent(record) else { return self.stray(record) };
        let channel = KernelChannel {
            channel: u32::from(record.channel),
            gpu_start: gpu_time(record.a),
            start: self.facts.time(record.time),
            ..KernelChannel::default()
        };
        self.rows[row as usize].started += 1;
        self.channels.push((row, channel));
        Entity::Channel(self.channels.len() as u32 - 1)
    }

    fn proxy(&mut self, record: &Record) -> Entity {
        // Of another process there is no operation here; its handle would be that of something else.
        let is_other = record.a != 0 && record.a != u64::from(self.facts.header.pid);
        let parent = if is_other { None } else { self.parent(record) };
        let operation = match parent {
            Some(Entity::Operation(row)) => Some(row),
            None if is_other || record.parent == 0 => None,
            _ => return self.stray(record),
        };
        if let Some(row) = operation {
            self.rows[row as usize].proxies += 1;
        }
        let proxy = self.proxies.begin(record, operation, self.facts);
        if is_other {
            self.proxies.all[proxy as usize].row.place = Some((record.c >> 32) as u32);
        }
        Entity::Proxy(proxy)
    }

    fn profiled(&mut self, record: &Record) -> Entity {
        let Some(mut event) = Profiled::new(record, self.facts) else { return Entity::Kept };
        match self.parent(record) {
            Some(Entity::Operation(row)) => event.operation = Some(row),
            Some(Entity::Channel(channel)) => {
                event.channel = Some(channel);
                event.operation = self.channels.get(channel as usize).map(|(row, _)| *row);
            }
            Some(Entity::Step(step)) => {
                event.step = Some(step);
                let proxy = self.proxies.of_step(step);
                event.operation = proxy.and_then(|proxy| proxy.operation);
                event.row.channel = proxy.map(|proxy| proxy.row.channel);
            }
            _ => {}
        }
        self.profiler_events.push(event);
        Entity::Profiled(self.profiler_events.len() as u32 - 1)
    }

    fn step(&mut self, record: &Record) -> Entity {
        match self.parent(record) {
            Some(Entity::Proxy(proxy)) => Entity::Step(self.proxies.begin_step(record, proxy, self.facts)),
            _ => self.stray(record),
        }
    }

    fn change(&mut self, parent: Entity, record: &Record) -> Entity {
        let time = self.facts.time(record.time);
        match (parent, record.kind) {
            (Entity::Call(row), Kind::Stop) => self.end_call(row, record),
            (Entity::Channel(channel), kind) => self.end_channel(channel, kind, record, time),
            (Entity::Proxy(proxy), Kind::State) => self.proxies.state(proxy, record, self.facts),
            (Entity::Proxy(proxy), _) => {
                let row = self.proxies.all[proxy as usize].operation;
                if let Some(row) = row.filter(|_| self.proxies.end(proxy, time)) {
                    self.rows[row as usize].proxies_done += 1;
                }
            }
            (Entity::Step(step), Kind::State) => self.proxies.step_state(step, record, self.facts),
            (Entity::Step(step), _) => self.proxies.end_step(step, time),
            (Entity::Group(group), Kind::Stop) => self.groups.end(group, time),
            (Entity::Profiled(event), _) => self.profiler_events[event as usize].change(record, time),
            _ => {}
        }
        Entity::None
    }

    fn end_call(&mut self, row: u32, record: &Record) {
        if let Some(at) = self.rings.place(record.parent) {
            let thread = self.rings.record(at).thread;
            if self.open.get(&thread).is_some_and(|open| open.at == at) {
                self.open.remove(&thread);
            }
        }
        self.rows[row as usize].is_failed |= is_error(record.a);
    }

    fn is_call_of(&self, call: &Record, function: &str) -> bool {
        self.facts.word(call.function).is_some_and(|word| *word.function == *function)
    }

    /// What a call returned, of whatever function. If the end of a group failed, nothing of the group ran.
    fn result(&mut self, stop: &Record) {
        let Some(at) = self.rings.place(stop.parent) else { return };
        let call = self.rings.record(at);
        if call.kind != Kind::Call {
            return;
        }
        let ends_group = call.parent == 0 && self.is_call_of(call, GROUP_END);
        if ends_group {
            self.groups.finish(call.thread, self.facts.time(stop.time));
        }
        if call.flags & flag::INSIDE_CALL != 0 || !is_error(stop.a) {
            return;
        }
        if ends_group {
            let of_group = self.grouped.remove(&call.thread);
            of_group.into_iter().flatten().for_each(|row| self.rows[row as usize].is_failed = true);
        }
        let function = self.facts.word(call.function).map(|word| Arc::clone(&word.function));
        let function = function.unwrap_or_else(|| "a function of NCCL".into());
        *self.failed_calls.entry((function, u32::try_from(stop.a).unwrap_or(u32::MAX))).or_default() += 1;
    }

    fn end_channel(&mut self, channel: u32, kind: Kind, record: &Record, time: Option<Ns>) {
        let (row, channel) = &mut self.channels[channel as usize];
        if kind == Kind::State && record.a == CHANNEL_STOP {
            self.unsound += u64::from(!channel.set_gpu_stop(gpu_time(record.b)));
        } else if kind != Kind::Stop {
            return;
        }
        // The state is the end; a stop may follow it.
        if channel.end.is_none() {
            channel.end = time;
            self.rows[*row as usize].stopped += 1;
        }
    }
}
