//! The call stacks above the launches, grouped, counted and with what they cost.
//!
//! A stack has up to three parts: who launched the kernel; if a graph's replay did, who put it into the graph; if autograd did,
//! which code of the forward pass made that necessary.

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::FixedState;
use serde::Serialize;

pub use super::call_tree::CallPath;
use super::call_tree::{Climber, Node, Tree};
use super::capture::{CaptureTally, Captured};
use super::collective_info::{CollectiveInfo, Records, Sender};
use super::cost::{Cost, Totals};
use super::devices::Devices;
use super::forward::{Forward, Forwards};
use super::kernels::{Wanted, choose, collectives};
use super::launches::{self, Evidence, Launched, Launches, Reason, WindowOn};
use super::losses::Losses;
use super::stack_key::StackKey;
use super::summary::{Summary, summarise};
use crate::error::Error;
use crate::sql::Database;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::Window;

/// How to climb.
#[derive(Debug, Clone, Copy)]
pub struct Climb {
    /// How many callers above the launch to keep; `None` for all.
    pub max_callers: Option<usize>,
    /// Keep names as they are, so that layers and objects stay apart.
    pub exact_names: bool,
    /// Which kernels lie in the window.
    pub window_on: WindowOn,
    /// Whether to show the code of the forward pass for kernels of the backward pass.
    pub forward: bool,
}

impl Default for Climb {
    fn default() -> Self {
        Climb { max_callers: None, exact_names: false, window_on: WindowOn::Launch, forward: true }
    }
}

/// One stack, how many kernels were launched from it, and what these cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Stack {
    /// What is shown of it.
    #[serde(flatten)]
    pub key: StackKey,
    /// How many kernels.
    pub count: u64,
    /// By what these were attributed.
    #[serde(rename = "attributed_by")]
    pub by: BTreeMap<Evidence, u64>,
    /// Those of each name.
    #[serde(rename = "kernels_by_name")]
    pub kernels: BTreeMap<String, Totals>,
    /// How long they took.
    pub cost: Cost,
    /// What they moved.
    #[serde(rename = "messages")]
    pub collective: CollectiveInfo,
}

impl Stack {
    /// All its kernels.
    pub fn totals(&self) -> Totals {
        Totals { count: self.count, gpu_time: self.cost.gpu_time.total, exposed: self.cost.exposed }
    }
}

/// By what stacks are put in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub enum Order {
    /// How many kernels.
    #[default]
    Count,
    /// How long these ran in all.
    GpuTime,
    /// How long of that nothing hid them.
    Exposed,
    /// How long one of them ran.
    Mean,
}

/// What is known of the kernels that lie in a window.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// How many there are.
    pub kernels: u64,
    /// By what those were attributed that were.
    #[serde(rename = "attributed_by")]
    pub by: BTreeMap<Evidence, u64>,
    /// How many of these share their tie with several calls, so that time alone decided for one of them.
    pub uncertain: u64,
    /// How many of these have a flow from another call.
    pub flow_disagrees: u64,
    /// Those without a launch, by reason.
    #[serde(rename = "without_launch")]
    pub unattributed: BTreeMap<Reason, Unattributed>,
    /// What the captures gave for kernels of graphs, if there are any captures; of the whole trace.
    pub captures: Option<CaptureTally>,
    /// How many have a number of autograd, but no or several operators of the forward pass have it.
    pub forward_unknown: u64,
}

/// Kernels without a launch.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Unattributed {
    /// All of them.
    #[serde(flatten)]
    pub all: Totals,
    /// Those of each name.
    #[serde(rename = "kernels_by_name")]
    pub kernels: BTreeMap<String, Totals>,
    /// The first of them.
    pub first: Vec<UnattributedKernel>,
}

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnattributedKernel {
    /// Its name.
    pub name: String,
    /// When it started, in ns.
    #[serde(rename = "ts_ns")]
    pub ts: i64,
}

/// How many kernels without a launch are named for each reason.
const NAMED: usize = 3;

impl Coverage {
    /// How many kernels were attributed.
    pub fn attributed(&self) -> u64 {
        self.by.values().sum()
    }

