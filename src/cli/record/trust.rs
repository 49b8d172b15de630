//! Who else could change what is in a folder, by the owners and modes of the folder and of the folders above it.
//!
//! The recorder's library runs in every process of a job, and recordings are read by whoever looks for the cause of a hang. Whoever can write into
//! their folder, or replace it from above, could have a job run other code, or have its owner read made-up recordings.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bits of a mode: who else may write, and that only owners may rename and remove in a folder.
const GROUP_WRITES: u32 = 0o020;
const OTHERS_WRITE: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// Who else than this user and root can change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Other {
    User(u32),
    Group,
    Everybody,
}

impl Other {
    /// What lets others change the folder itself.
    fn said(self) -> String {
        match self {
            Other::User(user) => format!("it belongs to user {user}"),
            Other::Group => "its group may write it".to_owned(),
            Other::Everybody => "everybody may write it".to_owned(),
        }
    }

    /// What lets others replace it from a folder above.
    fn said_of(self, above: &Path) -> String {
        let above = above.display();
        match self {
            Other::User(user) => format!("{above} belongs to user {user}"),
            Other::Group => format!("the group of {above} may write there"),
            Other::Everybody => format!("everybody may write into {above}"),
        }
    }
}

/// Owner and mode of a file or folder.
#[derive(Debug, Clone, Copy)]
struct About {
    owner: u32,
    mode: u32,
}

impl About {
    fn of(path: &Path) -> Result<Self, String> {
        let unread = |error| format!("{} cannot be looked at: {error}", path.display());
        let about = fs::symlink_metadata(path).map_err(unread)?;
        Ok(About { owner: about.uid(), mode: about.mode() })
    }

    /// Who else than this user and root owns it: its owner could make it writable at any time.
    fn owned(self, user: u32) -> Option<Other> {
        (self.owner != user && self.owner != 0).then_some(Other::User(self.owner))
    }

    fn written(self) -> Option<Other> {
        match (self.mode & GROUP_WRITES != 0, self.mode & OTHERS_WRITE != 0) {
            (_, true) => Some(Other::Everybody),
            (true, false) => Some(Other::Group),
            (false, false) => None,
        }
    }

    /// Who else can change what it holds.
    fn open_to(self, user: u32) -> Option<Other> {
        self.owned(user).or(self.written())
    }

    /// Who else can rename or remove what lies in it, if this user or root owns that. In a sticky folder only its owner can.
    fn replaced_by(self, user: u32) -> Option<Other> {
        self.owned(user).or(self.written().filter(|_| self.mode & STICKY == 0))
    }
}

pub(super) fn user() -> u32 {
    // SAFETY: `geteuid` has no preconditions.
    unsafe { libc::geteuid() }
}

/// Whether only this user and root can change what is in a folder; the error says which folder is open to whom. The path is absolute and has no
/// links.
pub(super) fn folder(path: &Path) -> Result<(), String> {
    let user = user();
    if let Some(other) = About::of(path)?.open_to(user) {
        return Err(other.said());
    }
    for above in path.ancestors().skip(1) {
        if let Some(other) = About::of(above)?.replaced_by(user) {
            return Err(other.said_of(above));
        }
    }
    Ok(())
}

/// Whether only this user and root can change a file that is open.
pub(super) fn file(about: &fs::Metadata) -> bool {
    about.is_file() && About { owner: about.uid(), mode: about.mode() }.open_to(user()).is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The user 1000 asks. Each row: owner, mode, whether the folder itself is accepted, whether it is accepted above the folder.
    #[test]
    fn owners_and_modes_decide() {
        for (owner, mode, as_folder, above) in [
            (1000, 0o755, true, true),
            (1000, 0o700, true, true),
            (0, 0o755, true, true),
            (1000, 0o775, false, false),
            (1000, 0o757, false, false),
            (1000, 0o777, false, false),
            (0, 0o775, false, false),
            (0, 0o1777, false, true),
            (1000, 0o1775, false, true),
            (0, 0o1770, false, true),
            (1001, 0o700, false, false),
            (1001, 0o755, false, false),
            (1001, 0o1777, false, false),
        ] {
            let about = About { owner, mode };
            let found = (about.open_to(1000).is_none(), about.replaced_by(1000).is_none());
            assert_eq!(found, (as_folder, above), "{owner} {mode:o}");
        }
        // Root may not use a user's folder either.
        assert_eq!(About { owner: 1000, mode: 0o700 }.open_to(0), Some(Other::User(1000)));
        assert_eq!(About { owner: 0, mode: 0o775 }.open_to(0), Some(Other::Group));
        assert_eq!(About { owner: 0, mode: 0o773 }.open_to(0), Some(Other::Everybody));
    }
}
