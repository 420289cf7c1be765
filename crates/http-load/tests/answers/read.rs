//! Feeds a reader and keeps all that it says.

use http_load::answer::{Answer, Asked, Fault, Reader, Sink};

/// Status, content, whether the connection lives on.
pub(crate) type Content = (u16, Vec<u8>, bool);

/// All that was said of an answer.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) result: Result<Answer, Fault>,
    /// Bytes of the answer; 0 where it has a fault, since those before it depend on the cuts.
    pub(crate) used: usize,
    /// Whether it took the end of the connection to tell.
    pub(crate) ended: bool,
    /// Status and number of fields of each head.
    heads: Vec<(u16, usize)>,
    body: Vec<u8>,
}

impl Seen {
    pub(crate) fn outcome(&self) -> Result<Content, Fault> {
        let answer = self.result?;
        assert_eq!(answer.body, self.body.len() as u64, "counted and given");
        assert_eq!(self.heads.len(), 1, "heads: {:?}", self.heads);
        assert_eq!(answer.status, self.heads[0].0);
        Ok((answer.status, self.body.clone(), answer.keep_alive))
    }

    pub(crate) fn outcome_by_kind(&self) -> Result<Content, &'static str> {
        self.outcome().map_err(Fault::kind)
    }
}

#[derive(Default)]
struct Kept {
    heads: Vec<(u16, usize)>,
    body: Vec<u8>,
}

impl Sink for Kept {
    fn head(&mut self, status: u16, headers: &[httparse::Header<'_>]) {
        self.heads.push((status, headers.len()));
    }

    fn body(&mut self, piece: &[u8]) {
        assert!(!piece.is_empty());
        self.body.extend_from_slice(piece);
    }
}

/// Reads the pieces until the answer is done or has a fault; after the last, the connection is closed.
pub(crate) fn read(asked: Asked, pieces: &[&[u8]]) -> Seen {
    let mut kept = Kept::default();
    let (result, used, ended) = feed(asked, pieces, &mut kept);
    Seen {
        result,
        used: if result.is_ok() { used } else { 0 },
        // When a fault is noticed may depend on the cuts.
        ended: ended && result.is_ok(),
        heads: kept.heads,
        body: kept.body,
    }
}

fn feed(asked: Asked, pieces: &[&[u8]], kept: &mut Kept) -> (Result<Answer, Fault>, usize, bool) {
    let mut reader = Reader::new();
    let mut used = 0;
    for piece in pieces {
        match reader.take(asked, piece, kept) {
            Err(fault) => return (Err(fault), used, false),
            Ok(progress) => {
                used += progress.used;
                if let Some(answer) = progress.done {
                    assert!(reader.is_untouched());
                    return (Ok(answer), used, false);
                }
                assert_eq!(progress.used, piece.len());
                assert_eq!(reader.is_untouched(), used == 0);
            }
        }
    }
    (reader.end(), used, true)
}

/// The bytes, cut at some places.
pub(crate) fn cut<'a>(bytes: &'a [u8], at: &[proptest::sample::Index]) -> Vec<&'a [u8]> {
    let mut at: Vec<usize> = at.iter().map(|at| at.index(bytes.len() + 1)).collect();
    at.sort_unstable();
    let mut pieces = Vec::new();
    let mut from = 0;
    for to in at.into_iter().chain([bytes.len()]) {
        pieces.push(&bytes[from..to]);
        from = to;
    }
    pieces
}
