//! A page: one file for a browser, with the answer, its drawings and their documents. It opens from a mail or an artifact store, requests
//! nothing from any network, and stores nothing.
//!
//! What people read first is plain HTML, so that it is there at once, without scripts and for screen readers: the verdict, up to three findings, the
//! top of the table. The page's own script (`page/`) draws the rest from the embedded documents, which are those of `--json`, so that the page
//! shows nothing that other forms lack. Its content security policy allows, by digest, that script, the few lines that unpack it, and that style,
//! and nothing else.

pub(crate) mod columns;
mod markup;
mod shrink;

use std::collections::BTreeSet;
use std::io::{self, Write};

use serde::Serialize;
use serde_json::{Map, Value, json};

use columns::pack;
use markup::{escape, name, sentence};
use shrink::Packed;

use super::findings::{Document, FINDINGS, Finding, Link};
use super::format::{count, shell_word, visible};
use super::table::Table;

/// The modules of `page/`, joined by the build, and the lines that unpack them in the browser, with the style of what they show.
const BOOT: &str = include_str!(concat!(env!("OUT_DIR"), "/boot.js"));
const SCRIPT: &str = include_str!(concat!(env!("OUT_DIR"), "/page.js"));
const STYLE: &str = include_str!(concat!(env!("OUT_DIR"), "/page.css"));
const VIEWS: &str = include_str!(concat!(env!("OUT_DIR"), "/views.css"));

/// The lines of the verdict above the picture, and how many letters a line has at 1440 pixels: measured with a wide font, DejaVu Sans.
const FIRST_LINES: usize = 2;
const LINE: usize = 140;

/// The most rows that the page shows without scripts.
pub(crate) const ROWS: usize = 10;

/// The bytes of a document or a table.
pub(crate) type Bytes = Vec<u8>;

/// Documents and their names.
pub(crate) type Documents = Vec<(&'static str, Bytes)>;

#[derive(Default)]
pub struct Page<'a> {
    /// Its answer: `stacks`, `ranks`, `hang`, `records`, `entries`, `diff` or `ranks-diff`.
    pub(crate) kind: &'static str,
    pub(crate) names: String,
    /// What all forms say. The page has its first [`FINDINGS`] findings.
    pub(crate) document: Document,
    /// The tables. Without scripts the page shows the top of each; with scripts, that of the first until its view is there.
    pub(crate) sheets: Vec<Table>,
    /// The answers for programs, by the name of their schema.
    pub(crate) documents: Documents,
    /// The same with only the first stacks, if the page would be too large.
    pub(crate) shorten: Option<Box<dyn Fn(usize) -> io::Result<Documents> + 'a>>,
    /// Tables for spreadsheets, by the name of their document.
    pub(crate) tables: Documents,
    /// The commands that give the content of each view.
    pub(crate) commands: Vec<Command>,
    /// Notes on what was left out or is damaged, and the notes of the document where no other document has what they say.
    pub(crate) notes: Vec<String>,
    /// For each stack of the document, the frame that best shows where it comes from, then the frames that distinguish it from its namesakes.
    pub(crate) labels: Vec<Vec<String>>,
    /// The frames that name stacks: the user's own code, if there is any.
    pub(crate) telling: BTreeSet<String>,
    /// When kernels ran, by trace.
    pub(crate) streams: Vec<Box<dyn Drawing>>,
    /// The collectives of many ranks on one clock.
    pub(crate) lanes: Option<Box<dyn Drawing>>,
}

/// A drawing, which can be made coarser where a page would be too large.
pub(crate) trait Drawing {
    /// The form that the page reads.
    fn pack(&self) -> io::Result<Value>;

    fn rows(&self) -> usize;

    fn halve(&mut self);

    /// How many things have no row.
    fn left_out(&self) -> u64;

    /// The position on the page of the collective with this number, if it is there.
    fn place(&self, _number: usize) -> Option<usize> {
        None
    }
}

