//! The tables of the page on formats are those of the program's registries. `UPDATE_GOLDENS=1` writes them.

use nccl_stacks::event::Support;
use nccl_stacks::input::containers::CONTAINERS;
use nccl_stacks::input::formats;

use crate::guards::{read, root, updates};

const PAGE: &str = "docs/formats.md";

fn table(head: &[&str], rows: impl Iterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| {
        let is_run = !cells.iter().any(|cell| cell.contains("`nsys "));
        let mark = if is_run { "" } else { " <!-- not run: needs Nsight Systems -->" };
        format!("| {} |{mark}\n", cells.join(" | "))
    };
    let head: Vec<String> = head.iter().map(|cell| (*cell).to_owned()).collect();
    let rule = format!("|{}\n", "---|".repeat(head.len()));
    let rows: String = rows.map(|row| line(&row)).collect();
    format!("{}{rule}{rows}", line(&head))
}

fn readable() -> String {
    let row = |format: &nccl_stacks::event::Format| match format.support {
        Support::Read { expected, .. } => {
            Some(vec![format.name.to_owned(), format.written_by.to_owned(), expected.to_owned()])
        }
        Support::Instead(_) => None,
    };
    table(&["format", "written by", "what it is"], formats().filter_map(row))
}

fn others() -> String {
    let row = |format: &nccl_stacks::event::Format| match format.support {
        Support::Instead(instead) => {
            Some(vec![format.name.to_owned(), format.written_by.to_owned(), instead.to_owned()])
        }
        Support::Read { .. } => None,
    };
    table(&["format", "written by", "instead"], formats().filter_map(row))
}

fn containers() -> String {
    let row = |container: &&nccl_stacks::input::containers::Container| {
        let what = if container.is_archive() { "an archive of files" } else { "a layer of compression" };
        vec![container.name.to_owned(), what.to_owned()]
    };
    table(&["container", "what it is"], CONTAINERS.iter().map(row))
}

fn sources() -> String {
    let row = |source: nccl_stacks::operation::Source| vec![source.title().to_owned(), format!("`{}`", source.name())];
    table(&["source", "its name in SQL and JSON"], nccl_stacks::records::sources().into_iter().map(row))
}

#[test]
fn the_page_of_formats_has_what_the_registries_have() {
    let mut page = read(PAGE);
    for (name, table) in [
        ("formats that are read", readable()),
        ("containers", containers()),
        ("formats that are not read", others()),
        ("sources of records", sources()),
    ] {
        let start = format!("<!-- {name} -->\n");
        let (before, after) = page.split_once(&start).unwrap();
        let (_, after) = after.split_once("<!-- end -->").unwrap();
        page = format!("{before}{start}{table}<!-- end -->{after}");
    }
    if updates() {
        std::fs::write(root().join(PAGE), &page).unwrap();
    }
    assert_eq!(read(PAGE), page, "{PAGE} differs from the registries; UPDATE_GOLDENS=1 writes it");
}
