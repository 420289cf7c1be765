//! Frames of HTTP/2 as text. A unit test reads them too.

/// Reads frames such as `HEADERS 4 1 88 5c 01 "4" + DATA 9 1 03 "x" 00*3`: types, flags, streams, and payloads of bytes and
/// text. The flags are END_STREAM (1), END_HEADERS (4) and PADDED (8). After `raw` there are only bytes and text.
pub(crate) fn frames(text: &str) -> Vec<u8> {
    const KINDS: &str = "DATA HEADERS PRIORITY RST_STREAM SETTINGS PUSH_PROMISE PING GOAWAY WINDOW_UPDATE CONTINUATION";
    let number = |word: &str| u8::from_str_radix(word, 16).unwrap();
    let bytes = |word: &&str| match word.strip_prefix('"') {
        Some(text) => text.trim_end_matches('"').into(),
        None => {
            let (byte, count) = word.split_once('*').unwrap_or((word, "1"));
            vec![number(byte); count.parse().unwrap()]
        }
    };
    let frame = |text: &str| -> Vec<u8> {
        let words: Vec<&str> = text.split(' ').collect();
        if words[0] == "raw" {
            return words[1..].iter().flat_map(bytes).collect();
        }
        let kind = KINDS.split(' ').position(|kind| kind == words[0]);
        let kind = kind.map_or_else(|| number(words[0]), |kind| kind as u8);
        let payload: Vec<u8> = words[3..].iter().flat_map(bytes).collect();
        let length = &payload.len().to_be_bytes()[5..];
        let head = [kind, number(words[1]), 0, 0, 0, number(words[2])];
        [length, &head, &payload].concat()
    };
    let texts = text.split(" + ").filter(|text| !text.is_empty());
    texts.flat_map(frame).collect()
}
