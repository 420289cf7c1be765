//! The messages of a stream: a bit for each, in pieces that are dropped once all of their messages have ended.

use roaring::RoaringTreemap;

/// Messages per piece: 512 octets, and each stream keeps at least one. With 64 Ki messages per piece, 50,000 producers
/// would take 400 MB, and twice that with a warm-up.
pub(super) const PIECE: u64 = 1 << 12;
/// Words per piece.
const WORDS: usize = PIECE as usize / 64;
/// Maximum messages of a stream: 6.9e10, a day at 800,000 per second. A greater number is invalid.
pub(super) const MOST: u64 = PIECE << 24;

/// The ended messages of a stream.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pieces: Vec<Piece>,
    /// Messages written, once its producer has finished; `None` if another process publishes it.
    pub(super) published: Option<u64>,
    pub(super) settled: u64,
    /// Exclusive upper bound of the messages that the broker may have refused: it closed their channel or connection,
    /// and they were not to be confirmed.
    pub(super) refusable_below: u64,
}

#[derive(Debug, Default)]
enum Piece {
    #[default]
    Empty,
    Some {
        bits: Box<[u64; WORDS]>,
        set: u16,
    },
    All,
}

impl Stream {
    /// Sets a message's bit. Returns true if it was not set before.
    pub(super) fn settle(&mut self, sequence: u64) -> bool {
        let (piece, index) = ((sequence / PIECE) as usize, sequence % PIECE);
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, Piece::default);
        }
        let fresh = self.pieces[piece].set(index);
        self.settled += u64::from(fresh);
        fresh
    }

    /// Returns an exclusive upper bound of the messages whose bit is set.
    pub(super) fn end(&self) -> u64 {
        self.pieces.len() as u64 * PIECE
    }

    /// Returns true if a message's bit is set.
    pub(super) fn is_settled(&self, sequence: u64) -> bool {
        let (piece, index) = ((sequence / PIECE) as usize, sequence % PIECE);
        match self.pieces.get(piece) {
            None | Some(Piece::Empty) => false,
            Some(Piece::Some { bits, .. }) => bits[(index / 64) as usize] & 1 << (index % 64) != 0,
            Some(Piece::All) => true,
        }
    }

    /// Returns how many messages have not ended that the broker may have refused.
    pub(super) fn refusable(&self) -> u64 {
        match self.refusable_below {
            0 => 0,
            below => below - self.all_settled().rank(below - 1),
        }
    }

    /// Returns the messages whose bit is set.
    pub(super) fn all_settled(&self) -> RoaringTreemap {
        let mut all = RoaringTreemap::new();
        for (piece, first) in self.pieces.iter().zip((0..).step_by(PIECE as usize)) {
            match piece {
                Piece::Empty => {}
                Piece::Some { bits, .. } => {
                    for (word, from) in bits.iter().zip((first..).step_by(64)) {
                        let mut left = *word;
                        while left != 0 {
                            all.insert(from + u64::from(left.trailing_zeros()));
                            left &= left - 1;
                        }
                    }
                }
                Piece::All => drop(all.insert_range(first..first + PIECE)),
            }
        }
        all
    }
}

impl Piece {
    fn set(&mut self, index: u64) -> bool {
        if matches!(self, Self::Empty) {
            *self = Self::Some {
                bits: Box::new([0; WORDS]),
                set: 0,
            };
        }
        let Self::Some { bits, set } = self else {
            return false;
        };
        let (word, bit) = (&mut bits[(index / 64) as usize], 1 << (index % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        *set += 1;
        if u64::from(*set) == PIECE {
            *self = Self::All;
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_is_dropped_once_all_of_its_messages_have_ended() {
        let mut stream = Stream::default();
        assert!((0..PIECE).all(|message| stream.settle(message)));
        assert!(matches!(stream.pieces[..], [Piece::All]));
    }
}
