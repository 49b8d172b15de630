//! The value of a key for a kernel.

use std::borrow::Cow;

use crate::numbers::Numbers;

/// The value for kernels without a recorded one.
pub const NOT_RECORDED: &str = "(not recorded)";

/// A value: one string, or several that nest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupValue {
    /// Outermost first.
    frames: Vec<String>,
    joined_by: Join,
}

/// How the frames of a value become one text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Join {
    Single,
    /// `Net.Block.Linear`
    Dots,
    /// Callers, in the notation of folded stacks; people see the first frame as the label.
    Calls,
}

impl Default for GroupValue {
    fn default() -> Self {
        GroupValue::single(NOT_RECORDED)
    }
}

impl GroupValue {
    /// A single string. An empty one becomes "not recorded".
    pub(crate) fn single(text: impl Into<String>) -> Self {
        let text = text.into();
        let text = if text.is_empty() { NOT_RECORDED.to_owned() } else { text };
        GroupValue { frames: vec![text], joined_by: Join::Single }
    }

    /// A path of modules, outermost first, cut to the first `depth`.
    pub(super) fn modules(mut frames: Vec<String>, depth: Option<usize>) -> Self {
        frames.truncate(depth.unwrap_or(usize::MAX).max(1));
        if frames.is_empty() { GroupValue::default() } else { GroupValue { frames, joined_by: Join::Dots } }
    }

    /// Callers, outermost first. `headline` is the label for people.
    pub(super) fn calls(headline: String, frames: Vec<String>) -> Self {
        let frames = std::iter::once(headline).chain(frames).collect();
        GroupValue { frames, joined_by: Join::Calls }
    }

    /// The nested strings; a flame graph has a frame for each.
    pub fn path(&self) -> impl Iterator<Item = &str> {
        let skipped = usize::from(self.joined_by == Join::Calls && self.frames.len() > 1);
        self.frames[skipped..].iter().map(String::as_str)
    }

    /// The levels in a nested table: each module is a level, callers are one.
    pub fn levels(&self) -> impl Iterator<Item = &str> {
        let levels = if self.joined_by == Join::Dots { self.frames.len() } else { 1 };
        self.frames.iter().take(levels).map(String::as_str)
    }

    /// The value for people, in one line.
    pub fn label(&self) -> Cow<'_, str> {
        match self.joined_by {
            Join::Dots => self.frames.join(".").into(),
            Join::Single | Join::Calls => self.frames.first().map_or("", String::as_str).into(),
        }
    }

    /// The whole value for programs: callers joined by semicolons, modules by dots.
    pub fn text(&self) -> String {
        match self.joined_by {
            Join::Calls => self.path().collect::<Vec<_>>().join(";"),
            Join::Single | Join::Dots => self.label().into_owned(),
        }
    }
}

/// The distinct values, by number.
pub(super) type Values = Numbers<GroupValue>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_nest() {
        let frames = |all: &[&str]| all.iter().map(|frame| (*frame).to_owned()).collect::<Vec<_>>();
        let modules = GroupValue::modules(frames(&["Net", "Block", "Linear"]), Some(2));
        assert_eq!((modules.label().as_ref(), modules.path().count()), ("Net.Block", 2));
        let calls = GroupValue::calls("train.py(3): step".to_owned(), frames(&["main", "train.py(3): step", "launch"]));
        assert_eq!(calls.label(), "train.py(3): step");
        assert_eq!(calls.text(), "main;train.py(3): step;launch");
        for none in [GroupValue::single(""), GroupValue::modules(Vec::new(), None), GroupValue::default()] {
            assert_eq!((none.label().as_ref(), none.text().as_str()), (NOT_RECORDED, NOT_RECORDED));
        }
    }
}
