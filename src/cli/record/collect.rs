//! `nccl-stacks record --collect DIR -o incident.tar.zst`: all files of a recorded job in one archive, without the holes of its recordings.
//!
//! A recording is as long as its rings and mostly holes: programs that copy files whole write hundreds of megabytes of zeros for each rank. The
//! archive has a recording as GNU's tar stores files with holes, with the parts that its header says are in use.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use crate::document::format::{count, size};
use crate::error::Error;
use crate::run::inputs::record_files;
use flate2::Compression;
use flate2::write::GzEncoder;
use nccl_stacks_recorder_format::Header as Recording;
use nccl_stacks_recorder_format::layout::{MAGIC, RECORD, RINGS, RINGS_AT};
use tar::{EntryType, GnuExtSparseHeader, Header};

use crate::cli::output::Target;
use crate::cli::stop::Stop;
use crate::cli::terminal::say;

/// The size of tar's blocks.
const BLOCK: usize = 512;

/// The compression level of zstd: most of the time of a higher one goes into what compresses to nothing.
const LEVEL: i32 = 3;

/// Packs a folder. The archive appears under its name only when it is complete.
pub(super) fn run(folder: &Path, output: &Path) -> Result<(), Stop> {
    let files = record_files(&[folder.to_owned()])?;
    let target = Target::open("--output", output, &files)?;
    let mut packed = Packed::default();
    let ((), archive) = target.fill(|_, file| -> Result<(), Stop> {
        let failed = |source| Stop::from(Error::Write { path: output.to_owned(), source });
        let file = BufWriter::new(file);
        match Form::of(output)? {
            Form::Plain => pack(folder, &files, (output, file), &mut packed)?.flush().map_err(failed),
            Form::Gzip => {
                let archive =
                    pack(folder, &files, (output, GzEncoder::new(file, Compression::default())), &mut packed)?;
                archive.finish().and_then(|mut file| file.flush()).map_err(failed)
            }
            Form::Zstd => {
                let encoder = zstd::stream::Encoder::new(file, LEVEL).map_err(failed)?;
                let archive = pack(folder, &files, (output, encoder), &mut packed)?;
                archive.finish().and_then(|mut file| file.flush()).map_err(failed)
            }
        }
    })?;
    let Packed { files, recordings, used } = packed;
    say(&format!(
        "Collected: {} files, {} of them recordings with {} in use, in {} ({})",
        count(files),
        count(recordings),
        size(used),
        output.display(),
        size(archive.size)
    ));
    Ok(())
}

#[derive(Default)]
struct Packed {
    files: u64,
    recordings: u64,
    /// The bytes of recordings that are in use.
    used: u64,
}

/// How an archive is compressed, by its name.
enum Form {
    Plain,
    Gzip,
    Zstd,
}

impl Form {
    fn of(output: &Path) -> Result<Self, Stop> {
        let name = output.file_name().map(OsStr::to_string_lossy).unwrap_or_default();
        let forms = [(".tar", Form::Plain), (".tar.gz", Form::Gzip), (".tgz", Form::Gzip), (".tar.zst", Form::Zstd)];
        let form = forms.into_iter().find(|(ending, _)| name.ends_with(ending)).map(|(_, form)| form);
        form.ok_or_else(|| {
            Stop::Usage(format!("--output {}: name the archive .tar.zst, .tar.gz or .tar", output.display()))
        })
    }
}

/// Writes the members of an archive that is called `output`.
fn pack<W: Write>(
    folder: &Path,
    files: &[PathBuf],
    (output, archive): (&Path, W),
    packed: &mut Packed,
) -> Result<W, Stop> {
    let mut archive = Archive { to: archive, has_failed: false };
    // Names begin with the folder's own, so that unpacking makes one folder.
    let above = folder.canonicalize().ok().and_then(|folder| Some(folder.parent()?.to_owned()));
    for path in files {
        let failed = |source| Stop::from(Error::Read { name: path.display().to_string(), source });
        let whole = path.canonicalize().map_err(failed)?;
        let name = above.as_ref().and_then(|above| whole.strip_prefix(above).ok()).unwrap_or(path);
        let mut file = File::open(path).map_err(failed)?;
        let mut head = Vec::new();
        (&file).take(RINGS_AT as u64).read_to_end(&mut head).map_err(failed)?;
        let parts = parts(&head, &file).map_err(failed)?;
        packed.files += 1;
        if let Some(parts) = &parts {
            packed.recordings += 1;
            packed.used += parts.iter().map(|(_, length)| length).sum::<u64>();
        }
        add(name, &mut file, parts.as_deref(), &mut archive).map_err(|source| match archive.has_failed {
            true => Error::Write { path: output.to_owned(), source }.into(),
            false => failed(source),
        })?;
    }
    // Two blocks of zeros end an archive.
    archive.write_all(&[0; 2 * BLOCK]).map_err(|source| Error::Write { path: output.to_owned(), source })?;
    Ok(archive.to)
}