    /// How many have no launch.
    pub fn unattributed(&self) -> u64 {
        self.unattributed.values().map(|missed| missed.all.count).sum()
    }

    fn add(&mut self, store: &Store, launched: &Launched, exposed: i64) {
        self.kernels += 1;
        self.uncertain += u64::from(launched.uncertain);
        self.flow_disagrees += u64::from(launched.flow_disagrees);
        match launched.evidence {
            Evidence::None(reason) => {
                let missed = self.unattributed.entry(reason).or_default();
                let (name, kernel) = (store.slice_name(launched.kernel as usize), Totals::one(launched, exposed));
                missed.all.add(kernel);
                match missed.kernels.get_mut(name) {
                    Some(known) => known.add(kernel),
                    None => drop(missed.kernels.insert(name.to_owned(), kernel)),
                }
                if missed.first.len() < NAMED {
                    missed.first.push(UnattributedKernel { name: name.to_owned(), ts: launched.kernel_ts });
                }
            }
            evidence => *self.by.entry(evidence).or_default() += 1,
        }
    }
}

/// The stacks of a window.
#[derive(Debug, Default, Serialize)]
pub struct StackReport {
    /// By count, the largest first; equal counts by text. [`StackReport::arrange`] makes another order of it.
    pub stacks: Vec<Stack>,
    /// Those that were left out, in no order.
    #[serde(skip)]
    pub hidden: Vec<Stack>,
    /// How many stacks there are in all, those included that were left out.
    pub stacks_found: u64,
    /// How many kernels the stacks have that were left out.
    #[serde(rename = "kernels_left_out")]
    pub left_out: u64,
    /// How many chosen kernels the whole trace has.
    pub kernels_in_trace: u64,
    /// What is known of those that lie in the window. The sum of all stacks' counts is how many were attributed.
    pub coverage: Coverage,
    /// How many chosen kernels started in the window and were launched before or after it, or the other way round: they do not lie
    /// in it by what was asked for.
    #[serde(rename = "kernels_elsewhere")]
    pub elsewhere: u64,
    /// The window as a whole.
    pub summary: Summary,
    /// What is wrong with the trace.
    pub damage: Losses,
}

impl StackReport {
    /// Puts the stacks in order, the largest first, and leaves out those that have less than a share of the GPU time of all, and
    /// those behind the first so many.
    pub fn arrange(&mut self, order: Order, min_share: f64, limit: Option<usize>) {
        self.stacks.append(&mut self.hidden);
        let by = |cost: fn(&Stack) -> f64| move |a: &Stack, b: &Stack| cost(b).total_cmp(&cost(a));
        match order {
            Order::Count => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.count)),
            Order::GpuTime => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.gpu_time.total)),
            Order::Exposed => self.stacks.sort_by_key(|stack| std::cmp::Reverse(stack.cost.exposed)),
            Order::Mean => self.stacks.sort_by(by(|stack| stack.cost.gpu_time.mean)),
        }
        let all = self.gpu_time() as f64;
        let is_small = |stack: &mut Stack| min_share > 0.0 && (stack.cost.gpu_time.total as f64) < min_share * all;
        self.hidden = self.stacks.extract_if(.., is_small).collect();
        self.hidden.extend(self.stacks.drain(self.stacks.len().min(limit.unwrap_or(usize::MAX))..));
        self.left_out = self.coverage.attributed() - self.stacks.iter().map(|stack| stack.count).sum::<u64>();
    }

    /// How long the kernels of all stacks ran, in ns.
    fn gpu_time(&self) -> i64 {
        self.stacks.iter().fold(0, |sum, stack| sum.saturating_add(stack.cost.gpu_time.total))
    }
}

/// What tells stacks apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    launch: Node,
    thread: Option<u32>,
    captured: Option<Node>,
    forward: Option<Node>,
}

/// What a climb is made of, beside the kernels.
#[derive(Debug)]
pub struct Ground<'a> {
    /// The trace.
    pub store: &'a Store,
    /// What ran on its GPUs.
    pub devices: Devices,
    /// The stacks of captures, if there are any.
    pub captured: Captured,
}

