//! The first part of a file: the process, its communicators, and the texts that records name by number.

use std::ops::RangeInclusive;
use std::sync::Arc;

use nccl_stacks_recorder_format::{Header, NotARecording, Record, collectives, communicator, layout, text};

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

/// The clocks at one moment, ns.
#[derive(Clone, Copy)]
struct Clock {
    realtime: i64,
    monotonic: i64,
}

/// A communicator of the process, whether plugin, interceptor or both made it known.
pub(super) struct Known {
    /// What says which it is, and its position among those of the records once it is [entered](Facts::enter); `None` if nothing says it.
    named: Option<Communicator>,
    pub(super) row: Option<usize>,
    /// Whether the interceptor has seen it, and Megatrace's hash of it then; 0 if that is unknown.
    is_interceptors: bool,
    group_hash: u64,
    pub(super) place: Option<u32>,
    pub(super) size: Option<u64>,
    /// How many collectives it was asked for: of the interceptor, else of the plugin; 0 if nobody counted.
    pub(super) collectives: u32,
    /// Whether it was announced, and nothing says more: calls of one without a name may be of it.
    pub(super) is_unseen: bool,
}

/// A communicator as plugin or interceptor entered it.
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

/// A text, in all its meanings.
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

/// What a file says of its process.
pub(super) struct Facts {
    pub(super) version: u32,
    pub(super) pid: u32,
    pub(super) host: Option<String>,
    pub(super) rank: Option<RankId>,
    /// Whether that is what a communicator says, and not the environment.
    pub(super) rank_is_inferred: bool,
    /// Whether the process has more than one rank of a communicator.
    pub(super) has_several_ranks: bool,
    pub(super) rings: layout::RingSizes,
    /// By ring: how many records it was given.
    pub(super) claimed: [u64; layout::RINGS],
    pub(super) overwritten: u64,
    pub(super) lost: u64,
    /// Why there was no space for a ring, as an errno; 0 if that is unknown.
    pub(super) lost_why: i32,
    pub(super) lost_communicators: u64,
    /// Calls and events while the program had switched recording off.
    pub(super) left_out: u64,
    /// By how much the host's clock was set, ns.
    pub(super) clock_set: u64,
    /// The version of the plugin's interface; 0 without plugin.
    pub(super) plugin: u32,
    /// The events that the plugin was asked for.
    pub(super) events: u64,
    pub(super) communicators: Vec<Known>,
    /// How often a communicator's number was given to a newer one.
    pub(super) reused: u64,
    /// How many communicators NCCL knows by another hash than the interceptor.
    pub(super) other_hashes: u64,
    pub(super) entries: Vec<Entry>,
    /// Whether one without a name is none of those with one, as far as is known.
    pub(super) has_nameless: bool,
    /// By number: the communicator among those, and the times of its records.
    numbers: Vec<Option<(u32, RangeInclusive<i64>)>>,
    words: Vec<Option<Word>>,
    clocks: [Clock; 2],
}

impl Facts {
    /// When the file was created, since the Unix epoch in ns.
    pub(super) fn began(&self) -> i64 {
        self.clocks[0].realtime
    }

    /// Whether something was never written to the file.
    pub(super) fn lacks_records(&self) -> bool {
        self.lost > 0 || self.left_out > 0
    }

