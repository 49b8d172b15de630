//! Where stacks come from: the few frames of each stack that show it best.

use std::collections::{BTreeMap, BTreeSet};

const FRAMES: usize = 3;

/// The first few telling frames of each stack ([`crate::attribution::stack_key::StackKey::telling_frames`]). If stacks share all of these, the innermost frame by
/// which they differ replaces the last one.
pub fn origins<'a>(telling: impl Iterator<Item = &'a Vec<String>>) -> Vec<Vec<&'a str>> {
    let all: Vec<Vec<&str>> = telling.map(|frames| frames.iter().map(String::as_str).collect()).collect();
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

/// How many stacks of one headline are compared with each other.
const COMPARED: usize = 256;

/// What a stack is named by: its telling frames, and all of its frames, the outermost caller first.
pub type Frames<'a> = (&'a [String], &'a [String]);

/// The names of stacks: the headline of each; if other stacks share it, also the frames that distinguish it: for each other stack, the innermost
/// telling frame in which they differ, or, if these are the same, the innermost frame of all. Equal stacks are not distinguished.
#[derive(Debug)]
pub struct Names<'a> {
    stacks: Vec<Frames<'a>>,
    of_headline: BTreeMap<Option<&'a String>, Vec<Frames<'a>>>,
}

impl<'a> Names<'a> {
    /// Prepares the names of stacks. To name a stack takes long if many share its headline.
    pub fn new(stacks: impl Iterator<Item = Frames<'a>>) -> Self {
        let stacks: Vec<Frames<'_>> = stacks.collect();
        let mut of_headline: BTreeMap<Option<&String>, Vec<Frames<'a>>> = BTreeMap::new();
        for of in stacks.iter().copied() {
            let alike = of_headline.entry(of.0.first()).or_default();
            if alike.len() < COMPARED && !alike.contains(&of) {
                alike.push(of);
            }
        }
        Names { stacks, of_headline }
    }

    /// The name of the stack at this position, its headline first.
    pub fn name(&self, at: usize) -> Vec<&'a str> {
        let (telling, frames) = self.stacks[at];
        let others = self.of_headline.get(&telling.first()).map_or(&[][..], Vec::as_slice);
        let differ = |other: &Frames<'_>| (1..telling.len()).find(|at| other.0.get(*at) != telling.get(*at));
        let depths: BTreeSet<usize> = others.iter().filter(|other| other.0 != telling).filter_map(differ).collect();
        let twin = others.iter().find(|other| other.0 == telling && other.1 != frames);
        let innermost = twin.and_then(|twin| {
            let mut of_twin = twin.1.iter().rev();
            frames.iter().rev().find(|frame| of_twin.next() != Some(*frame))
        });
        let innermost = innermost.filter(|frame| Some(*frame) != telling.first());
        let named = telling.first().into_iter().chain(depths.into_iter().map(|at| &telling[at])).chain(innermost);
        named.map(String::as_str).collect()
    }

    /// The same; `(no frames)` for a stack without any.
    pub(crate) fn label(&self, at: usize) -> Vec<String> {
        let name: Vec<String> = self.name(at).into_iter().map(str::to_owned).collect();
        if name.is_empty() { vec!["(no frames)".to_owned()] } else { name }
    }
}

pub fn names<'a>(stacks: &[Frames<'a>]) -> Vec<Vec<&'a str>> {
    let names = Names::new(stacks.iter().copied());
    (0..stacks.len()).map(|at| names.name(at)).collect()
}

/// For each stack the frame that best shows where it comes from, then the frames that distinguish it from others with that frame.
pub(crate) fn labels<'t>(stacks: impl Iterator<Item = Frames<'t>>) -> Vec<Vec<String>> {
    let names = Names::new(stacks);
    (0..names.stacks.len()).map(|at| names.label(at)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stacks_that_look_alike_show_where_they_differ() {
        let stack = |frames: [&str; 5]| frames.map(|f| format!("a.py(1): {f}")).to_vec();
        let stacks = [["a", "b", "c", "u", "x"], ["a", "b", "c", "v", "x"], ["a", "b", "d", "u", "y"]].map(stack);
        let short = |frame: &&str| frame.rsplit(' ').next().unwrap_or_default().to_owned();
        let shown: Vec<String> =
            origins(stacks.iter()).iter().map(|frames| frames.iter().map(short).collect()).collect();
        assert_eq!(shown, ["abu", "abv", "abd"]);
        assert_eq!(origins([&stacks[0], &stacks[0]].into_iter())[0].len(), 3, "the same twice");
    }

    #[test]
    fn a_name_tells_a_stack_from_all_others() {
        let stack = |frames: &str| frames.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let stacks = [
            "linear attn layer decode",
            "linear attn layer extend",
            "linear mlp layer decode",
            "embed x",
            "linear attn",
        ]
        .map(stack);
        let all: Vec<Frames<'_>> = stacks.iter().map(|telling| (telling.as_slice(), &[][..])).collect();
        let shown: Vec<String> = names(&all).iter().map(|frames| frames.join(" ")).collect();
        assert_eq!(
            shown,
            ["linear attn layer decode", "linear attn layer extend", "linear mlp", "embed", "linear attn"]
        );
        assert_eq!(names(&[all[0], all[0]])[1], ["linear"], "the same twice");
    }

    #[test]
    fn stacks_that_only_library_code_tells_apart_show_it() {
        let stacks = ["step gather op launch", "step gather op copy", "step gather launch"]
            .map(|frames| frames.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let telling = ["gather", "step"].map(str::to_owned);
        let all: Vec<Frames<'_>> = stacks.iter().map(|frames| (&telling[..], frames.as_slice())).collect();
        let shown: Vec<String> = names(&all).iter().map(|frames| frames.join(" ")).collect();
        assert_eq!(shown, ["gather launch", "gather copy", "gather"]);
    }
}
