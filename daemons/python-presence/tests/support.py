"""Clients that keep what they get, on a server in the same loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import socketio

from presence_daemon.options import Config
from presence_daemon.server import running

TIMEOUT_S = 20
FAR = 1_000_000


class Client:
    """A client with the events that it got."""

    def __init__(self) -> None:
        self.sio = socketio.AsyncClient(reconnection=False)
        self.events: list[dict[str, Any]] = []
        self.disconnected = asyncio.Event()
        self._arrived = asyncio.Condition()
        self.sio.on("presence:event", self._keep)
        self.sio.on("disconnect", lambda _reason: self.disconnected.set())

    @property
    def conn_id(self) -> str:
        """The Socket.IO id of the connection."""
        return self.sio.get_sid()

    async def join(self, room_id: str, user_id: str, **more: Any) -> dict[str, Any]:
        """Joins a room."""
        return await self.request("presence:join", {"roomId": room_id, "userId": user_id, **more})

    async def heartbeat(self, **request: Any) -> dict[str, Any]:
        """Sends a heartbeat."""
        return await self.request("presence:heartbeat", request or None)

    async def leave(self) -> dict[str, Any]:
        """Leaves the room."""
        return await self.request("presence:leave", None)

    async def request(self, event: str, argument: Any) -> dict[str, Any]:
        """Sends a request and returns the answer."""
        return await self.sio.call(event, argument, timeout=TIMEOUT_S)

    async def received(self, count: int) -> list[dict[str, Any]]:
        """Waits until this many events have come, and returns all that have."""
        async with self._arrived, asyncio.timeout(TIMEOUT_S):
            await self._arrived.wait_for(lambda: len(self.events) >= count)
        return self.events

    async def _keep(self, event: dict[str, Any]) -> None:
        async with self._arrived:
            self.events.append(event)
            self._arrived.notify_all()


@contextlib.asynccontextmanager
async def serving(*, ttl_ms: int = 30_000, reaper_interval_ms: int = 20) -> AsyncIterator[str]:
    """Serves on a free port; returns the URL."""
    config = Config(host="127.0.0.1", port=0, ttl_ms=ttl_ms, reaper_interval_ms=reaper_interval_ms)
    async with running(config) as port:
        yield f"http://127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def connected(url: str, count: int = 1, transports: list[str] | None = None) -> AsyncIterator[list[Client]]:
    """Connects clients, and disconnects them at the end."""
    clients: list[Client] = []
    try:
        for _ in range(count):
            client = Client()
            await client.sio.connect(url, transports=transports or ["websocket"])
            clients.append(client)
        yield clients
    finally:
        for client in clients:
            await client.sio.disconnect()
