//! Names of files in archives: which files are skipped for their name, and how much of a name is kept.

/// No disk that programs record to has longer names, in characters; a longer one was made to fill memory and the screen.
const LONGEST: usize = 512;

/// How many characters are kept of a longer one.
const BEGINNING: usize = 100;
const END: usize = 300;

/// Folders that archivers, notebooks and git make.
const HIDDEN_FOLDERS: &[&str] = &["__MACOSX", ".ipynb_checkpoints", ".git"];

/// Whether a file is skipped for its name. A folder whose name begins with a dot is not enough: traces may be kept in one.
pub(super) fn is_hidden(name: &str) -> bool {
    let (folders, file) = name.rsplit_once(['/', '\\']).unwrap_or_default();
    let file = if file.is_empty() { name } else { file };
    file.starts_with('.') || folders.split(['/', '\\']).any(|folder| HIDDEN_FOLDERS.contains(&folder))
}

/// A name as it is kept: a long one without its middle.
pub(super) fn kept(name: &[u8]) -> String {
    let name = String::from_utf8_lossy(name);
    let length = name.chars().count();
    if length <= LONGEST {
        return name.into_owned();
    }
    let beginning = name.chars().take(BEGINNING);
    beginning.chain(['…']).chain(name.chars().skip(length - END)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_names_are_known() {
        for name in [".DS_Store", "a/.git/x", "__MACOSX/._trace.json", "a/__MACOSX/b", "a/._trace.json", "a\\.x"] {
            assert!(is_hidden(name), "{name}");
        }
        let shown =
            ["trace.json", "./trace.json", "../a/b.json", "a/b.c/d.json", "MACOSX/a", ".runs/a.json", "a/.b/c.json"];
        for name in shown {
            assert!(!is_hidden(name), "{name}");
        }
    }

    #[test]
    fn long_names_lose_their_middle() {
        let name = format!("{}{}", "ä".repeat(256), "z".repeat(256));
        assert_eq!(kept(name.as_bytes()), name);
        let name = format!("{}{}", "ä".repeat(256), "z".repeat(257));
        assert_eq!(kept(name.as_bytes()), format!("{}…{}{}", "ä".repeat(100), "ä".repeat(43), "z".repeat(257)));
    }
}
