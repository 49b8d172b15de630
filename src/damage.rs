//! Everything that can be wrong with a trace, counted by kind, with the places of the first of each and what it cost.
//!
//! A profiler's trace is rarely perfect, and a person still wants an answer from what is whole. So nothing here stops a
//! load: it is counted, shown once at the end, and visible in SQL as the `stats` table. Kinds that Perfetto's importer counts
//! as well carry its name and severity, so that the two can be compared number by number.

/// One thing that can be wrong with a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
#[expect(missing_docs, reason = "the table below describes each")]
pub enum Damage {
    Truncated,
    PackedCutOff,
    PackedCorrupt,
    BrokenStructure,
    TrailingBytes,
    HeaderSkipped,
    ElementNotObject,
    EventSyntax,
    EventTooLong,
    Garbage,
    Documents,
    StrayQuote,
    BadEscape,
    LoneSurrogate,
    ControlCharacter,
    InvalidUtf8,
    InvalidValue,
    MissingComma,
    StrayComma,
    ArgsSyntax,
    ArgsTooDeep,
    DuplicateKey,
    TextTime,
    EventWithoutTimestamp,
    InvalidDuration,
    IncompleteEvent,
    NegativeTimestamp,
    NegativeDuration,
    TooDeep,
    AsyncOverlap,
    MisplacedEnd,
    Spilled,
    PhaseNotShown,
    FlowDuplicateId,
    FlowInvalidId,
    FlowNoEnclosingSlice,
    FlowWithoutDirection,
    FlowEndWithoutStart,
    FlowStepWithoutStart,
    DisplayTimeUnit,
    PacketStructure,
    PacketSyntax,
    PacketTooLong,
    PacketWithoutState,
    EventWithoutSequence,
    EventWithoutTime,
    ClockUnknown,
    SnapshotInvalid,
    NameUnknown,
    OtherMachine,
    ArchiveBroken,
    FileUnreadable,
    FileNotListed,
    NoTraceInFile,
}

/// What a kind of damage costs the user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Something in the file is missing from the tables. `--strict` fails on it.
    Lost,
    /// The file is not what its format allows, but what is meant is clear, and all of it is there. `--strict` fails on it.
    Mended,
    /// All is there, but some of it not where the file's author meant it.
    Moved,
    /// Normal in real traces; for the curious only.
    None,
}

impl Cost {
    /// Whether a whole file of a correct writer does not have it.
    pub fn is_fault(self) -> bool {
        matches!(self, Cost::Lost | Cost::Mended)
    }
}

/// What there is to say of one kind of damage.
#[derive(Debug)]
pub struct Description {
    /// The kind.
    pub kind: Damage,
    /// Its name in the `stats` table; Perfetto's where Perfetto counts it.
    pub name: &'static str,
    /// `info`, `notice`, `data_loss` or `error`, as Perfetto grades it.
    pub severity: &'static str,
    /// What it costs.
    pub cost: Cost,
    /// What it is about: `events without a phase or a valid timestamp`.
    pub phrase: &'static str,
}

macro_rules! descriptions {
    ($($kind:ident $name:literal $severity:literal $cost:ident $phrase:literal;)*) => {
        /// All kinds, in the order in which they are shown.
        pub const DESCRIPTIONS: &[Description] = &[$(Description {
            kind: Damage::$kind, name: $name, severity: $severity, cost: Cost::$cost, phrase: $phrase,
        }),*];
    };
}

