//! Users of a closed loop whose number follows a curve: when each begins, and when it leaves.

use super::{Due, Share, UserStage, nanoseconds, proportion};

/// The users of one share, in the order of their first starts. User j begins when the curve reaches j + 1 and
/// continues until it falls below that. When the curve rises again, the user begins again, which is another session.
///
/// Operation m of session s of user j has the index `(m * sessions + s) * users + j`. It is unique over the run and
/// identifies the user, so that no state per user is kept. If the curve rises only once, these are the indices of a
/// plain closed loop.
#[derive(Debug)]
pub(super) struct Users {
    pieces: Vec<UserPiece>,
    /// Maximum number of users at once, over the whole curve.
    users: u64,
    /// Maximum number of sessions of one user.
    sessions: u64,
    /// Number of operations of a session.
    pub(super) ops: u64,
    end_ns: u64,
    share: Share,
    /// The position among the first starts: a piece, and the next user of the share to begin in it.
    piece: usize,
    user: Option<u64>,
}

/// A stage, and the values before it.
#[derive(Debug, Clone, Copy)]
struct UserPiece {
    begin_ns: u64,
    over_ns: u64,
    from: u64,
    to: u64,
}

impl UserPiece {
    /// Returns true if user `user` begins in this piece.
    fn starts_in(&self, user: u64) -> bool {
        (self.from..self.to).contains(&user)
    }

    /// Returns true if the user leaves in this piece.
    fn stops_in(&self, user: u64) -> bool {
        (self.to..self.from).contains(&user)
    }

    /// Returns when the curve passes `user + 1`, on its way up or down. The curve must pass it in this piece.
    fn crossing(&self, user: u64) -> u64 {
        let (passed, of) = if self.from < self.to {
            (user + 1 - self.from, self.to - self.from)
        } else {
            (self.from - user - 1, self.from - self.to)
        };
        self.begin_ns
            .saturating_add(proportion(self.over_ns, passed, of))
    }
}

impl Users {
    pub(super) fn new(stages: &[UserStage], share: Share) -> Self {
        let (mut from, mut begin_ns) = (0, 0_u64);
        let piece = |stage: &UserStage| {
            let over_ns = nanoseconds(stage.over);
            let piece = UserPiece {
                begin_ns,
                over_ns,
                from,
                to: stage.users,
            };
            from = stage.users;
            begin_ns = begin_ns.saturating_add(over_ns);
            piece
        };
        let pieces: Vec<UserPiece> = stages.iter().map(piece).collect();
        let users = stages.iter().map(|stage| stage.users).max().unwrap_or(0);
        Self {
            // The number of sessions of a user is at most the number of rises of the curve.
            sessions: rises(&pieces).max(1),
            pieces,
            users: users.max(1),
            ops: u64::MAX,
            end_ns: begin_ns,
            share,
            piece: 0,
            user: None,
        }
    }

    /// Returns the next first start of the share.
    pub(super) fn next(&mut self) -> Option<Due> {
        if self.ops == 0 {
            return None;
        }
        while let Some(piece) = self.pieces.get(self.piece) {
            let user = self.user.unwrap_or_else(|| self.first_from(piece.from));
            if piece.starts_in(user) {
                self.user = user.checked_add(self.share.of);
                let before = self.pieces[..self.piece].iter();
                let session = before.filter(|piece| piece.starts_in(user)).count() as u64;
                return Some(Due {
                    at: piece.crossing(user),
                    index: session * self.users + user,
                });
            }
            self.piece += 1;
            self.user = None;
        }
        None
    }

    /// Returns the first user of the share from `from` on.
    fn first_from(&self, from: u64) -> u64 {
        let Share { index, of } = self.share;
        index + from.saturating_sub(index).div_ceil(of) * of
    }

    /// Returns the operation after `index` of the same user, unless the user has left by `at`.
    pub(super) fn next_of_worker(&self, index: u64, at: u64) -> Option<u64> {
        let (number, user) = (index / self.users, index % self.users);
        let (operation, session) = (number / self.sessions, number % self.sessions);
        (operation + 1 < self.ops && at < self.leaves(user, session))
            .then(|| index.checked_add(self.stride()))
            .flatten()
    }

    /// Returns the difference between the indices of two operations of one session of a user.
    pub(super) fn stride(&self) -> u64 {
        self.users * self.sessions
    }

    /// Returns when a session of a user ends.
    fn leaves(&self, user: u64, session: u64) -> u64 {
        let mut falls = self.pieces.iter().filter(|piece| piece.stops_in(user));
        let end = falls.nth(session as usize);
        end.map_or(self.end_ns, |piece| piece.crossing(user))
    }
}

/// Counts how often the curve begins to rise.
fn rises(pieces: &[UserPiece]) -> u64 {
    let (mut rises, mut rising) = (0, false);
    for piece in pieces.iter().filter(|piece| piece.from != piece.to) {
        let up = piece.from < piece.to;
        rises += u64::from(up && !rising);
        rising = up;
    }
    rises
}
