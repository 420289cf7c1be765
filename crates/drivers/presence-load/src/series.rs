//! Indices of the series in the [specification](crate::spec).

use measure::tally::Series;

/// Time from the intended start of a heartbeat to its acknowledgement.
pub(crate) const HEARTBEAT: Series = Series(0);
/// Time from sending a heartbeat to its acknowledgement.
pub(crate) const SERVICE: Series = Series(1);
/// Time from the intended start of a heartbeat to the receipt of its event by another member of the room.
pub(crate) const PROPAGATION: Series = Series(2);
/// Time from the first packet of TCP to the connected namespace.
pub(crate) const CONNECT: Series = Series(3);
/// Time from sending a join to its acknowledgement.
pub(crate) const JOIN: Series = Series(4);
/// Time from sending a leave to its acknowledgement.
pub(crate) const LEAVE: Series = Series(5);
/// Time from the loss of a connection to the acknowledgement of the next join of its user.
pub(crate) const RECONNECT: Series = Series(6);
