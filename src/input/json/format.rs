//! How JSON is recognised: it opens a list or an object, after blanks at most.

use crate::input::format::{Fit, Format, Reader, Text};

const BOM: &[u8] = b"\xef\xbb\xbf";

pub(in crate::input) const FORMAT: Format = Format { sniff, reader: Reader::Trace(Text::Json) };

fn sniff(head: &[u8]) -> Fit {
    let text = head.strip_prefix(BOM).unwrap_or(head).trim_ascii_start();
    let may_be_json = text.first().map_or(!head.is_empty(), |first| matches!(first, b'{' | b'['));
    if may_be_json { Fit::Maybe } else { Fit::No }
}
