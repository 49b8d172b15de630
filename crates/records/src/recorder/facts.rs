//! The first part of a file: the process, its communicators, and the texts that records name by number.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nccl_stacks_recorder_format::{Clock, Header, NotARecording, Record, collectives, communicator, layout, text};

use crate::operation::Communicator;
use crate::tables::Records;
use nccl_stacks_trace::id::RankId;
use nccl_stacks_trace::names::collectives::Collective;
use nccl_stacks_trace::names::values::dtype_of_name;
use nccl_stacks_trace::time::Ns;

/// What made a communicator known: the interceptor.
const INTERCEPTOR: u32 = 2;

/// Valid times: from 1970 to 2116.
const TIMES: std::ops::Range<i64> = 1..1 << 62;

/// A communicator of the process, whether plugin, interceptor or both made it known.
#[derive(Default)]
pub(super) struct Known {
    /// By which it is the same on other ranks; `None` if nothing says that, or once it is [taken for another](Facts::join).
    hash: Option<u64>,
    name: Option<String>,
    pub(super) place: Option<u32>,
    pub(super) size: Option<u64>,
    /// Its position among those of the records, once it is [entered](Facts::enter) with its hash.
    pub(super) row: Option<usize>,
    /// How many collectives it was asked for, as plugin and interceptor have counted; 0 if nobody did.
    collectives: [u32; 2],
    /// Whether more is known of it than that it was announced. Otherwise calls of a communicator without a name may be of it.
    pub(super) is_seen: bool,
    /// Whether the interceptor knows it, and Megatrace's hash of it then; 0 if that is unknown.
    is_interceptors: bool,
    group_hash: u64,
}

impl Known {
    fn add(&mut self, known: &nccl_stacks_recorder_format::Communicator<'_>, collectives: u32) {
        let is_interceptors = known.by == INTERCEPTOR;
        self.is_seen |= !is_interceptors || known.address != 0;
        self.is_interceptors |= is_interceptors;
        self.group_hash = self.group_hash.max(known.group_hash);
        let name = String::from_utf8_lossy(known.name).into_owned();
        self.name = self.name.take().or(Some(name).filter(|name| !name.is_empty()));
        self.size = self.size.or(size(known));
        let count = &mut self.collectives[usize::from(is_interceptors)];
        *count = (*count).max(collectives);
    }

    /// How many collectives it was asked for: of the interceptor, else of the plugin; 0 if nobody counted.
    pub(super) fn collectives(&self) -> u32 {
        let [plugin, interceptor] = self.collectives;
        if interceptor > 0 { interceptor } else { plugin }
    }
}

fn size(known: &nccl_stacks_recorder_format::Communicator<'_>) -> Option<u64> {
    u64::try_from(known.size).ok().filter(|size| *size > 0)
}

pub(super) struct Entry {
    /// The number by which records name it, and its position among those of the process.
    pub(super) number: u16,
    pub(super) at: u32,
    pub(super) place: Option<u32>,
    pub(super) size: Option<u64>,
    /// When, on the clock of records.
    pub(super) made: i64,
    /// Whether it is the interceptor's, without a hash.
    pub(super) is_nameless: bool,
    /// Whether it is the interceptor's, with a hash that the plugin has of none: this NCCL may compute hashes in another way.
    pub(super) has_other_hash: bool,
    /// Whether it is the plugin's, and the interceptor has seen no call of one with its hash and rank.
    pub(super) is_unpaired_plugin: bool,
}

impl Entry {
    /// Whether it is the interceptor's, and may be another one of the plugin's.
    pub(super) fn may_be_other(&self) -> bool {
        self.is_nameless || self.has_other_hash
    }

    /// Whether both have one rank and size, as far as they are known.
    pub(super) fn may_be(&self, other: &Entry) -> bool {
        let agree = |a: Option<u64>, b: Option<u64>| a.is_none() || b.is_none() || a == b;
        agree(self.place.map(u64::from), other.place.map(u64::from)) && agree(self.size, other.size)
    }

    /// Whether both have one rank and size, which are known.
    pub(super) fn is_as(&self, other: &Entry) -> bool {
        self.may_be(other) && [self, other].iter().all(|entry| entry.place.is_some() && entry.size.is_some())
    }
}

