//! Accepts files with commands to run only if nobody else can have written them.
//!
//! A path is trusted if its owner is this program's user, root, or the user named by `DROVER_TRUST_UID`, and only its
//! owner may write it. A group may also write it if it is the owner's own: it has the owner's name and no other
//! member, as a umask of 002 assumes.

use std::fs::{File, Metadata};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{Gid, Group, Uid, User, geteuid};

/// Name of the variable with one more user, by number, whose files are trusted.
const VARIABLE: &str = "DROVER_TRUST_UID";
const WRITABLE_BY_GROUP: u32 = 0o020;
const WRITABLE_BY_ALL: u32 = 0o002;
const STICKY: u32 = 0o1000;

/// A file or folder whose content somebody else may have determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}: {problem}\n  {remedy}", path.display())]
pub struct Untrusted {
    /// The file or folder, with links followed.
    pub path: PathBuf,
    /// The users who may determine its content.
    pub problem: String,
    /// The remedy.
    pub remedy: String,
}

/// Refuses a file or folder that somebody else may have written. Links are followed.
///
/// # Errors
/// The users who may have written it, with the remedy; or the reason why it can't be inspected.
pub fn require(path: &Path) -> Result<(), Untrusted> {
    let file = std::fs::metadata(path).map_err(|error| unknown(path, &error))?;
    judge(path, &file)
}

/// Checks an open file in the same way; nobody can replace it meanwhile.
///
/// # Errors
/// As [`require()`].
pub fn require_open(path: &Path, file: &File) -> Result<(), Untrusted> {
    let file = file.metadata().map_err(|error| unknown(path, &error))?;
    judge(path, &file)
}

fn unknown(path: &Path, error: &std::io::Error) -> Untrusted {
    Untrusted {
        path: path.to_owned(),
        problem: format!("can't be inspected: {error}"),
        remedy: "name a project whose folders you may read".to_owned(),
    }
}

fn judge(path: &Path, file: &Metadata) -> Result<(), Untrusted> {
    let consented = std::env::var(VARIABLE).ok();
    let consented = consented.and_then(|uid| uid.trim().parse().ok());
    let refusal = refusal(file.uid(), file.gid(), file.mode(), consented, is_of_one);
    refusal.map_or(Ok(()), |refusal| {
        // A link is reported as its target, which must be changed.
        let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let remedy = refusal.remedy(&path);
        Err(Untrusted {
            path,
            problem: refusal.problem(),
            remedy,
        })
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Refusal {
    /// The file belongs to this user.
    Owner(u32),
    /// Everybody may write it.
    Everybody,
    /// The folder is one such as /tmp, which everybody may write on purpose.
    Shared,
    /// This group may write it.
    Group(u32),
}

impl Refusal {
    fn problem(self) -> String {
        let who = match self {
            Self::Owner(uid) => format!("belongs to user {}", user(uid)),
            Self::Everybody | Self::Shared => "may be written by every user".to_owned(),
            Self::Group(gid) => format!("may be written by group {}", group(gid)),
        };
        let own = user(geteuid().as_raw());
        format!("{who}, and its content would run as user {own}")
    }

    fn remedy(self, path: &Path) -> String {
        let path = path.display();
        match self {
            Self::Owner(uid) => format!(
                "if you trust that user, set {VARIABLE}={uid}, or take it over with `chown`; if not, set DROVER_ROOT to a project of your own"
            ),
            Self::Everybody | Self::Group(_) => {
                format!(
                    "`chmod go-w {path}`, or set DROVER_ROOT to a project that only you may write"
                )
            }
            Self::Shared => format!(
                "set DROVER_ROOT to a project that only you may write, or move your project out of {path}"
            ),
        }
    }
}

fn refusal(
    uid: u32,
    gid: u32,
    mode: u32,
    consented: Option<u32>,
    is_of_one: impl Fn(u32, u32) -> bool,
) -> Option<Refusal> {
    let is_own = uid == geteuid().as_raw() || uid == 0 || Some(uid) == consented;
    if !is_own {
        return Some(Refusal::Owner(uid));
    }
    if mode & WRITABLE_BY_ALL != 0 {
        let is_shared = mode & STICKY != 0;
        return Some(if is_shared {
            Refusal::Shared
        } else {
            Refusal::Everybody
        });
    }
    (mode & WRITABLE_BY_GROUP != 0 && !is_of_one(uid, gid)).then_some(Refusal::Group(gid))
}

/// Returns true for the group of a user's own name that has no other member.
fn is_of_one(uid: u32, gid: u32) -> bool {
    let Ok(Some(user)) = User::from_uid(Uid::from_raw(uid)) else {
        return false;
    };
    let Ok(Some(group)) = Group::from_gid(Gid::from_raw(gid)) else {
        return false;
    };
    group.name == user.name && group.mem.iter().all(|member| *member == user.name)
}

fn user(uid: u32) -> String {
    let known = User::from_uid(Uid::from_raw(uid)).ok().flatten();
    with_name(uid, known.map(|user| user.name))
}

fn group(gid: u32) -> String {
    let known = Group::from_gid(Gid::from_raw(gid)).ok().flatten();
    with_name(gid, known.map(|group| group.name))
}

fn with_name(id: u32, name: Option<String>) -> String {
    name.map_or_else(|| id.to_string(), |name| format!("{name} ({id})"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_caller_and_root_are_trusted_and_others_only_by_consent() {
        let own = geteuid().as_raw();
        let other = own + 4711;
        let refused = |uid, consented| refusal(uid, 1, 0o755, consented, |_, _| false);
        assert_eq!(refused(own, None), None);
        assert_eq!(refused(0, None), None);
        assert_eq!(refused(other, None), Some(Refusal::Owner(other)));
        assert_eq!(refused(other, Some(other)), None);
        assert_eq!(refused(other, Some(other + 1)), Some(Refusal::Owner(other)));
    }

    #[test]
    fn nobody_but_the_owner_may_write_unless_the_group_is_the_owner_s_own() {
        let own = geteuid().as_raw();
        let refused = |mode, is_of_one| refusal(own, 7, mode, None, |_, _| is_of_one);
        assert_eq!(refused(0o40755, false), None);
        assert_eq!(refused(0o40775, false), Some(Refusal::Group(7)));
        assert_eq!(refused(0o40775, true), None);
        assert_eq!(refused(0o41777, true), Some(Refusal::Shared));
        assert_eq!(refused(0o40777, true), Some(Refusal::Everybody));
        assert_eq!(refused(0o100_646, true), Some(Refusal::Everybody));
        // Consent to an owner is not consent to everybody.
        let everybody = refusal(own + 1, 7, 0o777, Some(own + 1), |_, _| true);
        assert_eq!(everybody, Some(Refusal::Everybody));
    }

    #[test]
    fn a_link_is_judged_by_what_it_leads_to() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        std::os::unix::fs::symlink("/tmp", &link).unwrap();
        let error = require(&link).unwrap_err().to_string();
        assert!(
            error.starts_with("/tmp: may be written by every user"),
            "{error}"
        );
        assert!(error.contains("DROVER_ROOT"), "{error}");
    }
}
