//! The engine of reruns on two published jobs, against the published results: "Understanding Stragglers in Large Model Training Using What-if Analysis"
//! (ByteDance). Their traces have one row for each operation of a data parallel rank and pipeline stage; what depends on what is theirs, too.
//! `cargo bench -p nccl-stacks-benches --bench published` stops at the first figure that differs. It is no test of the package because files compressed
//! with Snappy need another build of the Parquet library.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a check that cannot go on stops; it prints a table")]

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use serde_json::Value;

use nccl_stacks::replay::job::{Edge, JobGraph, Node, Role};
use nccl_stacks::replay::rank::{EdgeKind, NO_NODE};

/// An operation of a stage: its type, its number among those of its type, and the stage.
type Op = (String, u32, u32);

/// What happened: of a data parallel rank, in a step.
#[derive(Debug, Clone)]
struct Row {
    dp: u32,
    op: Op,
    chunk: i64,
    start: f64,
    end: f64,
    /// For how long it ran after all its members had started; of what does not communicate, for how long it ran.
    own: f64,
}

/// Operations of which a step is done at the end.
const LAST: &str = "optimizer";

/// What differs from the paper's data by the rounding of its times: they are 32-bit floats, of seconds.
const TOLERANCE: f64 = 0.005;

fn read(path: &Path) -> BTreeMap<i64, Vec<Row>> {
    let file = SerializedFileReader::new(std::fs::File::open(path).unwrap()).unwrap();
    let mut steps: BTreeMap<i64, Vec<Row>> = BTreeMap::new();
    for row in file.get_row_iter(None).unwrap() {
        let row = row.unwrap();
        let fields: HashMap<&str, &Field> = row.get_column_iter().map(|(name, field)| (name.as_str(), field)).collect();
        let number = |name: &str| match fields[name] {
            Field::Byte(value) => f64::from(*value),
            Field::Short(value) => f64::from(*value),
            Field::Int(value) => f64::from(*value),
            Field::Long(value) => *value as f64,
            Field::Float(value) => f64::from(*value),
            Field::Double(value) => *value,
            other => panic!("{name}: {other:?}"),
        };
        let Field::Str(kind) = fields["optype"] else { panic!("an operation without a type") };
        let (start, duration) = (number("start_ts"), number("duration"));
        let op = (kind.clone(), number("seq_id") as u32, number("stage") as u32);
        let (dp, chunk, end) = (number("dp_rank") as u32, number("gmc") as i64, start + duration);
        steps.entry(number("step") as i64).or_default().push(Row { dp, op, chunk, start, end, own: duration });
    }
    steps
}

/// What each operation waits for, and which communicate with each other.
struct Model {
    after: BTreeMap<Op, Vec<Op>>,
    groups: Vec<Vec<Op>>,
    group_of: HashMap<Op, usize>,
}

/// Types of which all data parallel ranks wait for each other.
const OF_DATA: [&str; 4] =
    ["params-all-gather", "grads-reduce-scatter", "separate-grads-all-reduce", "optimizer-clip-main-grad"];

const PEER_TO_PEER: [&str; 4] = ["forward-send", "forward-recv", "backward-send", "backward-recv"];

