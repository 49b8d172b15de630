//! Descriptions for people: labelled facts, then the questions, with those that can be answered first. Questions that share a hint are
//! grouped, and the hint follows once below them.

use std::io::{self, Write};

use super::words::{self, share};
use super::{Described, Kind};
use crate::analysis::describe::sources::{RecordAnswer, RecordsDescription, SourceRow};
use crate::analysis::describe::{Answer, Gpus, Possible, TraceDescription};
use crate::report::Screen;
use crate::report::format::{count, duration, shorten_right, size, visible};

/// A list shows this many values, unless everything is asked for.
const LISTED: usize = 8;

/// The width of the labels before facts.
const LABEL: usize = 12;

/// The note on a trace that another kind of program wrote.
const NO_PROFILE: &str = "The other commands answer questions about traces of torch.profiler and exports of Nsight Systems. Query this trace \
                          with nccl-stacks sql.";

/// The width of the questions.
const QUESTION: usize = 44;

/// The command of the program's main job.
const MAIN_JOB: &str = "nccl-stacks TRACE";

/// The column at which the command that answers a question starts.
const COMMAND: usize = 84;

/// More questions than this with one hint become a list.
const MANY: usize = 5;

/// The width of lines where there is no screen: hints are whole sentences.
const WIDTH: usize = 120;

pub(super) fn describe(described: &[Described], screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    for (at, Described { name, kind }) in described.iter().enumerate() {
        if at > 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", visible(name))?;
        let page = Page { width: screen.width.unwrap_or(WIDTH).max(40), verbose: screen.verbose };
        match kind {
            Kind::Trace(trace) => page.trace(trace, out)?,
            Kind::Records(records) => page.records(records, out)?,
        }
    }
    Ok(())
}

struct Page {
    width: usize,
    verbose: bool,
}

/// A question with its cells.
struct Row {
    possible: Possible,
    question: &'static str,
    share: String,
    /// The command that answers it.
    command: &'static str,
    hint: String,
}

impl Page {
    fn trace(&self, trace: &TraceDescription, out: &mut Vec<u8>) -> io::Result<()> {
        for (label, text) in self.facts(trace) {
            self.fact(label, &text, out)?;
        }
        let is_profile = trace.header.writer.is_profiler;
        let row = |answer: &Answer| Row {
            possible: answer.possible,
            question: answer.question,
            share: answer_share(answer, trace),
            command: if is_profile { answer.command } else { "" },
            hint: if is_profile { words::hint(answer) } else { String::new() },
        };
        let is_asked = |answer: &&Answer| match answer.possible {
            Possible::NothingToAsk => false,
            Possible::No => is_profile,
            _ => true,
        };
        self.rows(trace.answers.iter().filter(is_asked).map(row).collect(), out)?;
        if !is_profile {
            return self.wrapped(" ", NO_PROFILE, out);
        }
        let nothing = words::nothing_to_ask(trace);
        if !nothing.is_empty() {
            writeln!(out)?;
            self.wrapped(" ", &format!("Nothing to ask: {nothing}."), out)?;
        }
        Ok(())
    }

    fn facts(&self, trace: &TraceDescription) -> Vec<(&'static str, String)> {
        let header = &trace.header;
        let mut facts = vec![("Format", header.writer.title.to_owned())];
        let mut add = |label, text: String| {
            if !text.is_empty() {
                facts.push((label, text));
            }
        };
        let versions = header.versions.iter().map(|version| format!("{} {}", version.of, visible(&version.version)));
        add("Versions", versions.collect::<Vec<_>>().join(", "));
        let named =
            |gpus: &Gpus| format!("{} × {}", gpus.count, gpus.name.as_deref().map_or("unnamed".into(), visible));
        let gpus = self.some(header.gpus.iter().map(named).collect());
        let with_kernels = match trace.gpus_with_kernels {
            0 => String::new(),
            n => format!("kernels on {}", count(n)),
        };
        add("GPUs", [gpus, with_kernels].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("; "));
        add("Job", self.job(trace));
        add("Asked for", header.flags.join(", "));
        let megabytes = trace.text_bytes as f64 / 1e6;
        add("Length", format!("{}, {} events, {megabytes:.1} MB of text", duration(trace.length), count(trace.events)));
        let steps = trace.steps.iter().map(|step| format!("{} × {}", count(step.count), visible(&step.name)));
        add("Steps", self.some(steps.collect()));
        let slices = trace.slices.iter().map(|of| {
            let name = of.category.as_deref().map_or("(no category)".into(), visible);
            format!("{name} {}", count(of.count))
        });
        add("Slices", self.some(slices.collect()));
        add("Kernels", kernels(trace));
        let missing = trace.missing.iter().map(|of| format!("{} ({})", of.category, of.what));
        add("Missing", missing.collect::<Vec<_>>().join("; "));
        add("Damage", self.damage(trace));
        facts
    }

