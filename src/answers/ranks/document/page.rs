//! The comparison of ranks as a page: who waits for whom, with the call stacks of all ranks if they are known.

use std::io;

use super::findings::best_rule;
use super::lanes::Lanes;
use super::table::{group_name, tables as tables_of};
use super::{RankAnswer, what_if};
use crate::answers::OnPage;
use crate::answers::ranks::data::{Compared, RankReport, StackWaits};
use crate::answers::ranks::what_if::{Also, Rule};
use crate::answers::stacks::data::StackReport;
use crate::answers::stacks::document::streams::Streams;
use crate::answers::stacks::document::{StacksAnswer, labels_of, page_documents, page_tables, telling};
use crate::answers::stacks::origin::labels;
use crate::document::answer::Answer;
use crate::document::findings::{FindingKind, Link};
use crate::document::form::Form;
use crate::document::format::shell_word;
use crate::document::html::{Command, Documents, Page};

/// How many pairs of ranks a page that is too large keeps for each stack.
const PAIRS: usize = 8;

pub(crate) fn ranks<'a>(answer: &'a RankAnswer<'_>) -> io::Result<Page<'a>> {
    let RankAnswer { compared, name, ref on_page, stacks, .. } = *answer;
    let limited = answer.limited();
    let report = limited.as_ref().unwrap_or(answer.report);
    let groups = compared.matches.groups.iter().zip(&report.groups);
    let groups = groups.map(|(matched, waits)| group_name(&matched.name, &waits.ranks_here)).collect();
    let mut lanes = Lanes::new(compared, report, groups);
    let mut document = RankAnswer { report, ..answer.clone() }.document();
    for finding in document.findings.iter_mut().filter(|finding| finding.kind == FindingKind::LateRank) {
        let worst = finding.place.ranks.first().and_then(|rank| Some((*rank, lanes.worst(*rank)?)));
        if let Some((rank, collective)) = worst {
            let text = "A collective at which the others waited for it";
            let (rank, collective) = (Some(rank), Some(collective));
            finding.link = Some(Link { text, view: "timeline", rank, collective, ..Link::default() });
        }
    }
    let mut tables = vec![("ranks", RankAnswer::new(compared, report, name).bytes(Form::Csv)?)];
    if let Some(stacks) = stacks {
        tables.push(("stacks", StacksAnswer::new(stacks, name).bytes(Form::Csv)?));
    }
    let rule = document.findings.iter().find_map(|finding| finding.rule.clone());
    let labels = stacks.map_or_else(|| labels(report.stacks.iter().map(StackWaits::naming)), labels_of);
    let mut sheets = tables_of(report);
    // What a page shows of stacks without scripts is what its first view replaces.
    sheets.sort_by_key(|table| table.id != "waits");
    // Nothing can be wrong with a rule that names ranks of the job, or without one.
    let shown = best_rule(report).and_then(|rule| Rule::parse(&rule).ok());
    let reruns = compared.what_if(&[], Also::Slices(shown.as_ref())).ok().flatten();
    let reruns = reruns.filter(|found| !found.answers.is_empty());
    if let Some(found) = &reruns {
        sheets.push(what_if::table(found));
        lanes = lanes.with_rerun(shown.as_ref().map_or(&found.answers[0].rule, Rule::text), found);
    }
    // The steps of all ranks have more columns than those of their stacks.
    let of_stacks = stacks.into_iter().flat_map(|stacks| page_tables(stacks, &labels));
    let of_stacks: Vec<_> = of_stacks.filter(|of| sheets.iter().all(|known| known.id != of.id)).collect();
    sheets.extend(of_stacks);
    let of_streams = stacks.into_iter().flat_map(|report| &report.stacks);
    Ok(Page {
        kind: "ranks",
        names: name.to_owned(),
        sheets,
        documents: documents(compared, report, stacks, name)?,
        shorten: Some(Box::new(move |most| {
            let mut short = answer.limited().unwrap_or_else(|| answer.report.clone());
            short.stacks.truncate(most);
            short.pairs.truncate(PAIRS * most);
            documents(compared, &short, stacks.map(|stacks| stacks.first(most)).as_ref(), name)
        })),
        tables,
        commands: commands(on_page, stacks.is_some(), reruns.is_some(), rule.as_deref()),
        notes: [&document.notes[..], &on_page.notes].concat(),
        labels,
        telling: stacks
            .map_or_else(|| report.stacks.iter().flat_map(|stack| stack.telling.iter().cloned()).collect(), telling),
        streams: Streams::collect(&on_page.timelines, of_streams.map(|stack| (&stack.rank, &stack.key))),
        lanes: Some(Box::new(lanes)),
        document,
    })
}

fn documents(
    compared: &Compared,
    report: &RankReport,
    stacks: Option<&StackReport>,
    name: &str,
) -> io::Result<Documents> {
    let mut documents = vec![("ranks", RankAnswer::new(compared, report, name).bytes(Form::Json)?)];
    if let Some(stacks) = stacks {
        documents.extend(page_documents(stacks, name)?);
    }
    Ok(documents)
}

/// `rule` is that of a finding.
fn commands(on_page: &OnPage, has_stacks: bool, has_reruns: bool, rule: Option<&str>) -> Vec<Command> {
    let OnPage { inputs, of_ranks, .. } = on_page;
    let json = format!("{of_ranks} --format json --output ranks.json");
    let of_ranks_view = [("Who waits for whom, as text", &of_ranks[..]), ("Everything, for programs", &json)];
    let trace = format!("{of_ranks} --format perfetto --output ranks.json.gz");
    let of_timeline = [("All ranks side by side on one clock, for ui.perfetto.dev", &trace[..])];
    let mut commands = on_page.commands("ranks", "ranks ", &of_ranks_view);
    commands.extend(on_page.commands("timeline", "ranks ", &of_timeline));
    if has_reruns {
        let rules = format!(" --if {} --if 'cpus x0.5'", shell_word(rule.unwrap_or("rank 0 like peers")));
        let what = "With another rule, such as two of these at once";
        commands.extend(on_page.commands("what-if", "what-if ", &[(what, &rules)]));
    }
    if has_stacks {
        commands.extend(on_page.commands("stacks", "", &[("The stacks of all ranks", "")]));
        let sql = "SELECT late_rank, rank, sum(waited) FROM collective_match GROUP BY 1, 2 ORDER BY 3 DESC";
        let text = format!("nccl-stacks sql {inputs} '{sql}'");
        commands.push(Command { view: "pairs", what: "Who waited for whom, in the whole traces", text });
    }
    commands
}