impl Model {
    /// By the first data parallel rank's operations in the first step; there is one chunk of the model for each stage.
    fn find(first: &[Row]) -> Self {
        let of_first: Vec<&Row> = first.iter().filter(|row| row.dp == 0).collect();
        let stages = of_first.iter().map(|row| row.op.2).max().unwrap() + 1;
        let has_data = first.iter().any(|row| row.dp > 0);
        let overlaps = first.iter().any(|row| row.op.0 == "separate-grads-all-reduce");
        let mut model = Model { after: BTreeMap::new(), groups: Vec::new(), group_of: HashMap::new() };
        model.after = of_first.iter().map(|row| (row.op.clone(), Vec::new())).collect();
        let mut pairs: BTreeMap<[Op; 2], Vec<Op>> = BTreeMap::new();
        for stage in 0..stages {
            let of_types = |types: &[&str]| {
                let is_one = |row: &&&Row| row.op.2 == stage && types.contains(&row.op.0.as_str());
                let mut rows: Vec<&Row> = of_first.iter().filter(is_one).copied().collect();
                rows.sort_by(|a, b| a.start.total_cmp(&b.start).then((a.op.1, &a.op.0).cmp(&(b.op.1, &b.op.0))));
                rows
            };
            let compute = of_types(&["forward-compute", "backward-compute"]);
            model.chain(&compute, &[]);
            for kind in PEER_TO_PEER {
                model.peer_to_peer(kind, stage, stages, &of_types(&[kind]), &compute, &mut pairs);
            }
            let first_backward = compute.iter().position(|row| row.op.0 == "backward-compute").unwrap();
            for kind in ["backward-recv", "backward-send"] {
                let op = (kind.to_owned(), 0, stage);
                if first_backward >= 2 && model.after.contains_key(&op) {
                    model.add(&op, &compute[first_backward - 2].op);
                }
            }
            let scatters = of_types(&["grads-reduce-scatter"]);
            if has_data {
                model.chain(&of_types(&["params-all-gather", "grads-reduce-scatter"]), &[]);
                let last_gather = of_types(&["params-all-gather"]).into_iter().max_by_key(|row| row.op.1);
                let forward = compute.iter().find(|row| row.op.0 == "forward-compute").unwrap();
                last_gather.into_iter().for_each(|gather| model.add(&forward.op, &gather.op));
                let backward = compute.iter().filter(|row| row.op.0 == "backward-compute");
                let last = backward.max_by(|a, b| a.end.total_cmp(&b.end)).unwrap();
                let first_scatter = scatters.iter().min_by_key(|row| row.op.1).filter(|_| overlaps);
                first_scatter.into_iter().for_each(|scatter| model.add(&scatter.op, &last.op));
            }
            model.after_compute(stage, stages, &compute, &scatters, (has_data, overlaps));
        }
        model.groups.extend(pairs.into_values());
        let of_data = |op: &&Op| OF_DATA[..3].contains(&op.0.as_str()) && has_data;
        let alone: Vec<Vec<Op>> = model.after.keys().filter(of_data).map(|op| vec![op.clone()]).collect();
        model.groups.extend(alone);
        let embedding = BTreeSet::from([0, stages - 1]);
        let of = |kind: &str, stages: &mut dyn Iterator<Item = u32>| {
            stages.map(|stage| (kind.to_owned(), 0, stage)).collect()
        };
        model.groups.push(of("embedding-grads-all-reduce", &mut embedding.into_iter()));
        model.groups.push(of("optimizer-clip-main-grad", &mut (0..stages)));
        let of_group = |(at, group): (usize, &Vec<Op>)| group.iter().map(|op| (op.clone(), at)).collect::<Vec<_>>();
        model.group_of = model.groups.iter().enumerate().flat_map(of_group).collect();
        model
    }

    fn add(&mut self, op: &Op, before: &Op) {
        self.after.get_mut(op).unwrap().push(before.clone());
    }

    fn chain(&mut self, rows: &[&Row], before: &[Op]) {
        let ops: Vec<Op> = rows.iter().map(|row| row.op.clone()).collect();
        self.chain_ops(&ops, before);
    }

    fn chain_ops(&mut self, ops: &[Op], before: &[Op]) {
        let mut before = before.to_vec();
        for op in ops {
            before.iter().for_each(|before| self.add(op, before));
            before = vec![op.clone()];
        }
    }