descriptions! {
    Truncated "trace_truncated" "data_loss" Lost "all from an element whose end is missing (the file breaks off, or a quote or bracket is stray)";
    PackedCutOff "compressed_cut_off" "data_loss" Lost "the rest of a file that is cut off (copy it again, or record again)";
    PackedCorrupt "compressed_corrupt" "data_loss" Lost "all behind corrupt data (copy the file again; gzip -t or zstd -t tests a copy)";
    BrokenStructure "json_structure" "data_loss" Lost "all behind the place where the file stops being JSON";
    TrailingBytes "trailing_bytes" "data_loss" Lost "bytes behind the end of the trace";
    HeaderSkipped "header_skipped" "data_loss" Lost "header fields unreadable or too long to keep";
    ElementNotObject "json_element_not_object" "error" Lost "elements of the event list that are no events";
    EventSyntax "json_event_syntax" "error" Lost "broken events, each up to where the next one begins";
    EventTooLong "json_event_too_long" "error" Lost "events longer than 64 MiB";
    Garbage "json_garbage" "error" Lost "stretches between events that are no JSON";
    Documents "json_documents" "error" Moved "documents behind the first, read as part of the same trace";
    StrayQuote "json_stray_quote" "error" Mended "quotes within strings without a backslash";
    BadEscape "json_bad_escape" "error" Mended "backslashes that begin no escape (Windows paths?), kept as they are";
    LoneSurrogate "json_lone_surrogate" "error" Mended "halves of surrogate pairs, replaced by U+FFFD";
    ControlCharacter "json_control_character" "error" Mended "raw control characters in strings";
    InvalidUtf8 "json_invalid_utf8" "error" Mended "byte sequences that are not UTF-8, replaced by U+FFFD";
    InvalidValue "json_invalid_value" "error" Mended "values that JSON does not know (NaN, inf, 01)";
    MissingComma "json_missing_comma" "error" Mended "missing commas";
    StrayComma "json_stray_comma" "error" Mended "commas too many";
    ArgsSyntax "json_args_syntax" "error" Lost "arguments that cannot be read from some place on";
    ArgsTooDeep "json_args_too_deep" "error" Lost "events with arguments nested deeper than 64 levels, or with keys too long to be kept";
    DuplicateKey "json_duplicate_key" "info" Moved "keys that an event has twice (the last counts)";
    TextTime "json_text_time" "info" Moved "times written as text";
    EventWithoutTimestamp "json_tokenizer_failure" "error" Lost "events without a phase or a valid timestamp";
    InvalidDuration "json_invalid_duration" "error" Lost "events whose duration is not a number, or reaches beyond the end of time";
    IncompleteEvent "json_parser_failure" "error" Lost "events that lack what their phase needs";
    NegativeTimestamp "trace_sorter_negative_timestamp_dropped" "error" Lost "events before time zero";
    NegativeDuration "slice_negative_duration" "error" Lost "slices of negative duration";
    TooDeep "slice_max_depth_exceeded" "error" Lost "slices nested deeper than 512 levels";
    AsyncOverlap "slice_drop_overlapping_complete_event" "error" Lost
        "slices that partly overlap another where there are no lanes (asynchronous operations, Perfetto's own format)";
    MisplacedEnd "misplaced_end_event" "data_loss" Moved "open slices ended early, because their parent ended";
    Spilled "slice_spill_overlapping_complete_event" "error" Moved
        "slices that partly overlap another on their thread, kept on a track of their own";
    PhaseNotShown "phase_not_shown" "info" None "events of phases that no table shows (counters, samples, other metadata)";
    FlowDuplicateId "flow_duplicate_id" "error" None "flow starts whose id was started before";
    FlowInvalidId "flow_invalid_id" "error" None "flow events without a readable id";
    FlowNoEnclosingSlice "flow_no_enclosing_slice" "error" None "flow events with no slice to bind to";
    FlowWithoutDirection "flow_without_direction" "error" None "flow bindings that neither enter nor leave";
    FlowEndWithoutStart "flow_end_without_start" "info" None "flow ends without a start (normal: calls that launch nothing)";
    FlowStepWithoutStart "flow_step_without_start" "info" None "flow steps without a start";
    DisplayTimeUnit "json_display_time_unit" "info" None "displayTimeUnit fields (ignored: times are microseconds)";
    PacketStructure "packet_structure" "data_loss" Lost
        "places where the file is no list of packets (all up to the next three that are whole is left out)";
    PacketSyntax "packet_syntax" "error" Lost "packets that are not valid protobuf, or compressed so that they cannot be read";
    PacketTooLong "packet_too_long" "error" Lost
        "packets longer than 256 MiB (unpacked, too), and events with more than 64 MiB of arguments, 64 KiB of categories or 131072 arrows";
    PacketWithoutState "packet_skipped_seq_needs_incremental_state_invalid" "data_loss" Lost
        "packets that build on others which were lost before";
    EventWithoutSequence "track_event_missing_sequence_id" "error" Lost "track events that name no sequence of packets";
    EventWithoutTime "track_event_missing_timestamp" "error" Lost "track events without a time";
    ClockUnknown "packet_clock_unknown" "error" Lost "packets on a clock that no snapshot ties to the trace's";
    SnapshotInvalid "invalid_clock_snapshots" "error" Lost "snapshots of clocks in which the trace's own goes backwards";
    NameUnknown "interned_name_unknown" "error" Lost "names and texts that no packet defines while they hold";
    OtherMachine "packet_of_other_machine" "error" Moved "packets of other machines, read as if they were of the first";
    ArchiveBroken "archive_broken" "data_loss" Lost "the rest of an archive that is cut off or corrupt (copy it again)";
    FileUnreadable "archive_file_unreadable" "data_loss" Lost "files of the archive of which nothing could be read";
    FileNotListed "archive_file_not_listed" "data_loss" Lost
        "files that stand in an archive and not in its directory (several archives in one file? take them apart)";
    NoTraceInFile "archive_file_no_trace" "info" None "files of the archive that are no traces";
}

