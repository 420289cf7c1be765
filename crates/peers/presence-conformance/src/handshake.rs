//! The handshake of Engine.IO 4: its queries, and the open packet that answers it.

use anyhow::Context as _;
use serde_json::{Value, json};

use crate::pattern::{Variables, fits};

/// The query of a handshake over a WebSocket.
pub(crate) const WEBSOCKET: &str = "EIO=4&transport=websocket";
/// The query of a handshake over polling.
pub(crate) const POLLING: &str = "EIO=4&transport=polling";

/// Returns a query in which the name of a transport at the beginning stands for its query.
pub(crate) fn query(text: &str) -> String {
    for query in [WEBSOCKET, POLLING] {
        let (_, name) = query.rsplit_once('=').expect("a query has a value");
        if let Some(rest) = text.strip_prefix(name) {
            return format!("{query}{rest}");
        }
    }
    text.to_owned()
}

/// Parses an open packet, `0{…}`, and returns its data.
///
/// # Errors
/// The packet does not open a session, or one of its fields is missing.
pub(crate) fn parse(packet: &str) -> anyhow::Result<Value> {
    let json = packet.strip_prefix('0');
    let json = json.with_context(|| format!("{packet:?} is not an open packet"))?;
    let value: Value = serde_json::from_str(json).context("the data of the open packet")?;
    let fields = json!({
        "sid": "?!=", "upgrades": "?!=", "pingInterval": "?>0", "pingTimeout": "?>0", "maxPayload": "?>0"
    });
    fits(&fields, &value, false, &mut Variables::new())?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_packet_without_one_of_its_fields_is_an_error() {
        let whole = r#"0{"sid":"a","upgrades":["websocket"],"pingInterval":300,"pingTimeout":200,"maxPayload":1000}"#;
        assert_eq!(parse(whole).unwrap()["pingInterval"], 300);
        for field in [
            "sid",
            "upgrades",
            "pingInterval",
            "pingTimeout",
            "maxPayload",
        ] {
            let error = parse(&whole.replace(field, "other")).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
        assert!(parse(&whole[1..]).is_err());
    }
}
