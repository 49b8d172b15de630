//! The bar that shows how much of the file has been read; only on a terminal.

use indicatif::{ProgressBar, ProgressStyle};

use nccl_stacks::load::Progress;

/// Shows the progress of a load.
pub(super) struct Bar {
    bar: Option<ProgressBar>,
}

impl Bar {
    pub(super) fn new() -> Self {
        Bar { bar: None }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        let bar = self.bar.get_or_insert_with(|| match progress.size {
            Some(size) => ProgressBar::new(size).with_style(style("{bytes} of {total_bytes} [{bar:40}] {eta}")),
            None => ProgressBar::new_spinner().with_style(style("{spinner} {bytes}")),
        });
        // Blocks are read ahead of the end.
        bar.set_position(progress.size.map_or(progress.taken, |size| progress.taken.min(size)));
    }

    /// Removes the bar from the screen, until there is more to show.
    pub(super) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are constants above; a wrong one would show indicatif's own bar.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ")
}
