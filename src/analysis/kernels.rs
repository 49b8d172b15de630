//! Which kernels are asked about.

use regex::Regex;

use crate::error::Error;
use crate::nccl::kernels::is_collective;
use crate::sql::{Database, queries};

/// A kernel name as a person gives it.
///
/// Plain text finds the names that begin with it, so that `ncclDevKernel_AllReduce` finds all its variants. `*` and `?` stand
/// for any text and any character, then the whole name must fit. `/…/` is a regular expression that is searched for.
#[derive(Debug, Clone)]
pub struct Pattern {
    text: String,
    regex: Option<Regex>,
}

impl Pattern {
    /// Reads a pattern as typed.
    ///
    /// # Errors
    /// An empty pattern, and a regular expression that is none.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let bad = |message: String| Error::BadPattern { pattern: text.to_owned(), message };
        let regex = if text.is_empty() || text == "//" {
            return Err(bad("the pattern is empty; leave the flag out for all NCCL kernels".to_owned()));
        } else if let Some(inner) = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/')) {
            Some(Regex::new(inner).map_err(|e| bad(format!("not a regular expression: {e}")))?)
        } else if text.contains(['*', '?']) {
            let glob = regex::escape(text).replace(r"\*", ".*").replace(r"\?", ".");
            Some(Regex::new(&format!("(?s)^{glob}$")).map_err(|e| bad(e.to_string()))?)
        } else {
            None
        };
        Ok(Pattern { text: text.to_owned(), regex })
    }

    /// Whether a kernel's name fits. Names hold `*` themselves (`…(ncclDevComm*, …)`), so what begins with the pattern as
    /// typed fits in any case.
    pub fn fits(&self, name: &str) -> bool {
        name.starts_with(&self.text) || self.regex.as_ref().is_some_and(|regex| regex.is_match(name))
    }
}

/// The names of kernels in the trace that any of the patterns fits, as ids; without patterns those of NCCL and RCCL.
///
/// # Errors
/// What SQLite fails with.
pub fn choose(database: &Database, patterns: &[Pattern]) -> Result<Vec<i64>, Error> {
    let names =
        database.rows(queries::KERNEL_NAMES, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, String>(1)?)))?;
    let fits = |name: &str| match patterns {
        [] => is_collective(name),
        _ => patterns.iter().any(|pattern| pattern.fits(name)),
    };
    Ok(names.into_iter().filter(|(_, name)| fits(name)).map(|(id, _)| id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_as_people_expect() {
        let all_reduce = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        let generic = "ncclDevKernel_Generic(ncclDevComm*, channelMasks, ncclWork*)";
        for (pattern, fits_all_reduce, fits_generic) in [
            ("ncclDevKernel_AllReduce", true, false),
            ("ncclDevKernel", true, true),
            ("AllReduce", false, false),
            ("*AllReduce*", true, false),
            ("nccl*Ring*", false, false),
            ("ncclDevKernel_?eneric*", false, true),
            (generic, false, true),
            (all_reduce, true, false),
            ("ncclDevKernel_Generic(ncclDevComm*, ch", false, true),
            ("/(?i)allreduce.*ring/", true, false),
            ("/^nccl.*Work/", false, true),
        ] {
            let compiled = Pattern::parse(pattern).unwrap();
            assert_eq!(
                (compiled.fits(all_reduce), compiled.fits(generic)),
                (fits_all_reduce, fits_generic),
                "{pattern}"
            );
        }
        assert!(Pattern::parse("/(/").unwrap_err().to_string().contains("not a regular expression"));
        assert!(Pattern::parse("//").unwrap_err().to_string().contains("empty"));
        assert!(Pattern::parse("").unwrap_err().to_string().contains("empty"));
    }
}
