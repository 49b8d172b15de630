//! Decompresses the packets in a compressed one.

use std::io::{self, Read};

use flate2::bufread::{MultiGzDecoder, ZlibDecoder};
use zstd::stream::read::Decoder;

use super::packet::ZSTD_COMPRESSED;
use super::packets::MAX_PACKET;
use super::wire::Malformed;
use crate::input::containers::limit::{Budget, Limited};

/// The packets in this field of a packet. Together they may be as long as one packet, and count as text: a small packet can be made
/// that decompresses to more than there is memory or time for.
pub(super) fn text<'a>(field: u32, bytes: &'a [u8], budget: Budget) -> Result<impl Read + use<'a>, Malformed> {
    let text: Box<dyn Read + 'a> = match (field, bytes) {
        (ZSTD_COMPRESSED, _) => Box::new(Decoder::with_buffer(bytes).map_err(|_| Malformed)?),
        (_, [0x1f, 0x8b, ..]) => Box::new(MultiGzDecoder::new(bytes)),
        _ => Box::new(OneStream(ZlibDecoder::new(bytes))),
    };
    Ok(Limited::new(text, budget).take(MAX_PACKET))
}

/// A zlib stream. Bytes after it are an error: nothing would read them.
struct OneStream<'a>(ZlibDecoder<&'a [u8]>);

impl Read for OneStream<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buf)? {
            0 if !buf.is_empty() && !self.0.get_ref().is_empty() => Err(io::ErrorKind::InvalidData.into()),
            read => Ok(read),
        }
    }
}
