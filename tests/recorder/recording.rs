//! A file that the recorder wrote, read for tests.

use std::path::Path;

use nccl_stacks_recorder_format::{
    Communicator, Header, Kind, NotARecording, Record, Slot, communicator, layout, slot, text,
};

use crate::recorder::driver::files;

/// A file of the recorder's.
pub(crate) struct Recording {
    bytes: Vec<u8>,
    /// By time, with the number of the handle without the note, which is not in the file: the position and the ring.
    pub(crate) records: Vec<(u64, Record)>,
    pub(crate) incomplete: usize,
}

impl Recording {
    pub(crate) fn read(path: &Path) -> Recording {
        Recording::try_of(std::fs::read(path).unwrap()).unwrap()
    }

    /// `None` of a file whose process was killed while it created it.
    pub(crate) fn try_of(mut bytes: Vec<u8>) -> Option<Recording> {
        let (sizes, used) = match Header::parse(&bytes) {
            Ok(header) => (header.rings, std::array::from_fn::<_, { layout::RINGS }, _>(|ring| header.used(ring))),
            Err(NotARecording::Magic) if bytes.iter().take(8).all(|byte| *byte == 0) => return None,
            Err(error) => panic!("{error}"),
        };
        let (mut records, mut incomplete) = (Vec::new(), 0);
        for (ring, used) in used.into_iter().enumerate() {
            // The rest are holes, hundreds of megabytes of them.
            let slots = bytes[sizes.at(ring) as usize..][..used as usize * layout::RECORD].chunks_exact(layout::RECORD);
            for (index, bytes) in (0..).zip(slots) {
                match slot(bytes.try_into().unwrap(), index, sizes.of(ring)) {
                    Slot::Record(position, record) => records.push((position << 8 | ring as u64, record)),
                    Slot::Incomplete => incomplete += 1,
                    Slot::Empty => {}
                }
            }
        }
        records.sort_by_key(|(id, record)| (record.time, *id & 15, *id >> 8));
        bytes.truncate(layout::RINGS_AT);
        bytes.shrink_to_fit();
        Some(Recording { bytes, records, incomplete })
    }

    /// The only file of a folder.
    pub(crate) fn only(folder: &Path) -> Recording {
        let files = files(folder);
        assert_eq!(files.len(), 1, "{files:?}");
        Recording::read(&files[0])
    }

    pub(crate) fn header(&self) -> Header<'_> {
        Header::parse(&self.bytes).unwrap()
    }

    pub(crate) fn communicator(&self, number: u16) -> Option<Communicator<'_>> {
        communicator(&self.bytes, number)
    }

    pub(crate) fn communicators(&self) -> Vec<Communicator<'_>> {
        (1..).map_while(|number| self.communicator(number)).collect()
    }

    pub(crate) fn text(&self, number: u8) -> &str {
        let text = if number == 0 { Some(&b""[..]) } else { text(&self.bytes, number) };
        std::str::from_utf8(text.unwrap()).unwrap()
    }

    /// Function, type, algorithm and protocol of a record.
    pub(crate) fn texts(&self, record: &Record) -> [&str; 4] {
        [record.function, record.dtype, record.algorithm, record.protocol].map(|number| self.text(number))
    }

    /// Calls and their functions.
    pub(crate) fn calls(&self) -> Vec<(&str, Record)> {
        self.all(Kind::Call).into_iter().map(|(_, record)| (self.text(record.function), record)).collect()
    }

    /// Functions whose end is recorded, and their results.
    pub(crate) fn results(&self) -> Vec<(&str, u64)> {
        let result = |(_, stop): (u64, Record)| (self.text(self.get(stop.parent).unwrap().function), stop.a);
        self.all(Kind::Stop).into_iter().map(result).collect()
    }

    pub(crate) fn len(&self) -> usize {
        self.records.len()
    }

    /// The record of a handle.
    pub(crate) fn get(&self, handle: u64) -> Option<Record> {
        let found = self.records.iter().find(|(id, _)| *id == handle & !0xf0);
        found.map(|(_, record)| *record)
    }

    /// The records whose parent is this handle, by time. The number in them is the handle's with its note.
    pub(crate) fn of(&self, handle: u64, kind: Kind) -> Vec<Record> {
        let records = self.records.iter().map(|(_, record)| *record);
        records.filter(|record| record.parent == handle && record.kind == kind).collect()
    }

    /// The records of a kind, by time.
    pub(crate) fn all(&self, kind: Kind) -> Vec<(u64, Record)> {
        self.records.iter().copied().filter(|(_, record)| record.kind == kind).collect()
    }

    /// State and value of each state of an event.
    pub(crate) fn states(&self, handle: u64) -> Vec<(u64, u64)> {
        self.of(handle, Kind::State).iter().map(|record| (record.a, record.b)).collect()
    }

    pub(crate) fn stops(&self, handle: u64) -> usize {
        self.of(handle, Kind::Stop).len()
    }
}
