//! Why a process could not record, or lost records, by the system's error: what is said of it, and what helps.

use std::io;

/// By the system's number of the error, which is the same on all processors that GPUs are used with: what a process is said to have met that could not
/// record, what is said of records that were lost, and what helps.
const CAUSES: &[(i32, &str, &str, &str)] = &[
    (28, "the disk is full", "records for which the disk was full", SPACE),
    (122, "the disk quota is used up", "records for which the disk quota was used up", QUOTA),
    (30, "the file system is read-only", "records for which the file system was read-only", FOLDER),
    (27, "a file may not be so large", "records for which the file would have been too large", SIZE),
    (13, "the user of the job may not write into the folder", UNKNOWN, USER),
    (12, "there was no memory for the file's mapping", "records for which there was no memory", MEMORY),
    (9, "the job had closed the recorder's file", "records after the job had closed the recorder's file", CLOSED),
];

const SPACE: &str = "Free space there, or record into another folder (--dir) or with smaller rings (--ring-size).";
const QUOTA: &str =
    "Free space of this user, or record into another folder (--dir) or with smaller rings (--ring-size).";
const FOLDER: &str = "Record into another folder (--dir).";
const SIZE: &str = "Raise the limit (ulimit -f), or record with smaller rings (--ring-size).";
const USER: &str = "Record into a folder that this user may write (--dir).";
const MEMORY: &str = "Raise the limit (ulimit -v), or record with smaller rings (--ring-size).";
const CLOSED: &str = "Larger rings do not help: the job closes descriptors that are not its own.";

/// What is said of records that were lost for an unknown cause.
const UNKNOWN: &str = "records for which there was no space";

/// What is said of records that were lost with this error, and what helps. 0 is an unknown error.
pub(super) fn of_records(errno: i32) -> (&'static str, Option<&'static str>) {
    let known = CAUSES.iter().find(|(number, ..)| *number == errno);
    known.map_or((UNKNOWN, None), |(_, _, records, advice)| (*records, Some(*advice)))
}

/// Why a process with this error could not record: known causes in our words, others in the system's; and what helps.
pub(super) fn of_process(errno: i32) -> (String, Option<&'static str>) {
    match CAUSES.iter().find(|(number, ..)| *number == errno) {
        Some((_, process, _, advice)) => ((*process).to_owned(), Some(*advice)),
        None => {
            let text = io::Error::from_raw_os_error(errno).to_string();
            // Rust adds the number in parentheses.
            (text.split(" (os error").next().unwrap_or_default().to_owned(), None)
        }
    }
}
