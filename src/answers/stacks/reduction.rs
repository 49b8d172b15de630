//! Reduces a trace to what its stacks cost, so that the trace can be dropped before the next one is read, and merges several reductions into one
//! answer.
//!
//! A reduction keeps a few numbers for each chosen kernel, because exact medians and percentiles over several traces need all of them. A part file
//! has their sums and histograms instead ([`crate::answers::time_sums`]).

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::collective_info::{CollectiveInfo, CollectiveSums, Fastest};
use super::data::{Coverage, Stack, StackOptions, StackReport, TraceOfReport, distinct};
use super::gpu_spans::GpuSpans;
use super::grouping::{
    GroupBy, GroupKey, GroupValue, Grouped, GroupedKernels, Grouping, Keys, MOST_GROUPS, Naming, Others,
};
use super::launching_steps::LaunchingSteps;
use super::not_asked::NotAsked;
use super::over_ranks::{OfRank, OverRanks};
use super::recorded_info::{Beside, JoinReport, RecordedInfo};
use super::step_costs::{StepCost, StepSums, times_of_steps};
use super::summary::{Summary, summarise};
use crate::answers::add_up;
use crate::answers::cost::{Cost, KernelCost, Kernels, Order, Totals};
use crate::answers::damage::Losses;
use crate::answers::window::whole;
use crate::attribution::capture::Captured;
use crate::attribution::launches::{Evidence, Launched, Launches, WindowOn};
use crate::attribution::possible::choose_or_possible;
use crate::attribution::ranks::Ranks;
use crate::attribution::selection::Wanted;
use crate::attribution::stack_key::{StackKey, by_stack};
use crate::attribution::{Attribution, AttributionOptions, Attributor, KernelLaunch, launches};
use crate::id::{GpuId, ProcessId, RankId, TraceId};
use crate::names::collectives::Collective;
use crate::store::Store;
use crate::store::strings::StringId;
use crate::time::{Ns, Window};

/// What a trace is reduced to: the stacks of its chosen kernels in a window.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct StackReduction {
    trace: TraceOfReport,
    /// By rank, if ranks are distinguished, and by key.
    #[serde(with = "entries")]
    stacks: BTreeMap<(Option<String>, StackKey), StackTotals>,
    /// By other keys, if the question asks for them; then there are no stacks. Part files have no groups.
    #[serde(skip)]
    groups: Option<BTreeMap<GroupKey, StackTotals>>,
    #[serde(skip)]
    others: Others,
    /// By label, if one of the keys is the step.
    #[serde(skip)]
    steps: BTreeMap<String, StepSums>,
    /// By rank, if ranks are distinguished: the time that its shares refer to.
    #[serde(default)]
    walls: BTreeMap<String, Ns>,
    coverage: Coverage,
    /// The number of chosen kernels in the whole trace.
    pub(crate) kernels_in_trace: u64,
    /// See [`StackReport::kernels_elsewhere`].
    pub(crate) elsewhere: u64,
    pub(crate) not_asked: NotAsked,
    /// Over the chosen kernels of the whole trace.
    #[serde(with = "entries")]
    fastest: Fastest,
    summary: Summary,
    pub(crate) damage: Losses,
    /// Not in part files.
    #[serde(skip)]
    records: Option<JoinReport>,
    /// Not in part files.
    #[serde(skip)]
    launching: LaunchingSteps,
}

/// What the kernels of a stack cost in a trace.
#[derive(Debug, Default, Serialize, Deserialize)]
struct StackTotals {
    kernels: Kernels,
    /// How long any of the kernels ran; shares are computed from this.
    busy_ns: Ns,
    by: BTreeMap<Evidence, u64>,
    names: BTreeMap<String, Totals>,
    #[serde(with = "super::collective_info::stored")]
    collective: CollectiveInfo,
    /// The totals of each rank, after merging.
    #[serde(skip)]
    ranks: Vec<OfRank>,
    #[serde(skip)]
    recorded: Option<RecordedInfo>,
}

