//! Making a page smaller that would be too large to send: coarser pictures first, then fewer collectives, then no tables for spreadsheets. What
//! is left out is said on the page.

use std::io;

use super::columns::pack;
use super::{MOST_BYTES, Page};
use crate::report::format::count;

/// What a page has beside its documents and pictures, at most.
const REST: usize = 400_000;

impl Page {
    pub(super) fn shrink(&mut self) -> io::Result<()> {
        let documents = packed(&self.documents)?;
        let room = MOST_BYTES.saturating_sub(REST + documents);
        let mut tables = packed(&self.tables)?;
        if tables > room {
            self.tables.clear();
            self.notes.push(
                "The tables for spreadsheets would make this page too large; --format csv writes them".to_owned(),
            );
            tables = 0;
        }
        let room = room - tables;
        loop {
            let streams = self.streams.iter().map(|streams| length(&streams.pack())).sum::<usize>();
            let lanes = self.lanes.as_ref().map_or(0, |lanes| length(&lanes.pack()));
            if streams + lanes <= room {
                break;
            }
            let rows: usize = self.streams.iter().map(super::Streams::rows).sum();
            match &mut self.lanes {
                Some(lanes) if lanes.kernels() >= rows.max(1) => lanes.shorten(lanes.kernels() / 2),
                _ if rows > self.streams.len() => self.streams.iter_mut().for_each(super::Streams::halve),
                _ => {
                    self.lanes = None;
                    self.streams.clear();
                }
            }
        }
        if let Some(lanes) = self.lanes.as_ref().filter(|lanes| lanes.left_out() > 0) {
            let left_out = count(lanes.left_out());
            self.notes.push(format!(
                "{left_out} collectives with the least waiting are not in the pictures of single collectives; all are in the numbers"
            ));
        }
        Ok(())
    }
}

fn packed(of: &[(&'static str, Vec<u8>)]) -> io::Result<usize> {
    of.iter().map(|(_, bytes)| Ok(pack(bytes)?.len())).sum()
}

fn length(of: &io::Result<serde_json::Value>) -> usize {
    of.as_ref().map_or(0, |value| value.to_string().len())
}
