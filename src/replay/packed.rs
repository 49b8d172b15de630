//! The graph of a rank in few bytes, as fields of a JSON document. Places follow from the rest, and are found again when it is read.

use std::collections::HashMap;

use foldhash::fast::FixedState;
use serde::de::Error as _;
use serde::ser::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::places;
use super::rank::{EdgeKind, EdgesByNode, FUNCTIONS, NodeKind, RankEdge, RankGraph, RankNode, longest_first};
use crate::packing::{CUT_OFF, Reader, Writer, Wrong, difference, number, optional, sum, unoptional, unzigzag, zigzag};
use crate::time::Ns;

/// A graph as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Packed {
    steps: u32,
    profiled_from: Option<i64>,
    texts: Vec<String>,
    annotations: Vec<u32>,
    nodes: String,
    edges: String,
    functions: String,
}

const EDGES: [EdgeKind; 8] = [
    EdgeKind::Thread,
    EdgeKind::Launch,
    EdgeKind::Stream,
    EdgeKind::WaitEvent,
    EdgeKind::Unexplained,
    EdgeKind::Blocked,
    EdgeKind::Wake,
    EdgeKind::MayBlock,
];

/// No trace is longer, in ns: 13 days. So sums of its times are numbers.
const LONGEST: i64 = 1 << 50;

/// No trace has more steps. Lists by step are that long.
const MOST_STEPS: u32 = 1 << 20;

const UNKNOWN: Wrong = "a packed graph has a kind that is unknown";

