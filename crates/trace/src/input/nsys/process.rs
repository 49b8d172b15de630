//! Reads one process of an export: table by table, each in the order of the file.

use std::borrow::Cow;
use std::collections::HashMap;
use std::rc::Rc;

use rusqlite::Result;

use super::export::{Chains, Export, Strings};
use super::names::{self, own_number};
use super::nvtx::{self, RowKind, at};
use super::output::{Clock, Named, Output};
use super::payload::{self, Payloads};
use super::tables::{Fields, Owner, Table};
use crate::damage::Damage;
use crate::error::Error;
use crate::event::{ArgList, ArgValue, ArgsWanted, EventIds, EventsOf, KeySet, Kind, Scope, Shard};
use crate::input::reader::Summary;
use crate::names::args::{CORRELATION, GRAPH_ID, GRAPH_NODE_ID, in_table};
use crate::names::calls::WHOLE_GRAPH;

const PROCESSES: Table = Table { name: "PROCESSES", columns: &["globalPid", "name"], process: Some("globalPid") };

const THREADS: Table = Table { name: "ThreadNames", columns: &["globalTid", "nameId"], process: Some("globalTid") };

/// Calls into the runtime and the driver.
const CALLS: Table = Table {
    name: "CUPTI_ACTIVITY_KIND_RUNTIME",
    columns: &["start", "end", "globalTid", "correlationId", "nameId", "callchainId", "returnValue"],
    process: Some("globalTid"),
};

/// The columns that all work of a GPU has. The rest of each table's follows.
macro_rules! of_gpu {
    ($name:literal, [$($column:literal),*]) => {
        Table {
            name: concat!("CUPTI_ACTIVITY_KIND_", $name),
            columns: &["start", "end", "deviceId", "streamId", "correlationId", "graphId", "graphNodeId", "contextId", $($column),*],
            process: Some("globalPid"),
        }
    };
}

/// How many columns [`of_gpu!`] has.
const COMMON: usize = 8;

const KERNELS: Table = of_gpu!(
    "KERNEL",
    [
        "demangledName",
        "shortName",
        "mangledName",
        "gridX",
        "gridY",
        "gridZ",
        "blockX",
        "blockY",
        "blockZ",
        "registersPerThread",
        "staticSharedMemory",
        "dynamicSharedMemory"
    ]
);
const COPIES: Table = of_gpu!("MEMCPY", ["copyKind", "srcKind", "dstKind", "bytes"]);
const FILLS: Table = of_gpu!("MEMSET", ["memKind", "bytes"]);
const GRAPHS: Table = of_gpu!("GRAPH_TRACE", []);

/// The tables by which a process has used a GPU.
pub(super) const OF_GPU: &[Table] = &[KERNELS, COPIES, FILLS, GRAPHS, CALLS];
pub(super) use nvtx::EVENTS as NVTX;

const TABLES: [Table; 6] = [NVTX, CALLS, KERNELS, COPIES, FILLS, GRAPHS];

/// The category of functions of call chains.
const FUNCTION: &str = "callchain";

const OPERATOR: EventIds = EventIds::Operator { external_id: 0, sequence_number: None, forward_thread: 0 };

/// After how many rows progress is reported.
const REPORTED: u64 = 1 << 14;

#[derive(Debug)]
pub struct Process {
    pub(super) export: Rc<Export>,
    /// Its number, with the bits of its machine.
    pub(super) id: i64,
    pub(super) place: (u64, u64),
}

impl Process {
    /// Reads all rows into a shard, with these arguments. `take` takes full batches, and returns whether to go on.
    pub(super) fn read_into<S: Shard>(
        self,
        wanted: ArgsWanted,
        shard: &mut S,
        take: impl FnMut(S::Batch) -> bool,
    ) -> Result<Summary, Error> {
        let read = || {
            let mut reader = Reader::new(&self, wanted, shard, take)?;
            reader.all()?;
            Ok(Summary { events: reader.output.events, ..reader.summary })
        };
        read().map_err(|error| self.export.damaged(&error))
    }
}

