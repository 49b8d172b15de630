//! Dumps of NCCL's example profiler plugin, 2.23 to 2.32: begins and ends of events, as Chrome's traces have them, an event a line.
//!
//! Nothing in a dump says which event belongs to which: that is their order. Within a group are the launches of its kernels and its API
//! calls, within a call its collective or its send or receive, within that its channels and proxy operations, within these the steps.
//! Numbers restart in each category, and some are wrong, so an end belongs to the innermost open event of its name.
//!
//! Some versions have faults: words without quotes (2.28); times of 0, which the plugin never set (begins of API calls and of kernel
//! launches, and the stops of all channels but the first); no end if the process was killed. A time of 0 is never taken for a time.

mod clock;
mod event;
mod nest;

use std::io;

use self::event::Event;
use self::nest::Dump;
use super::objects::{FoundObject, Objects, first};
use super::reader::{Reader, Reading};
use crate::operation::Source;

pub(super) const READER: Reader = Reader { source: Source::PLUGIN_DUMP, sniff, read, leaves_holes: false };

/// How many events are looked at. Traces of other programs have begins and ends, too, but not of these categories alone.
const DECIDE: usize = 16;

fn sniff(head: &[u8]) -> bool {
    let objects = first(head, Objects::loose(), DECIDE);
    let events = objects.iter().filter(|text| !event::is_empty(text));
    let (own, others): (Vec<_>, Vec<_>) = events.partition(|text| Event::parse(text).is_some());
    // A few may be damaged.
    own.len() > 3 * others.len()
}

fn read(reading: &mut Reading<'_>) -> io::Result<()> {
    let mut objects = Objects::loose();
    let mut dump = Dump::new(reading.records);
    let mut is_ended = false;
    // Also what was read before an error gets the times and states that follow from all of it.
    let failure = loop {
        let FoundObject { offset, text } = match objects.next(reading.bytes, reading.file) {
            Ok(Some(found)) => found,
            Ok(None) => break Ok(()),
            Err(error) => break Err(error),
        };
        // The plugin ends the list with an empty object, so that it may write a comma after each event.
        is_ended = event::is_empty(text);
        if is_ended {
            continue;
        }
        match Event::parse(text) {
            Some(event) => {
                reading.file.records += 1;
                dump.add(&event, offset, reading.file);
            }
            None => reading.file.skip("events that are none of the plugin's", Some(offset)),
        }
    };
    if !is_ended && !objects.is_list_ended {
        reading.file.note("Its list has no end: the process was killed, or is still writing.");
    }
    dump.finish(reading.file);
    failure
}
