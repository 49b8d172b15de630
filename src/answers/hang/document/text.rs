//! The answer for people: where the hang begins and why, what waits for that, and a matrix of ranks and groups.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use super::verdict::sentences;
use super::words::{
    advice, capital, command, has, is_aborted, is_reported, is_unknown, operation, process, sentence, whereabouts,
};
use crate::answers::hang::{
    Cell, CellState, ComparedPaths, Evidence, EvidenceKind, HangReport, HungGroup, MatrixRow, OpenGroup, RankProcess,
};
use crate::document::Screen;
use crate::document::format::{count, ranks, visible};
use crate::document::table::Table;
use crate::operation::Source;
use crate::operations::recorded_groups::RecordedGroupName;

/// The width of the text where there is no screen.
const WIDTH: usize = 80;

/// How many groups, ranks and pieces of evidence per group are shown without `--verbose`.
const GROUPS: usize = 4;
const EVIDENCE: usize = 16;
const WAITING_GROUPS: usize = 8;
const ROWS: usize = 32;

/// How many frames are shown before and after the one that differs.
const AROUND: usize = 2;

/// The letters of the groups in the matrix, which has as many columns at most.
const LETTERS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ";

/// The letter of a group by its row: A to Z, then AA, AB and so on.
fn letter_of(row: usize) -> String {
    let last = row % LETTERS.len();
    let last = &LETTERS[last..=last];
    match row / LETTERS.len() {
        0 => last.to_owned(),
        before => format!("{}{last}", letter_of(before - 1)),
    }
}

pub(crate) fn hang(report: &HangReport, screen: &Screen, out: &mut Vec<u8>) -> io::Result<()> {
    let screen = Screen { width: screen.width.or(Some(WIDTH)), ..screen.clone() };
    let verdict = sentences(report).collect::<Vec<_>>().join(" ");
    let mut page = Page { screen: &screen, report, verdict, columns: columns(report, &screen), said: BTreeSet::new() };
    let is_root = |group: &HungGroup| group.distance.is_none_or(|distance| distance == 0);
    // The rows of the matrix: groups that hang, then those that are open, then those that lag.
    let lagging = report.lagging.iter().enumerate().map(|(at, of)| (report.hung.len() + report.open.len() + at, of));
    let roots: Vec<(usize, &HungGroup)> =
        report.hung.iter().enumerate().filter(|(_, group)| is_root(group)).chain(lagging).collect();
    let later: Vec<(usize, &HungGroup)> = report.hung.iter().enumerate().filter(|(_, group)| !is_root(group)).collect();
    if !roots.is_empty() {
        let title = match report.hung.is_empty() {
            true if report.lagging.iter().all(is_reported) => "What is reported",
            true => "Who has done less",
            false => "Where it begins",
        };
        writeln!(out, "\n{title}")?;
    }
    let limit = |of: usize| if screen.verbose { usize::MAX } else { of };
    for (row, group) in roots.iter().take(limit(GROUPS)) {
        page.group(*row, group, out)?;
    }
    more(roots.len(), limit(GROUPS), out)?;
    if let Some(paths) = roots.iter().find_map(|(_, group)| group.paths.as_ref()) {
        page.paths(paths, out)?;
    }
    page.waiting(&later, limit(WAITING_GROUPS), out)?;
    if !report.differing.is_empty() {
        writeln!(out, "\nWhat ranks called differently")?;
    }
    for group in report.differing.iter().take(limit(GROUPS)) {
        page.group(usize::MAX, group, out)?;
    }
    more(report.differing.len(), limit(GROUPS), out)?;
    page.reported(limit(EVIDENCE), out)?;
    page.matrix(out)
}

fn more(all: usize, shown: usize, out: &mut Vec<u8>) -> io::Result<()> {
    match all.checked_sub(shown) {
        Some(rest @ 1..) => writeln!(out, "  and {rest} more; --verbose shows them"),
        _ => Ok(()),
    }
}