impl<'a> Ground<'a> {
    /// For a trace and the kernels that are asked for.
    pub fn new(store: &'a Store, wanted: &Wanted, captured: Captured) -> Self {
        Ground { store, devices: Devices::new(store, collectives(store, wanted)), captured }
    }
}

/// The stacks above the launches of some kernels in a window, without captures of CUDA graphs: a replayed kernel has the stack of
/// its replay. What is done is [`choose`], then [`launches::find`], then [`climb`].
///
/// # Errors
/// What SQLite fails with.
pub fn stacks(database: &Database, wanted: &Wanted, window: Window, how: Climb) -> Result<StackReport, Error> {
    let store = database.store();
    let launches = launches::find(store, &choose(database, wanted)?);
    Ok(climb(Ground::new(store, wanted, Captured::default()), &launches, window, how))
}

/// Climbs from every launch in the window, groups, and adds up what the kernels cost.
pub fn climb(ground: Ground<'_>, launches: &Launches, window: Window, climb: Climb) -> StackReport {
    let Ground { store, devices, captured } = ground;
    let Captured { mut tree, stacks: captures, tally } = captured;
    let mut report = StackReport {
        kernels_in_trace: launches.kernels.len() as u64,
        damage: Losses::of(store),
        ..StackReport::default()
    };
    report.coverage.captures = (tally.graphs > 0).then_some(tally);
    let mut climber = Climber::new(store, climb.exact_names);
    let mut forwards = Forwards::new(store);
    let mut places: BTreeMap<Place, Vec<Sender<'_>>> = BTreeMap::new();
    let main = main_threads(store);
    let other = if climb.window_on == WindowOn::Launch { WindowOn::Kernel } else { WindowOn::Launch };
    let mut sweep = devices.sweep(store);
    for launched in &launches.kernels {
        if !window.contains(launched.at(climb.window_on)) {
            report.elsewhere += u64::from(window.contains(launched.at(other)));
            continue;
        }
        let exposed = sweep.exposed(launched);
        report.coverage.add(store, launched, exposed);
        let stack = captures.get(&launched.kernel).copied();
        let mut place = Place { launch: 0, thread: None, captured: stack, forward: None };
        let mut record = None;
        if let Some(call) = launched.call {
            let found = climber.launch(&mut tree, call.slice);
            (place.launch, place.thread) = (found.node, helper_thread(store, &main, call.slice));
            record = found.record;
            if let Some(backward) = found.backward.filter(|_| climb.forward) {
                match forwards.of(backward, &mut climber.callers) {
                    Forward::Operator(operator) => {
                        place.forward = Some(climber.place(&mut tree, operator).node);
                    }
                    Forward::NotRecorded | Forward::Ambiguous => report.coverage.forward_unknown += 1,
                }
            }
        } else if stack.is_none() {
            continue;
        }
        places.entry(place).or_default().push(Sender { launched, record, exposed });
    }
    report.summary = summarise(store, &devices, window);
    let mut pricing = Pricing { store, wall: report.summary.wall, records: Records::new(store, &launches.kernels) };
    let groups = grouped(store, &tree, places, climb);
    report.stacks = groups.into_iter().map(|(key, kernels)| pricing.stack(key, &kernels)).collect();
    report.stacks_found = report.stacks.len() as u64;
    report.arrange(Order::Count, 0.0, None);
    report
}

/// Stacks that differ only above the cut are one.
fn grouped<'l>(
    store: &Store,
    tree: &Tree,
    places: BTreeMap<Place, Vec<Sender<'l>>>,
    climb: Climb,
) -> BTreeMap<StackKey, Vec<Sender<'l>>> {
    let mut groups: BTreeMap<StackKey, Vec<Sender<'l>>> = BTreeMap::new();
    let trail = |node| tree.trail(node, climb.max_callers);
    for (place, kernels) in places {
        let CallPath { frames, truncated } = trail(place.launch);
        let key = StackKey {
            frames,
            truncated,
            thread: place.thread.map(|thread| thread_name(store, thread, climb.exact_names)),
            captured: place.captured.map(trail),
            forward: place.forward.map(trail),
        };
        groups.entry(key).or_default().extend(kernels);
    }
    groups
}

