//! The messages of a stream, a bit for each, in pieces that are let go once all of a piece have come to an end.

/// Messages of a piece: 512 octets, which each stream keeps at least one of. With 64 Ki of them 50,000 producers would take 400 MB
/// and, with a warm-up, twice that.
pub(super) const PIECE: u64 = 1 << 12;
/// Words of a piece.
const WORDS: usize = PIECE as usize / 64;
/// Messages of a stream: 6.9e10, a day at 800,000 a second. A greater number is nobody's.
pub(super) const MOST: u64 = PIECE << 24;

/// The messages of a stream: which have come to an end.
#[derive(Debug, Default)]
pub(super) struct Stream {
    pieces: Vec<Piece>,
    pub(super) published: u64,
    pub(super) settled: u64,
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
    /// Sets a message's bit; whether it was not set.
    pub(super) fn settle(&mut self, sequence: u64) -> bool {
        let (piece, place) = ((sequence / PIECE) as usize, sequence % PIECE);
        if piece >= self.pieces.len() {
            self.pieces.resize_with(piece + 1, Piece::default);
        }
        let fresh = self.pieces[piece].set(place);
        self.settled += u64::from(fresh);
        fresh
    }
}

#[cfg(test)]
impl Stream {
    /// Whether all of its pieces were let go.
    pub(super) fn keeps_nothing(&self) -> bool {
        self.pieces.iter().all(|piece| matches!(piece, Piece::All))
    }
}

impl Piece {
    fn set(&mut self, place: u64) -> bool {
        if matches!(self, Self::Empty) {
            *self = Self::Some {
                bits: Box::new([0; WORDS]),
                set: 0,
            };
        }
        let Self::Some { bits, set } = self else {
            return false;
        };
        let (word, bit) = (&mut bits[(place / 64) as usize], 1 << (place % 64));
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
