//! Which records are of a communicator: the interceptor and the plugin each have a number for it.

use nccl_stacks_recorder_format::{Communicator, Entry, Writer, layout};

const PLUGIN: u32 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Of {
    pub(super) calls: u16,
    /// Its number in the records of the plugin; 0 if that has none, or several may be it.
    pub(super) events: u16,
    pub rank: u32,
    /// How many ranks it has; 0 if that is unknown.
    pub size: u32,
    /// NCCL's hash; 0 if it is unknown.
    pub(super) hash: u64,
}

impl Of {
    /// By its number in the records of calls; `None` if there is none, or its rank is unknown.
    #[inline(never)]
    pub fn find(writer: &Writer, number: u16) -> Option<Of> {
        let entry = writer.known(number)?;
        let known = entry.communicator();
        let of_plugin = plugin(writer, &known);
        let plugin = of_plugin.as_ref().map(|(_, entry)| entry.communicator());
        let either = |of: fn(&Communicator<'_>) -> i32| {
            [Some(&known), plugin.as_ref()].into_iter().flatten().find_map(|known| u32::try_from(of(known)).ok())
        };
        Some(Of {
            calls: number,
            events: of_plugin.as_ref().map_or(0, |(number, _)| *number),
            rank: either(|known| known.rank)?,
            size: either(|known| known.size).unwrap_or(0),
            hash: if known.hash != 0 { known.hash } else { plugin.map_or(0, |known| known.hash) },
        })
    }

    /// How many counters its pairs of ranks need: one for each rank and direction.
    pub fn pairs(&self) -> usize {
        usize::try_from(self.size).unwrap_or(0).saturating_mul(2)
    }
}

/// The plugin's entry: the newest with the same hash and rank. Without a hash, as after `ncclCommInitAll`, the only one with the same rank and size.
fn plugin(writer: &Writer, known: &Communicator<'_>) -> Option<(u16, Entry)> {
    let same = |of: i32, other: i32| of < 0 || other < 0 || of == other;
    let fits = |other: &Communicator<'_>| {
        let is_it = if known.hash != 0 { other.hash == known.hash } else { known.rank >= 0 && other.ended == 0 };
        other.by == PLUGIN && is_it && same(known.rank, other.rank) && same(known.size, other.size)
    };
    let all = (1..=layout::COMMUNICATORS as u16).filter_map(|number| Some((number, writer.known(number)?)));
    let mut fitting = all.filter(|(_, entry)| fits(&entry.communicator()));
    let first = fitting.next()?;
    if known.hash == 0 {
        return Some(first).filter(|_| fitting.next().is_none());
    }
    let newer = |one: (u16, Entry), other: (u16, Entry)| {
        if other.1.communicator().made >= one.1.communicator().made { other } else { one }
    };
    Some(fitting.fold(first, newer))
}
