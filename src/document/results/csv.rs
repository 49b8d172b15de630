//! CSV in the form of trace_processor's shell: a line of names, texts always in quotes, numbers never, NULL as `"[NULL]"`.
//!
//! The `csv` crate has no such quoting style: its styles that leave numbers unquoted also leave texts unquoted that look like numbers.
//! Reals keep all their digits, where the shell writes six decimals; bytes become `"x'0aff'"`, where the shell writes nothing.

use std::io::{self, Write};

use rusqlite::types::ValueRef;

use super::hexadecimal;
use crate::document::format::visible;

pub(super) fn header(columns: &[&str], for_screen: bool, out: &mut impl Write) -> io::Result<()> {
    let names: Vec<ValueRef<'_>> = columns.iter().map(|name| ValueRef::Text(name.as_bytes())).collect();
    row(&names, for_screen, out)
}

pub(super) fn row(values: &[ValueRef<'_>], for_screen: bool, out: &mut impl Write) -> io::Result<()> {
    for (i, value) in values.iter().enumerate() {
        if i > 0 {
            out.write_all(b",")?;
        }
        match value {
            ValueRef::Null => out.write_all(b"\"[NULL]\"")?,
            ValueRef::Integer(value) => write!(out, "{value}")?,
            ValueRef::Real(value) => write!(out, "{value:?}")?,
            ValueRef::Text(value) => text(value, for_screen, out)?,
            ValueRef::Blob(bytes) => quoted(hexadecimal(bytes).as_bytes(), out)?,
        }
    }
    out.write_all(b"\n")
}

fn text(value: &[u8], for_screen: bool, out: &mut impl Write) -> io::Result<()> {
    if for_screen { quoted(visible(&String::from_utf8_lossy(value)).as_bytes(), out) } else { quoted(value, out) }
}

fn quoted(text: &[u8], out: &mut impl Write) -> io::Result<()> {
    out.write_all(b"\"")?;
    for (i, part) in text.split(|byte| *byte == b'"').enumerate() {
        if i > 0 {
            out.write_all(b"\"\"")?;
        }
        out.write_all(part)?;
    }
    out.write_all(b"\"")
}
