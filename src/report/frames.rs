//! The frames of a stack as lines, with marks between its parts, and frames that fit a width.

use std::borrow::Cow;

use super::format::{shorten_right, visible};
use crate::analysis::stack_key::StackKey;
use crate::nccl::frames::location;

/// Marks callers that are not shown.
const TRUNCATED: &str = "...";

/// All lines of a stack, the outermost caller first. A line in brackets is no function: it marks where a capture or the forward pass
/// ends and the launch's own stack begins, and on which thread.
pub(super) fn lines(key: &StackKey) -> Vec<Cow<'_, str>> {
    let mut lines: Vec<Cow<'_, str>> = Vec::new();
    if let Some(captured) = &key.captured {
        lines.push("[graph capture]".into());
        add(&mut lines, &captured.frames, captured.truncated);
    }
    if let Some(forward) = &key.forward {
        lines.push("[forward]".into());
        add(&mut lines, &forward.frames, forward.truncated);
    }
    if key.frames.is_empty() {
        return lines;
    }
    let thread = key.thread.as_deref().map(visible);
    match (&key.captured, &key.forward, thread) {
        (_, Some(_), Some(thread)) => lines.push(format!("[backward on thread {thread}]").into()),
        (_, Some(_), None) => lines.push("[backward]".into()),
        (Some(_), None, Some(thread)) => lines.push(format!("[graph replay on thread {thread}]").into()),
        (Some(_), None, None) => lines.push("[graph replay]".into()),
        (None, None, Some(thread)) => lines.push(format!("[thread {thread}]").into()),
        (None, None, None) => {}
    }
    add(&mut lines, &key.frames, key.truncated);
    lines
}

fn add<'a>(lines: &mut Vec<Cow<'a, str>>, frames: &'a [String], truncated: bool) {
    if truncated {
        lines.push(TRUNCATED.into());
    }
    lines.extend(frames.iter().map(|frame| visible(frame)));
}

/// A frame shortened to a width. The folders of its path go first, from the left, while `file.py(line): function` stays whole; only
/// then the rest, from its end.
pub(super) fn shorten_frame(frame: &str, width: usize) -> String {
    if frame.chars().count() <= width {
        return frame.to_owned();
    }
    let Some((file, ..)) = location(frame) else { return shorten_right(frame, width) };
    let folders = file.match_indices('/').map(|(at, _)| format!("…{}", &frame[at..]));
    let mut shorter = folders.chain([without_folders(frame).to_owned()]);
    let fitting = shorter.find(|text| text.chars().count() <= width);
    fitting.unwrap_or_else(|| shorten_right(without_folders(frame), width))
}

/// The width of a frame without the folders of its file; `None` for a frame that has no file.
pub(super) fn least_width(frame: &str) -> Option<usize> {
    location(frame).map(|_| without_folders(frame).chars().count())
}

/// A frame without the folders of its file.
fn without_folders(frame: &str) -> &str {
    let folders = location(frame).and_then(|(file, ..)| file.rfind('/'));
    folders.map_or(frame, |at| &frame[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::call_tree::CallPath;

    #[test]
    fn parts_of_a_stack_are_marked() {
        let path = |frames: &[&str], truncated| CallPath {
            frames: frames.iter().map(|f| (*f).to_owned()).collect(),
            truncated,
        };
        let frames = vec!["replay".to_owned(), "cudaGraphLaunch".to_owned()];
        let replayed = StackKey { frames, captured: Some(path(&["model", "launch"], true)), ..StackKey::default() };
        let captured = StackKey { frames: Vec::new(), ..replayed.clone() };
        let hop = StackKey { captured: None, thread: Some("pt_autograd_".to_owned()), ..replayed.clone() };
        let backward = StackKey { forward: Some(path(&["aten::mul"], false)), ..hop.clone() };
        for (key, want) in [
            (&replayed, "[graph capture] ... model launch [graph replay] replay cudaGraphLaunch"),
            (&captured, "[graph capture] ... model launch"),
            (&hop, "[thread pt_autograd_] replay cudaGraphLaunch"),
            (&backward, "[forward] aten::mul [backward on thread pt_autograd_] replay cudaGraphLaunch"),
        ] {
            assert_eq!(lines(key).join(" "), want);
        }
    }

    #[test]
    fn frames_lose_their_folders_first() {
        let frame = "sglang/srt/layers/linear.py(1389): forward";
        for (width, want) in [
            (42, frame),
            (41, "…/srt/layers/linear.py(1389): forward"),
            (31, "…/linear.py(1389): forward"),
            (25, "linear.py(1389): forward"),
            (24, "linear.py(1389): forward"),
            (12, "linear.py(1…"),
        ] {
            assert_eq!(shorten_frame(frame, width), want);
        }
        assert_eq!(shorten_frame("<built-in method run_backward of x>", 10), "<built-in…");
    }
}
