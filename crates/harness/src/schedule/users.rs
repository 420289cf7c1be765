//! Users of a closed loop whose number follows a curve: who begins when, and until when he goes on.

use super::{Due, Share, UserStage, nanoseconds, proportion};

/// The users of one share, in the order of their beginnings. User j begins when the curve reaches j + 1 and goes on
/// until it falls below that; when it rises again he begins again, which is another stint of his.
///
/// Operation m of stint s of user j has the index `(m * stints + s) * users + j`: unique over the run, and telling whose
/// it is, so that nobody is remembered. Where the curve rises once, these are the indices of a plain closed loop.
#[derive(Debug)]
pub(super) struct Users {
    pieces: Vec<Piece>,
    /// Most at once, over the whole.
    users: u64,
    /// Most stints of one user.
    stints: u64,
    /// Operations of a stint.
    pub(super) ops: u64,
    end_ns: u64,
    share: Share,
    /// Where the beginnings stand: a piece, and the user of the share who begins next in it.
    piece: usize,
    user: Option<u64>,
}

/// A stage, and what lies before it.
#[derive(Debug, Clone, Copy)]
struct Piece {
    begin_ns: u64,
    over_ns: u64,
    from: u64,
    to: u64,
}

impl Piece {
    /// Whether user `user` begins in it.
    fn begins(&self, user: u64) -> bool {
        (self.from..self.to).contains(&user)
    }

    /// Whether he leaves in it.
    fn ends(&self, user: u64) -> bool {
        (self.to..self.from).contains(&user)
    }

    /// When the curve passes `user + 1`, on its way up or down; not for one whom it does not pass.
    fn passes(&self, user: u64) -> u64 {
        let (passed, of) = match self.from < self.to {
            true => (user + 1 - self.from, self.to - self.from),
            false => (self.from - user - 1, self.from - self.to),
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
            let piece = Piece {
                begin_ns,
                over_ns,
                from,
                to: stage.users,
            };
            from = stage.users;
            begin_ns = begin_ns.saturating_add(over_ns);
            piece
        };
        let pieces: Vec<Piece> = stages.iter().map(piece).collect();
        let users = stages.iter().map(|stage| stage.users).max().unwrap_or(0);
        Self {
            // Nobody has more stints than the curve has rises after a fall.
            stints: rises(&pieces).max(1),
            pieces,
            users: users.max(1),
            ops: u64::MAX,
            end_ns: begin_ns,
            share,
            piece: 0,
            user: None,
        }
    }

    /// The next beginning of the share.
    pub(super) fn next(&mut self) -> Option<Due> {
        if self.ops == 0 {
            return None;
        }
        while let Some(piece) = self.pieces.get(self.piece) {
            let user = self.user.unwrap_or_else(|| self.first_from(piece.from));
            if piece.begins(user) {
                self.user = user.checked_add(self.share.of);
                let before = self.pieces[..self.piece].iter();
                let stint = before.filter(|piece| piece.begins(user)).count() as u64;
                return Some(Due {
                    at: piece.passes(user),
                    index: stint * self.users + user,
                });
            }
            self.piece += 1;
            self.user = None;
        }
        None
    }

    /// The first user of the share from `from` on.
    fn first_from(&self, from: u64) -> u64 {
        let Share { index, of } = self.share;
        index + from.saturating_sub(index).div_ceil(of) * of
    }

    /// The operation after `index` of the same user, unless he has left by `at`.
    pub(super) fn following(&self, index: u64, at: u64) -> Option<u64> {
        let (number, user) = (index / self.users, index % self.users);
        let (operation, stint) = (number / self.stints, number % self.stints);
        (operation + 1 < self.ops && at < self.leaves(user, stint))
            .then(|| index.checked_add(self.users * self.stints))
            .flatten()
    }

    /// When a stint of a user ends.
    fn leaves(&self, user: u64, stint: u64) -> u64 {
        let mut ends = self.pieces.iter().filter(|piece| piece.ends(user));
        let end = ends.nth(stint as usize);
        end.map_or(self.end_ns, |piece| piece.passes(user))
    }
}

/// How often the curve begins to rise.
fn rises(pieces: &[Piece]) -> u64 {
    let (mut rises, mut rising) = (0, false);
    for piece in pieces.iter().filter(|piece| piece.from != piece.to) {
        let up = piece.from < piece.to;
        rises += u64::from(up && !rising);
        rising = up;
    }
    rises
}