/// A command that prints what a view shows.
#[derive(Debug, Serialize)]
pub(crate) struct Command {
    pub(crate) view: &'static str,
    /// A description of its output.
    pub(crate) what: &'static str,
    pub(crate) text: String,
}

impl Page<'_> {
    /// Writes the page. If it would be too large to mail, its drawings get coarser and its tables shorter, and a note says so.
    pub(crate) fn write(mut self, out: &mut Vec<u8>) -> io::Result<()> {
        let above = self.notes_above();
        let packed = self.packed()?;
        self.notes.retain(|note| !above.contains(note));
        let title = escape(&self.document.title).into_owned();
        write!(
            out,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; script-src '{}' '{}'; style-src '{}' '{}'; \
             base-uri 'none'; form-action 'none'\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<main>\n",
            env!("NCCL_STACKS_PAGE_BOOT"),
            env!("NCCL_STACKS_PAGE_SCRIPT"),
            env!("NCCL_STACKS_PAGE_STYLE"),
            env!("NCCL_STACKS_PAGE_VIEWS"),
        )?;
        self.write_verdict(&above, out)?;
        let mut tables = self.sheets.iter().filter(|table| !table.is_empty());
        tables.next().map_or(Ok(()), |table| write_top("top", table, out))?;
        writeln!(out, "<noscript>")?;
        tables.try_for_each(|table| write_top(table.id, table, out))?;
        let embedded = markup::json(&serde_json::to_string(&self.embedded(packed)?)?);
        write!(
            out,
            "<p>The pictures and the rest of the tables need scripts, which this page has within itself.</p></noscript>\n\
             <div id=\"views\"></div>\n</main>\n<footer><p>{}</p></footer>\n\
             <script type=\"application/json\" id=\"page\">{embedded}</script>\n\
             <script type=\"application/gzip\" id=\"code\">{}</script>\n<script>{BOOT}</script>\n</body>\n</html>\n",
            escape(PROGRAM),
            pack(format!("{VIEWS}\0{SCRIPT}").as_bytes())?
        )
    }

    /// The notes at the top of the page, with the verdict: on damage, which are not the answer's own, and all of a hang, which are the conditions of
    /// its verdict. The others say how sure the answer is.
    fn notes_above(&self) -> Vec<String> {
        let is_of_verdict = |note: &&String| self.kind == "hang" || !self.document.notes.contains(note);
        self.notes.iter().filter(is_of_verdict).cloned().collect()
    }

    fn write_verdict(&self, above: &[String], out: &mut impl Write) -> io::Result<()> {
        writeln!(out, "<section id=\"verdict\" aria-labelledby=\"verdict-title\">")?;
        let Document { title, findings, facts, .. } = &self.document;
        writeln!(out, "<h1 id=\"verdict-title\">{}</h1>", escape(title))?;
        writeln!(out, "<p class=\"names\">{}</p>", name(&short_names(&self.names)))?;
        let sentences: Vec<&str> = self.document.sentences().flat_map(str::lines).collect();
        let (first, others) = sentences.split_at(first_sentences(&sentences, self.document.damage.len()));
        first.iter().try_for_each(|text| writeln!(out, "<p>{}</p>", sentence(text)))?;
        writeln!(out, "<div id=\"picture\"></div>")?;
        write_notes(above, out)?;
        others.iter().try_for_each(|text| writeln!(out, "<p>{}</p>", sentence(text)))?;
        if !findings.is_empty() {
            writeln!(out, "<h2>What to look at first</h2>\n<ol id=\"findings\">")?;
            // Records list nothing else.
            let most = if self.kind == "records" { usize::MAX } else { FINDINGS };
            findings.iter().take(most).try_for_each(|finding| self.write_finding(finding, out))?;
            writeln!(out, "</ol>")?;
        }
        if !facts.is_empty() {
            writeln!(out, "<dl class=\"facts\">")?;
            for (label, value) in facts {
                writeln!(out, "<div><dt>{}</dt><dd>{}</dd></div>", escape(label), escape(value))?;
            }
            writeln!(out, "</dl>")?;
        }
        if !self.notes.is_empty() {
            writeln!(out, "<details id=\"trust\"><summary>How sure this is</summary>")?;
            write_notes(&self.notes, out)?;
            writeln!(out, "</details>")?;
        }
        writeln!(out, "</section>")
    }

    fn write_finding(&self, finding: &Finding, out: &mut impl Write) -> io::Result<()> {
        let Finding { cost, what, evidence, advice, is_better, rule, link, .. } = finding;
        let class = if *is_better { " class=\"better\"" } else { "" };
        let cost = visible(cost);
        write!(out, "<li{class}><p class=\"cost\">{}</p><p class=\"what\">{}</p>", escape(&cost), name(what))?;
        if !evidence.is_empty() {
            write!(out, "<p>{}</p>", sentence(&evidence.join(" ")))?;
        }
        if let Some(advice) = advice {
            write!(out, "<p>First: {}</p>", sentence(advice))?;
        }
        if let Some(rule) = rule {
            write!(
                out,
                "<p>Rerun: <code>nccl-stacks what-if TRACES --if {}</code></p>",
                escape(&visible(&shell_word(rule)))
            )?;
        }
        if let Some(link) = link {
            write!(out, "<p><a href=\"#{}\">{}</a></p>", escape(&self.fragment(link)), escape(link.text))?;
        }
        writeln!(out, "</li>")
    }

    /// A link's address, without selections that the page had no room for.
    fn fragment(&self, link: &Link) -> String {
        let stack = link.stack.filter(|stack| *stack < self.labels.len());
        let collective = link.collective.and_then(|number| self.lanes.as_ref()?.place(number));
        let parts = [("stack", stack), ("rank", link.rank.map(|rank| rank as usize)), ("collective", collective)];
        let parts = parts.into_iter().filter_map(|(key, value)| Some(format!("&{key}={}", value?)));
        format!("view={}{}", link.view, parts.collect::<String>())
    }

    /// The data that the script reads.
    fn embedded(&self, packed: Packed) -> io::Result<Value> {
        let files = |of: Vec<(&'static str, String)>, ending: &str| -> Map<String, Value> {
            let file =
                |(of, data): (&str, String)| (of.to_owned(), json!({ "data": data, "file": format!("{of}.{ending}") }));
            of.into_iter().map(file).collect()
        };
        Ok(json!({
            "kind": self.kind,
            "title": self.document.title,
            "names": self.names,
            "program": PROGRAM,
            "documents": files(packed.documents, "json"),
            "tables": files(packed.tables, "csv"),
            "commands": self.commands,
            "labels": packed.labels,
            "telling": packed.telling,
            "sheets": packed.sheets,
            "timelines": packed.timelines,
            "lanes": packed.lanes,
        }))
    }
}

