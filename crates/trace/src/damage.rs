//! The kinds of damage a trace may have: how often each occurred, at which offsets first, and what it cost.
//!
//! A profiler's trace is rarely perfect, and the user still wants an answer from the rest. So damage is counted, shown once at the end, and
//! listed in SQL's `stats` table. Kinds that Perfetto's importer counts too have its name and severity, so that the numbers can be compared.

use crate::time::{Ns, Window};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Some of the file's data are missing from the tables. `--strict` fails on it.
    Lost,
    /// Any of the file's data may be wrong, and some may be missing. `--strict` fails on it.
    Doubtful,
    /// The file violates its format, but the meaning is clear and nothing is missing. `--strict` fails on it.
    Recovered,
    /// Nothing is missing, but some data are not where the writer meant them to be.
    Moved,
    /// Nothing. Normal in real traces.
    None,
}

impl Cost {
    /// Whether a complete file from a correct writer never has it.
    pub fn is_fault(self) -> bool {
        matches!(self, Cost::Lost | Cost::Doubtful | Cost::Recovered)
    }
}

#[derive(Debug)]
pub struct Description {
    pub kind: Damage,
    /// Its name in the `stats` table; Perfetto's if Perfetto counts it.
    pub name: &'static str,
    /// `info`, `notice`, `data_loss` or `error`, as Perfetto grades it.
    pub severity: &'static str,
    pub cost: Cost,
    /// The counted cases in words: `events without a phase or a valid timestamp`.
    pub phrase: &'static str,
}

/// The kinds, each described in the table below.
macro_rules! kinds {
    ($($kind:ident $name:literal $severity:literal $cost:ident $phrase:literal;)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Damage {
            $($kind),*
        }

        /// All kinds, in the order of the reports.
        pub const DESCRIPTIONS: &[Description] = &[$(Description {
            kind: Damage::$kind, name: $name, severity: $severity, cost: Cost::$cost, phrase: $phrase,
        }),*];
    };
}