impl Damage {
    /// Whether this can be met once only, at one place, so that counting it says nothing.
    pub fn is_place(self) -> bool {
        use Damage::{ArchiveBroken, FileNotListed};
        use Damage::{BrokenStructure, PackedCorrupt, PackedCutOff, TrailingBytes, Truncated};
        matches!(
            self,
            ArchiveBroken | FileNotListed | Truncated | PackedCutOff | PackedCorrupt | BrokenStructure | TrailingBytes
        )
    }

    /// Whether it is met in an archive and not in a trace.
    pub fn is_of_archive(self) -> bool {
        use Damage::{ArchiveBroken, FileNotListed, FileUnreadable, NoTraceInFile};
        matches!(self, ArchiveBroken | FileUnreadable | FileNotListed | NoTraceInFile)
    }

    /// What there is to say of this kind.
    pub fn description(self) -> &'static Description {
        &DESCRIPTIONS[self as usize]
    }
}

/// How often one kind was met, and where first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// How often.
    pub count: u64,
    /// The byte offset of the first, where it has one: in the (decompressed) text; of what is wrong with its compression in the file.
    pub first_offset: Option<u64>,
    /// Those of the next two.
    pub next_offsets: [Option<u64>; 2],
    /// How many bytes of the text were lost by it, where that is known.
    pub bytes: u64,
}

impl Tally {
    /// The places of the first three, in file order.
    pub fn offsets(&self) -> impl Iterator<Item = u64> {
        [self.first_offset, self.next_offsets[0], self.next_offsets[1]].into_iter().flatten()
    }

    fn note(&mut self, offset: u64) {
        let [second, third] = &mut self.next_offsets;
        if let Some(free) = [&mut self.first_offset, second, third].into_iter().find(|place| place.is_none()) {
            *free = Some(offset);
        }
    }
}

/// The tallies of all kinds.
#[derive(Debug, Clone, Default)]
pub struct DamageReport {
    /// By kind; empty where nothing was met: an archive may hold a hundred thousand traces.
    tallies: Vec<Tally>,
}

impl DamageReport {
    /// Counts one case; `offset` is its byte in the decompressed text.
    pub fn count(&mut self, kind: Damage, offset: Option<u64>) {
        self.lose(kind, offset, 0);
    }

    /// Counts one case by which so many bytes of the text were lost.
    pub fn lose(&mut self, kind: Damage, offset: Option<u64>, bytes: u64) {
        self.tallies.resize(DESCRIPTIONS.len(), Tally::default());
        let tally = &mut self.tallies[kind as usize];
        tally.count += 1;
        tally.bytes += bytes;
        if let Some(offset) = offset {
            tally.note(offset);
        }
    }

    /// Adds what another report counted; first places of this one stay first.
    pub fn add(&mut self, other: &DamageReport) {
        self.add_counts(other);
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            theirs.offsets().for_each(|offset| mine.note(offset));
        }
    }

    /// Adds how often another report counted, and not where: of what has other places.
    pub fn add_counts(&mut self, other: &DamageReport) {
        self.tallies.resize(self.tallies.len().max(other.tallies.len()), Tally::default());
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.count += theirs.count;
            mine.bytes += theirs.bytes;
        }
    }

    /// How many bytes of the text were lost by all that was met.
    pub fn lost_bytes(&self) -> u64 {
        self.tallies.iter().map(|tally| tally.bytes).sum()
    }

    /// How often a kind was met.
    pub fn get(&self, kind: Damage) -> Tally {
        self.tallies.get(kind as usize).copied().unwrap_or_default()
    }

    /// All kinds with their tallies, also those at zero.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Description, Tally)> + '_ {
        DESCRIPTIONS.iter().map(|d| (d, self.get(d.kind)))
    }

    /// The kinds that were met and that a whole file of a correct writer does not have.
    pub fn faults(&self) -> impl Iterator<Item = (&'static Description, Tally)> + '_ {
        self.iter().filter(|(d, tally)| d.cost.is_fault() && tally.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_the_enum() {
        for (i, description) in DESCRIPTIONS.iter().enumerate() {
            assert_eq!(description.kind as usize, i, "{}", description.name);
        }
    }

    #[test]
    fn the_first_offsets_are_kept() {
        let (mut report, mut more) = (DamageReport::default(), DamageReport::default());
        report.lose(Damage::EventSyntax, Some(7), 5);
        report.count(Damage::EventSyntax, None);
        report.count(Damage::Spilled, None);
        more.lose(Damage::EventSyntax, Some(9), 10);
        more.count(Damage::EventSyntax, Some(20));
        more.count(Damage::EventSyntax, Some(30));
        report.add(&more);
        let tally = report.get(Damage::EventSyntax);
        assert_eq!((tally.count, tally.bytes, report.lost_bytes()), (5, 15, 15));
        assert_eq!(tally.offsets().collect::<Vec<_>>(), [7, 9, 20]);
        assert_eq!(report.faults().map(|(d, _)| d.kind).collect::<Vec<_>>(), [Damage::EventSyntax]);
    }
}
