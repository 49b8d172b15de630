//! Compressed files and archives.

use std::io::{Cursor, Read, Write};

use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

pub(crate) fn zlib(mut bytes: impl Read) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    std::io::copy(&mut bytes, &mut encoder).unwrap();
    encoder.finish().unwrap()
}

/// All members.
pub(crate) fn gunzip(bytes: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes).read_to_end(&mut text).unwrap();
    text
}

/// A tar with its end mark.
pub(crate) fn tar_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        // Names of more than 100 bytes get a header of their own, as GNU tar writes it.
        tar.append_data(&mut header, name, *bytes).unwrap();
    }
    tar.into_inner().unwrap()
}

/// A zip as another program writes it: stored.
pub(crate) fn zip_of(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
    for (name, bytes) in files {
        zip.start_file(*name, options).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// Files of a folder, or anywhere, by their own names.
pub(crate) fn tar_of_files(paths: impl IntoIterator<Item = impl AsRef<std::path::Path>>) -> Vec<u8> {
    let mut tar = tar::Builder::new(Vec::new());
    for path in paths {
        tar.append_path_with_name(path.as_ref(), path.as_ref().file_name().unwrap()).unwrap();
    }
    tar.into_inner().unwrap()
}