    fn job(&self, trace: &TraceDescription) -> String {
        let header = &trace.header;
        let mut parts = Vec::new();
        match (&trace.rank, trace.ranks.len()) {
            (_, n) if n > 1 => parts.push(format!("{n} ranks in one file")),
            (Some(rank), _) => {
                let of = header.world_size.map_or(String::new(), |size| format!(" of {}", count(size)));
                parts.push(format!("rank {}{of} (by the {})", rank.rank, rank.from));
            }
            (None, _) => parts.extend(header.world_size.map(|size| format!("one of {} ranks", count(size)))),
        }
        parts.extend(header.backend.as_deref().map(|backend| visible(backend).into_owned()));
        if !header.groups.is_empty() {
            let described = header.groups.iter().filter_map(|group| group.description.as_deref().map(visible));
            let described = self.some(described.map(String::from).collect());
            let described = if described.is_empty() { String::new() } else { format!(" ({described})") };
            let n = header.groups.len() as u64;
            parts.push(format!("{} process group{}{described}", count(n), if n == 1 { "" } else { "s" }));
        }
        parts.extend(header.host.as_deref().map(|host| format!("host {}", visible(host))));
        parts.extend(header.trace_id.as_deref().map(|id| format!("trace {}", visible(id))));
        parts.join(", ")
    }

    fn damage(&self, trace: &TraceDescription) -> String {
        // Moved slices are whole.
        let kinds = trace.damage.kinds.iter().filter(|kind| self.verbose || kind.cost != "moved");
        let mut texts: Vec<String> = kinds.map(|kind| format!("{}: {}", kind.what, count(kind.count))).collect();
        let lost = trace.damage.lost_share;
        match lost {
            Some(lost) if lost > 0.0 => {
                texts.insert(0, format!("{:.2} % of the text is lost", (lost * 100.0).max(0.01)));
            }
            Some(_) => {}
            None => texts.insert(0, "how much is lost is unknown".to_owned()),
        }
        self.some(texts)
    }

    /// The first few texts.
    fn some(&self, texts: Vec<String>) -> String {
        let shown = if self.verbose { texts.len() } else { texts.len().min(LISTED) };
        let more = texts.len() - shown;
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        format!("{}{more}", texts[..shown].join(", "))
    }

    fn fact(&self, label: &str, text: &str, out: &mut Vec<u8>) -> io::Result<()> {
        let mut lines = self.lines(text, LABEL).into_iter();
        writeln!(out, "  {label:<10}{}", lines.next().unwrap_or_default())?;
        lines.try_for_each(|line| writeln!(out, "{:LABEL$}{line}", ""))
    }

    fn rows(&self, mut rows: Vec<Row>, out: &mut Vec<u8>) -> io::Result<()> {
        writeln!(out)?;
        while let Some(first) = rows.iter().map(|row| row.possible).min() {
            let (mut these, others): (Vec<Row>, Vec<Row>) = rows.into_iter().partition(|row| row.possible == first);
            rows = others;
            // Keeps the order of the table, but gathers the questions that share a hint.
            while !these.is_empty() {
                let hint = these[0].hint.clone();
                let (group, rest): (Vec<Row>, Vec<Row>) = these.into_iter().partition(|row| row.hint == hint);
                these = rest;
                self.group(&group, out)?;
                if !hint.is_empty() {
                    self.wrapped("           ", &hint, out)?;
                }
            }
        }
        Ok(())
    }

    /// Whether to show a command: only for questions that can be answered, and not for the main job itself.
    fn has_command(&self, row: &Row) -> bool {
        row.possible <= Possible::Partly && !row.command.is_empty() && row.command != MAIN_JOB
    }

    /// Writes questions that share a hint; many of them as a list.
    fn group(&self, group: &[Row], out: &mut Vec<u8>) -> io::Result<()> {
        if group.len() <= MANY || group[0].possible == Possible::Yes {
            return group.iter().try_for_each(|row| {
                let possible = words::possible(row.possible);
                let mut line = format!(" {possible:<8}{:<QUESTION$}{}", row.question, row.share);
                // The next command, if there is room.
                if self.has_command(row) && line.chars().count() < COMMAND {
                    let more = format!("{line:<COMMAND$}{}", row.command.trim_start_matches("nccl-stacks "));
                    line = if more.chars().count() <= self.width { more } else { line };
                }
                writeln!(out, "{}", shorten_right(line.trim_end(), self.width))
            });
        }
        let questions: Vec<&str> = group.iter().map(|row| row.question).collect();
        let lines = self.lines(&questions.join(", "), 9);
        for (at, line) in lines.iter().enumerate() {
            let possible = if at == 0 { words::possible(group[0].possible) } else { "" };
            writeln!(out, " {possible:<8}{line}")?;
        }
        Ok(())
    }