    /// Sends follow what they send, and receives precede what needs it; the n-th of a stage is that of the n-th computation. Some were recorded that
    /// never were: before the first computation or after the last, or at the ends of the pipeline.
    fn peer_to_peer(
        &mut self,
        kind: &str,
        stage: u32,
        stages: u32,
        rows: &[&Row],
        compute: &[&Row],
        pairs: &mut BTreeMap<[Op; 2], Vec<Op>>,
    ) {
        const EPSILON: f64 = 5e-5;
        let (direction, sends) = (kind.split('-').next().unwrap(), kind.ends_with("send"));
        let computed: Vec<&&Row> = compute.iter().filter(|row| row.op.0.starts_with(direction)).collect();
        let last_start = computed.iter().map(|row| row.start).fold(f64::MIN, f64::max);
        let first_end = computed.iter().map(|row| row.end).fold(f64::MAX, f64::min);
        let is_one = |row: &&&Row| match sends {
            true => row.end >= first_end - EPSILON,
            false => row.start <= last_start + EPSILON,
        };
        self.chain(rows, &[]);
        let ones: Vec<&&Row> = rows.iter().filter(is_one).collect();
        let skipped = u32::from(!sends && ones.len() + 1 == computed.len());
        let (mut valid, up) = (0, (direction == "forward") == sends);
        for (row, number) in ones.into_iter().zip(skipped..) {
            let of = (format!("{direction}-compute"), number, stage);
            let chunk = computed.iter().find(|row| row.op == of).unwrap().chunk;
            let peer_chunk = chunk + if up { 1 } else { -1 };
            if sends {
                self.add(&row.op, &of);
            } else {
                self.add(&of, &row.op);
                if number > 0 {
                    self.add(&row.op, &(of.0.clone(), number - 1, stage));
                }
            }
            if (0..i64::from(stages)).contains(&peer_chunk) {
                let peer_kind = if sends { kind.replace("send", "recv") } else { kind.replace("recv", "send") };
                let peer_stage = (if up { stage + 1 } else { stage + stages - 1 }) % stages;
                let mut pair = [(kind.to_owned(), valid, stage), (peer_kind, valid, peer_stage)];
                pair.sort();
                pairs.entry(pair).or_default().push(row.op.clone());
                valid += 1;
            }
        }
        for row in rows.iter().filter(|row| !pairs.values().flatten().any(|op| *op == row.op)) {
            self.groups.push(vec![row.op.clone()]);
        }
    }

    /// What follows the last computation of a step.
    fn after_compute(
        &mut self,
        stage: u32,
        stages: u32,
        compute: &[&Row],
        scatters: &[&Row],
        (has_data, overlaps): (bool, bool),
    ) {
        let op = |kind: &str| (kind.to_owned(), 0, stage);
        let last = compute.iter().max_by(|a, b| a.end.total_cmp(&b.end)).unwrap();
        self.add(&op("gc"), &last.op);
        let mut ops = vec![op("layernorm-grads-all-reduce")];
        ops.extend((stage == 0 || stage + 1 == stages).then(|| op("embedding-grads-all-reduce")));
        let mut before = vec![op("gc")];
        if has_data && overlaps {
            before.extend(scatters.iter().max_by_key(|row| row.op.1).map(|row| row.op.clone()));
            ops.push(op("separate-grads-all-reduce"));
        } else if has_data {
            let mut scatters: Vec<Op> = scatters.iter().map(|row| row.op.clone()).collect();
            scatters.sort_by_key(|op| op.1);
            ops.extend(scatters);
        }
        ops.extend([op("optimizer-clip-main-grad"), op(LAST)]);
        self.chain_ops(&ops, &before);
    }

    fn is_of_data(&self, op: &Op) -> bool {
        OF_DATA.contains(&op.0.as_str()) && self.group_of.contains_key(op)
    }

    /// The group of a data parallel rank's operation; those of which all wait for each other have one.
    fn group(&self, dp: u32, op: &Op) -> Option<(usize, Option<u32>)> {
        let group = *self.group_of.get(op)?;
        Some((group, (!self.is_of_data(op)).then_some(dp)))
    }

