//! Files and folders that are useless until they are finished: a signal that ends the program removes them.
//!
//! The library handles no signals. A program that ends on one calls [`remove_all`] first.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static PATHS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Marks a file, or a folder with its contents, as unfinished until dropped.
#[derive(Debug)]
pub struct Unfinished(PathBuf);

impl Unfinished {
    pub fn at(path: &Path) -> Self {
        PATHS.lock().unwrap_or_else(PoisonError::into_inner).insert(path.to_owned());
        Unfinished(path.to_owned())
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        PATHS.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.0);
    }
}

/// Removes everything unfinished. Returns the number of files and folders.
pub fn remove_all() -> usize {
    let paths = std::mem::take(&mut *PATHS.lock().unwrap_or_else(PoisonError::into_inner));
    paths.iter().filter(|path| fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)).is_ok()).count()
}
