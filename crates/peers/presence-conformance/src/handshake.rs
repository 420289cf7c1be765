//! The handshake of Engine.IO 4: its queries, and the open packet that answers it.

use std::time::Duration;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use crate::expect::{array, number, text};

/// The query of a handshake over a WebSocket.
pub(crate) const WEBSOCKET: &str = "EIO=4&transport=websocket";
/// The query of a handshake over polling.
pub(crate) const POLLING: &str = "EIO=4&transport=polling";

/// The data of an open packet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Handshake {
    pub(crate) sid: String,
    pub(crate) upgrades: Vec<String>,
    pub(crate) ping_interval: Duration,
    pub(crate) ping_timeout: Duration,
    pub(crate) max_payload: u64,
}

impl Handshake {
    /// Parses an open packet, `0{…}`. Every field must be there.
    pub(crate) fn parse(packet: &str) -> anyhow::Result<Self> {
        let json = packet.strip_prefix('0');
        let json = json.with_context(|| format!("{packet:?} is no open packet"))?;
        let value: Value = serde_json::from_str(json).context("the data of the open packet")?;
        let upgrades = array(&value, "/upgrades")?.iter();
        let upgrades = upgrades.map(|upgrade| text(upgrade, "").map(str::to_owned));
        let handshake = Self {
            sid: text(&value, "/sid")?.to_owned(),
            upgrades: upgrades.collect::<anyhow::Result<_>>()?,
            ping_interval: Duration::from_millis(number(&value, "/pingInterval")?),
            ping_timeout: Duration::from_millis(number(&value, "/pingTimeout")?),
            max_payload: number(&value, "/maxPayload")?,
        };
        ensure!(!handshake.sid.is_empty(), "an empty sid");
        Ok(handshake)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_packet_without_one_of_its_fields_is_an_error() {
        let whole = r#"0{"sid":"a","upgrades":["websocket"],"pingInterval":300,"pingTimeout":200,"maxPayload":1000}"#;
        let handshake = Handshake::parse(whole).unwrap();
        assert_eq!(handshake.ping_interval.as_millis(), 300);
        assert_eq!(handshake.upgrades, ["websocket"]);
        for field in [
            "sid",
            "upgrades",
            "pingInterval",
            "pingTimeout",
            "maxPayload",
        ] {
            let error = Handshake::parse(&whole.replace(field, "other")).unwrap_err();
            assert!(error.to_string().contains(field), "{error}");
        }
        assert!(Handshake::parse(&whole[1..]).is_err());
    }
}