/// The program that wrote the page.
const PROGRAM: &str = concat!("nccl-stacks ", env!("CARGO_PKG_VERSION"));

/// How many sentences are above the picture: as many as fit its lines, and the first of the verdict after what is damaged.
fn first_sentences(sentences: &[&str], damage: usize) -> usize {
    let lines = sentences.iter().scan(0, |lines, text| {
        *lines += text.chars().count().div_ceil(LINE);
        Some(*lines)
    });
    lines.take_while(|lines| *lines <= FIRST_LINES).count().max(damage + 1).min(sentences.len())
}

/// The names of inputs, as many as fit, with their common folder named once.
fn short_names(names: &str) -> String {
    const NAMED: usize = 4;
    let all: Vec<&str> = names.split(", ").collect();
    let folder = |name: &str| name.rfind('/').map_or(0, |at| at + 1);
    let shared = &all[0][..folder(all[0])];
    if all.len() == 1 || !all.iter().all(|name| &name[..folder(name)] == shared) {
        return names.to_owned();
    }
    // One line: at least one name.
    let ends = all.iter().scan(0, |end, name| {
        *end += name.len() - shared.len() + 2;
        Some(*end)
    });
    let named = ends.take(NAMED).take_while(|end| *end + shared.len() <= LINE).count().max(1);
    let rest: Vec<&str> = all.iter().map(|name| &name[shared.len()..]).take(named).collect();
    let more = all.len() - named;
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    format!(
        "{} in {}: {}{more}",
        count(all.len() as u64),
        if shared.is_empty() { "this folder" } else { shared },
        rest.join(", ")
    )
}