impl StackReduction {
    /// Groups the kernels by stack.
    pub fn reduce(of: &Attributed<'_>) -> Self {
        let Attributed { name, store, launches, ref attribution, window, options } = *of;
        let StackOptions { exact_names, window_on, .. } = *options;
        let elsewhere = at_the_edges(store, launches, window, window_on);
        let spans = GpuSpans::find(store, &attribution.activity, window, window_on);
        let ranks = Ranks::find(store, &attribution.kernels);
        let summary = summarise(store, window, &spans);
        let of_trace = || ranks.of_header(TraceId(0)).or_else(|| ranks.of_file(TraceId(0)));
        let mut of_kernels = attribution.kernels.iter().filter_map(|kernel| ranks.of_kernel(kernel));
        let rank = of_kernels.next().or_else(of_trace);
        drop(of_kernels);
        let ranks_of = RanksOf::new(name, store, ranks, &attribution.kernels);
        let beside = options.records.as_deref().map(|of| Beside::join(store, attribution, of));
        let mut collectives = CollectiveSums::new(store, &launches.kernels, attribution);
        let mut sums = |collective: Option<Collective>, kernels: &[&KernelLaunch]| {
            let mut totals = StackTotals::new(store, &mut collectives, collective, kernels);
            totals.busy_ns = spans.busy(store, kernels.iter().map(|kernel| (kernel.launched.kernel, kernel.gpu_time)));
            totals.recorded = beside.as_ref().and_then(|beside| beside.info(kernels));
            totals
        };
        let steps = match options.grouping.has_steps() {
            true => StepSums::of_trace(store, attribution, window, window_on, exact_names),
            false => BTreeMap::new(),
        };
        let walls = if options.per_rank { ranks_of.walls(&spans, &attribution.kernels) } else { BTreeMap::new() };
        let (rows, mut stacks, mut groups) = (&attribution.kernels, BTreeMap::new(), None);
        let mut others = Others::default();
        if options.grouping.is_asked() {
            let rank = |kernel: &KernelLaunch| ranks_of.kernel(kernel).label(store, name);
            let naming = Naming { exact_names, user_code: &options.user_code, rank: &rank };
            let keys = Keys::new(store, attribution, &options.grouping, naming);
            let mut found: Vec<_> = keys.groups(rows.iter()).into_iter().collect();
            if let Some(order) = options.largest_groups.filter(|_| found.len() > MOST_GROUPS) {
                found.sort_by(|(_, a), (_, b)| totals(b).by(order).total_cmp(&totals(a).by(order)));
                found.drain(MOST_GROUPS..).for_each(|(_, kernels)| others.add(totals(&kernels)));
            }
            groups = Some(found.into_iter().map(|(key, kernels)| (key, sums(None, &kernels))).collect());
        } else {
            for ((rank, key), kernels) in by_label(&ranks_of, of) {
                let of_key = sums(key.collective(), &kernels);
                stacks.insert((rank, key), of_key);
            }
        }
        let fastest = collectives.into_fastest(&launches.kernels, rows);
        let records = beside.map(|beside| beside.report(rows.iter().map(|row| row.launched.kernel)));
        StackReduction {
            trace: TraceOfReport { name: name.to_owned(), rank, window: summary.window },
            stacks,
            groups,
            others,
            steps,
            walls,
            coverage: Coverage::count(store, attribution),
            kernels_in_trace: launches.kernels.len() as u64,
            elsewhere,
            fastest,
            not_asked: NotAsked::new(store, &attribution.activity, &launches.kernels, &spans),
            summary,
            damage: Losses::count(store),
            records,
            launching: if options.counts_steps {
                let alone = times_of_steps(store, &attribution.activity, window, window_on);
                LaunchingSteps { alone, ..LaunchingSteps::find(store, window, window_on) }
            } else {
                LaunchingSteps::default()
            },
        }
    }

    /// Whether any chosen kernel in the window has a stack or is in a group.
    pub fn has_stacks(&self) -> bool {
        self.stacks.keys().any(|(_, key)| key.no_launch.is_none())
            || self.groups.as_ref().is_some_and(|groups| !groups.is_empty())
    }

