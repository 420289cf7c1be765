//! The names of senders in pushed events, if they are not the names of their users: such as the ids that a server gave.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The names that the users of all workers have announced, each with the index of its user in the run.
#[derive(Debug, Default)]
pub(crate) struct SenderNames(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    users: HashMap<Arc<str>, u32>,
    /// The name of each user, and the one before: pushes of messages on its last connection may be under way.
    names: HashMap<u32, [Option<Arc<str>>; 2]>,
}

impl SenderNames {
    /// Announces the name that a user has from now on.
    pub(crate) fn announce(&self, user: u32, name: &str) {
        let mut known = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let name: Arc<str> = name.into();
        let [current, before] = known.names.remove(&user).unwrap_or_default();
        if current.as_ref() == Some(&name) {
            known.names.insert(user, [current, before]);
            return;
        }
        if let Some(before) = before.filter(|before| *before != name) {
            known.users.remove(&before);
        }
        known.users.insert(Arc::clone(&name), user);
        known.names.insert(user, [Some(name), current]);
    }

    /// Returns the index of the user with this name.
    pub(crate) fn find(&self, name: &str) -> Option<u32> {
        let known = self.0.read().unwrap_or_else(PoisonError::into_inner);
        known.users.get(name).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_has_its_name_and_the_one_before() {
        let names = SenderNames::default();
        names.announce(3, "a");
        names.announce(4, "x");
        names.announce(3, "b");
        assert_eq!(
            ["a", "b", "x"].map(|name| names.find(name)),
            [Some(3), Some(3), Some(4)]
        );
        names.announce(3, "b");
        assert_eq!(names.find("a"), Some(3));
        names.announce(3, "c");
        assert_eq!(
            ["a", "b", "c"].map(|name| names.find(name)),
            [None, Some(3), Some(3)]
        );
        names.announce(3, "b");
        assert_eq!(["b", "c"].map(|name| names.find(name)), [Some(3); 2]);
    }
}
