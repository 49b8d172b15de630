//! Stacks as text for a screen: for each the frame that best shows where it comes from, one line of numbers, then the frames, outermost
//! caller first.
//!
//! Between the user's code and the launch every collective has the same dozen library frames. They become one line, and library code
//! between the user's own functions is left out. The forms for programs have every frame.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{self, Write};

use super::table::{kernel_names, process_group, values};
use crate::answers::cost::{Cost, Distribution};
use crate::answers::records::Phases;
use crate::answers::stacks::collective_info::{Bandwidth, Bytes, CollectiveInfo};
use crate::answers::stacks::data::{Stack, StackReport};
use crate::answers::stacks::origin::{Frames, names};
use crate::answers::stacks::over_ranks::OverRanks;
use crate::answers::stacks::recorded_info::RecordedInfo;
use crate::attribution::stack_key::StackKey;
use crate::document::Screen;
use crate::document::format::{count, duration, kernels, percent, size, visible};
use crate::document::frames::{Part, lines, parts, shorten_frame};
use crate::names::frames::{is_library, is_plumbing, package, short_c_function};
use crate::time::Ns;

/// The indent of the lines below a stack's headline.
const INDENT: &str = "   ";

/// How many packages a folded line names.
const PACKAGES: usize = 3;

/// Writes the stacks, then the kernels without a launch by reason. Distinguished ranks have a line of numbers each below their common
/// headline.
pub(crate) fn stacks(report: &StackReport, screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let mut place: BTreeMap<&StackKey, usize> = BTreeMap::new();
    let mut by_key: Vec<Vec<&Stack>> = Vec::new();
    for stack in &report.stacks {
        let at = *place.entry(&stack.key).or_insert(by_key.len());
        match by_key.get_mut(at) {
            Some(of_key) => of_key.push(stack),
            None => by_key.push(vec![stack]),
        }
    }
    let named: Vec<Frames<'_>> = by_key.iter().map(|of_key| of_key[0].naming()).collect();
    for (number, (of_key, name)) in (1..).zip(by_key.iter().zip(names(&named))) {
        let number = format!("{number}. ");
        let headline = headline(&name, screen.room(number.len()));
        writeln!(out, "\n{number}{}", screen.accent(&headline))?;
        for stack in of_key {
            let rank = stack.rank.iter().map(|rank| format!("{}:", visible(rank)));
            wrap(&rank.chain(numbers(stack)).collect::<Vec<_>>(), screen, out)?;
            if let Some(over) = &stack.over_ranks {
                wrap(&over_ranks(over), screen, out)?;
            }
            if let Some(recorded) = &stack.recorded {
                self::recorded(stack, recorded, out)?;
            }
            if screen.verbose {
                details(stack, out)?;
            }
        }
        let first = of_key[0];
        for Part { mark, frames } in parts(&first.key) {
            if let Some(mark) = mark {
                writeln!(out, "{INDENT}{mark}")?;
            }
            for line in shown(frames, first.headline.as_deref(), screen) {
                writeln!(out, "{INDENT}-> {}", shorten_frame(&line, screen.room(INDENT.len() + 3)))?;
            }
        }
    }
    let mut above = None;
    for row in &report.without_launch {
        if above.replace(row.key.no_launch) != Some(row.key.no_launch) {
            writeln!(out, "\n{}", screen.accent(&lines(&row.key).concat()))?;
        }
        let rank = row.rank.iter().map(|rank| format!("{}:", visible(rank)));
        wrap(&rank.chain(numbers(row)).collect::<Vec<_>>(), screen, out)?;
    }
    Ok(())
}

/// The names of a stack, as many as fit: the first one says most.
fn headline(names: &[&str], room: usize) -> String {
    let (first, others) = names.split_first().map_or(("", &[][..]), |(first, others)| (*first, others));
    let mut headline = shorten_frame(&short(first), room);
    for other in others {
        let longer = format!("{headline} in {}", short(other));
        if longer.chars().count() > room {
            break;
        }
        headline = longer;
    }
    headline
}

fn short(frame: &str) -> Cow<'_, str> {
    match short_c_function(frame) {
        Cow::Borrowed(frame) => visible(frame),
        Cow::Owned(frame) => Cow::Owned(visible(&frame).into_owned()),
    }
}

/// A mean that is so many times the median does not stand alone.
const FAR: f64 = 2.0;

