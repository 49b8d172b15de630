//! Descriptions for people: for each file labelled facts and the questions, with those that can be answered first. Questions
//! that share a hint are grouped, and the hint follows once below them.

use std::io::{self, Write};

use super::words::{counted, hint, joined, nothing_to_ask, possible, rank, share, trace_share};
use crate::answers::describe::{
    Answer, Counts, Described, Descriptions, Possible, RecordAnswer, RecordsDescription, SourceRow, TraceDescription,
    one_of,
};
use crate::document::Screen;
use crate::document::format::{count, duration, shorten_right, size, visible};

/// A list shows this many values, unless everything is asked for.
const LISTED: usize = 8;

/// This many remarks are shown, unless everything is asked for.
const REMARKS: usize = 3;

/// The width of the labels before facts.
const LABEL: usize = 12;

const QUESTION: usize = 44;

/// The command of the program's main job, which is not shown.
const MAIN_JOB: &str = "nccl-stacks TRACE";

/// The column at which the command that answers a question starts.
const COMMAND: usize = 84;

/// The width of lines where there is no screen: hints are whole sentences.
const WIDTH: usize = 120;

pub(crate) fn describe(descriptions: &Descriptions, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let page = Page { width: screen.width.unwrap_or(WIDTH).max(40), verbose: screen.verbose };
    for Described { name, trace, records } in &descriptions.files {
        writeln!(out, "\n{}", visible(name))?;
        trace.iter().try_for_each(|trace| page.trace(trace, out))?;
        records.iter().try_for_each(|records| page.records(records, out))?;
    }
    Ok(())
}

struct Page {
    width: usize,
    verbose: bool,
}

struct Row<'a> {
    possible: Possible,
    question: &'static str,
    share: String,
    command: &'a str,
    hint: String,
}

impl Page {
    fn trace(&self, trace: &TraceDescription, out: &mut Vec<u8>) -> io::Result<()> {
        let header = &trace.header;
        let versions = header.versions.iter().map(|version| format!("{} {}", version.of, visible(&version.version)));
        let name = |name: &Option<String>, none: &str| visible(name.as_deref().unwrap_or(none)).into_owned();
        let gpus = header.gpus.iter().map(|of| format!("{} × {}", of.count, name(&of.name, "unnamed")));
        let gpus = self.some(gpus.collect());
        let with_kernels = match trace.counts.gpus_with_kernels {
            0 => String::new(),
            n => format!("kernels on {}", count(n)),
        };
        let events = format!("{} events", count(trace.events));
        let megabytes = trace.text_bytes as f64 / 1e6;
        let steps = trace.counts.steps.iter().map(|step| format!("{} × {}", count(step.count), visible(&step.name)));
        let slices = trace.counts.slices.iter();
        let slices = slices.map(|of| format!("{} {}", name(&of.category, "(no category)"), count(of.count)));
        let missing = trace.missing.iter().map(|of| format!("{} ({})", of.category, of.what));
        self.fact("Format", header.writer.title, out)?;
        self.fact("Versions", &versions.collect::<Vec<_>>().join(", "), out)?;
        self.fact("GPUs", &joined([gpus, with_kernels], "; "), out)?;
        self.fact("Job", &self.job(trace), out)?;
        self.fact("Asked for", &header.flags.join(", "), out)?;
        self.fact("Length", &format!("{}, {events}, {megabytes:.1} MB of text", duration(trace.length_ns)), out)?;
        self.fact("Steps", &self.some(steps.collect()), out)?;
        self.fact("Slices", &self.some(slices.collect()), out)?;
        self.fact("Kernels", &kernels(trace), out)?;
        self.fact("Missing", &missing.collect::<Vec<_>>().join("; "), out)?;
        self.fact("Damage", &self.damage(trace), out)?;
        if !header.writer.is_profiler {
            return Ok(());
        }
        let asked = trace.answers.iter().filter(|answer| answer.possible != Possible::NothingToAsk);
        self.rows(&asked.map(|answer| trace_row(answer, trace)).collect::<Vec<_>>(), out)?;
        let nothing = nothing_to_ask(trace);
        if nothing.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        self.wrapped(" ", &format!("Nothing to ask: {nothing}."), out)
    }