    /// The number of unattributed kernels among the chosen kernels in the window.
    pub fn unattributed(&self) -> u64 {
        self.coverage.unattributed()
    }

    pub fn kernel_names(&self) -> impl Iterator<Item = &str> {
        self.stacks.values().flat_map(|totals| totals.names.keys().map(String::as_str))
    }

    /// Sets the rank of a trace that holds a single rank.
    pub fn set_rank(&mut self, rank: RankId) {
        self.trace.rank = Some(rank);
        let label = format!("rank {rank}");
        let wall: Ns = std::mem::take(&mut self.walls).into_values().sum();
        self.walls = (wall > Ns::ZERO).then(|| (label.clone(), wall)).into_iter().collect();
        let stacks = std::mem::take(&mut self.stacks);
        self.stacks =
            stacks.into_iter().map(|((was, key), totals)| ((was.map(|_| label.clone()), key), totals)).collect();
    }

    /// How many of the chosen kernels in the window are attributed.
    pub fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    pub fn trace(&self) -> &TraceOfReport {
        &self.trace
    }
}

/// The chosen kernels in a window of a trace, attributed, and what is asked about them.
#[derive(Debug)]
pub struct Attributed<'a> {
    pub name: &'a str,
    pub store: &'a Store,
    /// The chosen kernels of the whole trace.
    pub launches: &'a Launches,
    pub attribution: Attribution,
    pub window: Window,
    pub options: &'a StackOptions,
}

impl<'a> Attributed<'a> {
    pub fn new(
        name: &'a str,
        attributor: Attributor<'a>,
        launches: &'a Launches,
        window: Window,
        options: &'a StackOptions,
    ) -> Self {
        let store = attributor.store();
        let inside = |launched: &&Launched| window.contains(launched.at(store, options.window_on));
        let of = AttributionOptions {
            exact_names: options.exact_names,
            without_forward: options.without_forward && !options.grouping.needs_forward(),
        };
        let attribution = attributor.attribute(launches.kernels.iter().filter(inside), of);
        Attributed { name, store, launches, attribution, window, options }
    }
}

fn totals(kernels: &[&KernelLaunch]) -> Totals {
    kernels.iter().map(|kernel| Totals::from_kernel(kernel)).sum()
}

/// Maps as lists, because the keys of a JSON object are strings.
mod entries {
    use std::collections::BTreeMap;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<K: Serialize, V: Serialize, S: Serializer>(
        map: &BTreeMap<K, V>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(map)
    }

    pub(super) fn deserialize<'de, K: Deserialize<'de> + Ord, V: Deserialize<'de>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<BTreeMap<K, V>, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().collect())
    }
}

/// What keeps the stacks of different ranks in a trace apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Number(RankId),
    Process(ProcessId),
    Trace,
}

impl Rank {
    fn label(self, store: &Store, trace: &str) -> String {
        match self {
            Rank::Number(rank) => format!("rank {rank}"),
            Rank::Process(process) => format!("process {}", store.tracks.process(process).pid),
            Rank::Trace => trace.to_owned(),
        }
    }
}

/// Finds which rank of a trace launched a kernel.
struct RanksOf<'s> {
    name: &'s str,
    store: &'s Store,
    ranks: Ranks<'s>,
    /// Whether several processes launched kernels.
    are_several: bool,
}

impl<'s> RanksOf<'s> {
    fn new(name: &'s str, store: &'s Store, ranks: Ranks<'s>, kernels: &[KernelLaunch]) -> Self {
        let launchers: BTreeSet<ProcessId> =
            kernels.iter().filter_map(|kernel| store.process_of(kernel.launched.call?)).collect();
        RanksOf { name, store, ranks, are_several: launchers.len() > 1 }
    }

    /// When ranks were merged into one file and nothing gives their numbers, each process counts as one.
    fn kernel(&self, kernel: &KernelLaunch) -> Rank {
        match (self.ranks.of_kernel(kernel), kernel.launched.call) {
            (Some(rank), _) => Rank::Number(rank),
            (None, Some(call)) if self.are_several => self.store.process_of(call).map_or(Rank::Trace, Rank::Process),
            (None, _) => Rank::Trace,
        }
    }