/// The numbers of a stack with their labels.
fn numbers(stack: &Stack) -> Vec<String> {
    let Cost { gpu_time, share_of_window: share, exposed_ns: exposed, critical_ns: critical, .. } = &stack.cost;
    let CollectiveInfo { collectives, bytes, bandwidth, .. } = &stack.messages;
    let of_window = share.map_or(String::new(), |share| format!(" ({})", percent(share)));
    let mut all = vec![kernels(stack.count), format!("GPU {}{of_window}", duration(gpu_time.total_ns))];
    all.push(format!("exposed {}", duration(*exposed)));
    all.extend(critical.map(|critical| format!("critical {}", duration(critical))));
    if stack.count > 1 {
        all.push(format!("mean {}", mean(gpu_time)));
        // The mean alone is misleading where the median is far from it.
        if gpu_time.mean_ns >= FAR * gpu_time.median_ns {
            all.push(format!("median {}", duration(Ns::rounded(gpu_time.median_ns))));
        }
    }
    if !collectives.is_empty() {
        let bytes = bytes.map_or(String::new(), |bytes| format!(" {}", sizes(stack, bytes)));
        all.push(format!("{}{bytes}", values(collectives, stack)));
    }
    if let Some(Bandwidth { bus_gb_per_s: bus, best_bus_gb_per_s: best_bus, .. }) = bandwidth {
        let best = if stack.count > 1 { format!(" (best {best_bus:.1})") } else { String::new() };
        all.push(format!("busbw {bus:.1} GB/s{best}"));
    }
    all
}

/// How the ranks differ, in parts of a line.
fn over_ranks(over: &OverRanks) -> Vec<String> {
    let OverRanks { ranks, ranks_in_all, gpu_time_ns: gpu_time, shortest, longest, outliers_found, .. } = over;
    let of_all = if ranks == ranks_in_all { String::new() } else { format!(" of {}", count(*ranks_in_all)) };
    let (min, max) = (duration(Ns(gpu_time.min)), duration(Ns(gpu_time.max)));
    let mut parts = vec![
        format!(
            "over {}{of_all} ranks: GPU {min} ({}) to {max} ({})",
            count(*ranks),
            visible(shortest),
            visible(longest)
        ),
        format!("mean {}", duration(Ns::rounded(gpu_time.mean))),
    ];
    if *outliers_found > 0 {
        parts.push(format!("unlike most: {}", count(*outliers_found)));
    }
    parts
}

/// Writes parts side by side, as many as fit a line.
fn wrap(parts: &[String], screen: &Screen, out: &mut impl Write) -> io::Result<()> {
    let room = screen.room(INDENT.len());
    let mut line = String::new();
    for part in parts {
        let width = line.chars().count() + part.chars().count() + 2;
        if !line.is_empty() && width > room {
            writeln!(out, "{INDENT}{line}")?;
            line.clear();
        }
        let gap = if line.is_empty() { "" } else { "  " };
        line = format!("{line}{gap}{part}");
    }
    writeln!(out, "{INDENT}{line}")
}

/// The frames of a part to show, with a line in place of hidden ones.
fn shown<'a>(frames: &'a [String], headline: Option<&str>, screen: &Screen) -> Vec<Cow<'a, str>> {
    let whole = |frames: &'a [String]| frames.iter().map(|frame| short(frame));
    if screen.full_stacks {
        return whole(frames).collect();
    }
    // The headline, or in other parts of the stack the innermost frame of the user's own code.
    let is_telling = |frame: &String| !is_plumbing(frame) && !is_library(frame);
    let telling = frames.iter().rposition(|frame| Some(frame.as_str()) == headline);
    let telling = telling.or_else(|| frames.iter().rposition(is_telling));
    let (above, below) = frames.split_at(telling.map_or(0, |at| at + 1));
    let above: Vec<&String> = above.iter().filter(|frame| !is_library(frame)).collect();
    let hidden = screen.depth.map_or(0, |depth| above.len().saturating_sub(depth));
    let mut lines = Vec::new();
    if hidden > 0 {
        lines.push(format!("… {} above", callers(hidden)).into());
    }
    lines.extend(above[hidden..].iter().map(|frame| short(frame)));
    match below.split_last() {
        Some((launch, between)) if between.len() > 1 => {
            lines.push(format!("… {} frames{}", between.len(), of_packages(between)).into());
            lines.push(short(launch));
        }
        _ => lines.extend(whole(below)),
    }
    lines
}

fn callers(n: usize) -> String {
    if n == 1 { "1 caller".to_owned() } else { format!("{n} callers") }
}

/// ` of torch.distributed, c10d`
fn of_packages(frames: &[String]) -> String {
    let mut packages: Vec<String> = Vec::new();
    for package in frames.iter().filter_map(|frame| package(frame)) {
        if !packages.contains(&package) {
            packages.push(package);
        }
    }
    let more = if packages.len() > PACKAGES { " …" } else { "" };
    packages.truncate(PACKAGES);
    if packages.is_empty() { String::new() } else { format!(" of {}{more}", packages.join(", ")) }
}

fn mean(distribution: &Distribution) -> String {
    duration(Ns::rounded(distribution.mean_ns))
}

