//! Track descriptors: what the tracks are on which the events lie.
//!
//! A track belongs to a thread or a process because it says so, or because the track above it does. A descriptor may come behind
//! the events of its track and may be sent again with more in it, so what a track is can be said only at the end.

use std::collections::HashMap;

use super::wire::{Fields, Malformed, Value};
use crate::event::{Home, TrackDescription, TrackKey};

/// The fields of `TrackDescriptor`.
const UUID: u32 = 1;
const NAME: u32 = 2;
const PROCESS: u32 = 3;
const THREAD: u32 = 4;
const PARENT: u32 = 5;
const DISALLOW_MERGING: u32 = 9;
const STATIC_NAME: u32 = 10;
const ATRACE_NAME: u32 = 13;

/// The fields of `ThreadDescriptor` and `ProcessDescriptor`.
const PID: u32 = 1;
const TID: u32 = 2;
const THREAD_NAME: u32 = 5;
const PROCESS_NAME: u32 = 6;

/// A chain of tracks may be so long.
const MAX_CHAIN: usize = 100;

/// What is known of one track.
#[derive(Debug, Default)]
struct Described {
    name: Option<String>,
    parent: Option<u64>,
    process: Option<(i64, Option<String>)>,
    thread: Option<(i64, i64, Option<String>)>,
    is_apart: bool,
}

/// All descriptors.
#[derive(Debug, Default)]
pub(super) struct Descriptors {
    /// In the order in which they first came.
    order: Vec<TrackKey>,
    by_key: HashMap<TrackKey, Described, foldhash::fast::FixedState>,
}

impl Descriptors {
    /// Takes a `TrackDescriptor`. The track's key, if it is a thread's.
    pub(super) fn add(&mut self, message: &[u8]) -> Result<Option<TrackKey>, Malformed> {
        let (mut uuid, mut new) = (None, Described::default());
        for field in Fields::new(message) {
            let field = field?;
            match (field.number, field.value) {
                (UUID, Value::Varint(value)) => uuid = Some(value),
                (NAME | STATIC_NAME | ATRACE_NAME, Value::Bytes(name)) => new.name = Some(text(name)),
                (PROCESS, Value::Bytes(process)) => new.process = Some(self::process(process)?),
                (THREAD, Value::Bytes(thread)) => new.thread = Some(self::thread(thread)?),
                (PARENT, Value::Varint(parent)) => new.parent = Some(parent),
                (DISALLOW_MERGING, Value::Varint(apart)) => new.is_apart = apart != 0,
                _ => {}
            }
        }
        let key = TrackKey::Uuid(uuid.ok_or(Malformed)?);
        let thread = new.thread.is_some().then_some(key);
        let known = self.get_or_add(key);
        known.name = new.name.or(known.name.take());
        known.parent = new.parent.or(known.parent);
        known.process = new.process.or(known.process.take());
        known.thread = new.thread.or(known.thread.take());
        known.is_apart |= new.is_apart;
        Ok(thread)
    }

    /// Takes the `ThreadDescriptor` of a sequence. The key of its track.
    pub(super) fn add_thread(&mut self, message: &[u8]) -> Result<TrackKey, Malformed> {
        let thread = thread(message)?;
        let key = TrackKey::OfSequence(thread.0, thread.1);
        self.get_or_add(key).thread = Some(thread);
        Ok(key)
    }

    fn get_or_add(&mut self, key: TrackKey) -> &mut Described {
        self.by_key.entry(key).or_insert_with(|| {
            self.order.push(key);
            Described::default()
        })
    }

    /// Hands on what all tracks are.
    pub(super) fn tell(&self, mut tell: impl FnMut(TrackDescription<'_>)) {
        for key in &self.order {
            let described = &self.by_key[key];
            tell(TrackDescription {
                key: *key,
                home: self.home(described),
                name: described.name.as_deref().map(Into::into),
                thread_name: described.thread.as_ref().and_then(|(.., name)| name.as_deref()).map(Into::into),
                process_name: described.process.as_ref().and_then(|(_, name)| name.as_deref()).map(Into::into),
            });
        }
        let default = TrackKey::Uuid(0);
        if !self.by_key.contains_key(&default) {
            let name = Some("Default Track".into());
            tell(TrackDescription { key: default, home: Home::Global, name, thread_name: None, process_name: None });
        }
    }

    fn home(&self, described: &Described) -> Home {
        match (&described.thread, &described.process) {
            (Some((pid, tid, _)), _) if described.is_apart => return Home::UnderThread(*pid, *tid),
            (Some((pid, tid, _)), _) => return Home::Thread(*pid, *tid),
            (None, Some((pid, _))) => return Home::Process(*pid),
            (None, None) => {}
        }
        let mut above = described.parent;
        for _ in 0..MAX_CHAIN {
            let Some(track) = above.and_then(|uuid| self.by_key.get(&TrackKey::Uuid(uuid))) else { break };
            match (&track.thread, &track.process) {
                (Some((pid, tid, _)), _) => return Home::UnderThread(*pid, *tid),
                (None, Some((pid, _))) => return Home::UnderProcess(*pid),
                (None, None) => above = track.parent,
            }
        }
        if described.parent.is_some_and(|uuid| uuid != 0) { Home::UnderGlobal } else { Home::Global }
    }
}

fn thread(message: &[u8]) -> Result<(i64, i64, Option<String>), Malformed> {
    let (mut pid, mut tid, mut name) = (0, 0, None);
    for field in Fields::new(message) {
        let field = field?;
        match (field.number, field.value) {
            (PID, Value::Varint(value)) => pid = value as i64,
            (TID, Value::Varint(value)) => tid = value as i64,
            (THREAD_NAME, Value::Bytes(value)) => name = Some(text(value)),
            _ => {}
        }
    }
    Ok((pid, tid, name))
}

fn process(message: &[u8]) -> Result<(i64, Option<String>), Malformed> {
    let (mut pid, mut name) = (0, None);
    for field in Fields::new(message) {
        let field = field?;
        match (field.number, field.value) {
            (PID, Value::Varint(value)) => pid = value as i64,
            (PROCESS_NAME, Value::Bytes(value)) => name = Some(text(value)),
            _ => {}
        }
    }
    Ok((pid, name))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