    /// The summed length of the GPU spans of each rank.
    fn walls(&self, spans: &GpuSpans<'_>, kernels: &[KernelLaunch]) -> BTreeMap<String, Ns> {
        let mut of_gpu: BTreeMap<GpuId, Rank> = BTreeMap::new();
        for kernel in kernels {
            of_gpu.entry(self.store.gpu_of(kernel.launched.kernel)).or_insert_with(|| self.kernel(kernel));
        }
        let mut walls: BTreeMap<String, Ns> = BTreeMap::new();
        for (gpu, rank) in of_gpu {
            *walls.entry(rank.label(self.store, self.name)).or_default() += spans.on(gpu).duration();
        }
        walls
    }
}

/// A stack, with its rank if ranks are distinguished, and its kernels.
pub(super) type OfStack<'k> = ((Option<String>, StackKey), Vec<&'k KernelLaunch>);

/// The attributed kernels of each stack, and of each rank if ranks are distinguished.
pub(super) fn kernels_by_stack<'k>(of: &'k Attributed<'_>) -> Vec<OfStack<'k>> {
    let kernels = &of.attribution.kernels;
    let ranks = RanksOf::new(of.name, of.store, Ranks::find(of.store, kernels), kernels);
    by_label(&ranks, of).filter(|((_, key), _)| key.no_launch.is_none()).collect()
}

fn by_label<'k>(ranks: &RanksOf<'_>, of: &'k Attributed<'_>) -> impl Iterator<Item = OfStack<'k>> {
    let Attributed { name, store, ref attribution, options, .. } = *of;
    let rank = |kernel: &KernelLaunch| options.per_rank.then(|| ranks.kernel(kernel));
    let found = by_stack(store, attribution, options.exact_names, rank);
    found.into_iter().map(move |((rank, key), kernels)| ((rank.map(|rank| rank.label(store, name)), key), kernels))
}

/// The number of kernels outside a window that would be inside if the other of launch and kernel start decided.
fn at_the_edges(store: &Store, launches: &Launches, window: Window, on: WindowOn) -> u64 {
    let other = if on == WindowOn::Launch { WindowOn::Kernel } else { WindowOn::Launch };
    let is_inside = |launched: &Launched, on| window.contains(launched.at(store, on));
    launches.kernels.iter().filter(|launched| !is_inside(launched, on) && is_inside(launched, other)).count() as u64
}

impl StackTotals {
    /// Adds up kernels. `collective` comes from their stack, for kernels without a record.
    fn new(
        store: &Store,
        collectives: &mut CollectiveSums<'_>,
        collective: Option<Collective>,
        kernels: &[&KernelLaunch],
    ) -> Self {
        let mut totals = StackTotals::default();
        let mut names: HashMap<StringId, Totals, FixedState> = HashMap::default();
        for kernel in kernels {
            // For kernels without a launch, the key holds the reason.
            if kernel.is_attributed() {
                *totals.by.entry(kernel.launched.evidence).or_default() += 1;
            }
            *names.entry(store.slices.name(kernel.launched.kernel)).or_default() += Totals::from_kernel(kernel);
        }
        let named = |(id, kernels)| (store.strings.get(id).unwrap_or_default().to_owned(), kernels);
        totals.names = names.into_iter().map(named).collect();
        totals.kernels = Kernels::Each(kernels.iter().map(|kernel| KernelCost::from_kernel(store, kernel)).collect());
        totals.collective = collectives.summarise(collective, kernels);
        totals
    }

    fn add(&mut self, other: StackTotals) {
        self.kernels.add(other.kernels);
        self.busy_ns += other.busy_ns;
        self.ranks.extend(other.ranks);
        add_up(&mut self.by, other.by);
        add_up(&mut self.names, other.names);
        self.collective.add(other.collective);
        if let Some(recorded) = other.recorded {
            self.recorded.get_or_insert_default().add(recorded);
        }
    }
}

