//! Where stacks come from: the few frames of each that show it best.

use std::collections::BTreeMap;

use super::stack_key::StackKey;

/// How many frames of each stack are named at most.
const FRAMES: usize = 3;

/// For each stack the innermost of its telling frames, the innermost first. If stacks look alike by these, the last one gives way to
/// the innermost frame by which they differ.
pub fn origins<'a>(stacks: impl Iterator<Item = &'a StackKey>) -> Vec<Vec<&'a str>> {
    let all: Vec<Vec<&str>> = stacks.map(StackKey::telling_frames).collect();
    let mut alike: BTreeMap<&[&str], Vec<usize>> = BTreeMap::new();
    for (at, frames) in all.iter().enumerate() {
        alike.entry(&frames[..frames.len().min(FRAMES)]).or_default().push(at);
    }
    let mut named: Vec<Vec<&str>> = all.iter().map(|frames| frames.iter().take(FRAMES).copied().collect()).collect();
    for twins in alike.into_values() {
        let longest = twins.iter().map(|at| all[*at].len()).max().unwrap_or(0);
        let differ = |depth: &usize| twins.iter().any(|at| all[*at].get(*depth) != all[twins[0]].get(*depth));
        let Some(depth) = (FRAMES..longest).find(differ) else { continue };
        for at in twins {
            if let (Some(frame), Some(last)) = (all[at].get(depth), named[at].last_mut()) {
                *last = frame;
            }
        }
    }
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_look_alike_show_where_they_differ() {
        let stack = |frames: [&str; 5]| StackKey {
            frames: frames.map(|f| format!("a.py(1): {f}")).into(),
            ..StackKey::default()
        };
        let stacks = [["x", "u", "c", "b", "a"], ["x", "v", "c", "b", "a"], ["y", "u", "d", "b", "a"]].map(stack);
        let short = |frame: &&str| frame.rsplit(' ').next().unwrap_or_default().to_owned();
        let shown: Vec<String> =
            origins(stacks.iter()).iter().map(|frames| frames.iter().map(short).collect()).collect();
        assert_eq!(shown, ["abu", "abv", "abd"]);
        assert_eq!(origins([&stacks[0], &stacks[0]].into_iter())[0].len(), 3, "the same twice");
    }
}