#[derive(Clone)]
pub(super) struct Word {
    pub(super) collective: Option<Collective>,
    /// As nccl-tests calls the collective, or as it is without `nccl`.
    pub(super) name: Arc<str>,
    /// The function of NCCL's of this name.
    pub(super) function: Arc<str>,
    pub(super) capitals: Option<Arc<str>>,
    pub(super) dtype: Option<Arc<str>>,
}

pub(super) struct Facts<'a> {
    pub(super) header: Header<'a>,
    pub(super) rank: Option<RankId>,
    /// Whether that is what a communicator says, and not the environment.
    pub(super) rank_is_inferred: bool,
    /// Whether the process has more than one rank of a communicator.
    pub(super) has_several_ranks: bool,
    pub(super) communicators: Vec<Known>,
    /// How many communicators NCCL knows by another hash than the interceptor.
    pub(super) other_hashes: u64,
    pub(super) entries: Vec<Entry>,
    /// Whether one without a name is none of those with one, as far as is known.
    pub(super) has_nameless: bool,
    /// By number: the communicator among those, and the times of its records.
    numbers: Vec<Option<(u32, RangeInclusive<i64>)>>,
    words: Vec<Option<Word>>,
}

impl<'a> Facts<'a> {
    pub(super) fn parse(bytes: &'a [u8], records: &mut Records) -> Result<Self, NotARecording> {
        let header = Header::parse(bytes)?;
        let word = |number| text(bytes, number).map(|text| Word::parse(text, records));
        let words = std::iter::once(None).chain((1..=u8::MAX).map(word)).collect();
        let mut facts = Facts {
            header,
            rank: header.rank.map(RankId),
            rank_is_inferred: false,
            has_several_ranks: false,
            communicators: Vec::new(),
            other_hashes: 0,
            entries: Vec::new(),
            has_nameless: false,
            numbers: Vec::new(),
            words,
        };
        facts.read_communicators(bytes);
        Ok(facts)
    }

    /// How many records newer ones have overwritten.
    pub(super) fn overwritten(&self) -> u64 {
        let of_ring = |(ring, claimed): (usize, &u64)| claimed - self.header.used(ring);
        self.header.claimed.iter().enumerate().map(of_ring).fold(0, u64::saturating_add)
    }

    pub(super) fn lacks_records(&self) -> bool {
        self.header.lost > 0 || self.header.left_out > 0
    }

    /// By how much the host's clock was set, ns.
    pub(super) fn clock_set(&self) -> u64 {
        let ahead = |of: Clock| i128::from(of.realtime) - i128::from(of.monotonic);
        let set = (ahead(self.header.last) - ahead(self.header.start)).unsigned_abs();
        u64::try_from(set).unwrap_or(u64::MAX)
    }

    /// The events that the plugin was asked for; none without the plugin.
    pub(super) fn events(&self) -> Option<u64> {
        Some(self.header.events).filter(|_| self.header.plugin > 0)
    }

    fn read_communicators(&mut self, bytes: &[u8]) {
        let (mut found, mut seen) = (Vec::<Known>::new(), Vec::new());
        for number in 1..=layout::COMMUNICATORS as u16 {
            let Some(known) = communicator(bytes, number) else {
                self.numbers.push(None);
                continue;
            };
            let hash = [known.hash, known.group_hash].into_iter().find(|hash| *hash != 0);
            let place = u32::try_from(known.rank).ok();
            // The interceptor does not know the rank in what is split until it is used.
            let agree = |of: &Known| of.place == place || of.place.is_none() || place.is_none();
            let same = |of: &Known| of.hash.is_some() && of.hash == hash && agree(of);
            let at = found.iter().position(same).unwrap_or(found.len());
            if at == found.len() {
                found.push(Known { hash, place, ..Known::default() });
            }
            found[at].place = found[at].place.or(place);
            found[at].add(&known, collectives(bytes, number));
            self.numbers.push(Some((at as u32, known.times())));
            let is_interceptors = known.by == INTERCEPTOR;
            // Otherwise the calls of one without a name may be this one's.
            if is_interceptors && known.address != 0 {
                seen.push(at as u32);
            }
            self.entries.push(Entry {
                number,
                at: at as u32,
                place,
                size: size(&known),
                made: known.made,
                is_nameless: is_interceptors && hash.is_none(),
                has_other_hash: is_interceptors && hash.is_some(),
                is_unpaired_plugin: !is_interceptors && hash.is_some(),
            });
        }
        let of_plugin: Vec<u32> =
            self.entries.iter().filter(|entry| entry.is_unpaired_plugin).map(|entry| entry.at).collect();
        for entry in &mut self.entries {
            entry.is_unpaired_plugin &= !seen.contains(&entry.at);
            entry.has_other_hash &= self.header.plugin > 0 && !of_plugin.contains(&entry.at);
        }
        let of_one = |a: &Known, b: &Known| a.hash.is_some() && a.hash == b.hash;
        self.has_several_ranks = found.iter().enumerate().any(|(at, a)| found[..at].iter().any(|b| of_one(a, b)));
        if self.has_several_ranks {
            self.rank = None;
        } else if self.rank.is_none() {
            // The rank in a communicator of all ranks is that of the job.
            let world = self.header.world.map(u64::from);
            let spans = |of: &&Known| of.size.is_some() && of.size == world;
            let mut places = found.iter().filter(spans).map(|of| of.place);
            if let (Some(place), None) = (places.next(), places.next()) {
                self.rank = place.map(RankId);
                self.rank_is_inferred = self.rank.is_some();
            }
        }
        self.communicators = found;
    }

