//! Why collectives are not hidden, in words.

use crate::answers::ranks::data::{RankReport, StackWaits};
use crate::answers::ranks::hidden::WhyExposed;
use crate::document::format::{duration, percent, shorten_right, visible};
use crate::names::kernels::short_kernel;
use crate::replay::findings::SEEN;
use crate::time::Ns;

/// A reason is said if it holds for this share of the time, and what shows it named if that is one for this share.
const AGREES: f64 = 0.8;

/// The most characters of a name.
const NAME: usize = 60;

/// `Exposed 12.3 ms: for 93.0 % of it the next kernel (rms_norm_kernel) waits for it. With a free transfer the job would be 5.1 % shorter.`
pub(crate) fn sentence(report: &RankReport, stack: &StackWaits) -> Option<String> {
    let share = |time: Ns| time.share_of(stack.exposed_ns).unwrap_or(0.0);
    let first = stack.exposed_for.first()?;
    let same = || stack.exposed_for.iter().filter(|of| of.why == first.why);
    let agrees = share(same().map(|of| of.exposed_ns).sum());
    let mut text = format!("Exposed {}", duration(stack.exposed_ns));
    if agrees >= AGREES && first.why != WhyExposed::Unknown {
        let named = first.by.as_deref().filter(|_| share(first.exposed_ns) >= AGREES);
        let named = named.map(|name| shorten_right(&visible(short_kernel(name)), NAME));
        let next =
            named.as_ref().map_or_else(|| "the next kernel".to_owned(), |name| format!("the next kernel ({name})"));
        let why = match first.why {
            WhyExposed::WaitedFor => format!("{next} waits for it"),
            WhyExposed::SameStream => format!("{next} is queued after it on the same stream"),
            WhyExposed::LaunchedLate => format!("{next} is launched too late to run beside it"),
            WhyExposed::CpuWaits => {
                let call = named.as_ref().map_or(String::new(), |call| format!(" in {call}"));
                format!("the CPU waits for it{call} before it launches more")
            }
            _ => "no kernel follows it in its step".to_owned(),
        };
        // What would be printed as 100.0 %.
        let part = if agrees > 1.0 - SEEN { String::new() } else { format!("for {} of it ", percent(agrees)) };
        text.push_str(&format!(": {part}{why}"));
    }
    text.push('.');
    let saved = stack.without_transfer_saves_ns.zip(report.reruns.as_ref());
    if let Some(saved) = saved.and_then(|(saves, reruns)| Ns(saves).share_of(Ns(reruns.length_ns))) {
        // How much of it is waiting is unknown without other ranks.
        let free = if stack.transfer_ns == Ns::ZERO { "Without it" } else { "With a free transfer" };
        if saved >= SEEN {
            text.push_str(&format!(" {free} the job would be {} shorter.", percent(saved)));
            return Some(text);
        }
        let path = report.critical_path.as_ref();
        let most = path.and_then(|path| Some((path, path.kinds.iter().max_by_key(|kind| kind.path_ns)?)));
        let most = most.and_then(|(path, kind)| Some((kind.kind, Ns(kind.path_ns).share_of(Ns(path.length_ns))?)));
        let why = match most.filter(|(_, share)| *share >= AGREES) {
            _ if report.pace().is_some_and(|pace| !pace.is_of_one()) => {
                ": the CPUs take as long as the GPUs".to_owned()
            }
            Some((kind, share)) => format!(": {} of the critical path is {}", percent(share), kind.name()),
            None => String::new(),
        };
        text.push_str(&format!(" {free} the job would be no shorter{why}."));
    }
    Some(text)
}
