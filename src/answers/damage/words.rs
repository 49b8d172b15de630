//! What damage means for an answer, in sentences. They precede the verdict, which damage may have made wrong.

use super::{Cause, Losses, UnknownLoss};
use crate::document::format::{count, duration, percent, visible};
use crate::time::Window;

/// This many traces get sentences; the others are counted.
const NAMED: usize = 3;

/// Smaller shares are shown as less than this.
const LEAST_SHARE: f64 = 0.0001;

/// The sentences before the verdict on `traces` traces, with their windows if known. Empty unless text was lost or may be wrong.
pub(crate) fn sentences(losses: &Losses, traces: usize, windows: &[Window]) -> Vec<String> {
    let mut said: Vec<String> = losses.unknown.iter().take(NAMED).map(|of| sentence(of, traces, windows)).collect();
    let more = losses.unknown.len().saturating_sub(NAMED);
    if more > 0 {
        let traces =
            if more == 1 { "1 more trace is".to_owned() } else { format!("{} more traces are", count(more as u64)) };
        said.push(format!("{traces} cut off or corrupt."));
    }
    let lost = losses.lost_bytes.unwrap_or_default();
    if lost > 0 {
        let share = losses.lost_share.filter(|share| *share >= LEAST_SHARE);
        let share = share.map_or_else(|| "less than 0.01 %".to_owned(), percent);
        said.push(format!(
            "{} of {} bytes of the text ({share}) could not be read, and what they had is missing.",
            count(lost),
            count(losses.text_bytes)
        ));
    }
    said
}

fn sentence(of: &UnknownLoss, traces: usize, windows: &[Window]) -> String {
    let trace = if traces > 1 { visible(&of.trace).into_owned() } else { "The trace".to_owned() };
    let mut text = match of.cause {
        Cause::CutOff => {
            format!("{trace} is cut off (copy it again, or record again), and how much is missing is unknown.")
        }
        Cause::Corrupt => format!(
            "{trace} is corrupt (copy it again): it ends early, and any byte before may be wrong, too, and so may any number below."
        ),
        Cause::Checksum => {
            format!(
                "{trace} does not match its checksum (copy it again): any byte may be wrong, and so may any number below."
            )
        }
    };
    if of.cause != Cause::CutOff {
        text.push_str(&match of.implausible_from {
            Some(from) => {
                format!(" Its text looks wrong from byte {} of {} on.", count(from), count(of.text_bytes))
            }
            None => " Nothing in its text looks wrong.".to_owned(),
        });
    }
    if let Some(survived) = of.survived {
        let length = duration(survived.duration());
        let Window { start, end } = survived;
        let is_other = if windows.is_empty() { "" } else { ", which is not the window" };
        text.push_str(&match windows.contains(&survived) {
            true => format!(" The window is limited to the {length} in which an unbroken run of kernels survived."),
            false => {
                format!(" An unbroken run of kernels survived from {start} ns to {end} ns ({length}){is_other}.")
            }
        });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_said_with_its_share_and_nothing_of_what_is_whole() {
        let lost = |lost| Losses {
            text_bytes: 2_000_000,
            lost_bytes: Some(lost),
            lost_share: Some(lost as f64 / 2e6),
            ..Losses::default()
        };
        let said = |bytes, share| {
            format!("{bytes} of 2,000,000 bytes of the text ({share}) could not be read, and what they had is missing.")
        };
        assert_eq!(sentences(&lost(40), 1, &[]), [said("40", "less than 0.01 %")]);
        assert_eq!(sentences(&lost(500_000), 1, &[]), [said("500,000", "25.0 %")]);
        assert_eq!(sentences(&lost(0), 1, &[]), Vec::<String>::new());
    }
}
