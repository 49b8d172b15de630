//! Refusing files that are no traces, and those that are damaged before the first whole event.

use crate::damage::Damage;
use crate::error::Error;
use crate::input::packed::{PackedCause, PackedFailure};
use crate::input::{self, json, proto};

/// Refuses JSON that is no trace, or is damaged before the first whole event.
pub(super) fn json(name: &str, mut summary: json::Summary) -> Result<json::Summary, Error> {
    let name = name.to_owned();
    if let Some(source) = summary.failure.take() {
        source_failure(&name, source, summary.events)?;
    }
    if summary.events > 0 {
        return Ok(summary);
    }
    let broken = summary.damage.get(Damage::BrokenStructure).first_offset;
    let what = match broken {
        Some(0) => "this is not JSON".to_owned(),
        Some(offset) if !summary.has_event_list => {
            format!("the JSON breaks at byte {offset}, and up to there is no event")
        }
        _ if summary.elements > 0 => format!("none of the {} elements of its list is an event", summary.elements),
        _ if summary.has_event_list && summary.cut_off_at.is_none() => return Ok(summary),
        _ => match summary.cut_off_at {
            Some(offset) if offset == 0 || summary.has_event_list || summary.keys.is_empty() => {
                return Err(Error::NothingWhole { name, offset });
            }
            _ if summary.keys.iter().any(|key| key == "nccl_stacks_part") => {
                "this is a part of a rank, not a trace; parts are merged".to_owned()
            }
            _ if summary.keys.iter().any(|key| key == "traceEvents") => "its `traceEvents` is not a list".to_owned(),
            _ => format!("this is another tool's JSON: it has no `traceEvents`, but {}", some_keys(&summary.keys)),
        },
    };
    Err(Error::NotATrace { name, what })
}

/// Refuses a source that failed, unless it is compressed data that are damaged after the first whole event.
fn source_failure(name: &str, source: std::io::Error, events: u64) -> Result<(), Error> {
    match PackedFailure::of(&source) {
        None => Err(input::failure(name, source)),
        Some(packed) if events == 0 && packed.cause != PackedCause::TrailingBytes => {
            let (name, offset, message) = (name.to_owned(), packed.offset, packed.message.clone());
            Err(match packed.cause {
                PackedCause::CutOff => Error::NothingWhole { name, offset },
                _ => Error::CorruptBeforeFirstEvent { name, offset, message },
            })
        }
        Some(_) => Ok(()),
    }
}

fn some_keys(keys: &[String]) -> String {
    let shown: Vec<String> = keys.iter().take(4).map(|key| format!("`{key}`")).collect();
    match keys.len() {
        0 => "nothing at all".to_owned(),
        n if n > shown.len() => format!("{} and {} more fields", shown.join(", "), n - shown.len()),
        _ => shown.join(", "),
    }
}

/// Damage that may take all events of a trace that has some, the most telling first.
const LOSES_EVENTS: [Damage; 4] =
    [Damage::ClockUnknown, Damage::EventWithoutTime, Damage::EventWithoutSequence, Damage::PacketWithoutState];

/// Refuses packets without events.
pub(super) fn packets(name: &str, mut summary: proto::Summary) -> Result<proto::Summary, Error> {
    if let Some(source) = summary.failure.take() {
        source_failure(name, source, summary.events)?;
    }
    if summary.events > 0 {
        return Ok(summary);
    }
    let name = name.to_owned();
    if let (0, Some(offset)) = (summary.packets, summary.cut_off_at) {
        return Err(Error::NothingWhole { name, offset });
    }
    let first = |kind| summary.damage.get(kind).first_offset;
    let lost = LOSES_EVENTS.into_iter().find(|kind| summary.damage.get(*kind).count > 0);
    let breaks = first(Damage::PacketStructure).or(first(Damage::PacketTooLong));
    let what = match (lost, breaks, first(Damage::PacketSyntax)) {
        (Some(kind), ..) => format!(
            "none of its {} packets is a track event that can be shown; there are {} {}",
            summary.packets,
            summary.damage.get(kind).count,
            kind.description().phrase
        ),
        (None, Some(offset), _) => {
            format!("this is a damaged list of packets: it breaks at byte {offset}, and nowhere is a whole track event")
        }
        (None, None, Some(offset)) => format!(
            "this is a damaged list of packets: the one at byte {offset} is not valid protobuf, and none of all {} is a track event",
            summary.packets
        ),
        (None, None, None) => format!("none of its {} packets is a track event", summary.packets),
    };
    Err(Error::NotATrace { name, what })
}