    fn job(&self, trace: &TraceDescription) -> String {
        let header = &trace.header;
        let from = trace.counts.rank.as_ref().filter(|_| trace.counts.ranks.len() < 2);
        let from = from.map_or(String::new(), |rank| format!(" (by the {})", rank.from));
        let described = header.groups.iter().filter_map(|group| group.description.as_deref().map(visible));
        let described = self.some(described.map(String::from).collect());
        let described = if described.is_empty() { described } else { format!(" ({described})") };
        let groups = match header.groups.len() as u64 {
            0 => String::new(),
            n => counted(n, "process groups") + &described,
        };
        let labelled = |label: &str, text: &Option<String>| {
            text.as_deref().map_or(String::new(), |text| format!("{label}{}", visible(text)))
        };
        let rank = rank(trace).map_or(String::new(), |rank| rank + &from);
        let (host, id) = (labelled("host ", &header.host), labelled("trace ", &header.trace_id));
        joined([rank, labelled("", &header.backend), groups, host, id], ", ")
    }

    fn damage(&self, trace: &TraceDescription) -> String {
        let lost = match trace.damage.lost_share {
            None => Some("how much is lost is unknown".to_owned()),
            Some(lost) if lost > 0.0 => Some(format!("{:.2} % of the text is lost", (lost * 100.0).max(0.01))),
            Some(_) => None,
        };
        // Moved slices are whole.
        let kinds = trace.damage.kinds.iter().filter(|kind| self.verbose || kind.cost != "moved");
        let kinds = kinds.map(|kind| format!("{}: {}", kind.what, count(kind.count)));
        self.some(lost.into_iter().chain(kinds).collect())
    }

    fn records(&self, records: &RecordsDescription, out: &mut Vec<u8>) -> io::Result<()> {
        self.fact("Format", "NCCL's own records", out)?;
        for row in &records.sources {
            self.fact("Source", &source(row), out)?;
            self.fact("", &times(row), out)?;
        }
        for (label, n, what) in [
            ("Groups", records.communicators, "communicators"),
            ("Left out", records.other_files, "files without records"),
        ] {
            self.fact(label, &if n > 0 { counted(n, what) } else { String::new() }, out)?;
        }
        let shown = if self.verbose { records.remarks.len() } else { records.remarks.len().min(REMARKS) };
        let (shown, others) = records.remarks.split_at(shown);
        shown.iter().try_for_each(|remark| self.fact("Remark", &visible(remark), out))?;
        if !others.is_empty() {
            self.fact("", &format!("… and {} more, with --verbose", others.len()), out)?;
        }
        let row = |answer: &RecordAnswer| Row {
            possible: answer.possible,
            question: answer.question.question,
            share: {
                let by = answer.by.filter(|_| records.sources.len() > 1).map(|by| format!(" ({by})"));
                share(answer.have, answer.of, answer.unit) + &by.unwrap_or_default()
            },
            command: MAIN_JOB,
            hint: one_of(&answer.turn_on).map_or(String::new(), |recorders| format!("needs: {recorders}")),
        };
        self.rows(&records.answers.iter().map(row).collect::<Vec<_>>(), out)
    }

    fn some(&self, texts: Vec<String>) -> String {
        let shown = if self.verbose { texts.len() } else { texts.len().min(LISTED) };
        let more = match texts.len() - shown {
            0 => String::new(),
            more => format!(", and {more} more"),
        };
        texts[..shown].join(", ") + &more
    }

    /// Writes a fact, unless its text is empty.
    fn fact(&self, label: &str, text: &str, out: &mut Vec<u8>) -> io::Result<()> {
        for (at, line) in self.lines(text, LABEL).iter().enumerate().filter(|(_, line)| !line.is_empty()) {
            writeln!(out, "  {:<10}{line}", if at == 0 { label } else { "" })?;
        }
        Ok(())
    }

