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

/// `exposed 12.300 ms: in 93.0 % of that the next kernel, rms_norm_kernel, waits for it; without its transfer the job would be 5.1 % shorter`
pub(crate) fn sentence(report: &RankReport, stack: &StackWaits) -> Option<String> {
    let share = |time: Ns| time.share_of(stack.exposed_ns).unwrap_or(0.0);
    let first = stack.exposed_for.first()?;
    let same = || stack.exposed_for.iter().filter(|of| of.why == first.why);
    let agrees = share(same().map(|of| of.exposed_ns).sum());
    let mut text = format!("exposed {}", duration(stack.exposed_ns));
    if agrees >= AGREES && first.why != WhyExposed::Unknown {
        let named = first.by.as_deref().filter(|_| share(first.exposed_ns) >= AGREES);
        let named = named.map(|name| shorten_right(&visible(short_kernel(name)), NAME));
        let next =
            named.as_ref().map_or_else(|| "the next kernel".to_owned(), |name| format!("the next kernel, {},", name));
        let why = match first.why {
            WhyExposed::WaitedFor => format!("{next} waits for it"),
            WhyExposed::SameStream => format!("{next} is on its stream"),
            WhyExposed::LaunchedLate => format!("{next} is launched too late to run beside it"),
            WhyExposed::CpuWaits => {
                format!(
                    "the CPU waits for it{} and then launches more",
                    named.as_ref().map_or(String::new(), |call| format!(" in {}", call))
                )
            }
            _ => "no kernel follows it in its step".to_owned(),
        };
        text.push_str(&format!(": in {} of that {why}", percent(agrees)));
    }
    let saved = stack.without_transfer_saves_ns.zip(report.reruns.as_ref());
    if let Some(saved) = saved.and_then(|(saves, reruns)| Ns(saves).share_of(Ns(reruns.length_ns))) {
        // How much of it is waiting is unknown without other ranks.
        let what = if stack.transfer_ns == Ns::ZERO { "it" } else { "its transfer" };
        let shorter = if saved >= SEEN { percent(saved) } else { "no".to_owned() };
        text.push_str(&format!("; without {what} the job would be {shorter} shorter"));
        let path = report.critical_path.as_ref().filter(|_| saved < SEEN);
        let most = path.and_then(|path| Some((path, path.kinds.iter().max_by_key(|kind| kind.path_ns)?)));
        let most = most.and_then(|(path, kind)| Some((kind.kind, Ns(kind.path_ns).share_of(Ns(path.length_ns))?)));
        if saved < SEEN && report.verdict().pace.is_some_and(|pace| !pace.is_of_one()) {
            text.push_str(", as the CPUs take as long as the GPUs");
        } else if let Some((kind, share)) = most.filter(|(_, share)| *share >= AGREES) {
            text.push_str(&format!(", as {} of the critical path is {}", percent(share), kind.name()));
        }
    }
    Some(text)
}
