"""Puts the parts together: HTTP pages, Socket.IO, the presence protocol, and the search for expired members."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator

import socketio
from aiohttp import web
from engineio.payload import Payload

from presence_daemon import strict_json
from presence_daemon.metrics import Metrics
from presence_daemon.options import Config
from presence_daemon.presence import Presence
from presence_daemon.rooms import Rooms

_log = logging.getLogger(__name__)

_BACKLOG = 65_535
_CLOSE_GRACE_S = 1.0
# The library disconnects a client whose POST has more packets than its default of 16. The official client sends all
# that it has buffered. `max_http_buffer_size` still limits the bytes.
_MAX_PACKETS_OF_A_POST = 10_000


@contextlib.asynccontextmanager
async def running(config: Config) -> AsyncIterator[int]:
    """Serves until the end of the block, and returns the port. Clients are disconnected so that they reconnect."""
    Payload.max_decode_packets = _MAX_PACKETS_OF_A_POST
    # A connection's requests are carried out in order; no handler waits for anything but a queue.
    sio = socketio.AsyncServer(async_mode="aiohttp", async_handlers=False, json=strict_json)
    rooms, metrics = Rooms(config.ttl_ms), Metrics()
    presence = Presence(sio, rooms, metrics)
    app = web.Application()
    sio.attach(app)

    async def healthz(_: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def metrics_page(_: web.Request) -> web.Response:
        text = metrics.render(connections_open=_open_count(sio), members=len(rooms))
        return web.Response(body=text.encode(), headers={"Content-Type": "text/plain; version=0.0.4; charset=utf-8"})

    app.router.add_get("/healthz", healthz)
    app.router.add_get("/metrics", metrics_page)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_CLOSE_GRACE_S)
    await runner.setup()
    site = web.TCPSite(runner, config.host, config.port, backlog=_BACKLOG)
    try:
        await site.start()
        reaper = asyncio.create_task(_expire_regularly(presence, config.reaper_interval_ms / 1000))
        try:
            yield runner.addresses[0][1]
        finally:
            reaper.cancel()
            await site.stop()
            await _disconnect_all(sio)
    finally:
        await runner.cleanup()
        await sio.shutdown()


def _open_count(sio: socketio.AsyncServer) -> int:
    """Counts connections. The library removes closed ones only now and then."""
    return sum(not connection.closed for connection in sio.eio.sockets.values())


async def _expire_regularly(presence: Presence, interval_s: float) -> None:
    while True:
        await asyncio.sleep(interval_s)
        try:
            await presence.expire()
        except Exception:
            _log.exception("expiring members failed")


async def _disconnect_all(sio: socketio.AsyncServer) -> None:
    """Ends all connections without a Socket.IO disconnect packet, after which clients would not reconnect.

    The sockets themselves are closed with the HTTP server, after its grace time if clients leave them open.
    """
    for connection in list(sio.eio.sockets.values()):
        await connection.close(wait=False)