kinds! {
    Truncated "trace_truncated" "data_loss" Lost "everything from an unterminated element on (the file is cut off, or a quote or bracket is stray)";
    PackedCutOff "compressed_cut_off" "data_loss" Lost "the rest of a file that is cut off (copy it again, or record again)";
    PackedCorrupt "compressed_corrupt" "data_loss" Doubtful
        "everything after corrupt data is missing, and any byte before may be wrong (copy the file again; gzip -t or zstd -t tests a copy)";
    PackedChecksum "compressed_checksum" "data_loss" Doubtful
        "a checksum does not match, so that any byte may be wrong (copy the file again; gzip -t or zstd -t tests a copy)";
    BrokenStructure "json_structure" "data_loss" Lost "everything after the byte where the file stops being JSON";
    TrailingBytes "trailing_bytes" "data_loss" Lost "bytes after the end of the trace (another trace, or what is left of an older one? Several ranks may have written one file)";
    HeaderSkipped "header_skipped" "data_loss" Lost "header fields unreadable or too long to keep";
    ElementNotObject "json_element_not_object" "error" Lost "elements of the event list that are not events";
    EventSyntax "json_event_syntax" "error" Lost "broken events, each up to where the next one begins";
    EventTooLong "json_event_too_long" "error" Lost "events longer than 64 MiB";
    Garbage "json_garbage" "error" Lost "stretches between events that are not JSON";
    BadEscape "json_bad_escape" "error" Recovered "backslashes that do not begin an escape (Windows paths?), kept as they are";
    LoneSurrogate "json_lone_surrogate" "error" Recovered "halves of surrogate pairs, replaced by U+FFFD";
    ControlCharacter "json_control_character" "error" Recovered "raw control characters in strings";
    InvalidUtf8 "json_invalid_utf8" "error" Recovered "byte sequences that are not UTF-8, replaced by U+FFFD";
    InvalidValue "json_invalid_value" "error" Recovered "values that JSON does not allow (NaN, inf, 01)";
    MissingComma "json_missing_comma" "error" Recovered "missing commas";
    StrayComma "json_stray_comma" "error" Recovered "extra commas";
    ArgsSyntax "json_args_syntax" "error" Lost "arguments that cannot be read from some byte on";
    ArgsTooDeep "json_args_too_deep" "error" Lost "events with arguments nested deeper than 64 levels, or with keys too long to be kept";
    DuplicateKey "json_duplicate_key" "info" Moved "repeated keys of an event (the last wins)";
    DuplicateArgument "json_duplicate_argument" "info" Moved
        "different sets of arguments with a repeated key (the last wins; for ids and records of collectives, the first)";
    TextTime "json_text_time" "info" Moved "times written as text";
    EventWithoutTimestamp "json_tokenizer_failure" "error" Lost "events without a phase or a valid timestamp";
    InvalidDuration "json_invalid_duration" "error" Lost "events whose duration is not a number, or reaches beyond the end of time";
    IncompleteEvent "json_parser_failure" "error" Lost "events without a field that their phase needs";
    NegativeTimestamp "trace_sorter_negative_timestamp_dropped" "error" Lost "events before time zero";
    NegativeDuration "slice_negative_duration" "error" Lost "slices of negative duration";
    TimeAlone "slice_time_alone" "error" Lost "slices without a time that can be true (0, farther from all others than these are long, or far longer than all others take)";
    Duplicate "slice_duplicate" "error" Moved
        "kernels that are there twice, with one stream, time and correlation, and count once (was a file merged from others with the same events?)";
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
    PacketStructure "packet_structure" "data_loss" Lost "everything after the byte where the list of packets breaks";
    PacketSyntax "packet_syntax" "error" Lost "packets that are not valid protobuf, or compressed so that they cannot be read";
    PacketTooLong "packet_too_long" "error" Lost
        "packets longer than 256 MiB after decompression, and events with more than 64 MiB of arguments, 64 KiB of categories or 131072 flows";
    PacketWithoutState "packet_skipped_seq_needs_incremental_state_invalid" "data_loss" Lost
        "packets that depend on lost ones";
    EventWithoutSequence "track_event_missing_sequence_id" "error" Lost "track events that name no sequence of packets";
    EventWithoutTime "track_event_missing_timestamp" "error" Lost "track events without a time";
    ClockUnknown "packet_clock_unknown" "error" Lost "packets on a clock that no snapshot relates to the trace's clock";
    SnapshotInvalid "invalid_clock_snapshots" "error" Lost "snapshots of clocks in which the trace's own clock goes backwards";
    NameUnknown "interned_name_unknown" "error" Lost "interned names and texts that no packet has defined before";
    OtherMachine "packet_of_other_machine" "error" Moved "packets from other machines, read as if from the first";
    PayloadNotExported "nvtx_payload_not_exported" "info" None
        "NVTX ranges that may have a payload, but no readable one (nsys export --include-blobs=true writes them)";
    ArchiveBroken "archive_broken" "data_loss" Lost "the rest of an archive that is cut off or corrupt (copy it again)";
    FileUnreadable "archive_file_unreadable" "data_loss" Lost "files of the archive that could not be read at all";
    NoTraceInFile "archive_file_no_trace" "info" None "files of the archive that are not traces";
}

impl Damage {
    /// Whether it can occur only once, so that its count means nothing.
    pub fn is_place(self) -> bool {
        use Damage::{ArchiveBroken, BrokenStructure, PacketStructure, TrailingBytes, Truncated};
        self.is_of_packing()
            || matches!(self, ArchiveBroken | Truncated | BrokenStructure | PacketStructure | TrailingBytes)
    }

    /// Whether the compression is damaged. Offsets then refer to the compressed file.
    pub fn is_of_packing(self) -> bool {
        use Damage::{PackedChecksum, PackedCorrupt, PackedCutOff};
        matches!(self, PackedCutOff | PackedCorrupt | PackedChecksum)
    }

