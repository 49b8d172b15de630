//! Chrome's trace JSON, as everything here writes it that viewers open: an object with a list of events. `input::json` reads it.
//!
//! Times are microseconds with all three decimals, so that no nanosecond is lost, and none is below 0.

use std::io::{self, Write};

use serde::Serialize;

use crate::time::Ns;

/// Writes a trace. Fields after the first event are put after the list of events.
#[derive(Debug)]
pub struct TraceWriter<W> {
    out: W,
    section: Section,
    /// Fields that came after the first event.
    late: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Section {
    Start,
    Fields,
    Events,
}

/// Process and thread on which events are drawn. Viewers take the thread with the number of its process for its main one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Track {
    pub pid: u32,
    pub tid: u32,
}

/// The letter of an event of a flow, at this place of so many.
fn phase(place: usize, count: usize) -> char {
    match place {
        0 => 's',
        _ if place + 1 == count => 'f',
        _ => 't',
    }
}

impl<W: Write> TraceWriter<W> {
    pub fn new(out: W) -> Self {
        TraceWriter { out, section: Section::Start, late: Vec::new() }
    }

    /// Writes a field beside the events, both parts as JSON.
    pub fn field(&mut self, key: &[u8], value: &[u8]) -> io::Result<()> {
        let member = [key, b": ", value].concat();
        if self.section == Section::Events {
            self.late.extend_from_slice(b",\n");
            self.late.extend_from_slice(&member);
            return Ok(());
        }
        self.begin(Section::Fields)?;
        self.out.write_all(&member)
    }

    pub fn event(&mut self, text: &[u8]) -> io::Result<()> {
        self.begin(Section::Events)?;
        self.out.write_all(text)
    }

    /// Names a process, which is drawn at the place of its number.
    pub fn process(&mut self, pid: u32, name: &str) -> io::Result<()> {
        self.names("process", Track { pid, tid: pid }, name, pid)
    }

    /// Names a thread, and says where its process draws it.
    pub fn thread(&mut self, track: Track, name: &str, sort_index: u32) -> io::Result<()> {
        self.names("thread", track, name, sort_index)
    }

    fn names(&mut self, what: &str, Track { pid, tid }: Track, name: &str, sort_index: u32) -> io::Result<()> {
        let head = format!("{{\"ph\":\"M\",\"pid\":{pid},\"tid\":{tid},\"name\":\"{what}");
        self.event(format!("{head}_name\",\"args\":{{\"name\":{}}}}}", json(name)?).as_bytes())?;
        self.event(format!("{head}_sort_index\",\"args\":{{\"sort_index\":{sort_index}}}}}").as_bytes())
    }

    /// Writes a slice with its category, name and arguments. One without an end was still open when the recording ended.
    pub fn slice(
        &mut self,
        Track { pid, tid }: Track,
        (start, end): (Ns, Option<Ns>),
        (cat, name): (&str, &str),
        args: &impl Serialize,
    ) -> io::Result<()> {
        let (ph, length) = match end.filter(|end| *end >= start) {
            Some(end) => ("X", format!(",\"dur\":{}", micros(end - start))),
            None => ("B", String::new()),
        };
        let (ts, cat, name, args) = (micros(start), json(cat)?, json(name)?, json(args)?);
        let when = format!("\"ph\":\"{ph}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts}{length}");
        self.event(format!("{{{when},\"cat\":{cat},\"name\":{name},\"args\":{args}}}").as_bytes())
    }

    /// Writes an event of a flow, at this place of so many. It belongs to the slice that is open there and was opened last.
    pub fn flow(
        &mut self,
        Track { pid, tid }: Track,
        at: Ns,
        (id, cat): (u64, &str),
        (place, count): (usize, usize),
    ) -> io::Result<()> {
        let (ph, ts, cat) = (phase(place, count), micros(at), json(cat)?);
        let when = format!("\"ph\":\"{ph}\",\"bp\":\"e\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts}");
        self.event(format!("{{{when},\"cat\":{cat},\"name\":{cat},\"id\":{id}}}").as_bytes())
    }

    pub fn finish(mut self) -> io::Result<()> {
        if self.section != Section::Events {
            self.begin(Section::Events)?;
        }
        self.out.write_all(b"\n]")?;
        self.out.write_all(&self.late)?;
        self.out.write_all(b"\n}\n")?;
        self.out.flush()
    }

    fn begin(&mut self, section: Section) -> io::Result<()> {
        self.out.write_all(if self.section == Section::Start { b"{\n" } else { b",\n" })?;
        if std::mem::replace(&mut self.section, section) != section && section == Section::Events {
            self.out.write_all(b"\"traceEvents\": [\n")?;
        }
        Ok(())
    }
}

fn json(value: &(impl Serialize + ?Sized)) -> io::Result<String> {
    Ok(serde_json::to_string(value)?)
}

/// Microseconds with all three decimals, at least 0.
fn micros(time: Ns) -> String {
    let nanos = time.0.max(0);
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_an_object_with_events() {
        let (mut out, track, args) = (Vec::new(), Track { pid: 1, tid: 2 }, serde_json::json!({"bytes": 5}));
        let mut writer = TraceWriter::new(&mut out);
        writer.field(b"\"a\"", b"1").unwrap();
        writer.process(1, "rank \"0\"").unwrap();
        writer.thread(track, "calls", 7).unwrap();
        writer
            .slice(track, (Ns(1_760_000_000_000_001), Some(Ns(1_760_000_000_000_021))), ("step", "a\n"), &args)
            .unwrap();
        writer.slice(track, (Ns(-5), None), ("step", "b"), &args).unwrap();
        (0..3).for_each(|at| writer.flow(track, Ns(1_000), (3, "launch"), (at, 3)).unwrap());
        writer.field(b"\"z\"", b"2").unwrap();
        writer.finish().unwrap();
        let want = r#"{
"a": 1,
"traceEvents": [
{"ph":"M","pid":1,"tid":1,"name":"process_name","args":{"name":"rank \"0\""}},
{"ph":"M","pid":1,"tid":1,"name":"process_sort_index","args":{"sort_index":1}},
{"ph":"M","pid":1,"tid":2,"name":"thread_name","args":{"name":"calls"}},
{"ph":"M","pid":1,"tid":2,"name":"thread_sort_index","args":{"sort_index":7}},
{"ph":"X","pid":1,"tid":2,"ts":1760000000000.001,"dur":0.020,"cat":"step","name":"a\n","args":{"bytes":5}},
{"ph":"B","pid":1,"tid":2,"ts":0.000,"cat":"step","name":"b","args":{"bytes":5}},
{"ph":"s","bp":"e","pid":1,"tid":2,"ts":1.000,"cat":"launch","name":"launch","id":3},
{"ph":"t","bp":"e","pid":1,"tid":2,"ts":1.000,"cat":"launch","name":"launch","id":3},
{"ph":"f","bp":"e","pid":1,"tid":2,"ts":1.000,"cat":"launch","name":"launch","id":3}
],
"z": 2
}
"#;
        assert_eq!(String::from_utf8(out).unwrap(), want);
    }
}