    /// Parses a file's first bytes, and adds its communicators to the records.
    pub(super) fn parse(bytes: &[u8], records: &mut Records) -> Result<Self, NotARecording> {
        let header = Header::parse(bytes)?;
        let clock = |of: nccl_stacks_recorder_format::Clock| Clock { realtime: of.realtime, monotonic: of.monotonic };
        let ahead = |of: Clock| i128::from(of.realtime) - i128::from(of.monotonic);
        let clocks = [clock(header.start), clock(header.last)];
        let claimed = header.claimed.iter().enumerate();
        let overwritten = claimed.map(|(ring, claimed)| claimed.saturating_sub(header.rings.of(ring)));
        let mut facts = Facts {
            version: header.version,
            pid: header.pid,
            host: Some(String::from_utf8_lossy(header.host).into_owned()).filter(|host| !host.is_empty()),
            rank: header.rank.map(RankId),
            rank_is_inferred: false,
            has_several_ranks: false,
            rings: header.rings,
            claimed: header.claimed,
            overwritten: overwritten.fold(0, u64::saturating_add),
            lost: header.lost,
            lost_why: header.lost_why,
            lost_communicators: header.lost_communicators,
            left_out: header.left_out,
            reused: header.reused,
            other_hashes: 0,
            clock_set: u64::try_from((ahead(clocks[1]) - ahead(clocks[0])).unsigned_abs()).unwrap_or(u64::MAX),
            plugin: header.plugin,
            events: if header.plugin > 0 { header.events } else { 0 },
            communicators: Vec::new(),
            entries: Vec::new(),
            has_nameless: false,
            numbers: Vec::new(),
            words: Vec::new(),
            clocks,
        };
        facts.read_communicators(bytes, header.world);
        let word = |number| text(bytes, number).map(|text| Word::parse(text, records));
        facts.words = std::iter::once(None).chain((1..=u8::MAX).map(word)).collect();
        Ok(facts)
    }

