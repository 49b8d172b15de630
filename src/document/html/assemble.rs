//! Joins the page's modules into one script, and strips its style sheet. The program's build and the tests of the modules run this.
//!
//! The modules are ES modules, so that each can be read and tested on its own. A page is one file, so they become one scope here: `import` lines
//! and the word `export` are dropped, and each module follows the modules that it imports. This requires two rules of a module, checked here:
//! each import is a single line that renames nothing, and no two modules define the same top-level name.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The script of a module and of everything that it imports.
pub(crate) fn script(folder: &Path, first: &str) -> Result<String, String> {
    let mut modules = Modules { folder, order: Vec::new(), names: BTreeMap::new(), open: Vec::new() };
    modules.add(first)?;
    let mut script = String::from("(() => {\n'use strict';\n");
    for (_, text) in &modules.order {
        for line in text.lines().filter(|line| !line.starts_with("import ")).filter_map(code) {
            script.push_str(line.strip_prefix("export ").unwrap_or(line));
            script.push('\n');
        }
    }
    script.push_str("})();\n");
    Ok(script)
}

/// A style sheet without comments, blank lines and indentation.
pub(crate) fn style(text: &str) -> String {
    let mut style = String::new();
    for line in text.lines().filter_map(code) {
        style.push_str(line);
        style.push('\n');
    }
    style
}

/// A line without its indentation; `None` for comments and blank lines. Neither language has multi-line strings here.
fn code(line: &str) -> Option<&str> {
    let line = line.trim();
    let is_comment = ["//", "/*", "* ", "*/"].iter().any(|mark| line.starts_with(mark)) || line == "*";
    (!line.is_empty() && !is_comment).then_some(line)
}

struct Modules<'f> {
    folder: &'f Path,
    /// Names and source texts.
    order: Vec<(String, String)>,
    /// The top-level names, with the module that defines each.
    names: BTreeMap<String, String>,
    /// The modules being added, each imported by the one before it.
    open: Vec<String>,
}

impl Modules<'_> {
    fn add(&mut self, module: &str) -> Result<(), String> {
        if self.order.iter().any(|(known, _)| known == module) {
            return Ok(());
        }
        if self.open.iter().any(|open| open == module) {
            return Err(format!("{module} uses itself: {}", self.open.join(", ")));
        }
        self.open.push(module.to_owned());
        let path = self.folder.join(module);
        let text = fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
        for line in text.lines() {
            if let Some(used) = import(line).map_err(|why| format!("{module}: {why}: {line}"))? {
                self.add(used)?;
            } else if let Some(name) = top_name(line)
                && let Some(other) = self.names.insert(name.to_owned(), module.to_owned())
            {
                return Err(format!("{name} is in {module} and in {other}, which become one scope"));
            }
        }
        self.open.pop();
        self.order.push((module.to_owned(), text));
        Ok(())
    }
}

/// The module that a line imports from.
fn import(line: &str) -> Result<Option<&str>, &'static str> {
    if !line.starts_with("import ") {
        return Ok(None);
    }
    let whole = "an import is one line such as import { a, b } from './c.js';";
    let (names, from) = line.split_once(" from './").ok_or(whole)?;
    if !names.starts_with("import { ") || !names.ends_with(" }") || names.contains(" as ") {
        return Err(whole);
    }
    from.strip_suffix("';").map(Some).ok_or(whole)
}

/// The top-level name that a line defines.
fn top_name(line: &str) -> Option<&str> {
    let line = line.strip_prefix("export ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let rest = ["function ", "const ", "let ", "class "].iter().find_map(|word| line.strip_prefix(word))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').next().filter(|name| !name.is_empty())
}
