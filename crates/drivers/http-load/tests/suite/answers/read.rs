//! Feeds a reader and records its results.

use load::net::http1::{Answer, Reader, RequestInfo, ResponseError, Sink};

/// Status, body, and whether the connection persists.
pub(crate) type Content = (u16, Vec<u8>, bool);

/// The recorded results of a response.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) result: Result<Answer, ResponseError>,
    /// Number of bytes of the response; 0 if it has a fault, since the bytes before it depend on the cuts.
    pub(crate) used: usize,
    /// True if the result needed the end of the connection.
    pub(crate) ended: bool,
    /// Status and number of fields of each head.
    heads: Vec<(u16, usize)>,
    body: Vec<u8>,
}

impl Seen {
    pub(crate) fn outcome(&self) -> Result<Content, ResponseError> {
        let answer = self.result?;
        assert_eq!(answer.body, self.body.len() as u64, "counted and given");
        assert_eq!(self.heads.len(), 1, "heads: {:?}", self.heads);
        assert_eq!(answer.status, self.heads[0].0);
        Ok((answer.status, self.body.clone(), answer.keep_alive))
    }

    pub(crate) fn outcome_by_kind(&self) -> Result<Content, &'static str> {
        self.outcome().map_err(ResponseError::kind)
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

/// Reads the pieces until the response is done or has a fault; the connection is closed after the last one.
pub(crate) fn read(asked: RequestInfo, pieces: &[&[u8]]) -> Seen {
    let mut kept = Kept::default();
    let (result, used, ended) = feed(asked, pieces, &mut kept);
    Seen {
        result,
        used: if result.is_ok() { used } else { 0 },
        // The time at which a fault is noticed may depend on the cuts.
        ended: ended && result.is_ok(),
        heads: kept.heads,
        body: kept.body,
    }
}

fn feed(
    asked: RequestInfo,
    pieces: &[&[u8]],
    kept: &mut Kept,
) -> (Result<Answer, ResponseError>, usize, bool) {
    let mut reader = Reader::new();
    let mut used = 0;
    for piece in pieces {
        match reader.take(asked, piece, kept) {
            Err(fault) => return (Err(fault), used, false),
            Ok(progress) => {
                used += progress.used;
                if let Some(answer) = progress.done {
                    return (Ok(answer), used, false);
                }
                assert_eq!(progress.used, piece.len());
            }
        }
    }
    (reader.end(), used, true)
}

/// Splits the bytes at some positions.
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