struct Reader<'e, S, F> {
    export: &'e Export,
    /// See [`Process::id`].
    id: i64,
    clock: Clock,
    strings: Strings<'e>,
    chains: Chains,
    payloads: Payloads,
    /// The names of the process's domains, by number.
    domains: HashMap<i64, String>,
    wants_args: bool,
    /// How many rows have been read, and how many there are at most.
    rows: (u64, u64),
    /// Which of how many processes it is.
    place: (u64, u64),
    summary: Summary,
    output: Output<'e, S, F>,
}

impl<'e, S: Shard, F: FnMut(S::Batch) -> bool> Reader<'e, S, F> {
    fn new(process: &'e Process, wanted: ArgsWanted, shard: &'e mut S, take: F) -> Result<Self> {
        let Process { export, id, place } = process;
        // An export has no arguments that a comparison of collectives needs.
        let wants_args = !matches!(wanted, ArgsWanted::Keys(KeySet { of: EventsOf::Collectives, .. }));
        let (at, count) = *place;
        let all = export.database.bytes;
        let bytes = all / count + if at == 0 { all % count } else { 0 };
        let mut rows: u64 = 0;
        for table in &TABLES {
            rows = rows.saturating_add(export.database.rows(table)?);
        }
        Ok(Reader {
            export,
            id: *id,
            clock: Clock { start: export.start()? },
            strings: Strings::new(export)?,
            chains: Chains::read(export)?,
            payloads: if wants_args { Payloads::read(export)? } else { Payloads::default() },
            domains: HashMap::new(),
            wants_args,
            rows: (0, rows),
            place: *place,
            summary: Summary { text_bytes: bytes, header: export.header(count == 1)?, ..Summary::default() },
            output: Output::new(own_number(*id), shard, take),
        })
    }

    fn all(&mut self) -> Result<()> {
        self.names()?;
        if self.wants_args {
            self.each(&NVTX, Self::domain)?;
        }
        let mut of_none = self.each(&NVTX, Self::range)?;
        of_none += self.each(&CALLS, Self::call)?;
        of_none += self.each(&KERNELS, Self::kernel)?;
        of_none += self.each(&COPIES, Self::copy)?;
        of_none += self.each(&FILLS, Self::fill)?;
        of_none += self.each(&GRAPHS, Self::graph)?;
        // These rows belong to no process; they are counted once, with the first.
        if self.place.0 == 0 {
            (0..of_none).for_each(|_| self.summary.damage.count(Damage::IncompleteEvent, None));
        }
        self.output.end();
        Ok(())
    }

