//! What an export says of the recording: when it started, by which version, and the rank of its only process.

use rusqlite::Result;

use super::export::Export;
use super::tables::Table;
use crate::event::{ArgValue, HeaderField};

const START: Table = Table { name: "TARGET_INFO_SESSION_START_TIME", columns: &["utcEpochNs"], process: None };
const VERSION: Table = Table { name: "META_DATA_EXPORT", columns: &["name", "value"], process: None };
const RECORDED: Table = Table { name: "META_DATA_CAPTURE", columns: &["name", "value"], process: None };

/// The name of the rows that have the environment of the recorded program, as `NAME="value"`.
const ENVIRONMENT: &str = "ENVIRONMENT_VARIABLE";

/// The variables in which launchers pass the rank and the number of ranks: torchrun, Slurm, Open MPI.
const RANKS: [(&str, &str); 3] =
    [("RANK", "WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE")];

impl Export {
    /// When the recording started, in ns since 1970; 0 if unknown. The times of all rows count from there, so that the reports of
    /// several machines have the time of day, as other traces have.
    pub(super) fn start(&self) -> Result<i64> {
        let mut start = None;
        self.tables.each(&self.connection, &START, None, self.bytes, |row| {
            start = row.number(0);
            Ok(start.is_none())
        })?;
        Ok(start.unwrap_or(0))
    }

    /// The header of a trace. The environment is that of the program that was started, so it gives the rank only if that program is the only
    /// process: torchrun itself has no rank.
    pub(super) fn header(&self, is_alone: bool) -> Result<Vec<HeaderField>> {
        let mut header = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.tables.each(&self.connection, &VERSION, None, self.bytes, |row| {
            if let (Some(b"EXPORT_PRODUCT_VERSION"), Some(version)) = (row.bytes(0), row.bytes(1)) {
                let key = "metadata.nsight_systems_version".to_owned();
                header.push(HeaderField { key, value: ArgValue::Text(text(version)) });
            }
            Ok(true)
        })?;
        if !is_alone {
            return Ok(header);
        }
        let mut variables = Vec::new();
        self.tables.each(&self.connection, &RECORDED, None, self.bytes, |row| {
            let is_variable = row.bytes(0).is_some_and(|name| name.ends_with(ENVIRONMENT.as_bytes()));
            variables.extend(row.bytes(1).filter(|_| is_variable).map(text));
            Ok(true)
        })?;
        header.extend(rank(&variables));
        Ok(header)
    }
}

/// The rank and the number of ranks, under the names of Kineto's header. Both must be present and consistent.
fn rank(variables: &[String]) -> impl Iterator<Item = HeaderField> {
    let number = |wanted: &str| {
        let value = variables.iter().find_map(|variable| variable.strip_prefix(wanted)?.strip_prefix('='))?;
        value.trim_matches('"').parse::<u32>().ok()
    };
    let found = RANKS.iter().find_map(|(rank, size)| Some((number(rank)?, number(size)?)));
    let found = found.filter(|(rank, size)| rank < size);
    let field = |key: &str, value: u32| HeaderField { key: key.to_owned(), value: ArgValue::Int(i64::from(value)) };
    let fields =
        found.map(|(rank, size)| [field("distributedInfo.rank", rank), field("distributedInfo.world_size", size)]);
    fields.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launchers_say_the_rank() {
        for (variables, want) in [
            (&["RANK=\"3\"", "WORLD_SIZE=\"8\""][..], vec![3, 8]),
            (&["SLURM_PROCID=12", "SLURM_NTASKS=16", "LOCAL_RANK=4"], vec![12, 16]),
            (&["RANK=\"3\""], vec![]),
            (&["RANK=\"8\"", "WORLD_SIZE=\"8\""], vec![]),
            (&["RANKS=\"3\"", "WORLD_SIZE=\"8\""], vec![]),
            (&[], vec![]),
        ] {
            let variables: Vec<String> = variables.iter().map(|variable| (*variable).to_owned()).collect();
            let found: Vec<ArgValue<String>> = rank(&variables).map(|field| field.value).collect();
            assert_eq!(found, want.into_iter().map(ArgValue::Int).collect::<Vec<_>>(), "{variables:?}");
        }
    }
}