fn write_notes(notes: &[String], out: &mut impl Write) -> io::Result<()> {
    if notes.is_empty() {
        return Ok(());
    }
    writeln!(out, "<ul class=\"notes\">")?;
    notes.iter().try_for_each(|note| writeln!(out, "<li>{}</li>", name(note)))?;
    writeln!(out, "</ul>")
}

/// Writes the first rows of a table, as many as fit a screen.
fn write_top(id: &str, table: &Table, out: &mut impl Write) -> io::Result<()> {
    let title = escape(table.title);
    write!(
        out,
        "<section id=\"{id}\" class=\"static\" aria-labelledby=\"{id}-title\">\n<h2 id=\"{id}-title\">{title}</h2>\n\
         <p class=\"help\">{}</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-labelledby=\"{id}-title\">\n\
         <table>\n<thead><tr>",
        escape(table.question())
    )?;
    table.titles().try_for_each(|column| write!(out, "<th scope=\"col\">{}</th>", escape(column)))?;
    writeln!(out, "</tr></thead>\n<tbody>")?;
    for row in table.shown(ROWS) {
        write!(out, "<tr>")?;
        for (at, cell) in row.enumerate() {
            match at {
                0 => write!(out, "<th scope=\"row\">{}</th>", name(&cell))?,
                _ => write!(out, "<td>{}</td>", name(&cell))?,
            }
        }
        writeln!(out, "</tr>")?;
    }
    writeln!(out, "</tbody>\n</table>\n</div>")?;
    if table.found > ROWS {
        writeln!(out, "<p>The first {ROWS} of {}.</p>", table.found)?;
    }
    writeln!(out, "</section>")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Groups and folders are named inside sentences, too.
    #[test]
    fn names_within_sentences_are_visible() {
        let hostile = "a\u{202e}<b>".to_owned();
        let finding = Finding { cost: hostile.clone(), evidence: vec![hostile.clone()], ..Finding::default() };
        let document = Document { verdict: vec![hostile.clone()], findings: vec![finding], ..Document::default() };
        let page = Page { document, notes: vec![hostile], ..Page::default() };
        let mut out = Vec::new();
        page.write(&mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!((text.matches("a\\u{202e}&lt;b&gt;").count(), text.contains('\u{202e}')), (4, false));
    }

    #[test]
    fn the_verdict_has_two_lines_above_the_picture() {
        let [line, two] = [100, 200].map(|length| "x".repeat(length));
        assert_eq!(first_sentences(&[&line, &line, &line], 0), 2);
        assert_eq!(first_sentences(&[&two, &line], 0), 1);
        assert_eq!(first_sentences(&[&line, &two], 0), 1);
        // What is damaged comes before the first sentence of the verdict.
        assert_eq!(first_sentences(&[&two, &line, &line], 1), 2);
        assert_eq!(first_sentences(&[], 0), 0);
    }

    #[test]
    fn a_shared_folder_is_named_once() {
        assert_eq!(short_names("/a/x.json"), "/a/x.json");
        assert_eq!(short_names("/a/x, /a/y"), "2 in /a/: x, y");
        assert_eq!(short_names("/a/x, /b/y"), "/a/x, /b/y");
        assert_eq!(short_names("/a/1, /a/2, /a/3, /a/4, /a/5, /a/6"), "6 in /a/: 1, 2, 3, 4 and 2 more");
    }
}