struct Page<'a> {
    screen: &'a Screen,
    report: &'a HangReport,
    /// What comes before all of this, and is not said again.
    verdict: String,
    /// How many groups are in the matrix.
    columns: usize,
    /// Sentences that earlier groups had and later ones need not repeat.
    said: BTreeSet<String>,
}

impl Page<'_> {
    /// Writes a text in lines that fit, all of them indented.
    fn indented(&self, text: &str, by: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let narrow = Screen { width: self.screen.width.map(|width| width.saturating_sub(by)), ..self.screen.clone() };
        for line in narrow.fill(&visible(text)).lines() {
            writeln!(out, "{:by$}{line}", "")?;
        }
        Ok(())
    }

    /// The letter of a group, by its row in the matrix. Names are not unique.
    fn letter(&self, row: usize) -> String {
        if row < self.report.matrix.len() { format!("{}  ", letter_of(row)) } else { String::new() }
    }

    fn group(&mut self, row: usize, group: &HungGroup, out: &mut Vec<u8>) -> io::Result<()> {
        let what = match is_reported(group) {
            true => String::new(),
            false => format!(": {}", operation(group.collective.as_deref(), group.sequence)),
        };
        let of = if group.name.ranks.is_empty() { String::new() } else { format!(", {}", ranks(&group.name.ranks)) };
        let title = format!("{}{}{of}{what}", self.letter(row), group.name.group);
        self.indented(&title, 2, out)?;
        // Without --verbose, evidence about ranks that only wait for others themselves is counted.
        let (is_open, is_verbose) = (self.report.culprits.is_empty(), self.screen.verbose);
        let blames = |evidence: &&Evidence| {
            is_open || evidence.ranks.iter().chain(&evidence.peers).any(|rank| has(&group.culprits, *rank))
        };
        let shown: Vec<&Evidence> = group.evidence.iter().filter(|of| is_verbose || blames(of)).collect();
        let limit = if is_verbose { usize::MAX } else { EVIDENCE };
        for evidence in shown.iter().take(limit) {
            let text = sentence(evidence);
            // Once: another group may have the same.
            let is_said = self.verdict.contains(&text) && self.said.insert(text.clone());
            let is_new = evidence.kind != EvidenceKind::NoOperations || self.said.insert(text.clone());
            if is_new && !is_said {
                self.indented(&text, 6, out)?;
            }
        }
        if shown.len() > limit {
            self.indented(&format!("{} more like these; --verbose shows them.", shown.len() - limit), 6, out)?;
        }
        if shown.len() < group.evidence.len() {
            let n = group.evidence.len() - shown.len();
            self.indented(&format!("{n} more about ranks that wait elsewhere; --verbose shows them."), 6, out)?;
        }
        if group.evidence_left_out > 0 {
            let n = count(group.evidence_left_out as u64);
            self.indented(&format!("{n} more differences between ranks are left out."), 6, out)?;
        }
        let own = self.report.processes.iter().filter(|process| process.group.as_ref() == Some(&group.name.group));
        for text in own.filter(|_| !is_aborted(group)).take(limit).filter_map(whereabouts) {
            self.indented(&text, 6, out)?;
        }
        let unknown = format!("There are no records of {}.", ranks(&group.unknown_ranks));
        let is_said = group.unknown_ranks == group.culprits && self.verdict.contains("which left no records");
        if !group.unknown_ranks.is_empty() && !is_said && !self.verdict.contains(&unknown) {
            self.indented(&unknown, 6, out)?;
        }
        match advice(self.report, group).filter(|advice| self.said.insert(advice.clone())) {
            Some(advice) => self.indented(&format!("First: {advice}"), 6, out),
            None => Ok(()),
        }
    }

    /// The processes that a source reports, beside the ranks of groups.
    fn reported(&self, limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let reported: Vec<&RankProcess> = self.report.processes.iter().filter(|of| of.group.is_none()).collect();
        if !reported.is_empty() {
            let made_less = reported.iter().all(|of| of.made_less);
            writeln!(
                out,
                "\n{}",
                if made_less { "Which processes made less calls" } else { "Which processes are reported" }
            )?;
        }
        for of in reported.iter().take(limit) {
            if is_unknown(of) {
                self.indented(&capital(&of.faults.join(", ")), 2, out)?;
                self.indented("First: find the log of who is missing, and whether its process runs.", 6, out)?;
                continue;
            }
            self.indented(&format!("{}: {}", capital(&process(of)), of.faults.join(", ")), 2, out)?;
            let host = of.host.as_ref().map_or(String::new(), |host| format!(" on {}", visible(host)));
            let logs = format!("read the end of its log, and the kernel's log{host} (dmesg -T).");
            let look = match (of.made_less, command(of)) {
                (true, Some(command)) => format!("look at what it does: {command}."),
                (false, Some(command)) => format!("{logs} If it still runs: {command}."),
                (_, None) => logs,
            };
            self.indented(&format!("First: {look}"), 6, out)?;
        }
        more(reported.len(), limit, out)
    }

    /// Both call paths around the frame at which they part.
    fn paths(&self, paths: &ComparedPaths, out: &mut Vec<u8>) -> io::Result<()> {
        let Some(at) = paths.first_difference else {
            let text = format!("Rank {} and rank {} came by the same call path.", paths.rank, paths.other_rank);
            writeln!(out)?;
            return self.indented(&text, 0, out);
        };
        match paths.since_sequence {
            Some(number) => writeln!(out, "\nWhere their call paths part, from number {number} on")?,
            None => writeln!(out, "\nWhere their call paths part")?,
        }
        let before = at.saturating_sub(AROUND);
        for frame in &paths.path[before..at] {
            self.indented(&format!("  {frame}"), 2, out)?;
        }
        let sides = [
            (paths.rank, &paths.collective, &paths.path),
            (paths.other_rank, &paths.other_collective, &paths.other_path),
        ];
        for (rank, collective, path) in sides {
            self.indented(&format!("rank {rank} ({})", operation(collective.as_deref(), None)), 2, out)?;
            for frame in path.iter().skip(at).take(AROUND + 1) {
                self.indented(&format!("> {frame}"), 4, out)?;
            }
            if path.len() <= at {
                self.indented("> (called from the frame above)", 4, out)?;
            }
        }
        Ok(())
    }

    fn waiting(&self, later: &[(usize, &HungGroup)], limit: usize, out: &mut Vec<u8>) -> io::Result<()> {
        let of_hung = |(row, group): &(usize, &HungGroup)| {
            let blamed: BTreeSet<u32> = group.missing_ranks.iter().chain(&group.stuck_ranks).copied().collect();
            let blamed: Vec<u32> = blamed.into_iter().collect();
            let what = operation(group.collective.as_deref(), group.sequence);
            let (who, letter) = (ranks(&group.waiting_ranks), self.letter(*row));
            let whom = if blamed.is_empty() { String::new() } else { format!(", for {}", ranks(&blamed)) };
            format!("{letter}{}: {who} in {what}{whom}", group.name.group)
        };
        let of_open = |(at, group): (usize, &OpenGroup)| {
            let what = operation(group.collective.as_deref(), group.sequence);
            let (who, letter) = (ranks(&group.waiting_ranks), self.letter(self.report.hung.len() + at));
            let others = match &group.waits_for[..] {
                [] => String::new(),
                [one] => format!(", held up in {one}"),
                [one, rest @ ..] => format!(", held up in {one} and {} more", rest.len()),
            };
            let of_one = |(what, who): &(String, Vec<u32>)| format!("{} in {what}", ranks(who));
            let each = match &group.by_operation[..] {
                [] | [_] => format!("{who} in {what}"),
                several => several.iter().map(of_one).collect::<Vec<_>>().join(", "),
            };
            format!("{letter}{}: {each}{others}", group.name.group)
        };
        let open = self.report.open.iter().enumerate().map(of_open);
        let lines: Vec<String> = later.iter().map(of_hung).chain(open).collect();
        if !lines.is_empty() {
            writeln!(
                out,
                "\n{}",
                if self.report.hung.is_empty() { "What is incomplete" } else { "What waits for that" }
            )?;
        }
        for line in lines.iter().take(limit) {
            self.indented(&capital(line), 2, out)?;
        }
        more(lines.len(), limit, out)
    }

    /// A matrix of ranks by groups, with as many groups as fit.
    fn matrix(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let all = &self.report.matrix;
        let groups = &all[..self.columns];
        let cells = || groups.iter().flat_map(|row| &row.cells);
        let at_fault = |cell: &&Cell| {
            !matches!(cell.state, CellState::Waiting | CellState::Enqueued | CellState::Done | CellState::Answers)
        };
        let blamed: BTreeSet<u32> = cells().filter(at_fault).map(|cell| cell.rank).collect();
        let members: BTreeSet<(bool, u32)> = cells().map(|cell| (!blamed.contains(&cell.rank), cell.rank)).collect();
        let rows = if self.screen.verbose { usize::MAX } else { ROWS };
        let mut shown: Vec<u32> = members.iter().take(rows).map(|(_, rank)| *rank).collect();
        shown.sort_unstable();
        if shown.is_empty() {
            return Ok(());
        }
        let by_rank = |row: &MatrixRow| row.cells.iter().map(|cell| (cell.rank, word(cell))).collect();
        let words: Vec<BTreeMap<u32, String>> = groups.iter().map(by_rank).collect();
        let word = |rank: u32, group: usize| words[group].get(&rank).cloned().unwrap_or_default();
        let letters: Vec<&str> = (0..groups.len()).map(|at| &LETTERS[at..=at]).collect();
        let table = Table::matrix("rank", &shown, &letters, word);
        writeln!(out, "\n{}", table.text(None).trim_end())?;
        let left = [(all.len() - groups.len(), "group"), (members.len() - shown.len(), "rank")];
        let left: Vec<String> = left
            .iter()
            .filter(|(n, _)| *n > 0)
            .map(|(n, what)| format!("{n} {what}{}", if *n == 1 { "" } else { "s" }))
            .collect();
        let names = self.report.hung.iter().map(|of| &of.name).chain(self.report.open.iter().map(|of| &of.name));
        let names = names.chain(self.report.lagging.iter().map(|of| &of.name));
        // One communicator names itself where it says which rank.
        let is_unknown = |name: &RecordedGroupName| {
            name.ranks_are_local && (groups.len() > 1 || name.source == Source::WATCHDOG.name())
        };
        if names.take(groups.len()).any(is_unknown) {
            let text = "The sources do not say which ranks of the job these are: row N has rank N of each group.";
            self.indented(text, 0, out)?;
        }
        if !left.is_empty() {
            let text = format!("Not in this table: {}; --format json has all.", left.join(" and "));
            self.indented(&text, 0, out)?;
        }
        Ok(())
    }
}

fn columns(report: &HangReport, screen: &Screen) -> usize {
    let width = screen.width.unwrap_or(WIDTH);
    let mut taken = "rank  ".len();
    let fits = |row: &&MatrixRow| {
        taken += row.cells.iter().map(|cell| word(cell).chars().count()).max().unwrap_or(0) + 2;
        taken <= width
    };
    report.matrix.iter().take(LETTERS.len()).take_while(fits).count()
}

fn word(cell: &Cell) -> String {
    let word = match cell.state {
        CellState::Odd => "odd",
        CellState::Stuck => "stuck",
        CellState::Missing => "missing",
        CellState::Lagging => "lags",
        CellState::Reported => "reported",
        CellState::Waiting => "waits",
        CellState::Enqueued => "unknown, called",
        CellState::Done => "done",
        CellState::Answers => "answers",
        CellState::Unknown => "no records",
    };
    cell.sequence.map_or(word.to_owned(), |sequence| format!("{word} {sequence}"))
}