    /// Finds how long operations of a step take once all members have started.
    fn find_own(&self, rows: &mut [Row]) {
        let mut latest: HashMap<(usize, Option<u32>), f64> = HashMap::new();
        for row in rows.iter() {
            if let Some(group) = self.group(row.dp, &row.op) {
                latest.entry(group).and_modify(|start| *start = start.max(row.start)).or_insert(row.start);
            }
        }
        for row in rows {
            if let Some(group) = self.group(row.dp, &row.op) {
                row.own = row.end - latest[&group];
                if row.own <= -0.01 {
                    row.own = 0.0;
                }
            }
        }
    }

    /// The causal graph of a step, and by row the node with its own time.
    fn graph(&self, rows: &[Row]) -> (JobGraph, Vec<usize>) {
        let index: HashMap<(u32, &Op), usize> =
            rows.iter().enumerate().map(|(at, row)| ((row.dp, &row.op), at)).collect();
        let mut members: HashMap<(usize, Option<u32>), Vec<usize>> = HashMap::new();
        for (at, row) in rows.iter().enumerate() {
            self.group(row.dp, &row.op).into_iter().for_each(|group| members.entry(group).or_default().push(at));
        }
        let mut graph = JobGraph::default();
        let mut push = |role: Role, from: &[usize]| {
            let binding = EdgeKind::Thread;
            let edges = from.iter().map(|from| Edge { from: *from as u32, least: 0, kind: EdgeKind::Stream });
            graph.push(Node { role, rank: 0, of: NO_NODE, time: 0, start: 0, binding }, 0, 0, edges);
            graph.nodes.len() - 1
        };
        let (mut arrived, mut ended) = (vec![None; rows.len()], vec![None; rows.len()]);
        let mut left: Vec<usize> = (0..rows.len()).collect();
        while !left.is_empty() {
            let count = left.len();
            left.retain(|at| {
                let row = &rows[*at];
                let before =
                    self.after[&row.op].iter().map(|op| ended[index[&(row.dp, op)]]).collect::<Option<Vec<usize>>>();
                if arrived[*at].is_none()
                    && let Some(before) = before
                {
                    let is_alone = self.group(row.dp, &row.op).is_none();
                    arrived[*at] = Some(push(if is_alone { Role::Gpu } else { Role::Arrival }, &before));
                    if is_alone {
                        ended[*at] = arrived[*at];
                    }
                }
                if let Some(group) = self.group(row.dp, &row.op)
                    && ended[*at].is_none()
                    && let Some(all) = members[&group].iter().map(|at| arrived[*at]).collect::<Option<Vec<usize>>>()
                {
                    let all = push(Role::Rendezvous, &all);
                    members[&group].iter().for_each(|at| ended[*at] = Some(push(Role::Transfer, &[all])));
                }
                ended[*at].is_none()
            });
            assert!(
                left.len() < count,
                "operations wait for each other: {:?}",
                left.iter().map(|at| &rows[*at].op).collect::<Vec<_>>()
            );
        }
        (graph, ended.into_iter().map(Option::unwrap).collect())
    }
}

/// A job, with the mean duration of each type's operations, or the median if they communicate.
struct Job {
    steps: Vec<(Vec<Row>, JobGraph, Vec<usize>)>,
    ideal: HashMap<String, f64>,
}

impl Job {
    fn read(path: &Path) -> Self {
        let mut steps = read(path);
        let model = Model::find(steps.values().next().unwrap());
        steps.values_mut().for_each(|rows| model.find_own(rows));
        let mut of_type: HashMap<String, Vec<f64>> = HashMap::new();
        for row in steps.values().flatten() {
            of_type.entry(row.op.0.clone()).or_default().push(row.own);
        }
        let ideal = of_type.into_iter().map(|(kind, mut own)| {
            own.sort_by(f64::total_cmp);
            let is_mean =
                !(PEER_TO_PEER.contains(&kind.as_str()) || kind.contains("grad") || kind == "params-all-gather");
            let median = f64::midpoint(own[(own.len() - 1) / 2], own[own.len() / 2]);
            let time = if is_mean { own.iter().sum::<f64>() / own.len() as f64 } else { median };
            (kind, time)
        });
        let ideal = ideal.collect();
        let graph = |rows: Vec<Row>| {
            let (graph, nodes) = model.graph(&rows);
            (rows, graph, nodes)
        };
        Job { steps: steps.into_values().map(graph).collect(), ideal }
    }

