//! Engine.IO and Socket.IO packets, the former against engineioxide-core.

use engineioxide_core::{OpenPacket, Packet, ProtocolVersion, Sid};
use harness_testing::rows;
use presence_load::protocol::ProtocolError;
use presence_load::protocol::packet::{
    EnginePacket, Open, SocketPacket, split_event, write_connect,
};
use proptest::{prop_assert, prop_assert_eq, proptest};

/// Returns the packet as engineioxide writes it.
fn written(packet: EnginePacket<'_>) -> String {
    String::from(match packet {
        EnginePacket::Open(_) => Packet::Open(OpenPacket::default()),
        EnginePacket::Close => Packet::Close,
        EnginePacket::Ping("probe") => Packet::PingUpgrade,
        EnginePacket::Ping(_) => Packet::Ping,
        EnginePacket::Pong("probe") => Packet::PongUpgrade,
        EnginePacket::Pong(_) => Packet::Pong,
        EnginePacket::Message(text) => Packet::Message(text.to_owned().into()),
        EnginePacket::Upgrade => Packet::Upgrade,
        EnginePacket::Noop => Packet::Noop,
    })
}

#[test]
fn every_packet_of_engineioxide_is_read_as_what_it_is() {
    let open = String::from(Packet::Open(OpenPacket::default()));
    let packets = [
        EnginePacket::Open(&open[1..]),
        EnginePacket::Close,
        EnginePacket::Ping(""),
        EnginePacket::Ping("probe"),
        EnginePacket::Pong(""),
        EnginePacket::Pong("probe"),
        EnginePacket::Message("2[\"a\"]"),
        EnginePacket::Upgrade,
        EnginePacket::Noop,
    ];
    for packet in packets {
        assert_eq!(EnginePacket::parse(&written(packet)), Ok(packet));
    }
}

#[test]
fn an_open_packet_has_its_times_in_milliseconds() {
    let packet = OpenPacket {
        sid: Sid::new(),
        max_payload: 1234,
        ..OpenPacket::default()
    };
    let text = String::from(Packet::Open(packet.clone()));
    let open = Open::parse(&text[1..]).unwrap();
    let expected = Open {
        sid: packet.sid.to_string().into(),
        ping_interval_ms: 25_000,
        ping_timeout_ms: 20_000,
        max_payload: 1234,
        can_upgrade: true,
    };
    assert_eq!(open, expected);
    let without =
        r#" {"upgrades" : [ ] , "pingTimeout":1,"pingInterval":2,"x":[{}],"sid":"\u0061"} "#;
    let open = Open::parse(without).unwrap();
    assert_eq!(
        (&*open.sid, open.max_payload, open.can_upgrade),
        ("a", 0, false)
    );
    for wrong in [
        "",
        "[]",
        "{}",
        "{\"sid\":\"a\"}",
        "{\"sid\":\"a\",\"pingInterval\":-1,\"pingTimeout\":2}",
    ] {
        assert_eq!(Open::parse(wrong), Err(ProtocolError::Open), "{wrong}");
    }
}

#[test]
fn a_socket_packet_has_its_namespace_id_and_data() {
    let table = r#"
        0{"sid":"a"} => Connect / none {"sid":"a"}
        0/custom,{} => Connect /custom none {}
        1 => Disconnect / none
        1/custom => Disconnect /custom none
        2["a",1] => Event / none ["a",1]
        212["a"] => Event / 12 ["a"]
        2/n,7["a,/"] => Event /n 7 ["a,/"]
        30[] => Ack / 0 []
        4{"message":"no"} => ConnectError / none {"message":"no"}
        52-/n,3[{}] => BinaryEvent /n 3 [{}]
        61-9[{}] => BinaryAck / 9 [{}]
    "#;
    for (text, expected) in rows(table) {
        let packet = SocketPacket::parse(text).unwrap();
        let id = packet.id.map_or("none".to_owned(), |id| id.to_string());
        let (kind, namespace) = (packet.kind, packet.namespace);
        let found = format!("{kind:?} {namespace} {id} {}", packet.data);
        assert_eq!(found.trim_end(), expected[0], "{text}");
    }
    let wrong = [
        "",
        "7",
        "x",
        "é",
        "3[]",
        "2{}",
        "2",
        "5[\"a\"]",
        "5-[\"a\"]",
        "5x-[]",
        "54294967296-[\"a\"]",
        "299999999999999999999[\"a\"]",
    ];
    for text in wrong {
        assert_eq!(
            SocketPacket::parse(text),
            Err(ProtocolError::SocketPacket),
            "{text}"
        );
    }
}

#[test]
fn the_name_of_an_event_is_split_from_its_arguments() {
    let (name, arguments) = split_event(" [ \"a\\tb\" , {\"c\":1}] ").unwrap();
    assert_eq!(name.as_deref(), Some("a\tb"));
    assert_eq!(arguments.rest(), " , {\"c\":1}] ");
    let (name, arguments) = split_event("[ -1.5,2]").unwrap();
    assert_eq!((name, arguments.rest()), (None, ",2]"));
    for wrong in ["", "{}", "[]", "[null]", "[-]", "[\"a"] {
        assert!(split_event(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_connection_is_one_digit_and_its_authentication() {
    let mut out = Vec::new();
    write_connect(&mut out, "");
    write_connect(&mut out, "{}");
    assert_eq!(out, b"00{}");
}

proptest! {
    #[test]
    fn packets_that_the_client_takes_engineioxide_takes_too(text in "[0-7b]?\\PC{0,8}") {
        let theirs = Packet::parse(ProtocolVersion::V4, text.clone());
        match EnginePacket::parse(&text) {
            Ok(EnginePacket::Open(_)) => {}
            // It takes a payload of a ping for none.
            Ok(EnginePacket::Ping(payload) | EnginePacket::Pong(payload)) if !matches!(payload, "" | "probe") => {}
            Ok(packet) => prop_assert_eq!(String::from(theirs.unwrap()), written(packet)),
            // It does not look behind the type of these.
            Err(_) if matches!(theirs, Ok(Packet::Close | Packet::Upgrade | Packet::Noop)) => prop_assert!(text.len() > 1),
            // Binary packets come with polling only, and are taken apart there.
            Err(_) => prop_assert!(theirs.is_err() || text.starts_with('b')),
        }
    }

    #[test]
    fn no_text_panics(text in "[0-6]?[0-9/,\\[\\]{}\":\\\\a-]{0,20}") {
        let _ = SocketPacket::parse(&text);
        let _ = presence_load::protocol::presence::Incoming::parse(&text);
        let _ = Open::parse(&text);
    }
}
