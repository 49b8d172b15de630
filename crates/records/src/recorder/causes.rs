//! Why a process could not record, or lost records, by the system's error: what is said of it, and what helps.

use std::io;

pub(super) struct Cause {
    errno: i32,
    /// What a process is said to have met that could not record: `the disk is full`.
    process: &'static str,
    /// What is said of records that were lost: `records for which the disk was full`.
    records: &'static str,
    advice: &'static str,
}

/// Linux's numbers are the same on all processors that GPUs are used with.
const CAUSES: &[Cause] = &[
    Cause {
        errno: 28,
        process: "the disk is full",
        records: "records for which the disk was full",
        advice: "Free space there, or record into another folder (--dir) or with smaller rings (--ring-size).",
    },
    Cause {
        errno: 122,
        process: "the disk quota is used up",
        records: "records for which the disk quota was used up",
        advice: "Free space of this user, or record into another folder (--dir) or with smaller rings (--ring-size).",
    },
    Cause {
        errno: 30,
        process: "the file system is read-only",
        records: "records for which the file system was read-only",
        advice: "Record into another folder (--dir).",
    },
    Cause {
        errno: 27,
        process: "a file may not be so large",
        records: "records for which the file would have been too large",
        advice: "Raise the limit (ulimit -f), or record with smaller rings (--ring-size).",
    },
    Cause {
        errno: 13,
        process: "the user of the job may not write into the folder",
        records: UNKNOWN,
        advice: "Record into a folder that this user may write (--dir).",
    },
    Cause {
        errno: 12,
        process: "there was no memory for the file's mapping",
        records: "records for which there was no memory",
        advice: "Raise the limit (ulimit -v), or record with smaller rings (--ring-size).",
    },
    Cause {
        errno: 9,
        process: "the job had closed the recorder's file",
        records: "records after the job had closed the recorder's file",
        advice: "Larger rings do not help: the job closes descriptors that are not its own.",
    },
];

/// What is said of records that were lost for an unknown cause.
const UNKNOWN: &str = "records for which there was no space";

/// What is said of records that were lost with this error, and what helps. 0 is an unknown error.
pub(super) fn of_records(errno: i32) -> (&'static str, Option<&'static str>) {
    let known = CAUSES.iter().find(|cause| cause.errno == errno);
    known.map_or((UNKNOWN, None), |cause| (cause.records, Some(cause.advice)))
}

/// Why a process with this error could not record: known causes in our words, others in the system's; and what helps.
pub(super) fn of_process(errno: i32) -> (String, Option<&'static str>) {
    match CAUSES.iter().find(|cause| cause.errno == errno) {
        Some(cause) => (cause.process.to_owned(), Some(cause.advice)),
        None => {
            let text = io::Error::from_raw_os_error(errno).to_string();
            // Rust adds the number in parentheses.
            (text.split(" (os error").next().unwrap_or_default().to_owned(), None)
        }
    }
}