    /// Whether an archive is damaged, not a trace.
    pub fn is_of_archive(self) -> bool {
        matches!(self, Damage::ArchiveBroken | Damage::FileUnreadable | Damage::NoTraceInFile)
    }

    pub fn description(self) -> &'static Description {
        &DESCRIPTIONS[self as usize]
    }
}

/// How often one kind occurred, and where.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    pub count: u64,
    /// The offset of the first case, if it has one: in the (decompressed) text, or in the file for damage to the compression.
    pub first_offset: Option<u64>,
    /// The offsets of the next two.
    pub next_offsets: [Option<u64>; 2],
    /// How many bytes of the text were lost, where that is known.
    pub bytes: u64,
}

impl Tally {
    /// The offsets of the first three, in file order.
    pub fn offsets(&self) -> impl Iterator<Item = u64> {
        [self.first_offset, self.next_offsets[0], self.next_offsets[1]].into_iter().flatten()
    }

    fn note(&mut self, offset: u64) {
        let [second, third] = &mut self.next_offsets;
        if let Some(free) = [&mut self.first_offset, second, third].into_iter().find(|offset| offset.is_none()) {
            *free = Some(offset);
        }
    }
}

/// The header field with the damage of the trace from which one was written.
pub const CARRIED: &str = "nccl_stacks_damage";

/// Its field with the time in which kernels survived.
const SURVIVED: &str = "survived";

/// Its field with the size of the text that had the damage.
const TEXT_BYTES: &str = "text_bytes";

#[derive(Debug, Clone, Default)]
pub struct DamageReport {
    /// By kind. Empty without damage, because an archive may have a hundred thousand traces.
    tallies: Vec<Tally>,
    /// The size of the text from which this one was written, if its header has that.
    carried_text_bytes: u64,
}

impl DamageReport {
    /// Counts one case. `offset` is in the decompressed text.
    pub fn count(&mut self, kind: Damage, offset: Option<u64>) {
        self.lose(kind, offset, 0);
    }

    /// Counts one case that lost this many bytes of the text.
    pub fn lose(&mut self, kind: Damage, offset: Option<u64>, bytes: u64) {
        let tally = self.tally(kind);
        tally.count += 1;
        tally.bytes += bytes;
        if let Some(offset) = offset {
            tally.note(offset);
        }
    }