    fn records(&self, records: &RecordsDescription, out: &mut Vec<u8>) -> io::Result<()> {
        self.fact("Format", "NCCL's own records", out)?;
        for row in &records.sources {
            self.fact("Source", &source(row), out)?;
            let times = times(row);
            if !times.is_empty() {
                self.fact("", &times, out)?;
            }
        }
        if records.communicators > 0 {
            self.fact("Groups", &format!("{} communicators", count(records.communicators)), out)?;
        }
        if records.other_files > 0 {
            self.fact("Left out", &format!("{} files that are not records", count(records.other_files)), out)?;
        }
        let shown = if self.verbose { records.remarks.len() } else { records.remarks.len().min(3) };
        for remark in &records.remarks[..shown] {
            self.fact("Remark", &visible(remark), out)?;
        }
        if records.remarks.len() > shown {
            self.fact("", &format!("… and {} more, with --verbose", records.remarks.len() - shown), out)?;
        }
        let row = |answer: &RecordAnswer| Row {
            possible: answer.possible,
            question: answer.question,
            share: {
                let share = share(answer.have, answer.of, answer.unit);
                let by = answer.by.filter(|_| records.sources.len() > 1);
                by.map_or(share.clone(), |by| format!("{share} ({by})"))
            },
            command: "",
            hint: match answer.possible {
                Possible::Yes => String::new(),
                _ => words::record_hint(answer),
            },
        };
        self.rows(records.answers.iter().map(row).collect(), out)
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

/// How much of a trace has what a question needs. A question that needs only presence has no share.
fn answer_share(answer: &Answer, trace: &TraceDescription) -> String {
    let others = trace.header.world_size.map_or(0, |size| size.saturating_sub(1));
    match answer.name {
        "annotations" | "memory" | "counters" if answer.of > 0 => words::counted(answer.of, answer.unit),
        "hang" => "not by a trace".to_owned(),
        "ranks" if answer.have > 0 && trace.ranks.len() < 2 => match others {
            0 => "beside the traces of the other ranks".to_owned(),
            1 => "beside the trace of the other rank".to_owned(),
            n => format!("beside the traces of the other {} ranks", count(n)),
        },
        _ => share(answer.have, answer.of, answer.unit),
    }
}

/// `3,091: 392 collectives and 2,699 others; 2,310 replayed by 3 launches of 1 graph`
fn kernels(trace: &TraceDescription) -> String {
    let mut text = count(trace.kernels);
    if trace.collectives > 0 {
        let others = count(trace.kernels - trace.collectives);
        text.push_str(&format!(": {} and {others} others", words::counted(trace.collectives, "collectives")));
    }
    if trace.replayed > 0 {
        let ids = match trace.graph_ids {
            0 => " of graphs".to_owned(),
            1 => " of 1 graph".to_owned(),
            n => format!(" of {} graphs", count(n)),
        };
        let launches = match trace.graph_launches {
            1 => "1 launch".to_owned(),
            n => format!("{} launches", count(n)),
        };
        text.push_str(&format!("; {} replayed by {launches}{ids}", count(trace.replayed)));
    }
    if trace.captures > 0 {
        text.push_str(&format!("; with {} of graphs, for --capture-trace", words::counted(trace.captures, "captures")));
    }
    text
}

/// `PyTorch flight recorder 2.9: 16 files, 2.10 MB, 32,000 operations of 16 ranks from 0 to 15`
fn source(row: &SourceRow) -> String {
    let versions = if row.versions.is_empty() { String::new() } else { format!(" {}", row.versions.join(", ")) };
    let files = if row.files == 1 { "1 file".to_owned() } else { format!("{} files", count(row.files)) };
    let ranks = match row.ranks[..] {
        [] => "of unknown ranks".to_owned(),
        [rank] => format!("of rank {rank}"),
        [first, .., last] => format!("of {} ranks from {first} to {last}", row.ranks.len()),
    };
    let mut what = vec![format!("{} {ranks}", words::counted(row.operations, "operations"))];
    for (n, unit) in [
        (row.proxy_operations, "operations of proxy threads"),
        (row.proxy_steps, "steps of these"),
        (row.flow_steps, "planned steps"),
        (row.counted_ranks, "counts of ranks"),
    ] {
        if n > 0 {
            what.push(words::counted(n, unit));
        }
    }
    let title = row.title;
    format!("{title}{}: {files}, {}, {}", visible(&versions), size(row.bytes), what.join(", "))
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
    let part = |(have, what): (u64, &str)| match have {
        0 => format!("{what}: none"),
        have if have == row.looked_at => format!("{what}: all"),
        have => format!("{what}: {} of {}", count(have), count(row.looked_at)),
    };
    let looked_at =
        if row.looked_at < row.operations { format!(" (of the last {})", count(row.looked_at)) } else { String::new() };
    format!("{}{looked_at}", known.map(part).join(", "))
}
