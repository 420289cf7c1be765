"""The presence protocol: what the server does on each request, and what the members of a room are told."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import socketio

from presence_daemon.metrics import Metrics
from presence_daemon.requests import Refusal, parse_heartbeat, parse_join
from presence_daemon.rooms import Member, Room, Rooms
from presence_daemon.strict_json import is_equal

_Answer = dict[str, Any]


class Presence:
    """Serves the protocol to the clients of a Socket.IO server.

    Nothing is awaited between a change of a room and the start of its `emit`, so events leave in the order of `seq`.
    """

    def __init__(self, sio: socketio.AsyncServer, rooms: Rooms, metrics: Metrics) -> None:
        self._sio = sio
        self._rooms = rooms
        self._metrics = metrics
        # Of each connection: the last epoch that it was given, and whether its last member has expired.
        self._epochs: dict[str, int] = {}
        self._expired: set[str] = set()
        sio.on("presence:join", self._answering(self._join))
        sio.on("presence:heartbeat", self._answering(self._heartbeat))
        sio.on("presence:leave", self._answering(self._leave))
        sio.on("disconnect", self._disconnect)

    async def expire(self) -> None:
        """Removes members whose TTL has passed, and tells their rooms."""
        await self._expire(None)

    async def _expire(self, room_id: str | None) -> None:
        for member in self._rooms.expired(_now_ms(), room_id):
            # Another task may have been faster while this one was sending.
            if self._rooms.member(member.conn_id) is member and self._rooms.is_expired(member, _now_ms()):
                self._expired.add(member.conn_id)
                await self._remove(member, "expired")

    def _answering(self, action: Callable[[str, Any], Awaitable[_Answer]]) -> Callable[..., Awaitable[_Answer]]:
        async def handle(conn_id: str, request: Any = None, *_: Any) -> _Answer:
            try:
                return await action(conn_id, request)
            except Refusal as refusal:
                return {"ok": False, "error": str(refusal), "code": refusal.code}

        return handle

    async def _join(self, conn_id: str, request: Any) -> _Answer:
        room_id, user_id, state = parse_join(request)
        current = self._rooms.member(conn_id)
        if current and current.room_id != room_id:
            raise Refusal("already_joined", f"the connection is in the room {current.room_id}: leave it first")
        await self._expire(room_id)
        now = _now_ms()
        epoch = max(now, self._epochs.get(conn_id, 0) + 1)
        # Fails if the connection has ended meanwhile.
        await self._sio.enter_room(conn_id, _channel(room_id))
        self._epochs[conn_id] = epoch
        self._expired.discard(conn_id)
        member = Member(conn_id, room_id, user_id, state, epoch, now)
        room = self._rooms.put(member)
        seq = room.next_seq()
        snapshot = [other.shown() for other in room.members.values()]
        self._metrics.joins_total += 1
        await self._publish("join", room, member, seq, {"state": state})
        return {"ok": True, "snapshot": snapshot, "self": {"connId": conn_id, "epoch": epoch}, "seq": seq}

    async def _heartbeat(self, conn_id: str, request: Any) -> _Answer:
        patch, epoch = parse_heartbeat(request)
        now = _now_ms()
        member = self._rooms.member(conn_id)
        if member and self._rooms.is_expired(member, now):
            await self._expire(member.room_id)
            member = None
        if not member:
            if conn_id in self._expired:
                raise Refusal("expired", "the member was removed, because its TTL had passed: join again")
            raise Refusal("not_joined", "join a room first")
        if epoch not in (None, member.epoch):
            raise Refusal("stale_epoch", f"the epoch is {member.epoch}, not {epoch}")
        member.last_seen_ms = now
        self._metrics.heartbeats_total += 1
        # Before the first `await`: the answer belongs to this heartbeat.
        answer = {"ok": True, "changed": _changes(member.state, patch), "epoch": member.epoch}
        if answer["changed"]:
            member.state = member.state | patch
            room = self._rooms.put(member)
            await self._publish("update", room, member, room.next_seq(), {"state": member.state})
        return answer

    async def _leave(self, conn_id: str, _: Any) -> _Answer:
        if member := self._rooms.member(conn_id):
            await self._remove(member, "leave")
        # The library sends events in tasks. Those of earlier events to this client run before the answer.
        await asyncio.sleep(0)
        return {"ok": True}

    async def _disconnect(self, conn_id: str, _: Any) -> None:
        if member := self._rooms.member(conn_id):
            await self._remove(member, "disconnect")
        self._epochs.pop(conn_id, None)
        self._expired.discard(conn_id)

    async def _remove(self, member: Member, reason: str) -> None:
        room = self._rooms.remove(member)
        seq = room.next_seq()
        await self._sio.leave_room(member.conn_id, _channel(member.room_id))
        self._metrics.leaves_total += 1
        await self._publish("leave", room, member, seq, {"state": None, "reason": reason})

    async def _publish(self, kind: str, room: Room, member: Member, seq: int, more: dict[str, Any]) -> None:
        self._metrics.events_total += 1
        self._metrics.deliveries_total += len(room.members)
        event = {
            "type": kind,
            "roomId": member.room_id,
            "userId": member.user_id,
            "connId": member.conn_id,
            "ts": _now_ms(),
            "epoch": member.epoch,
            "seq": seq,
            **more,
        }
        await self._sio.emit("presence:event", event, room=_channel(member.room_id))


def _channel(room_id: str) -> str:
    """Returns the name of the Socket.IO room. Without a prefix, a room could have the name of somebody's own room."""
    return f"room:{room_id}"


def _changes(state: dict[str, Any], patch: dict[str, Any]) -> bool:
    return any(key not in state or not is_equal(state[key], value) for key, value in patch.items())


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