    /// What is lost or doubtful, as the value of the header field [`CARRIED`], in JSON. What this program writes of a damaged trace lacks the same as the trace. `None` if
    /// nothing is. `survived` is the time in which its kernels survived, for a copy that has not all of them; `text_bytes` is the size of the text.
    pub fn carried(&self, survived: Option<Window>, text_bytes: u64) -> Option<String> {
        let is_of_text = |d: &Description| matches!(d.cost, Cost::Lost | Cost::Doubtful) && !d.kind.is_of_archive();
        let kinds = self.faults().filter(|(d, _)| is_of_text(d));
        let member = |(d, tally): (&Description, Tally)| {
            format!(r#""{}": {{"count": {}, "bytes": {}}}"#, d.name, tally.count, tally.bytes)
        };
        let mut members: Vec<String> = kinds.map(member).collect();
        if let Some(Window { start, end }) = survived.filter(|_| !members.is_empty()) {
            members.push(format!(r#""{SURVIVED}": {{"start_ns": {start}, "end_ns": {end}}}"#));
        }
        let size = format!(r#""{TEXT_BYTES}": {}"#, self.damaged_bytes(text_bytes));
        (!members.is_empty()).then(|| format!("{{{}, {size}}}", members.join(", ")))
    }

    /// Takes over the damage of the trace from which this one was written, by the flattened key of a header field and its value.
    pub fn take_over(&mut self, key: &str, value: u64) {
        let Some(key) = key.strip_prefix(CARRIED).and_then(|key| key.strip_prefix('.')) else { return };
        if key == TEXT_BYTES {
            self.carried_text_bytes = self.carried_text_bytes.max(value);
        }
        let Some((name, field)) = key.rsplit_once('.') else { return };
        let Some(kind) = DESCRIPTIONS.iter().find(|d| d.name == name).map(|d| d.kind) else { return };
        let tally = self.tally(kind);
        match field {
            "count" => tally.count = tally.count.saturating_add(value),
            "bytes" => tally.bytes = tally.bytes.saturating_add(value),
            _ => {}
        }
    }

    /// The time in which kernels survived in the trace from which one was written, if its header has that.
    pub fn survived<'f>(fields: impl Iterator<Item = (&'f str, i64)> + Clone) -> Option<Window> {
        let get = |end: &str| {
            let key = format!("{CARRIED}.{SURVIVED}.{end}");
            fields.clone().find(|(known, _)| *known == key).map(|(_, value)| Ns(value))
        };
        let window = Window { start: get("start_ns")?, end: get("end_ns")? };
        (window.start < window.end).then_some(window)
    }

    pub fn count_several(&mut self, kind: Damage, cases: u64) {
        self.tally(kind).count += cases;
    }

    fn tally(&mut self, kind: Damage) -> &mut Tally {
        self.tallies.resize(DESCRIPTIONS.len(), Tally::default());
        &mut self.tallies[kind as usize]
    }

    /// Adds another report; the first offsets of this one stay first.
    pub fn add(&mut self, other: &DamageReport) {
        self.add_counts(other);
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            theirs.offsets().for_each(|offset| mine.note(offset));
        }
    }

    /// Adds the counts of another report without its offsets, which count in another file.
    pub fn add_counts(&mut self, other: &DamageReport) {
        self.tallies.resize(self.tallies.len().max(other.tallies.len()), Tally::default());
        self.carried_text_bytes = self.carried_text_bytes.max(other.carried_text_bytes);
        for (mine, theirs) in self.tallies.iter_mut().zip(&other.tallies) {
            mine.count += theirs.count;
            mine.bytes += theirs.bytes;
        }
    }

    /// Whether the trace is truncated. It is then unknown how much is missing.
    pub fn is_cut_off(&self) -> bool {
        use Damage::{BrokenStructure, PackedCorrupt, PackedCutOff, PacketStructure, Truncated};
        [Truncated, PackedCutOff, PackedCorrupt, BrokenStructure, PacketStructure]
            .iter()
            .any(|kind| self.get(*kind).count > 0)
    }

    /// Whether any byte of the text may be wrong.
    pub fn is_doubtful(&self) -> bool {
        self.faults().any(|(description, _)| description.cost == Cost::Doubtful)
    }

    pub fn is_unknown(&self) -> bool {
        self.is_cut_off() || self.is_doubtful()
    }

    pub fn first_implausible(&self) -> Option<u64> {
        let of_text = self.faults().filter(|(d, _)| !d.kind.is_of_packing() && !d.kind.is_of_archive());
        of_text.filter_map(|(_, tally)| tally.first_offset).min()
    }

    /// How many bytes of the text read were lost in total.
    pub fn lost_bytes(&self) -> u64 {
        self.tallies.iter().fold(0, |sum, tally| sum.saturating_add(tally.bytes))
    }

    /// The size of the text that lost these bytes: of this one, or of a longer one from which it was written.
    pub fn damaged_bytes(&self, text_bytes: u64) -> u64 {
        self.carried_text_bytes.max(text_bytes)
    }

    pub fn get(&self, kind: Damage) -> Tally {
        self.tallies.get(kind as usize).copied().unwrap_or_default()
    }

    /// All kinds with their tallies, including those that did not occur.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Description, Tally)> + '_ {
        DESCRIPTIONS.iter().map(|d| (d, self.get(d.kind)))
    }

    /// The kinds that occurred and that a complete file from a correct writer never has.
    pub fn faults(&self) -> impl Iterator<Item = (&'static Description, Tally)> + '_ {
        self.iter().filter(|(d, tally)| d.cost.is_fault() && tally.count > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