/// Everything else known about a stack.
fn details(stack: &Stack, out: &mut impl Write) -> io::Result<()> {
    let Cost { gpu_time, overlapped_ns: overlapped, queue_delay, .. } = &stack.cost;
    let median = |distribution: &Distribution| duration(Ns::rounded(distribution.median_ns));
    let Distribution { p95_ns: p95, min_ns: min, max_ns: max, .. } = *gpu_time;
    let (p95, min, max) = (duration(p95), duration(min), duration(max));
    writeln!(out, "{INDENT}  GPU time: median {}, p95 {p95}, min {min}, max {max}", median(gpu_time))?;
    let of_it = stack.cost.exposed_share().map_or(String::new(), |share| format!(", exposed {} of it", percent(share)));
    write!(out, "{INDENT}  Overlapped {}{of_it}", duration(*overlapped))?;
    match queue_delay {
        Some(delay) => writeln!(out, "; launch to start: median {}, p95 {}", median(delay), duration(delay.p95_ns))?,
        None => writeln!(out)?,
    }
    let CollectiveInfo { algorithms, protocols, dtypes, groups, bandwidth, .. } = &stack.messages;
    for (what, found) in [("Element type", dtypes), ("Algorithm", algorithms), ("Protocol", protocols)] {
        if !found.is_empty() {
            writeln!(out, "{INDENT}  {what}: {}", values(found, stack))?;
        }
    }
    for group in groups {
        writeln!(out, "{INDENT}  Process group: {}", process_group(group, stack.count))?;
    }
    if let Some(Bandwidth {
        algorithm_gb_per_s: algorithm,
        bus_gb_per_s: bus,
        best_bus_gb_per_s: best_bus,
        kernels,
        ..
    }) = bandwidth
    {
        let of = match *kernels {
            n if n == stack.count => String::new(),
            1 => ", of 1 kernel".to_owned(),
            n => format!(", of {} kernels", count(n)),
        };
        writeln!(
            out,
            "{INDENT}  Bandwidth: algbw {algorithm:.2} GB/s, busbw {bus:.2} GB/s, at best {best_bus:.2} GB/s{of}"
        )?;
    }
    writeln!(out, "{INDENT}  Kernels: {}", kernel_names(stack))
}

/// What NCCL's own records add: `Recorded: RING, SIMPLE, 4 channels (plugin-dump)`.
fn recorded(stack: &Stack, recorded: &RecordedInfo, out: &mut impl Write) -> io::Result<()> {
    let mut said = Vec::new();
    for found in [&recorded.algorithms, &recorded.protocols] {
        said.extend((!found.is_empty()).then(|| values(found, stack)));
    }
    let channels: Vec<String> = recorded.channels.keys().map(u32::to_string).collect();
    said.extend((!channels.is_empty()).then(|| {
        let word = if channels == ["1"] { "channel" } else { "channels" };
        format!("{} {word}", channels.join(" or "))
    }));
    let of = if recorded.kernels == stack.count {
        String::new()
    } else {
        format!(" of {} of {}", count(recorded.kernels), kernels(stack.count))
    };
    let sources: Vec<&str> = recorded.sources.keys().map(String::as_str).collect();
    if !said.is_empty() {
        writeln!(out, "{INDENT}  Recorded: {} ({}{of})", said.join(", "), sources.join(", "))?;
    }
    let Some(proxy) = &recorded.proxy else { return Ok(()) };
    let Phases { gpu_wait_ns: gpu_wait, peer_wait_ns: peer_wait, network_ns: network, flush_ns: flush, .. } =
        proxy.phases;
    let phases = [
        ("waiting for the GPU", gpu_wait),
        ("waiting for the receiver", peer_wait),
        ("on the network", network),
        ("flushing", flush),
    ];
    let all = proxy.phases.all();
    let phases = phases.into_iter().filter(|(_, time)| *time > Ns::ZERO);
    let shares: Vec<String> =
        phases.map(|(name, time)| format!("{} {name}", percent(time.share_of(all).unwrap_or_default()))).collect();
    let bytes = if proxy.bytes > 0 { format!(", {}", size(proxy.bytes)) } else { String::new() };
    writeln!(out, "{INDENT}  Proxy: {} steps{bytes}: {}", count(proxy.steps), shares.join(", "))
}

/// `1.84 MB to 8.39 MB each (unknown ×2)`
fn sizes(stack: &Stack, bytes: Bytes) -> String {
    let from = if bytes.min == bytes.max { String::new() } else { format!("{} to ", size(bytes.min)) };
    let unknown = match stack.unknown(std::iter::once(bytes.kernels)) {
        0 => String::new(),
        unknown => format!(" (unknown ×{})", count(unknown)),
    };
    let of = if stack.messages.is_shared() { "per collective" } else { "each" };
    format!("{from}{} {of}{unknown}", size(bytes.max))
}