/// An archive that knows whether writing it failed: copying a file into it fails in the same way if the file cannot be read.
struct Archive<W> {
    to: W,
    has_failed: bool,
}

impl<W: Write> Write for Archive<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes);
        self.has_failed |= written.as_ref().is_err_and(|error| error.kind() != io::ErrorKind::Interrupted);
        written
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The offset and length of each part of a recording that is in use; `None` of any other file.
fn parts(head: &[u8], file: &File) -> io::Result<Option<Vec<(u64, u64)>>> {
    if !head.starts_with(&MAGIC) {
        return Ok(None);
    }
    let Ok(header) = Recording::parse(head) else { return Ok(None) };
    let length = file.metadata()?.len();
    let mut parts = vec![(0, (RINGS_AT as u64).min(length))];
    for ring in 0..RINGS {
        let used = header.used(ring) * RECORD as u64;
        let begin = header.rings.at(ring);
        // Parts are whole blocks, but for the file's last.
        let used = used.next_multiple_of(BLOCK as u64).min(length.saturating_sub(begin));
        match parts.last_mut() {
            _ if used == 0 => {}
            Some((at, before)) if *at + *before == begin => *before += used,
            _ => parts.push((begin, used)),
        }
    }
    // The hole at the end of a file is known by an empty part after it.
    if parts.last().is_some_and(|(at, part)| at + part < length) {
        parts.push((length, 0));
    }
    Ok(Some(parts))
}

/// Adds a file: with its parts alone, or whole.
fn add(name: &Path, file: &mut File, parts: Option<&[(u64, u64)]>, archive: &mut impl Write) -> io::Result<()> {
    let length = file.metadata()?.len();
    let stored = parts.map_or(length, |parts| parts.iter().map(|(_, length)| length).sum());
    let mut header = Header::new_gnu();
    header.set_metadata(&file.metadata()?);
    set_name(&mut header, name, archive)?;
    header.set_size(stored);
    let mut more = Vec::new();
    if let (Some(parts), Some(gnu)) = (parts, header.as_gnu_mut()) {
        gnu.typeflag = [EntryType::GNUSparse.as_byte()];
        gnu.set_real_size(length);
        let own = gnu.sparse.len();
        for ((offset, length), place) in parts.iter().zip(&mut gnu.sparse) {
            place.set_offset(*offset);
            place.set_length(*length);
        }
        let rest = parts.get(own..).unwrap_or_default();
        gnu.set_is_extended(!rest.is_empty());
        let mut blocks = rest.chunks(GnuExtSparseHeader::new().sparse.len()).peekable();
        while let Some(of_block) = blocks.next() {
            let mut block = GnuExtSparseHeader::new();
            for ((offset, length), place) in of_block.iter().zip(&mut block.sparse) {
                place.set_offset(*offset);
                place.set_length(*length);
            }
            block.set_is_extended(blocks.peek().is_some());
            more.extend_from_slice(block.as_bytes());
        }
    }
    header.set_cksum();
    archive.write_all(header.as_bytes())?;
    archive.write_all(&more)?;
    for (offset, length) in parts.unwrap_or(&[(0, length)]) {
        file.seek(SeekFrom::Start(*offset))?;
        let copied = io::copy(&mut file.take(*length), archive)?;
        // The header has already said how much follows: a file that became shorter is filled with zeros.
        io::copy(&mut io::repeat(0).take(length - copied), archive)?;
    }
    pad(stored, archive)
}

/// Sets the name of a member. What does not fit into a header is a member of its own before it.
fn set_name(header: &mut Header, name: &Path, archive: &mut impl Write) -> io::Result<()> {
    if header.set_path(name).is_ok() {
        return Ok(());
    }
    let bytes = name.as_os_str().as_encoded_bytes();
    let mut long = Header::new_gnu();
    long.set_path("././@LongLink")?;
    long.set_entry_type(EntryType::GNULongName);
    long.set_size(bytes.len() as u64 + 1);
    long.set_cksum();
    archive.write_all(long.as_bytes())?;
    archive.write_all(bytes)?;
    archive.write_all(&[0])?;
    pad(bytes.len() as u64 + 1, archive)?;
    let short = name.file_name().unwrap_or_default().to_string_lossy();
    header.set_path(short.chars().take(24).collect::<String>())
}

fn pad(length: u64, archive: &mut impl Write) -> io::Result<()> {
    let rest = (length % BLOCK as u64) as usize;
    if rest > 0 { archive.write_all(&[0; BLOCK][rest..]) } else { Ok(()) }
}