impl StackReport {
    /// Merges the reductions of traces into one answer. Each trace has its own clock, so all times of the summary are sums.
    pub fn merge(reductions: impl IntoIterator<Item = StackReduction>, options: &StackOptions) -> Self {
        let StackOptions { user_code, grouping, per_rank, .. } = options;
        let mut report = StackReport::default();
        let (mut groups, mut others): (BTreeMap<GroupKey, StackTotals>, _) = (BTreeMap::new(), Others::default());
        let mut stacks: BTreeMap<(Option<String>, StackKey), StackTotals> = BTreeMap::new();
        let mut ranks: BTreeSet<Arc<str>> = BTreeSet::new();
        let mut walls: BTreeMap<String, Ns> = BTreeMap::new();
        let mut steps: BTreeMap<String, StepSums> = BTreeMap::new();
        let mut fastest = Fastest::new();
        let mut reductions = reductions.into_iter().enumerate().peekable();
        while let Some((at, mut reduction)) = reductions.next() {
            let several = at > 0 || reductions.peek().is_some();
            if several {
                let unattributed = reduction.coverage.without_launch.values_mut();
                unattributed
                    .flat_map(|of| &mut of.first)
                    .for_each(|kernel| kernel.trace = Some(reduction.trace.name.clone()));
            }
            add_up(&mut walls, reduction.walls);
            report.traces.push(reduction.trace);
            report.kernels_in_trace += reduction.kernels_in_trace;
            report.kernels_elsewhere += reduction.elsewhere;
            report.coverage.merge(reduction.coverage);
            report.not_asked.add(reduction.not_asked);
            for (transfer, time) in reduction.fastest {
                fastest.entry(transfer).and_modify(|known| *known = time.min(*known)).or_insert(time);
            }
            report.damage.add(reduction.damage);
            report.steps.add(reduction.launching);
            if let Some(records) = reduction.records {
                report.records.get_or_insert_default().add(records);
            }
            // Only a single trace has others.
            others = reduction.others;
            match reduction.groups {
                Some(of_first) if at == 0 => groups = of_first,
                of_key => {
                    of_key.into_iter().flatten().for_each(|(key, totals)| groups.entry(key).or_default().add(totals));
                }
            }
            reduction.steps.into_iter().for_each(|(label, step)| StepSums::add_to(&mut steps, label, step));
            match at {
                0 => report.summary = reduction.summary,
                _ => report.summary.add(&reduction.summary),
            }
            let of_trace = report.traces.last().map(rank_label).unwrap_or_default();
            for ((rank, key), mut totals) in reduction.stacks {
                let label = rank.as_deref().map_or_else(|| of_trace.clone(), Arc::from);
                totals.ranks = vec![OfRank { rank: label.clone(), totals: totals.kernels.totals() }];
                ranks.insert(label);
                let rank = rank.filter(|_| *per_rank);
                match stacks.entry((rank, key)) {
                    Entry::Vacant(vacant) => drop(vacant.insert(totals)),
                    Entry::Occupied(known) => known.into_mut().add(totals),
                }
            }
        }
        // A trace without any stack counts as a rank, too.
        let ranks = ranks.len().max(report.traces.len()) as u64;
        let (wall, is_one_trace) = (report.summary.wall_ns, report.traces.len() == 1);
        let stack = |((rank, key), mut totals): ((Option<String>, StackKey), StackTotals)| {
            let count = totals.kernels.count();
            totals.collective.fastest_ns = totals.collective.transfer(count).and_then(|of| fastest.get(&of).copied());
            let telling = key.telling_frames(user_code);
            let wall = rank.as_ref().and_then(|rank| walls.get(rank)).copied().unwrap_or(wall);
            let cost = Cost::sum(&totals.kernels, totals.busy_ns.share_of(wall), is_one_trace);
            Stack {
                rank,
                headline: telling.first().cloned(),
                telling,
                key,
                count,
                attributed_by: totals.by,
                kernels_by_name: totals.names,
                cost,
                messages: totals.collective,
                recorded: totals.recorded,
                over_ranks: OverRanks::compare(totals.ranks, ranks).filter(|_| !*per_rank),
            }
        };
        let rows = stacks.into_iter().map(stack);
        (report.stacks, report.without_launch) = rows.partition(|row| row.key.no_launch.is_none());
        report.without_launch.sort_by(|a, b| (&a.key, &a.rank).cmp(&(&b.key, &b.rank)));
        report.stacks_found = distinct(&report.stacks);
        let steps = steps.into_iter().map(|(label, step)| (label, step.cost(user_code))).collect();
        report.grouped = Grouped::new(groups, others, steps, grouping, (wall, is_one_trace));
        report.arrange(Order::Count, 0.0, None);
        report
    }
}