    /// How long a step takes in the mean, in seconds, if these operations take as long as they did and the others as long as they should.
    fn step(&self, is_recorded: &dyn Fn(&Row) -> bool) -> f64 {
        let length = |(rows, graph, nodes): &(Vec<Row>, JobGraph, Vec<usize>)| {
            let mut times = graph.times.clone();
            for (row, node) in rows.iter().zip(nodes) {
                let own = if is_recorded(row) { row.own } else { self.ideal[&row.op.0] };
                times.own[*node] = (own * 1e9).round() as i64;
            }
            let found = graph.rerun(times);
            let last = rows.iter().zip(nodes).filter(|(row, _)| row.op.0 == LAST);
            last.map(|(_, node)| found.times[*node]).max().unwrap() as f64 / 1e9
        };
        self.steps.iter().map(length).sum::<f64>() / self.steps.len() as f64
    }
}

/// S, S of each data parallel rank and stage, and how much of the slowdown goes with the worst rank (M_W) and with the last stage (M_S).
fn main() {
    let shared = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared");
    if !shared.join("replay").is_dir() {
        println!("skipped: the published traces are not here ({})", shared.display());
        return;
    }
    for name in ["ST", "AR"] {
        let file = |name: String| shared.join("replay").join(name);
        let published = |kind: &str| {
            let text = std::fs::read_to_string(file(format!("{kind}-{name}.json"))).unwrap();
            serde_json::from_str::<Value>(&text).unwrap()
        };
        let job = Job::read(&file(format!("trace-{name}.parquet")));
        let result = published("result");
        let is_near = |what: &str, found: f64, wanted: &Value| {
            let wanted = wanted.as_f64().unwrap();
            println!("{name} {what}: {found:.5}, published {wanted:.5}");
            assert!((found - wanted).abs() <= TOLERANCE * wanted.abs().max(1.0), "{name} {what}: {found} {wanted}");
        };
        let (recorded, ideal) = (job.step(&|_| true), job.step(&|_| false));
        is_near("S", recorded / ideal, &result["blocking_slowdown"]);
        let of = |field: &str| result[field].as_object().unwrap().clone();
        for (dp, slowdown) in of("blocking_decompose_by_dp_rank") {
            let number: u32 = dp.parse().unwrap();
            is_near(&format!("S of data rank {dp}"), job.step(&|row| row.dp == number) / ideal, &slowdown);
        }
        let stages = of("blocking_decompose_by_stage");
        for (stage, slowdown) in &stages {
            let number: u32 = stage.parse().unwrap();
            is_near(&format!("S of stage {stage}"), job.step(&|row| row.op.2 == number) / ideal, slowdown);
        }
        let share = |without: &dyn Fn(&Row) -> bool| (recorded - job.step(&|row| !without(row))) / (recorded - ideal);
        let last = stages.keys().map(|stage| stage.parse::<u32>().unwrap()).max().unwrap();
        is_near("M_S", share(&|row| row.op.2 == last), &published("ms")["Ms"]);
        // A rank is as slow as its data rank and its stage are, whichever is less.
        let slowdown = |of: &serde_json::Map<String, Value>, at: u32| of[&at.to_string()].as_f64().unwrap();
        let dps = of("blocking_decompose_by_dp_rank");
        let ranks = (0..dps.len() as u32).flat_map(|dp| (0..=last).map(move |stage| (dp, stage)));
        let score = |(dp, stage): &(u32, u32)| slowdown(&dps, *dp).min(slowdown(&stages, *stage));
        let worst = ranks.max_by(|a, b| score(a).total_cmp(&score(b)).then(b.cmp(a))).unwrap();
        is_near("M_W", share(&|row| (row.dp, row.op.2) == worst), &published("mw")["Mw"]);
    }
}
