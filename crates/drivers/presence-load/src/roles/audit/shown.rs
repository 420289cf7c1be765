//! A set of members.

/// The members that a snapshot shows.
#[derive(Debug)]
pub(super) struct Shown(Vec<u64>);

impl Shown {
    pub(super) fn new(members: usize) -> Self {
        Self(vec![0; members.div_ceil(64)])
    }

    pub(super) fn has(&self, member: u32) -> bool {
        self.0[member as usize / 64] & (1 << (member % 64)) != 0
    }

    /// Adds a member. Returns true if it was added before.
    pub(super) fn add(&mut self, member: u32) -> bool {
        let again = self.has(member);
        self.0[member as usize / 64] |= 1 << (member % 64);
        again
    }
}
