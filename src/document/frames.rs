//! The frames of a stack as lines, with marks between its parts, and frames shortened to a width.

use std::borrow::Cow;

use super::format::{shorten_right, visible};
use crate::attribution::launches::Reason;
use crate::attribution::stack_key::StackKey;
use crate::names::frames::location;

pub(crate) struct Part<'a> {
    /// A line in brackets above it, which is not a function: it marks a capture, the forward pass or a thread.
    pub(crate) mark: Option<String>,
    /// Its frames, outermost caller first.
    pub(crate) frames: &'a [String],
}

/// The parts of a stack: the capture, the forward pass, the launch.
pub(crate) fn parts(key: &StackKey) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    if let Some(captured) = &key.captured {
        parts.push(Part { mark: Some("[graph capture]".to_owned()), frames: &captured.frames });
    }
    if let Some(forward) = &key.forward {
        parts.push(Part { mark: Some("[forward]".to_owned()), frames: &forward.frames });
    }
    if key.frames.is_empty() {
        return parts;
    }
    let thread = key.thread.as_deref().map(visible);
    let mark = match (&key.captured, &key.forward, thread) {
        (_, Some(_), Some(thread)) => Some(format!("[backward on thread {thread}]")),
        (_, Some(_), None) => Some("[backward]".to_owned()),
        (Some(_), None, Some(thread)) => Some(format!("[graph replay on thread {thread}]")),
        (Some(_), None, None) => Some("[graph replay]".to_owned()),
        (None, None, Some(thread)) => Some(format!("[thread {thread}]")),
        (None, None, None) => None,
    };
    parts.push(Part { mark, frames: &key.frames });
    parts
}

/// All lines of a stack, outermost caller first, with the marks of its parts; the reason, if it has no stack.
pub(crate) fn lines(key: &StackKey) -> Vec<Cow<'_, str>> {
    let line =
        |Part { mark, frames }| mark.map(Cow::Owned).into_iter().chain(frames.iter().map(|frame| visible(frame)));
    let reason = key.no_launch.map(|reason| Cow::Borrowed(root(reason)));
    reason.into_iter().chain(parts(key).into_iter().flat_map(line)).collect()
}

/// The line that replaces the stack of kernels without a launch.
pub(crate) fn root(reason: Reason) -> &'static str {
    match reason {
        Reason::NoCalls => "[no launch: no calls recorded]",
        Reason::BeforeTrace => "[no launch: before the first recorded call]",
        Reason::NoId => "[no launch: no id]",
        Reason::NotRecorded => "[no launch: call not recorded]",
    }
}

/// A frame shortened to a width. The folders of its path go first, from the left, and `file.py(line): function` stays whole; then the
/// rest is cut from its end.
pub(crate) fn shorten_frame(frame: &str, width: usize) -> String {
    if frame.chars().count() <= width {
        return frame.to_owned();
    }
    let Some((file, ..)) = location(frame) else { return shorten_right(frame, width) };
    let folders = file.match_indices('/').map(|(at, _)| format!("…{}", &frame[at..]));
    let mut shorter = folders.chain([without_folders(frame).to_owned()]);
    let fitting = shorter.find(|text| text.chars().count() <= width);
    fitting.unwrap_or_else(|| shorten_right(without_folders(frame), width))
}

/// The width of a frame without the folders of its file; `None` for a frame without a file.
pub(crate) fn least_width(frame: &str) -> Option<usize> {
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
