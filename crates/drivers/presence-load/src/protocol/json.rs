//! A scanner of JSON values (RFC 8259) that allocates nothing, except for strings with escapes. It reads what every event
//! has, and leaves the rest to serde_json.
//!
//! Derived types of serde_json that borrow their text take 13,700 instructions for an acknowledgement and two events, and
//! this scanner 8,700. A heartbeat in a room of two, 17,800 in all, would take 28 % more.

use std::borrow::Cow;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use super::ProtocolError;

const WRONG: ProtocolError = ProtocolError::Json;

/// Reads one value after the other from a text.
#[derive(Debug, Clone)]
pub struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Creates a scanner at the beginning of a text.
    #[must_use]
    pub fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// Skips white space and returns the next byte without consuming it; 0 at the end.
    #[inline]
    pub fn peek(&mut self) -> u8 {
        match self.text.as_bytes().get(self.at) {
            Some(byte) if *byte > b' ' => *byte,
            _ => self.peek_behind_space(),
        }
    }

    fn peek_behind_space(&mut self) -> u8 {
        let rest = &self.text.as_bytes()[self.at..];
        let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        self.at += rest.iter().take_while(is_space).count();
        self.text.as_bytes().get(self.at).copied().unwrap_or(0)
    }

    /// Consumes a byte of punctuation if it comes next.
    #[inline]
    pub fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == byte;
        self.at += usize::from(is_next);
        is_next
    }

    /// Consumes a byte of punctuation.
    ///
    /// # Errors
    /// Something else comes.
    #[inline]
    pub fn expect(&mut self, byte: u8) -> Result<(), ProtocolError> {
        self.take(byte).then_some(()).ok_or(WRONG)
    }

    /// Checks that nothing follows.
    ///
    /// # Errors
    /// Something follows.
    pub fn end(&mut self) -> Result<(), ProtocolError> {
        self.peek();
        (self.at == self.text.len()).then_some(()).ok_or(WRONG)
    }

    /// Returns the text that follows.
    #[must_use]
    pub fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// Reads a string.
    ///
    /// # Errors
    /// Something else comes, or an escape is invalid.
    #[inline]
    pub fn string(&mut self) -> Result<Cow<'a, str>, ProtocolError> {
        self.expect(b'"')?;
        let start = self.at;
        match self.run()? {
            b'"' => {
                self.at += 1;
                Ok(Cow::Borrowed(&self.text[start..self.at - 1]))
            }
            _ => {
                self.at = start - 1;
                self.parse().map(Cow::Owned)
            }
        }
    }

    /// Reads a string, or `null` as `None`.
    ///
    /// # Errors
    /// Something else comes.
    pub fn optional_string(&mut self) -> Result<Option<Cow<'a, str>>, ProtocolError> {
        if self.take_null()? {
            Ok(None)
        } else {
            self.string().map(Some)
        }
    }

    /// Reads an integer of 64 bits without a sign, or `null` as `None`.
    ///
    /// # Errors
    /// Something else comes: a number with a sign, a fraction or an exponent is none.
    #[inline]
    pub fn optional_integer(&mut self) -> Result<Option<u64>, ProtocolError> {
        if self.take_null()? {
            Ok(None)
        } else {
            self.integer()?.map(Some).ok_or(WRONG)
        }
    }

    /// Reads a number. Returns `None` if it is not an integer of 64 bits without a sign.
    ///
    /// # Errors
    /// Something else comes.
    #[inline]
    pub fn integer(&mut self) -> Result<Option<u64>, ProtocolError> {
        self.peek();
        let start = self.at;
        let bytes = self.text.as_bytes();
        let mut value = 0_u64;
        while let Some(digit @ b'0'..=b'9') = bytes.get(self.at) {
            value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
            self.at += 1;
        }
        let digits = self.at - start;
        match bytes.get(self.at) {
            Some(b'-' | b'.' | b'e' | b'E') => {
                self.at = start;
                self.value().map(|_| None)
            }
            _ if digits == 0 || (digits > 1 && bytes[start] == b'0') => Err(WRONG),
            // Numbers of 19 digits are below 2^64.
            _ if digits < 20 => Ok(Some(value)),
            _ => Ok(self.text[start..self.at].parse().ok()),
        }
    }

    /// Reads `true` or `false`.
    ///
    /// # Errors
    /// Something else comes.
    #[inline]
    pub fn boolean(&mut self) -> Result<bool, ProtocolError> {
        match self.peek() {
            b't' => self.word("true").map(|()| true),
            _ => self.word("false").map(|()| false),
        }
    }

    /// Consumes `null` if it comes next.
    ///
    /// # Errors
    /// Another word that begins with `n`.
    #[inline]
    pub fn take_null(&mut self) -> Result<bool, ProtocolError> {
        match self.peek() {
            b'n' => self.word("null").map(|()| true),
            _ => Ok(false),
        }
    }

    /// Reads an object: calls `field` with each key, at its value, which `field` must consume.
    ///
    /// # Errors
    /// Something else comes, or the error of `field`.
    #[inline]
    pub fn object(
        &mut self,
        mut field: impl FnMut(&str, &mut Self) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        self.expect(b'{')?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            let key = self.string()?;
            self.expect(b':')?;
            field(&key, self)?;
            if !self.take(b',') {
                return self.expect(b'}');
            }
        }
    }

    /// Reads an array: calls `element` at each value, which it must consume.
    ///
    /// # Errors
    /// Something else comes, or the error of `element`.
    pub fn array(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), ProtocolError>,
    ) -> Result<(), ProtocolError> {
        self.expect(b'[')?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            element(self)?;
            if !self.take(b',') {
                return self.expect(b']');
            }
        }
    }

    /// Skips a value and returns its text.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn value(&mut self) -> Result<&'a str, ProtocolError> {
        self.peek();
        let start = self.at;
        self.parse::<IgnoredAny>()?;
        Ok(&self.text[start..self.at])
    }

    /// Skips a value and returns its text: as [`value`](Self::value), and faster for a string or an integer.
    ///
    /// # Errors
    /// It is not JSON.
    #[inline]
    pub fn skip(&mut self) -> Result<&'a str, ProtocolError> {
        let next = self.peek();
        let start = self.at;
        match next {
            b'"' => drop(self.string()?),
            b'0'..=b'9' => drop(self.integer()?),
            _ => return self.value(),
        }
        Ok(&self.text[start..self.at])
    }

    /// Reads a value with serde_json: what is rare, and costs more than the rest of an event.
    #[cold]
    fn parse<T: Deserialize<'a>>(&mut self) -> Result<T, ProtocolError> {
        let mut values = serde_json::Deserializer::from_str(self.rest()).into_iter();
        let value = values.next().and_then(Result::ok);
        self.at += values.byte_offset();
        value.ok_or(WRONG)
    }

    #[inline]
    fn word(&mut self, word: &str) -> Result<(), ProtocolError> {
        let is_next = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if is_next { word.len() } else { 0 };
        is_next.then_some(()).ok_or(WRONG)
    }

    /// Moves to the next quote or backslash, and returns it.
    #[inline]
    fn run(&mut self) -> Result<u8, ProtocolError> {
        let bytes = self.text.as_bytes();
        // Eight bytes at a time, as far as none is special.
        while let Some(word) = bytes.get(self.at..).and_then(<[u8]>::first_chunk) {
            let special = special_bytes(u64::from_le_bytes(*word));
            if special != 0 {
                self.at += special.trailing_zeros() as usize / 8;
                return found(bytes[self.at]);
            }
            self.at += 8;
        }
        while let Some(byte) = bytes.get(self.at) {
            if matches!(byte, b'"' | b'\\' | ..0x20) {
                return found(*byte);
            }
            self.at += 1;
        }
        Err(WRONG)
    }
}

/// Sorts what ends a run of ordinary characters: a control character ends it wrongly.
#[inline]
fn found(byte: u8) -> Result<u8, ProtocolError> {
    match byte {
        b'"' | b'\\' => Ok(byte),
        _ => Err(WRONG),
    }
}

/// Returns a word whose lowest set bit is in the first quote, backslash or control character of `word`.
#[inline]
fn special_bytes(word: u64) -> u64 {
    const ONES: u64 = u64::MAX / 0xFF;
    const HIGH: u64 = ONES << 7;
    // A byte below `n` borrows from its high bit; only bytes behind the first such byte can be reported wrongly.
    let below = |word: u64, n: u8| word.wrapping_sub(ONES * u64::from(n)) & !word & HIGH;
    let equals = |byte: u8| below(word ^ (ONES * u64::from(byte)), 1);
    equals(b'"') | equals(b'\\') | below(word, 0x20)
}

/// Appends a number or a string.
#[inline]
pub fn append(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("memory takes every number and string");
}
