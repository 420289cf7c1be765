//! The series.

use measure::spec::SeriesRole::{Detail, Headline, Main};
use measure::spec::SeriesSpec;

measure::series! {
    /// Time from the intended start of a heartbeat to its acknowledgement.
    HEARTBEAT = SeriesSpec::with_note(
        "heartbeat",
        "heartbeat",
        Headline,
        "The time of a heartbeat is measured from the instant at which it was due to its acknowledgement; the service time from sending; propagation from the instant at which it was due to the receipt of the event by each other member of the room.",
    );
    /// Time from sending a heartbeat to its acknowledgement.
    SERVICE = SeriesSpec::new("service", Main);
    /// Time from the intended start of a heartbeat to the receipt of its event by another member of the room.
    PROPAGATION = SeriesSpec::new("propagation", Main);
    /// Time from the first packet of TCP to the connected namespace.
    CONNECT = SeriesSpec::new("connect", Main);
    /// Time from sending a join to its acknowledgement.
    JOIN = SeriesSpec::new("join", Main);
    /// Time from sending a leave to its acknowledgement.
    LEAVE = SeriesSpec::new("leave", Detail);
    /// Time from the loss of a connection to the acknowledgement of the next join of its user.
    RECONNECT = SeriesSpec::new("reconnect", Detail);
}
