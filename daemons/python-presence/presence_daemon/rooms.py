"""The rooms with their members and sequence numbers, in memory."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True)
class Member:
    """A connection that is in a room."""

    conn_id: str
    room_id: str
    user_id: str
    state: dict[str, Any]
    epoch: int
    last_seen_ms: int

    def shown(self) -> dict[str, Any]:
        """Returns the member as it stands in a snapshot."""
        return {
            "connId": self.conn_id,
            "userId": self.user_id,
            "state": self.state,
            "lastSeenMs": self.last_seen_ms,
            "epoch": self.epoch,
        }


@dataclass(slots=True)
class Room:
    """A room with at least one member."""

    seq: int = 0
    """Number of the last event."""
    members: dict[str, Member] = field(default_factory=dict)
    """By connection."""

    def next_seq(self) -> int:
        """Counts an event."""
        self.seq += 1
        return self.seq


class Rooms:
    """All rooms. A room exists as long as it has members, and so does its sequence."""

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms
        self._rooms: dict[str, Room] = {}
        self._members: dict[str, Member] = {}

    def __len__(self) -> int:
        return len(self._members)

    def member(self, conn_id: str) -> Member | None:
        """Returns the member that a connection is."""
        return self._members.get(conn_id)

    def room(self, room_id: str) -> Room | None:
        """Returns the room if anybody is in it."""
        return self._rooms.get(room_id)

    def put(self, member: Member) -> Room:
        """Adds a member to its room, or replaces it there."""
        room = self._rooms.setdefault(member.room_id, Room())
        room.members[member.conn_id] = member
        self._members[member.conn_id] = member
        return room

    def remove(self, member: Member) -> Room:
        """Removes a member. The returned room may be empty and gone."""
        room = self._rooms[member.room_id]
        del room.members[member.conn_id]
        del self._members[member.conn_id]
        if not room.members:
            del self._rooms[member.room_id]
        return room

    def is_expired(self, member: Member, now_ms: int) -> bool:
        """Returns true if the member's TTL has passed."""
        return member.last_seen_ms <= now_ms - self._ttl_ms

    def expired(self, now_ms: int, room_id: str | None = None) -> Iterator[Member]:
        """Returns the members of one room, or of all, whose TTL has passed. They may be removed meanwhile."""
        room = Room(members=self._members) if room_id is None else self._rooms.get(room_id, Room())
        return iter([member for member in room.members.values() if self.is_expired(member, now_ms)])