    fn read_communicators(&mut self, bytes: &[u8], world: Option<u32>) {
        let (mut found, mut seen) = (Vec::<PartialCommunicator>::new(), Vec::new());
        for number in 1..=layout::COMMUNICATORS as u16 {
            let Some(known) = communicator(bytes, number) else {
                self.numbers.push(None);
                continue;
            };
            let hash = [known.hash, known.group_hash].into_iter().find(|hash| *hash != 0);
            let place = u32::try_from(known.rank).ok();
            // The interceptor does not know the rank in what is split until it is used.
            let agree = |of: &PartialCommunicator| of.place == place || of.place.is_none() || place.is_none();
            let same = |of: &PartialCommunicator| of.hash.is_some() && of.hash == hash && agree(of);
            let at = found.iter().position(same).unwrap_or(found.len());
            if at == found.len() {
                found.push(PartialCommunicator { hash, place, ..PartialCommunicator::default() });
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
                size: u64::try_from(known.size).ok().filter(|size| *size > 0),
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
            entry.has_other_hash &= self.plugin > 0 && !of_plugin.contains(&entry.at);
        }
        let of_one = |a: &PartialCommunicator, b: &PartialCommunicator| a.hash.is_some() && a.hash == b.hash;
        self.has_several_ranks = found.iter().enumerate().any(|(at, a)| found[..at].iter().any(|b| of_one(a, b)));
        if self.has_several_ranks {
            self.rank = None;
        } else if self.rank.is_none() {
            // The rank in a communicator of all ranks is that of the job.
            let spans = |of: &&PartialCommunicator| of.size.is_some() && of.size == world.map(u64::from);
            let mut places = found.iter().filter(spans).map(|of| of.place);
            if let (Some(place), None) = (places.next(), places.next()) {
                self.rank = place.map(RankId);
                self.rank_is_inferred = self.rank.is_some();
            }
        }
        self.communicators = found.into_iter().map(PartialCommunicator::known).collect();
    }

    /// Takes communicators for those that they are the same as, a pair each.
    pub(super) fn join(&mut self, pairs: &[(u32, u32)]) {
        let is_joined = |entry: &Entry| pairs.iter().any(|(nameless, _)| *nameless == entry.at);
        self.has_nameless = self.entries.iter().any(|entry| entry.is_nameless && !is_joined(entry));
        for (nameless, named) in pairs {
            let numbers = self.numbers.iter_mut().flatten().filter(|(at, _)| at == nameless);
            numbers.for_each(|(at, _)| *at = *named);
            // The interceptor counts what it was asked for, the plugin what NCCL reported.
            let counted = self.communicators[*nameless as usize].collectives;
            let known = &mut self.communicators[*named as usize];
            known.collectives = if counted > 0 { counted } else { known.collectives };
            let (named, other) = (*named as usize, *nameless as usize);
            let group_hash = self.communicators[other].group_hash;
            let of_plugin = &mut self.communicators[named];
            (of_plugin.group_hash, of_plugin.is_interceptors) = (group_hash, group_hash != 0);
            self.other_hashes += u64::from(self.communicators[other].named.take().is_some());
        }
    }

    /// Enters the communicators into the records, once it is known which are the same.
    pub(super) fn enter(&mut self, records: &mut Records) {
        for known in &mut self.communicators {
            let Some(named) = known.named.take() else { continue };
            if let Some(hash) = named.hash.filter(|_| known.is_interceptors) {
                records.add_group_hash(hash, known.group_hash);
            }
            known.row = Some(records.communicator(named));
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

    /// A text.
    pub(super) fn word(&self, number: u8) -> Option<&Word> {
        self.words.get(usize::from(number))?.as_ref()
    }

    /// A record's time, since the epoch.
    pub(super) fn time(&self, monotonic: i64) -> Option<Ns> {
        let [start, last] = self.clocks;
        let distance = |clock: Clock| monotonic.abs_diff(clock.monotonic);
        let clock = if distance(last) < distance(start) { last } else { start };
        let time = monotonic.checked_sub(clock.monotonic)?.checked_add(clock.realtime)?;
        TIMES.contains(&time).then_some(Ns(time))
    }
}

/// A time of the GPU, which counts from the epoch.
pub(super) fn gpu_time(time: u64) -> Option<Ns> {
    i64::try_from(time).ok().filter(|time| TIMES.contains(time)).map(Ns)
}

/// A communicator in the making.
#[derive(Default)]
struct PartialCommunicator {
    hash: Option<u64>,
    place: Option<u32>,
    name: Option<String>,
    size: Option<u64>,
    /// By plugin and interceptor.
    collectives: [u32; 2],
    is_seen: bool,
    is_interceptors: bool,
    group_hash: u64,
}

impl PartialCommunicator {
    fn add(&mut self, known: &nccl_stacks_recorder_format::Communicator<'_>, collectives: u32) {
        self.is_seen |= known.by != INTERCEPTOR || known.address != 0;
        self.is_interceptors |= known.by == INTERCEPTOR;
        self.group_hash = self.group_hash.max(known.group_hash);
        let name = String::from_utf8_lossy(known.name).into_owned();
        self.name = self.name.take().or(Some(name).filter(|name| !name.is_empty()));
        self.size = self.size.or(u64::try_from(known.size).ok().filter(|size| *size > 0));
        let count = &mut self.collectives[usize::from(known.by == INTERCEPTOR)];
        *count = (*count).max(collectives);
    }

    fn known(self) -> Known {
        let PartialCommunicator { hash, place, name, size, collectives: [plugin, interceptor], .. } = self;
        let (is_seen, is_interceptors, group_hash) = (self.is_seen, self.is_interceptors, self.group_hash);
        Known {
            // Without a hash nothing says on which ranks it is the same.
            named: hash.map(|hash| Communicator { hash: Some(hash), name, size, ..Communicator::default() }),
            row: None,
            is_interceptors,
            group_hash,
            place,
            size,
            collectives: if interceptor > 0 { interceptor } else { plugin },
            is_unseen: !is_seen,
        }
    }
}

impl Word {
    fn parse(text: &[u8], records: &mut Records) -> Self {
        let text = String::from_utf8_lossy(text);
        let plain = text.strip_prefix('p').filter(|rest| rest.starts_with("nccl")).unwrap_or(&text);
        let plain = plain.strip_prefix("nccl").unwrap_or(plain);
        let collective = Collective::of_record(plain);
        let capitals = Some(text.to_uppercase()).filter(|text| !text.is_empty());
        Word {
            collective,
            name: records.text(collective.map_or(plain, |of| of.name())),
            function: records.text(&format!("nccl{plain}")),
            capitals: capitals.map(|text| records.text(&text)),
            dtype: dtype_of_name(&text).map(|name| records.text(name)),
        }
    }
}