pub(crate) fn serialize<S: Serializer>(graph: &RankGraph, to: S) -> Result<S::Ok, S::Error> {
    let nodes = write_nodes(graph).map_err(S::Error::custom)?;
    let edges = write_edges(graph).map_err(S::Error::custom)?;
    let functions = write_functions(graph).map_err(S::Error::custom)?;
    let profiled_from = graph.profiled_from.map(|time| time.0);
    Packed {
        steps: graph.steps,
        profiled_from,
        texts: graph.texts.clone(),
        annotations: graph.annotations.clone(),
        nodes,
        edges,
        functions,
    }
    .serialize(to)
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RankGraph, D::Error> {
    read(Packed::deserialize(from)?).map_err(D::Error::custom)
}

fn read(packed: Packed) -> Result<RankGraph, Wrong> {
    if packed.steps > MOST_STEPS {
        return Err("a packed graph has too many steps");
    }
    let nodes = read_nodes(&packed.nodes, &packed)?;
    let edges = read_edges(&packed.edges, &nodes)?;
    let (annotations, profiled_from) = (packed.annotations, packed.profiled_from.map(Ns));
    let mut graph = RankGraph {
        edges,
        texts: packed.texts,
        annotations,
        profiled_from,
        steps: packed.steps,
        nodes,
        ..RankGraph::default()
    };
    places::find(&mut graph);
    read_functions(&packed.functions, &mut graph)?;
    Ok(graph)
}

fn kind_of(kind: NodeKind) -> (u64, Option<u32>) {
    match kind {
        NodeKind::Launch => (0, None),
        NodeKind::Blocked => (1, None),
        NodeKind::Woken => (2, None),
        NodeKind::CpuArrival(number) => (3, Some(number)),
        NodeKind::CpuLeft(number) => (4, Some(number)),
        NodeKind::Slice => (5, None),
        NodeKind::Collective(row) => (6, Some(row)),
        NodeKind::Returned => (7, None),
        NodeKind::Unknown => (8, None),
        NodeKind::Profiler => (9, None),
        NodeKind::End => (10, None),
        NodeKind::Earlier => (11, None),
    }
}

/// Where what is before a node on its thread or stream ended.
type Ends = HashMap<(bool, u32), Ns, FixedState>;

fn write_nodes(graph: &RankGraph) -> Result<String, std::io::Error> {
    let nodes = &graph.nodes;
    let mut writer = Writer::new(nodes.len());
    writer.column(nodes, |node| kind_of(node.kind).0);
    let mut last = 0;
    writer.column(nodes, |node| {
        let Some(number) = kind_of(node.kind).1.map(i64::from) else { return 0 };
        zigzag(number - std::mem::replace(&mut last, number) - 1)
    });
    writer.column(nodes, |node| u64::from(node.lane));
    writer.column(nodes, |node| u64::from(node.name));
    writer.column(nodes, |node| optional(node.step.get()));
    let mut ends = Ends::default();
    writer.column(nodes, |node| {
        let before = ends.insert((node.kind.is_cpu(), node.lane), node.end).unwrap_or_default();
        difference(node.start, before)
    });
    writer.column(nodes, |node| difference(node.end, node.start));
    writer.text()
}

fn read_nodes(text: &str, packed: &Packed) -> Result<Vec<RankNode>, Wrong> {
    let mut reader = Reader::from_text(text)?;
    let kinds_of = reader.count()?;
    let kinds = reader.values(kinds_of)?;
    let mut last = 0_i64;
    let mut node = |(kind, value): (u64, u64)| -> Result<RankNode, Wrong> {
        let mut next = || {
            last = last.wrapping_add(unzigzag(value)).wrapping_add(1);
            number(last as u64)
        };
        let kind = match kind {
            0 => NodeKind::Launch,
            1 => NodeKind::Blocked,
            2 => NodeKind::Woken,
            3 => NodeKind::CpuArrival(next()?),
            4 => NodeKind::CpuLeft(next()?),
            5 => NodeKind::Slice,
            6 => NodeKind::Collective(next()?),
            7 => NodeKind::Returned,
            8 => NodeKind::Unknown,
            9 => NodeKind::Profiler,
            10 => NodeKind::End,
            11 => NodeKind::Earlier,
            _ => return Err(UNKNOWN),
        };
        Ok(RankNode::new(kind))
    };
    let numbers = reader.values(kinds.len())?;
    let mut nodes: Vec<RankNode> = Vec::with_capacity(kinds_of);
    kinds.into_iter().zip(numbers).try_for_each(|of| node(of).map(|node| nodes.push(node)))?;
    reader.column(&mut nodes, |node, value| {
        node.lane = number(value)?;
        if node.lane as usize >= kinds_of { Err(UNKNOWN) } else { Ok(()) }
    })?;
    reader.column(&mut nodes, |node, value| {
        node.name = number(value)?;
        if node.name as usize >= packed.texts.len() { Err(UNKNOWN) } else { Ok(()) }
    })?;
    reader.column(&mut nodes, |node, value| {
        let step = unoptional(value)?;
        node.step = step.into();
        if step.is_some_and(|step| step >= packed.steps) { Err(UNKNOWN) } else { Ok(()) }
    })?;
    let mut starts = reader.values(nodes.len())?.into_iter();
    let mut ends = Ends::default();
    reader.column(&mut nodes, |node, value| {
        let key = (node.kind.is_cpu(), node.lane);
        node.start = sum(ends.get(&key).copied().unwrap_or_default(), starts.next().ok_or(CUT_OFF)?);
        node.end = sum(node.start, value);
        ends.insert(key, node.end);
        Ok(())
    })?;
    reader.end()?;
    let times = || nodes.iter().flat_map(|node| [node.start.0, node.end.0]);
    let (first, last) = (times().min().unwrap_or_default(), times().max().unwrap_or_default());
    if last.checked_sub(first).is_none_or(|span| span > LONGEST) {
        return Err("the times of a packed graph are too far apart");
    }
    Ok(nodes)
}

fn write_edges(graph: &RankGraph) -> Result<String, std::io::Error> {
    let edges: Vec<(i64, RankEdge)> =
        (0_i64..).zip(graph.edges.iter()).flat_map(|(to, edges)| edges.iter().map(move |edge| (to, *edge))).collect();
    let mut writer = Writer::new(edges.len());
    let mut last = 0;
    writer.column(&edges, |(to, _)| zigzag(to - std::mem::replace(&mut last, *to)));
    writer.column(&edges, |(_, edge)| EDGES.iter().position(|kind| *kind == edge.kind).unwrap_or(EDGES.len()) as u64);
    writer.column(&edges, |(to, edge)| zigzag(to - i64::from(edge.from)));
    writer.text()
}

fn read_edges(text: &str, nodes: &[RankNode]) -> Result<EdgesByNode, Wrong> {
    let mut reader = Reader::from_text(text)?;
    let count = reader.count()?;
    let (tos, kinds, froms) = (reader.values(count)?, reader.values(count)?, reader.values(count)?);
    reader.end()?;
    let mut edges = EdgesByNode::with_room(nodes.len(), count);
    let mut to = 0_i64;
    for ((value, kind), from) in tos.into_iter().zip(kinds).zip(froms) {
        to = to.wrapping_add(unzigzag(value));
        let from = number(to.wrapping_sub(unzigzag(from)) as u64)?;
        let kind = *EDGES.get(usize::try_from(kind).map_err(|_| UNKNOWN)?).ok_or(UNKNOWN)?;
        let into = usize::try_from(to).ok().filter(|to| *to < nodes.len()).ok_or(CUT_OFF)?;
        // They come by the nodes into which they lead.
        if from as usize >= nodes.len() || i64::from(from) == to || edges.nodes() > into + 1 {
            return Err(CUT_OFF);
        }
        edges.add(into, RankEdge { from, kind });
    }
    edges.fill(nodes.len());
    Ok(edges)
}

fn write_functions(graph: &RankGraph) -> Result<String, std::io::Error> {
    // By name: each interval has nearly the same ones, so that from one name to the next it is nearly always as far.
    let mut functions: Vec<(u32, Ns)> = Vec::new();
    for interval in &graph.intervals {
        let from = functions.len();
        functions.extend(&interval.functions);
        functions[from..].sort_unstable();
    }
    let mut writer = Writer::new(graph.intervals.len());
    writer.column(&graph.intervals, |interval| interval.functions.len() as u64);
    let mut last = 0;
    writer.column(&functions, |(name, _)| zigzag(i64::from(*name) - std::mem::replace(&mut last, i64::from(*name))));
    writer.column(&functions, |(_, time)| difference(*time, Ns::ZERO));
    writer.text()
}

fn read_functions(text: &str, graph: &mut RankGraph) -> Result<(), Wrong> {
    let mut reader = Reader::from_text(text)?;
    if reader.count()? != graph.intervals.len() {
        return Err(CUT_OFF);
    }
    let counts = reader.values(graph.intervals.len())?;
    if counts.iter().any(|count| *count > FUNCTIONS as u64) {
        return Err(CUT_OFF);
    }
    let all = counts.iter().sum::<u64>() as usize;
    let (names, times) = (reader.values(all)?, reader.values(all)?);
    reader.end()?;
    let mut last = 0_i64;
    let mut read = |(name, time)| {
        last = last.wrapping_add(unzigzag(name));
        let name = number(last as u64)?;
        if name as usize >= graph.texts.len() { Err(UNKNOWN) } else { Ok((name, sum(Ns::ZERO, time))) }
    };
    let mut functions = names.into_iter().zip(times);
    for (interval, count) in graph.intervals.iter_mut().zip(counts) {
        interval.functions.reserve_exact(count as usize);
        functions
            .by_ref()
            .take(count as usize)
            .try_for_each(|of| read(of).map(|function| interval.functions.push(function)))?;
        longest_first(&mut interval.functions);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph() -> RankGraph {
        let node = |kind, lane, start: i64, end: i64, step: Option<u32>| RankNode {
            lane,
            start: Ns(start),
            end: Ns(end),
            step: step.into(),
            name: lane,
            ..RankNode::new(kind)
        };
        let nodes = vec![
            node(NodeKind::Launch, 0, 1_759_300_374_000_000_000, 1_759_300_374_000_005_000, Some(0)),
            node(NodeKind::CpuArrival(7), 0, 1_759_300_374_000_006_000, 1_759_300_374_000_006_500, None),
            node(NodeKind::CpuLeft(7), 0, 1_759_300_374_000_006_500, 1_759_300_374_000_009_000, None),
            node(NodeKind::Slice, 0, 1_759_300_374_000_010_000, 1_759_300_374_000_020_000, Some(1)),
            node(NodeKind::Collective(3), 1, 1_759_300_374_000_020_000, 1_759_300_374_000_019_000, Some(1)),
        ];
        let edge = |from, kind| RankEdge { from, kind };
        let edges = [
            vec![],
            vec![edge(0, EdgeKind::Thread)],
            vec![edge(1, EdgeKind::Thread)],
            vec![edge(0, EdgeKind::Launch)],
            vec![edge(0, EdgeKind::Launch), edge(3, EdgeKind::WaitEvent)],
        ];
        let edges = edges.into_iter().collect();
        let texts = ["a", "b", "c"].map(str::to_owned).to_vec();
        let mut graph = RankGraph { nodes, edges, texts, steps: 2, ..RankGraph::default() };
        places::find(&mut graph);
        graph.intervals[0].functions = vec![(1, Ns(5_000)), (0, Ns(1)), (2, Ns(1))];
        graph
    }

    #[derive(Serialize, Deserialize, PartialEq, Debug)]
    struct Whole {
        #[serde(with = "super")]
        graph: RankGraph,
    }

    #[test]
    fn a_graph_is_read_as_it_was_written() {
        for graph in [graph(), RankGraph::default()] {
            let whole = Whole { graph };
            let text = serde_json::to_string(&whole).unwrap();
            assert_eq!(serde_json::from_str::<Whole>(&text).unwrap(), whole);
        }
    }

    /// A part is other people's file: what does not fit together is an error, and never a panic later.
    #[test]
    fn damage_is_an_error() {
        let text = serde_json::to_value(Whole { graph: graph() }).unwrap();
        let changed = |field: &str, value: serde_json::Value| {
            let mut text = text.clone();
            text["graph"][field] = value;
            serde_json::from_value::<Whole>(text).is_err()
        };
        assert!(changed("texts", serde_json::json!(["a"])));
        assert!(changed("steps", serde_json::json!(1)));
        assert!(changed("steps", serde_json::json!(u32::MAX)));
        assert!(changed("nodes", text["graph"]["edges"].clone()));
        assert!(changed("edges", text["graph"]["functions"].clone()));
        assert!(changed("functions", text["graph"]["nodes"].clone()));
        assert!(changed("functions", serde_json::json!("!")));
    }
}
