//! The registry: all formats of traces, those that are read and those that are known and not read.
//!
//! A format that is read implements [`TraceReader`] and has a line in `readers!`; one that is not is a row of `others`. Recognition,
//! messages, `describe` and the tables of the documentation read these lists.

use std::sync::LazyLock;

use super::containers::limit::Budget;
use super::containers::source::Source;
use super::containers::{CONTAINERS, Opening, Turn};
use super::reader::{File, Fit, Reading, Refusal, Summary, TraceReader};
use super::{json, nsys, others, proto};
use crate::error::Error;
use crate::event::{Format, Shard, Support};

struct Row {
    format: &'static Format,
    sniff: fn(&[u8]) -> Fit,
    turn: Turn,
    open: fn(File<'_>) -> Result<Vec<Trace>, Refusal>,
}

/// Makes the type of an opened trace, a variant for each reader, and the rows of the readers.
macro_rules! readers {
    ($($(#[$what:meta])* $name:ident($trace:ty)),* $(,)?) => {
        /// A trace, opened and not read yet, by its format.
        pub enum Trace {
            $($(#[$what])* $name($trace)),*
        }

        /// In the order in which they are tried.
        const READERS: &[Row] = &[
            $(Row {
                format: &<$trace as TraceReader>::FORMAT,
                sniff: <$trace as TraceReader>::sniff,
                turn: <$trace as TraceReader>::TURN,
                open: |file| Ok(<$trace as TraceReader>::open(file)?.into_iter().map(Trace::$name).collect()),
            }),*
        ];

        impl Trace {
            pub fn format(&self) -> &'static Format {
                match self {
                    $(Trace::$name(_) => &<$trace as TraceReader>::FORMAT),*
                }
            }

            fn name(&self) -> String {
                match self {
                    $(Trace::$name(trace) => TraceReader::name(trace)),*
                }
            }

            pub fn looks_like_one(self) -> bool {
                match self {
                    $(Trace::$name(trace) => TraceReader::looks_like_one(trace)),*
                }
            }

            /// See `TraceReader::read`.
            pub fn read<S: Shard>(
                self,
                reading: &mut Reading<'_>,
                add: impl FnMut(S::Batch) -> bool + Send,
            ) -> Result<Summary, Error> {
                let read = match self {
                    $(Trace::$name(trace) => TraceReader::read::<S>(trace, reading, add)),*
                };
                read.map_err(|refusal| error(reading.name, refusal))
            }
        }
    };
}

// Those that may be mistaken for another come last.
readers! {
    Process(nsys::Process),
    Packets(proto::Stream),
    /// Chrome's JSON, or bytes that its reader will refuse.
    Json(json::Stream),
}

pub(super) static OPENING: Opening<Trace> = Opening { turn, open, name: Trace::name };

/// All formats: those that are read, the most frequent first, and then those that are not.
pub fn formats() -> impl Iterator<Item = &'static Format> {
    READERS.iter().rev().map(|row| row.format).chain(others::OTHERS.iter().map(|other| &other.format))
}

/// The format of a file with these first bytes: the first that is sure, or else the first that may be. An error for one that is not read.
fn recognise(head: &[u8]) -> Option<Result<&'static Row, &'static Format>> {
    if let Some(format) = others::recognise(head) {
        return Some(Err(format));
    }
    let first = |wanted| READERS.iter().find(|row| (row.sniff)(head) == wanted);
    first(Fit::Sure).or_else(|| first(Fit::Maybe)).map(Ok)
}

fn turn(head: &[u8]) -> Option<Turn> {
    Some(recognise(head)?.map_or(Turn::Last, |row| row.turn))
}

fn open(name: &str, head: &[u8], source: Source, budget: &Budget) -> Result<Vec<Trace>, Error> {
    let file = File { name, source, budget };
    let opened = match recognise(head) {
        Some(Ok(row)) => (row.open)(file),
        Some(Err(format)) => Err(Refusal::Other(format)),
        // The reader of JSON says where this is not JSON.
        None => json::Stream::open(file).map(|all| all.into_iter().map(Trace::Json).collect()),
    };
    opened.map_err(|refusal| error(name, refusal))
}

fn error(name: &str, refusal: Refusal) -> Error {
    let name = name.to_owned();
    match refusal {
        Refusal::NotATrace(what) => Error::NotATrace { name, what, expected: &EXPECTED },
        Refusal::Other(format) => Error::OtherFormat { name, what: format.what, instead: format.instead() },
        Refusal::Failed(error) => error,
    }
}

/// What a trace may be, from the lists of readers and containers.
static EXPECTED: LazyLock<String> = LazyLock::new(|| {
    let expected = READERS.iter().rev().filter_map(|row| match row.format.support {
        Support::Read { expected, .. } => Some(expected),
        Support::Instead(_) => None,
    });
    let containers = |are_archives| {
        let these = CONTAINERS.iter().filter(move |container| container.is_archive() == are_archives);
        list(&these.map(|container| container.name).collect::<Vec<_>>())
    };
    let formats = list(&expected.collect::<Vec<_>>());
    format!("{formats}; plain, compressed with {}, or in a {} archive", containers(false), containers(true))
});

/// `a`, `a or b`, `a, b, or c`
fn list(names: &[&str]) -> String {
    match names {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first, second] => format!("{first} or {second}"),
        [others @ .., last] => format!("{}, or {last}", others.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_an_archive_are_read_in_the_order_of_what_they_begin_with() {
        for (head, wanted) in [
            (&b"{\"traceEvents\""[..], Some(Turn::Last)),
            (b"\xef\xbb\xbf \n[{", Some(Turn::Last)),
            (b"   ", Some(Turn::Last)),
            (b"\x0a\x04\x40\x01\x50\x02", Some(Turn::First)),
            (b"SQLite format 3\0", Some(Turn::Packed)),
            (b"PAR1", Some(Turn::Last)),
            (b"rank 0\n", None),
            (b"", None),
        ] {
            assert_eq!(turn(head), wanted, "{head:?}");
        }
    }

    #[test]
    fn every_format_has_a_name_of_its_own() {
        let names: std::collections::BTreeSet<&str> = formats().map(|format| format.name).collect();
        assert_eq!(names.len(), formats().count());
    }
}