/// The label among several traces of a trace whose ranks are not numbered.
fn rank_label(trace: &TraceOfReport) -> Arc<str> {
    trace.rank.map_or_else(|| Arc::from(&*trace.name), |rank| Arc::from(format!("rank {rank}")))
}

impl Grouped {
    /// Merges the groups of all traces. Shares refer to `wall`; `steps` are by label.
    fn new(
        mut by_key: BTreeMap<GroupKey, StackTotals>,
        others: Others,
        steps: BTreeMap<String, StepCost>,
        grouping: &Grouping,
        (wall, is_one_trace): (Ns, bool),
    ) -> Self {
        let by: Vec<String> = grouping.by.iter().map(GroupBy::name).collect();
        // A step without any chosen kernel gets a row, too.
        if let (true, [GroupBy::Step]) = (!by_key.is_empty(), &grouping.by[..]) {
            for label in steps.keys() {
                by_key.entry(vec![GroupValue::single(label.as_str())]).or_default();
            }
        }
        let at = grouping.by.iter().position(|key| matches!(key, GroupBy::Step));
        let step = |key: &GroupKey| steps.get(key.get(at?)?.label().as_ref()).cloned();
        let group = |(key, totals): (GroupKey, StackTotals)| GroupedKernels {
            step: step(&key),
            key: by.iter().cloned().zip(key).collect(),
            count: totals.kernels.count(),
            attributed: totals.by.values().sum(),
            kernels_by_name: totals.names,
            cost: Cost::sum(&totals.kernels, totals.busy_ns.share_of(wall), is_one_trace),
            share_of_groups: 0.0,
            messages: totals.collective,
            recorded: totals.recorded,
        };
        let mut groups: Vec<GroupedKernels> = by_key.into_iter().map(group).collect();
        let distinguished: Ns = groups.iter().map(|group| group.cost.gpu_time.total_ns).sum();
        let all = distinguished + others.totals.gpu_time_ns;
        for group in &mut groups {
            group.share_of_groups = group.cost.gpu_time.total_ns.share_of(all).unwrap_or(0.0);
        }
        Grouped {
            grouped_by: by,
            groups_found: groups.len() as u64 + others.groups,
            groups,
            others,
            ..Grouped::default()
        }
    }
}

/// The stacks of kernels in a window, without captures of CUDA graphs: a replayed kernel has the stack of its replay. Runs [`choose_or_possible`],
/// then [`launches::find`], then [`stack_report`].
pub fn stacks(store: &Store, wanted: &Wanted, window: Window, options: StackOptions) -> StackReport {
    let launches = launches::find(store, &choose_or_possible(store, wanted));
    stack_report(Attributor::new(store, wanted, Captured::default()), &launches, window, options)
}

/// Attributes every kernel in the window, groups the rows by stack, and adds up what the kernels of each stack cost.
pub fn stack_report(
    attributor: Attributor<'_>,
    launches: &Launches,
    window: Window,
    mut options: StackOptions,
) -> StackReport {
    let mut window = window;
    if window == Window::ALL {
        (window, options.window_on) = whole(attributor.store(), options.window_on);
    }
    let part = StackReduction::reduce(&Attributed::new("", attributor, launches, window, &options));
    StackReport::merge(vec![part], &options)
}
