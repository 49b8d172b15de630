//! The embedded parts of a page, packed, and shrunk if the page would be too large to mail: first coarser drawings, then no tables for
//! spreadsheets, then shorter documents. A note on the page says what was left out.

use std::io;

use serde_json::{Map, Value};

use super::columns::pack;
use super::{Bytes, Page};
use crate::document::format::count;

/// The most bytes of a page: mail servers refuse more than about 25 MB.
const MOST_BYTES: usize = 20_000_000;

/// The most bytes of a page outside of its documents and drawings.
const REST: usize = 400_000;

/// The embedded parts of a page.
#[derive(Debug)]
pub(super) struct Packed {
    /// By name of the document.
    pub(super) documents: Vec<(&'static str, String)>,
    pub(super) tables: Vec<(&'static str, String)>,
    pub(super) labels: String,
    pub(super) telling: String,
    pub(super) sheets: Map<String, Value>,
    pub(super) timelines: Vec<Value>,
    pub(super) lanes: Option<Value>,
}

impl Page<'_> {
    /// Packs the embedded parts, and drops from the page what does not fit.
    pub(super) fn packed(&mut self) -> io::Result<Packed> {
        self.fit(MOST_BYTES - REST)
    }

    fn fit(&mut self, room: usize) -> io::Result<Packed> {
        let telling = self.fit_telling(room)?;
        let room = room - telling.len();
        let (documents, labels) = self.fit_documents(room)?;
        let room = room.saturating_sub(size(&documents) + labels.len());
        let mut tables = packed(&self.tables)?;
        if size(&tables) > room / 2 {
            tables.clear();
            self.notes.push(
                "The tables for spreadsheets would make this page too large; --format csv writes them".to_owned(),
            );
        }
        let room = room - size(&tables);
        let (sheets, taken) = self.pack_sheets()?;
        let room = room.saturating_sub(taken);
        let (timelines, lanes) = self.fit_pictures(room)?;
        self.note_left_out();
        Ok(Packed { documents, tables, labels, telling, sheets, timelines, lanes })
    }

    /// The documents and the labels of their stacks, with fewer stacks if they are too large.
    fn fit_documents(&mut self, room: usize) -> io::Result<(Vec<(&'static str, String)>, String)> {
        let mut documents = packed(&self.documents)?;
        let mut labels = pack(&serde_json::to_vec(&self.labels)?)?;
        let mut most = self.labels.len();
        while size(&documents) + labels.len() > room && most > 1 {
            let Some(shorten) = &self.shorten else { break };
            most /= 2;
            documents = packed(&shorten(most)?)?;
            labels = pack(&serde_json::to_vec(&self.labels[..most])?)?;
        }
        if most < self.labels.len() {
            let (shown, all) = (count(most as u64), count(self.labels.len() as u64));
            self.notes.push(format!("This page has the first {shown} of {all} stacks; --json has all"));
            self.labels.truncate(most);
        }
        Ok((documents, labels))
    }

    /// The tables, with as many rows as there are labels, and their size.
    fn pack_sheets(&mut self) -> io::Result<(Map<String, Value>, usize)> {
        let (mut sheets, mut taken) = (Map::new(), 0);
        for table in self.sheets.iter_mut().filter(|table| !table.is_empty()) {
            if table.id == "stacks" {
                table.truncate(self.labels.len());
            }
            let packed = pack(&serde_json::to_vec(table)?)?;
            taken += packed.len();
            sheets.insert(table.id.to_owned(), Value::String(packed));
        }
        Ok((sheets, taken))
    }

    /// The frames to highlight, unless they take too much room for a mere highlight.
    fn fit_telling(&self, room: usize) -> io::Result<String> {
        let telling = pack(&serde_json::to_vec(&self.telling)?)?;
        if telling.len() <= room / 8 { Ok(telling) } else { pack(b"[]") }
    }

    /// The drawings, with fewer rows if they are too large.
    fn fit_pictures(&mut self, room: usize) -> io::Result<(Vec<Value>, Option<Value>)> {
        loop {
            let timelines: Vec<Value> = self.streams.iter().map(|of| of.pack()).collect::<io::Result<_>>()?;
            let lanes = self.lanes.as_ref().map(|of| of.pack()).transpose()?;
            let length = |value: &Value| value.to_string().len();
            if timelines.iter().chain(&lanes).map(length).sum::<usize>() <= room {
                return Ok((timelines, lanes));
            }
            let rows: usize = self.streams.iter().map(|streams| streams.rows()).sum();
            match &mut self.lanes {
                Some(lanes) if lanes.rows() > rows => lanes.halve(),
                _ if rows > self.streams.len() => self.streams.iter_mut().for_each(|of| of.halve()),
                _ => {
                    self.notes.push("The timelines would make this page too large".to_owned());
                    self.streams.clear();
                    self.lanes = None;
                }
            }
        }
    }

    /// Notes what the drawings lack.
    fn note_left_out(&mut self) {
        if let Some(lanes) = self.lanes.as_ref().filter(|lanes| lanes.left_out() > 0) {
            self.notes.push(format!(
                "{} collectives with the least waiting are not in the pictures of single collectives; all are in the numbers",
                count(lanes.left_out())
            ));
        }
        let left_out: u64 = self.streams.iter().map(|of| of.left_out()).sum();
        if left_out > 0 {
            self.notes.push(format!(
                "The {} shortest kernels are not in the timelines; all are in the numbers",
                count(left_out)
            ));
        }
    }
}

fn packed(of: &[(&'static str, Bytes)]) -> io::Result<Vec<(&'static str, String)>> {
    of.iter().map(|(name, bytes)| Ok((*name, pack(bytes)?))).collect()
}

fn size(of: &[(&'static str, String)]) -> usize {
    of.iter().map(|(_, packed)| packed.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that gzip can hardly compress.
    fn noise(stacks: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        };
        (0..100 * stacks).map(|_| next()).collect()
    }

    /// A stack takes some 133 bytes here, so 64 stacks take 8,500. In 3,000 bytes there is room for 16 and their names, and for no table.
    #[test]
    fn what_does_not_fit_is_left_out_and_said() {
        let mut page = Page {
            documents: vec![("stacks", noise(64))],
            tables: vec![("stacks", noise(64))],
            labels: vec![vec!["f".to_owned()]; 64],
            shorten: Some(Box::new(|most| Ok(vec![("stacks", noise(most))]))),
            ..Page::default()
        };
        let packed = page.fit(3000).unwrap();
        assert_eq!((page.labels.len(), packed.tables.len()), (16, 0));
        assert!(packed.documents[0].1.len() < 3000, "{}", packed.documents[0].1.len());
        assert_eq!(page.notes[0], "This page has the first 16 of 64 stacks; --json has all");
        assert!(page.notes[1].starts_with("The tables for spreadsheets"), "{:?}", page.notes);
        let mut page = Page { documents: vec![("stacks", noise(64))], ..Page::default() };
        assert_eq!((page.fit(20_000).unwrap().documents.len(), page.notes.len()), (1, 0));
    }
}