    /// Calls `read` with each row of a table that belongs to this process. Returns the number of rows that name no process.
    fn each(&mut self, table: &Table, read: fn(&mut Self, &Fields<'_>) -> Result<()>) -> Result<u64> {
        if self.output.is_stopped {
            return Ok(0);
        }
        let (export, owner) = (self.export, Owner { id: self.id, is_only: self.place.1 == 1 });
        export.database.each(table, Some(owner), |row| {
            read(self, &row)?;
            self.rows.0 += 1;
            if self.rows.0.is_multiple_of(REPORTED) {
                let own = (self.rows.0 as f64 * self.place.1 as f64 / self.rows.1.max(1) as f64).min(1.0);
                export.report((self.place.0 as f64 + own) / self.place.1 as f64);
            }
            Ok(!self.output.is_stopped)
        })
    }

    fn names(&mut self) -> Result<()> {
        self.each(&PROCESSES, |reader, row| {
            let Some(name) = row.bytes(1) else { return Ok(()) };
            let main = own_number(reader.id);
            reader.output.name(main, Kind::ProcessName(String::from_utf8_lossy(name)));
            Ok(())
        })?;
        self.each(&THREADS, |reader, row| {
            let (Some(thread), Some(name)) = (row.number(0), reader.strings.get(row.number(1))?) else { return Ok(()) };
            reader.output.name(own_number(thread), Kind::ThreadName(Cow::Borrowed(&name)));
            Ok(())
        })?;
        Ok(())
    }

    fn domain(&mut self, row: &Fields<'_>) -> Result<()> {
        if RowKind::from_number(row.number(at::KIND)) == RowKind::Domain
            && let (Some(number), Some(name)) = (row.number(at::DOMAIN), self.text(row)?)
        {
            self.domains.insert(number, name);
        }
        Ok(())
    }

    fn text(&mut self, row: &Fields<'_>) -> Result<Option<String>> {
        match row.bytes(at::TEXT) {
            Some(text) => Ok(Some(String::from_utf8_lossy(text).into_owned())),
            None => Ok(self.strings.get(row.number(at::TEXT_ID))?.map(|text| text.as_ref().to_owned())),
        }
    }

    fn range(&mut self, row: &Fields<'_>) -> Result<()> {
        let kind = RowKind::from_number(row.number(at::KIND));
        if matches!(kind, RowKind::Domain | RowKind::Other) {
            return Ok(());
        }
        let text = self.text(row)?.unwrap_or_default();
        let domain = row.number(at::DOMAIN).unwrap_or(0);
        let (named, rest) = nvtx::split(&text, domain == 0);
        self.output.args.clear();
        if self.wants_args {
            self.range_args(row, domain, rest)?;
        }
        let (start, end) = (row.number(at::START), row.number(at::END));
        let damage = &mut self.summary.damage;
        let found = match (kind, end) {
            (RowKind::Mark, _) => self.clock.at(start, damage).map(|at| (at, Kind::Instant(Scope::Thread))),
            // It was open at the end of the recording.
            (RowKind::Nested, None) => self.clock.at(start, damage).map(|at| (at, Kind::Begin)),
            (_, end) => self.clock.span(start, end, damage).map(|(at, dur)| (at, Kind::Complete { dur })),
        };
        match found {
            Some((at, Kind::Complete { dur })) if kind == RowKind::Free => self.output.free(at, dur, named),
            Some((at, kind)) => self.output.of_thread(self.thread(row.number(at::THREAD)), at, kind, named, OPERATOR),
            None => {}
        }
        Ok(())
    }

    /// The number of a thread, the main one if a row does not say.
    fn thread(&self, global: Option<i64>) -> u32 {
        own_number(global.unwrap_or(self.id))
    }

    fn range_args(&mut self, row: &Fields<'_>, domain: i64, rest: &str) -> Result<()> {
        for (key, value) in nvtx::parts(rest) {
            let value = value.parse().map_or(ArgValue::Text(value), ArgValue::Int);
            self.output.args.push(&in_table(key), None, value);
        }
        if domain != 0 {
            let number = domain.to_string();
            let name = self.domains.get(&domain).unwrap_or(&number);
            self.output.args.push(&in_table("domain"), None, ArgValue::Text(name));
        }
        let [integers, fractions] = [at::INTEGERS, at::FRACTIONS].map(|[from, to]| from..to);
        let number = integers.into_iter().find_map(|at| row.number(at)).map(ArgValue::Int);
        let number = number.or_else(|| fractions.into_iter().find_map(|at| row.real(at)).map(ArgValue::Real));
        if let Some(number) = number {
            self.output.args.push(&in_table("payload"), None, number);
        }
        let json = match row.bytes(at::JSON) {
            Some(json) => Some(json.to_vec()),
            None => self.strings.get(row.number(at::JSON_ID))?.map(|json| json.as_bytes().to_vec()),
        };
        let is_read = json.is_some_and(|json| payload::json(&json, &mut self.output.args))
            || row.bytes(at::BINARY).is_some_and(|bytes| self.payloads.binary(domain, bytes, &mut self.output.args));
        if !is_read && self.payloads.has(domain) {
            self.summary.damage.count(Damage::PayloadNotExported, None);
        }
        Ok(())
    }

    fn call(&mut self, row: &Fields<'_>) -> Result<()> {
        let name = self.strings.get(row.number(4))?.unwrap_or_default();
        let name = names::call(&name);
        let Some((at, dur)) = self.clock.span(row.number(0), row.number(1), &mut self.summary.damage) else {
            return Ok(());
        };
        let thread = self.thread(row.number(2));
        self.output.args.clear();
        // The functions around the call began before it and ended after it, at times that were not recorded: they get the call's.
        for frame in row.number(5).map_or(0..0, |chain| self.chains.range(chain)) {
            if let Some(function) = self.strings.get(self.chains.symbol(frame))? {
                let named = Named { name: &function, category: FUNCTION };
                self.output.of_thread(thread, at, Kind::Complete { dur }, named, OPERATOR);
            }
        }
        let correlation = row.number(3).unwrap_or(0).max(0);
        if self.wants_args {
            self.output.args.push(&in_table(CORRELATION), None, ArgValue::Int(correlation));
            if let Some(code) = row.number(6).filter(|code| *code != 0) {
                self.output.args.push(&in_table("return value"), None, ArgValue::Int(code));
            }
        }
        let named = Named { name, category: names::call_category(name) };
        self.output.of_thread(thread, at, Kind::Complete { dur }, named, EventIds::Call { correlation });
        Ok(())
    }

    fn kernel(&mut self, row: &Fields<'_>) -> Result<()> {
        let ids = (COMMON..COMMON + 3).map(|at| row.number(at));
        let name = self.strings.first(ids)?.unwrap_or_default();
        self.work(row, &name, "kernel", |args| {
            for (first, key) in [(3, "grid"), (6, "block")] {
                let flat = in_table(key);
                for axis in 0..3 {
                    if let Some(length) = row.number(COMMON + first + axis) {
                        args.push(&format!("{flat}[{axis}]"), Some(&flat), ArgValue::Int(length));
                    }
                }
            }
            let plain = [(9, "registers per thread"), (10, "static shared memory"), (11, "dynamic shared memory")];
            numbers(args, row, &plain.map(|(at, key)| (COMMON + at, key)));
        })
    }

    fn copy(&mut self, row: &Fields<'_>) -> Result<()> {
        let [kind, from, to] = [0, 1, 2].map(|at| row.number(COMMON + at));
        self.work(row, &names::copy(kind, from, to), "gpu_memcpy", |args| numbers(args, row, &[(COMMON + 3, "bytes")]))
    }

    fn fill(&mut self, row: &Fields<'_>) -> Result<()> {
        let name = names::fill(row.number(COMMON));
        self.work(row, &name, "gpu_memset", |args| numbers(args, row, &[(COMMON + 1, "bytes")]))
    }

    fn graph(&mut self, row: &Fields<'_>) -> Result<()> {
        self.work(row, WHOLE_GRAPH, "kernel", |_| {})
    }

    /// Work of a GPU; `more` adds the arguments that only this kind has.
    fn work(
        &mut self,
        row: &Fields<'_>,
        name: &str,
        category: &'static str,
        more: impl FnOnce(&mut ArgList),
    ) -> Result<()> {
        let Some((at, dur)) = self.clock.span(row.number(0), row.number(1), &mut self.summary.damage) else {
            return Ok(());
        };
        let id = |at: usize| row.number(at).unwrap_or(0).max(0);
        let place = [id(2), id(3)].map(|number| u32::try_from(number).unwrap_or(u32::MAX)).into();
        let (correlation, graph_node_id) = (id(4), id(6));
        let graph_id = if graph_node_id == 0 { 0 } else { id(5) };
        self.output.args.clear();
        if self.wants_args {
            let fields =
                [(2, "device"), (7, "context"), (3, "stream"), (4, CORRELATION), (5, GRAPH_ID), (6, GRAPH_NODE_ID)];
            numbers(&mut self.output.args, row, &fields);
            more(&mut self.output.args);
        }
        let ids = EventIds::Gpu { correlation, external_id: 0, graph_id, graph_node_id, stream: None };
        self.output.of_stream(place, at, dur, Named { name, category }, ids);
        Ok(())
    }
}

/// Adds the columns that have a number to arguments.
fn numbers(args: &mut ArgList, row: &Fields<'_>, columns: &[(usize, &str)]) {
    for (at, key) in columns {
        if let Some(number) = row.number(*at) {
            args.push(&in_table(key), None, ArgValue::Int(number));
        }
    }
}