    /// Writes the questions, the answered ones first. Keeps the order of the table, but gathers the questions that share a hint.
    fn rows(&self, rows: &[Row<'_>], out: &mut Vec<u8>) -> io::Result<()> {
        writeln!(out)?;
        let is_same = |a: &&Row<'_>, b: &&Row<'_>| a.possible == b.possible && a.hint == b.hint;
        let mut order: Vec<&Row<'_>> = rows.iter().collect();
        order.sort_by_key(|row| (row.possible, rows.iter().position(|other| is_same(row, &other))));
        for group in order.chunk_by(is_same) {
            group.iter().try_for_each(|row| self.row(row, out))?;
            self.wrapped("           ", &group[0].hint, out)?;
        }
        Ok(())
    }

    fn row(&self, row: &Row<'_>, out: &mut Vec<u8>) -> io::Result<()> {
        let mut line = format!(" {:<8}{:<QUESTION$}{}", possible(row.possible), row.question, row.share);
        // The command, if the question can be answered, and if there is room.
        let is_answered = row.possible <= Possible::Partly && row.command != MAIN_JOB;
        if is_answered && line.chars().count() < COMMAND {
            let more = format!("{line:<COMMAND$}{}", row.command.trim_start_matches("nccl-stacks "));
            line = if more.chars().count() <= self.width { more } else { line };
        }
        writeln!(out, "{}", shorten_right(line.trim_end(), self.width))
    }

    fn wrapped(&self, indent: &str, text: &str, out: &mut Vec<u8>) -> io::Result<()> {
        self.lines(text, indent.len()).iter().try_for_each(|line| writeln!(out, "{indent}{line}"))
    }

    /// A text in lines that fit next to `taken` columns.
    fn lines(&self, text: &str, taken: usize) -> Vec<String> {
        let screen = Screen { width: Some(self.width.saturating_sub(taken)), ..Screen::default() };
        screen.fill(text).lines().map(str::to_owned).collect()
    }
}

fn trace_row<'a>(answer: &'a Answer, trace: &TraceDescription) -> Row<'a> {
    Row {
        possible: answer.possible,
        question: answer.question.question,
        share: trace_share(answer, trace),
        command: &answer.question.command,
        hint: hint(answer),
    }
}

/// `3,091: 392 collectives and 2,699 others; 2,310 replayed by 3 launches of 1 graph`
fn kernels(trace: &TraceDescription) -> String {
    let Counts { kernels, collectives, replayed, graph_launches, graph_ids, captures, .. } = trace.counts;
    let mut text = count(kernels);
    if collectives > 0 {
        text += &format!(": {} and {} others", counted(collectives, "collectives"), count(kernels - collectives));
    }
    if replayed > 0 {
        let graphs = if graph_ids == 0 { "graphs".to_owned() } else { counted(graph_ids, "graphs") };
        let launches = if graph_launches == 1 { "launch" } else { "launches" };
        text += &format!("; {} replayed by {} {launches} of {graphs}", count(replayed), count(graph_launches));
    }
    if captures > 0 {
        text += &format!("; with {} of graphs, for --capture-trace", counted(captures, "captures"));
    }
    text
}

/// `PyTorch flight recorder 2.9: 16 files, 2.10 MB, 32,000 operations of 16 ranks from 0 to 15`
fn source(row: &SourceRow) -> String {
    let versions = if row.versions.is_empty() { String::new() } else { format!(" {}", row.versions.join(", ")) };
    let ranks = match row.ranks[..] {
        [] => "of unknown ranks".to_owned(),
        [rank] => format!("of rank {rank}"),
        [first, .., last] => format!("of {} ranks from {first} to {last}", row.ranks.len()),
    };
    let others = [
        (row.proxy_operations, "operations of proxy threads"),
        (row.proxy_steps, "steps of these"),
        (row.flow_steps, "planned steps"),
        (row.counted_ranks, "counts of ranks"),
    ];
    let others = others.map(|(n, unit)| if n > 0 { counted(n, unit) } else { String::new() });
    let operations = format!("{} {ranks}", counted(row.operations, "operations"));
    let what = joined([counted(row.files, "files"), size(row.bytes), operations, joined(others, ", ")], ", ");
    format!("{}{}: {what}", row.title, visible(&versions))
}

/// How many of its operations have each time: `when enqueued: all, when started: none, when ended: 11 of 12`
fn times(row: &SourceRow) -> String {
    if row.looked_at == 0 {
        return String::new();
    }
    let known = [
        (row.enqueued, "when enqueued"),
        (row.started, "when started"),
        (row.ended, "when ended"),
        (row.timed, "how long"),
    ];
    let known = known.map(|(have, what)| match have {
        0 => format!("{what}: none"),
        have if have == row.looked_at => format!("{what}: all"),
        have => format!("{what}: {} of {}", count(have), count(row.looked_at)),
    });
    let last = format!(" (of the last {})", count(row.looked_at));
    joined(known, ", ") + if row.looked_at < row.operations { &last } else { "" }
}
