//! Proxy operations, the phases of their steps, and network transfers, as events.
//!
//! The plugin writes an operation as two events with the same number, before it makes progress and while it does, and a step as one event per
//! phase, also with the same number. A state marks the entry into a phase, so each phase ends where the next begins.

use core::fmt;

use nccl_stacks_recorder_format::{Handle, Kind, Record};

use super::events::{Category, Event, Events};
use crate::tree::Placed;

/// NCCL's numbers of states.
mod state {
    pub(super) const IN_PROGRESS: u64 = 19;
    pub(super) const SEND_GPU_WAIT: u64 = 8;
    pub(super) const SEND_PEER_WAIT: u64 = 20;
    pub(super) const SEND_WAIT: u64 = 9;
    pub(super) const RECV_WAIT: u64 = 10;
    pub(super) const RECV_FLUSH_WAIT: u64 = 11;
    pub(super) const RECV_GPU_WAIT: u64 = 12;
    pub(super) const APPEND: u64 = 17;
}

/// The phases of a step in order: the state that enters each, and its name.
const SEND: [(u64, &[u8]); 3] =
    [(state::SEND_GPU_WAIT, b"SendGpuWait"), (state::SEND_PEER_WAIT, b"SendPeerWait"), (state::SEND_WAIT, b"SendWait")];
const RECV: [(u64, &[u8]); 3] = [
    (state::RECV_WAIT, b"RecvWait"),
    (state::RECV_FLUSH_WAIT, b"RecvFlushWait"),
    (state::RECV_GPU_WAIT, b"RecvGpuWait"),
];

/// The activities of a proxy thread, by state from 13 on.
const CONTROL: [&[u8]; 6] = [b"Idle", b"Active", b"Sleep", b"Wakeup", b"Append", b"Append"];
const FIRST_CONTROL: u64 = 13;

impl Events<'_> {
    /// When a record first entered a state. Waiting for a peer is entered repeatedly.
    fn entered(&self, handle: Handle, state: u64) -> Option<i64> {
        self.states(handle).find(|child| child.a == state).map(|child| child.time)
    }

    fn states(&self, handle: Handle) -> impl Iterator<Item = Record> {
        self.tree.children(handle).map(|(_, child)| child).filter(|child| child.kind == Kind::State)
    }

    /// The bytes of a step. Only these two states have them.
    fn bytes(&self, step: Handle) -> u64 {
        let has_bytes = |child: &Record| matches!(child.a, state::SEND_WAIT | state::RECV_FLUSH_WAIT);
        self.states(step).filter(has_bytes).map(|child| child.b).fold(0, u64::saturating_add)
    }

    pub(super) fn proxy_op(&mut self, (handle, record): Placed) -> fmt::Result {
        let is_send = record.small == 1;
        let id = self.id(Category::Proxy);
        let tree = self.tree;
        let steps = || tree.children(handle).filter(|(_, child)| child.kind == Kind::ProxyStep);
        let bytes = steps().map(|(step, _)| self.bytes(step)).fold(0, u64::saturating_add);
        let (begun, stopped) = (self.entered(handle, state::IN_PROGRESS), self.stop(handle));
        let args = format_args!(
            "\"Channel\": {}, \"Peer\": {}, \"Steps\": {}, \"ChunkSize\": {}, \"transSize\": {bytes}",
            record.channel,
            record.c as i32,
            record.b as u32,
            record.b >> 32
        );
        let names: [&[u8]; 2] =
            if is_send { [b"ScheduleSend", b"ProgressSend"] } else { [b"ScheduleRecv", b"ProgressRecv"] };
        let [queued, running] = names.map(|name| Event { category: Category::Proxy, name, id });
        // A finished operation has made progress, even if its state was lost.
        if begun.is_some() || stopped.is_none() {
            self.begin(queued, record.time, args)?;
            self.end(queued, begun)?;
        }
        if begun.is_some() || stopped.is_some() {
            self.begin(running, begun.unwrap_or(record.time), args)?;
        }
        for step in steps() {
            self.step(step, is_send)?;
        }
        self.end(running, stopped)
    }

    fn step(&mut self, (handle, record): Placed, is_send: bool) -> fmt::Result {
        let id = self.id(Category::Net);
        let stop = self.stop(handle);
        let mut phases = (if is_send { SEND } else { RECV }).map(|(state, name)| (self.entered(handle, state), name));
        // A step begins with its first phase.
        if let Some((first @ None, _)) = phases.first_mut() {
            *first = Some(record.time);
        }
        for (at, (begin, name)) in phases.iter().enumerate() {
            let Some(begin) = *begin else { continue };
            let event = Event { category: Category::Net, name, id };
            let next = phases.iter().skip(at.saturating_add(1)).find_map(|(begin, _)| *begin);
            self.begin(event, begin, format_args!("\"Step\": {}", record.a))?;
            self.end(event, next.or(stop))?;
        }
        let tree = self.tree;
        for (message, child) in tree.children(handle) {
            match child.kind {
                Kind::NetIb | Kind::NetSocket => self.message((message, child), child.time, self.stop(message))?,
                Kind::NetPlugin => {
                    let end = self.stop(message);
                    for part in tree.children(message) {
                        self.message(part, child.time, end)?;
                    }
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn message(&mut self, (_, record): Placed, begin: i64, end: Option<i64>) -> fmt::Result {
        let (low, high, size, c) = (record.a as u32, record.a >> 32, record.b, record.c);
        match record.kind {
            Kind::NetIb => {
                let event = Event { category: Category::NetIb, name: b"Qp", id: self.id(Category::NetIb) };
                let opcode = record.small;
                let args = format_args!(
                    "\"device\": {high}, \"qp_num\": {low}, \"opcode\": {opcode}, \"wr_id\": {c}, \"size\": {size}"
                );
                self.begin(event, begin, args)?;
                self.end(event, end)
            }
            Kind::NetSocket => {
                let event = Event { category: Category::NetSock, name: b"Sock", id: self.id(Category::NetSock) };
                self.begin(event, begin, format_args!("\"sock\": {low}, \"op\": {c}, \"size\": {size}"))?;
                self.end(event, end)
            }
            _ => Ok(()),
        }
    }

    /// The activity of a proxy thread, from the first state that it entered.
    pub(super) fn control(&mut self, (handle, record): Placed) -> fmt::Result {
        let Some(first) = self.states(handle).next() else { return Ok(()) };
        let name = first.a.checked_sub(FIRST_CONTROL).and_then(|at| CONTROL.get(usize::try_from(at).ok()?));
        let Some(name) = name else { return Ok(()) };
        let event = Event { category: Category::Proxy, name, id: self.id(Category::Proxy) };
        let appended = self.states(handle).find(|child| child.a == state::APPEND).map(|child| child.b);
        match appended {
            Some(appended) => self.begin(event, record.time, format_args!("\"appended\": {appended}"))?,
            None => self.begin(event, record.time, format_args!(""))?,
        }
        self.end(event, self.stop(handle))
    }
}