    /// Takes communicators for those that they are the same as, a pair each.
    pub(super) fn join(&mut self, pairs: &[(u32, u32)]) {
        let is_joined = |entry: &Entry| pairs.iter().any(|(nameless, _)| *nameless == entry.at);
        self.has_nameless = self.entries.iter().any(|entry| entry.is_nameless && !is_joined(entry));
        for (nameless, named) in pairs {
            let numbers = self.numbers.iter_mut().flatten().filter(|(at, _)| at == nameless);
            numbers.for_each(|(at, _)| *at = *named);
            let other = &mut self.communicators[*nameless as usize];
            let (collectives, group_hash) = (other.collectives(), other.group_hash);
            self.other_hashes += u64::from(other.hash.take().is_some());
            let known = &mut self.communicators[*named as usize];
            // The interceptor counts what it was asked for, the plugin what NCCL reported.
            known.collectives[1] = if collectives > 0 { collectives } else { known.collectives[1] };
            (known.group_hash, known.is_interceptors) = (group_hash, group_hash != 0);
        }
    }

    /// Enters the communicators into the records, once it is known which are the same.
    pub(super) fn enter(&mut self, records: &mut Records) {
        for known in self.communicators.iter_mut().filter(|known| known.hash.is_some()) {
            if let Some(hash) = known.hash.filter(|_| known.is_interceptors) {
                records.add_group_hash(hash, known.group_hash);
            }
            let (hash, name, size) = (known.hash, known.name.take(), known.size);
            known.row = Some(records.communicator(Communicator { hash, name, size, ..Communicator::default() }));
        }
    }

    /// The process has made several ranks of one communicator.
    pub(super) fn set_several_ranks(&mut self) {
        (self.has_several_ranks, self.rank, self.rank_is_inferred) = (true, None, false);
    }

    /// The communicator of a record: its position among those of the process. `None` if it was another one that had the number then.
    pub(super) fn communicator(&self, record: &Record) -> Option<u32> {
        let (at, times) = self.numbers.get(usize::from(record.communicator).checked_sub(1)?)?.as_ref()?;
        times.contains(&record.time).then_some(*at)
    }

    pub(super) fn word(&self, number: u8) -> Option<&Word> {
        self.words.get(usize::from(number))?.as_ref()
    }

    /// A record's time, since the epoch.
    pub(super) fn time(&self, monotonic: i64) -> Option<Ns> {
        let time = self.header.realtime(monotonic);
        TIMES.contains(&time).then_some(Ns(time))
    }
}

/// A time of the GPU, which counts from the epoch.
pub(super) fn gpu_time(time: u64) -> Option<Ns> {
    i64::try_from(time).ok().filter(|time| TIMES.contains(time)).map(Ns)
}

impl Word {
    fn parse(text: &[u8], records: &mut Records) -> Self {
        let text = String::from_utf8_lossy(text);
        let plain = text.strip_prefix('p').filter(|rest| rest.starts_with("nccl")).unwrap_or(&text);
        let plain = plain.strip_prefix("nccl").unwrap_or(plain);
        let (name, collective) = records.collective(plain);
        let capitals = Some(text.to_uppercase()).filter(|text| !text.is_empty());
        Word {
            collective,
            name,
            function: records.text(&format!("nccl{plain}")),
            capitals: capitals.map(|text| records.text(&text)),
            dtype: dtype_of_name(&text).map(|name| records.text(name)),
        }
    }
}
