//! The driver's own mark inside a state.

use crate::protocol::ProtocolError;
use crate::protocol::json::Scanner;

/// The driver's own mark inside a state: `{"n": sequence, "t": nanoseconds}`.
///
/// Node and Python servers pass integers below 2^53 unchanged. Nanoseconds of `CLOCK_MONOTONIC` exceed that after 104
/// days.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// The sequence number of the change among its user's changes.
    pub n: u64,
    /// The intended start of the change: nanoseconds of `CLOCK_MONOTONIC`.
    pub t: u64,
}

impl Stamp {
    /// Scans a state: an object, or `null`. Returns its stamp if it has both numbers, and the number of letters that
    /// are added to it if there is nothing else in the object.
    #[inline]
    pub(crate) fn scan(
        state: &mut Scanner<'_>,
    ) -> Result<(Option<Self>, Option<u32>), ProtocolError> {
        if state.take_null()? {
            return Ok((None, None));
        }
        let (mut n, mut t, mut padding) = (None, None, Some(0));
        state.object(|key, value| {
            let number = match key {
                "n" => &mut n,
                "t" => &mut t,
                "p" if value.peek() == b'"' => {
                    let text = value.string()?;
                    let is_padding = text.bytes().all(|byte| byte == b'x');
                    padding = padding.filter(|_| is_padding).map(|_| text.len() as u32);
                    return Ok(());
                }
                _ => {
                    padding = None;
                    return value.value().map(drop);
                }
            };
            // The state of another program may have anything there.
            *number = match value.peek() {
                b'0'..=b'9' => value.integer()?,
                _ => value.value().map(|_| None)?,
            };
            Ok(())
        })?;
        Ok((n.zip(t).map(|(n, t)| Self { n, t }), padding))
    }
}