/// Adds up what kernels cost.
struct Pricing<'a> {
    store: &'a Store,
    wall: i64,
    records: Records<'a>,
}

impl Pricing<'_> {
    fn stack(&mut self, key: StackKey, kernels: &[Sender<'_>]) -> Stack {
        let store = self.store;
        let (mut by, mut names): (BTreeMap<_, u64>, HashMap<StringId, Totals, FixedState>) = Default::default();
        for Sender { launched, exposed, .. } in kernels {
            *by.entry(launched.evidence).or_default() += 1;
            let of_name = names.entry(store.slices.name(launched.kernel as usize)).or_default();
            of_name.add(Totals::one(launched, *exposed));
        }
        let called = key.collective();
        let named = |(id, kernels)| (store.strings.get(id).unwrap_or_default().to_owned(), kernels);
        Stack {
            key,
            count: kernels.len() as u64,
            by,
            kernels: names.into_iter().map(named).collect(),
            cost: Cost::of(store, kernels, self.wall),
            collective: self.records.messages(called, kernels.iter().copied()),
        }
    }
}

/// The main thread of each process: the one with the process's number; if that has no slices, as where a tool has given the
/// processes of several ranks new numbers, the one with the lowest, because the others were started by it.
pub(super) fn main_threads(store: &Store) -> HashMap<u32, u32> {
    let mut main: HashMap<u32, u32> = HashMap::new();
    let of_thread = |utid: u32| &store.tracks.threads[utid as usize];
    for utid in threads_with_slices(store) {
        let thread = of_thread(utid);
        let pid = store.tracks.processes[thread.upid as usize].pid;
        let rank = |utid: u32| (of_thread(utid).tid != pid, of_thread(utid).tid);
        let known = main.entry(thread.upid).or_insert(utid);
        if rank(utid) < rank(*known) {
            *known = utid;
        }
    }
    main
}

/// The threads that have slices, in order of their first. Arrows alone make tracks, too: Kineto of 2021 wrote them with numbers of
/// threads that it wrote nowhere else.
fn threads_with_slices(store: &Store) -> Vec<u32> {
    let mut is_seen = vec![false; store.tracks.tracks.len()];
    let mut left = is_seen.len();
    let tracks = (0..store.slices.len()).map(|slice| store.slices.track(slice));
    let mut threads = Vec::new();
    for track in tracks {
        if !std::mem::replace(&mut is_seen[track as usize], true) {
            threads.extend(store.tracks.thread_of(track));
            left -= 1;
            if left == 0 {
                break;
            }
        }
    }
    threads
}

/// The thread of a launch, if it is not the main one of its process.
fn helper_thread(store: &Store, main: &HashMap<u32, u32>, slice: u32) -> Option<u32> {
    let utid = store.thread_of(slice as usize)?;
    let upid = store.tracks.threads[utid as usize].upid;
    (main.get(&upid) != Some(&utid)).then_some(utid)
}

/// A thread as a stack shows it: by its name, as Kineto writes it (`thread 639 (pt_autograd_0)`), and without what tells it from
/// others that do the same, unless that is asked for.
fn thread_name(store: &Store, utid: u32, exact: bool) -> String {
    let thread = &store.tracks.threads[utid as usize];
    let name = store.strings.get(thread.name).filter(|_| thread.name != StringId::NULL).unwrap_or_default().trim();
    let inner = name.strip_prefix(&format!("thread {} (", thread.tid)).and_then(|rest| rest.strip_suffix(')'));
    match (inner.unwrap_or(name), exact) {
        ("", _) => thread.tid.to_string(),
        (inner, true) => format!("{} ({inner})", thread.tid),
        // `pt_autograd_0`, but `python3.8`.
        (inner, false) => match inner.trim_end_matches(|c: char| c.is_ascii_digit()) {
            folded if folded.ends_with(['_', '-', '#']) => folded.to_owned(),
            _ => inner.to_owned(),
        },
    }
}
