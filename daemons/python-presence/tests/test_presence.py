"""The protocol, as clients see it."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import pytest
from support import FAR, Client, connected, serving

from presence_daemon.main import loop_factory


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(test())


def seqs(events: list[dict[str, Any]]) -> list[int]:
    return [event["seq"] for event in events]


def test_a_joiner_gets_the_snapshot_with_itself_and_its_own_join_with_the_seq_of_the_snapshot() -> None:
    async def check() -> None:
        async with serving() as url, connected(url, 2) as (ann, bob):
            before = time.time_ns() // 1_000_000
            first = await ann.join("r", "ann", state={"a": 1})
            shown = first["snapshot"][0]
            assert before <= shown.pop("lastSeenMs") <= time.time_ns() // 1_000_000
            epoch = first["self"]["epoch"]
            assert epoch >= before
            assert first == {
                "ok": True,
                "seq": 1,
                "self": {"connId": ann.conn_id, "epoch": epoch},
                "snapshot": [{"connId": ann.conn_id, "userId": "ann", "state": {"a": 1}, "epoch": epoch}],
            }
            second = await bob.join("r", "bob")
            assert second["seq"] == 2
            assert [member["userId"] for member in second["snapshot"]] == ["ann", "bob"]
            (own,) = await bob.received(1)
            assert isinstance(own.pop("ts"), int)
            assert own == {
                "type": "join",
                "roomId": "r",
                "userId": "bob",
                "connId": bob.conn_id,
                "state": {},
                "epoch": second["self"]["epoch"],
                "seq": 2,
            }
            assert seqs(await ann.received(2)) == [1, 2]

    run(check)


def test_a_heartbeat_publishes_an_update_only_if_it_changes_a_value_with_the_whole_merged_state() -> None:
    async def check() -> None:
        async with serving() as url, connected(url) as (client,):
            joined = await client.join("r", "ann", state={"a": {"b": 1}, "c": [1]})
            epoch = joined["self"]["epoch"]
            assert await client.heartbeat() == {"ok": True, "changed": False, "epoch": epoch}
            same = await client.heartbeat(patchState={"a": {"b": 1}, "c": [1]}, epoch=epoch)
            assert same["changed"] is False
            assert (await client.heartbeat(patchState={"a": {"d": 2}}))["changed"] is True
            # To Python, True == 1.
            assert (await client.heartbeat(patchState={"c": [True]}))["changed"] is True
            updates = (await client.received(3))[1:]
            assert [update["state"] for update in updates] == [
                {"a": {"d": 2}, "c": [1]},
                {"a": {"d": 2}, "c": [True]},
            ]
            assert seqs(updates) == [2, 3]

    run(check)


def test_the_same_room_again_replaces_the_state_raises_the_epoch_and_publishes_a_join() -> None:
    async def check() -> None:
        async with serving() as url, connected(url) as (client,):
            first = await client.join("r", "ann", state={"a": 1})
            second = await client.join("r", "ann", state={"b": 1})
            assert second["self"]["epoch"] > first["self"]["epoch"]
            assert [member["state"] for member in second["snapshot"]] == [{"b": 1}]
            assert [event["type"] for event in await client.received(2)] == ["join", "join"]
            assert (await client.heartbeat(epoch=first["self"]["epoch"]))["code"] == "stale_epoch"

    run(check)


def test_every_leave_is_told_to_the_others_with_its_reason_and_not_to_the_leaver() -> None:
    async def check() -> None:
        async with serving(ttl_ms=400) as url, connected(url, 4) as (watcher, leaver, cut, silent):
            await watcher.join("r", "watcher")
            alive = asyncio.create_task(keep_alive(watcher))
            await leaver.join("r", "leaver")
            assert await leaver.leave() == {"ok": True}
            assert await leaver.leave() == {"ok": True}
            await cut.join("r", "cut")
            await cut.sio.disconnect()
            await silent.join("r", "silent")
            events = await watcher.received(7)
            alive.cancel()
            leaves = [event for event in events if event["type"] == "leave"]
            assert [(leave["userId"], leave["reason"], leave["state"]) for leave in leaves] == [
                ("leaver", "leave", None),
                ("cut", "disconnect", None),
                ("silent", "expired", None),
            ]
            assert seqs(events) == [1, 2, 3, 4, 5, 6, 7]
            assert [event["type"] for event in leaver.events] == ["join"]
            assert (await silent.heartbeat())["code"] == "expired"
            assert (await silent.join("r", "silent"))["ok"]
            assert (await silent.heartbeat())["ok"]

    run(check)


def test_an_event_that_is_older_than_a_leave_comes_before_its_answer() -> None:
    async def check() -> None:
        async with serving() as url, aiohttp.ClientSession() as session, AsyncExitStack() as stack:
            sockets = []
            for index in range(40):
                socket = await stack.enter_async_context(
                    session.ws_connect(f"{url}/socket.io/?EIO=4&transport=websocket")
                )
                await socket.send_str("40")
                await socket.send_str(f'421["presence:join",{{"roomId":"r{index // 2}","userId":"u{index}"}}]')
                await until_answer(socket, "431")
                sockets.append(socket)
            for socket in sockets:
                await socket.send_str('422["presence:leave",null]')
            told = [await until_answer(socket, "432") for socket in sockets]
            # Of two members who leave at once, the one whose leave is second is told of the first.
            assert sum('"type":"leave"' in frame for frames in told for frame in frames) == 20

    run(check)


def test_a_member_past_its_ttl_is_in_no_snapshot_and_has_expired_even_before_the_search() -> None:
    async def check() -> None:
        async with serving(ttl_ms=50, reaper_interval_ms=FAR) as url, connected(url, 2) as (late, other):
            joined = await late.join("r", "late")
            while time.time_ns() // 1_000_000 <= joined["snapshot"][0]["lastSeenMs"] + 60:
                await asyncio.sleep(0)
            snapshot = (await other.join("r", "other"))["snapshot"]
            assert [member["userId"] for member in snapshot] == ["other"]
            assert (await late.heartbeat())["code"] == "expired"

    run(check)


def test_wrong_requests_are_refused_with_a_code() -> None:
    async def check() -> None:
        async with serving() as url, connected(url) as (client,):
            wrong = [
                (await client.request("presence:join", None), "invalid_argument", "the argument"),
                (await client.request("presence:join", {"userId": "u"}), "invalid_argument", "roomId"),
                (await client.join("", "u"), "invalid_argument", "roomId"),
                (await client.join("r", "ü" * 101), "invalid_argument", "userId"),
                (await client.join("r", "u", state=[]), "invalid_argument", "state"),
                (await client.heartbeat(patchState=1), "invalid_argument", "patchState"),
                (await client.heartbeat(epoch=-1), "invalid_argument", "epoch"),
                (await client.heartbeat(epoch=True), "invalid_argument", "epoch"),
                (await client.heartbeat(), "not_joined", "join"),
            ]
            epoch = (await client.join("r", "u"))["self"]["epoch"]
            wrong += [
                (await client.join("other", "u"), "already_joined", "leave it first"),
                (await client.heartbeat(epoch=epoch + 1), "stale_epoch", str(epoch)),
                (await client.heartbeat(epoch=epoch - 1), "stale_epoch", str(epoch)),
            ]
            for answer, code, part in wrong:
                assert (answer["ok"], answer["code"]) == (False, code)
                assert part in answer["error"]

    run(check)


def test_requests_without_an_acknowledgement_and_many_at_once_are_carried_out_in_order() -> None:
    async def check() -> None:
        async with serving() as url, connected(url) as (client,):
            await client.sio.emit("presence:join", {"roomId": "r", "userId": "u"})
            for n in range(50):
                await client.sio.emit("presence:heartbeat", {"patchState": {"n": n}})
            events = await client.received(51)
            assert [event["state"].get("n") for event in events] == [None, *range(50)]
            assert seqs(events) == list(range(1, 52))

    run(check)


@pytest.mark.parametrize("transports", [["polling"], ["polling", "websocket"]])
def test_the_protocol_also_works_over_polling_and_with_an_upgrade(transports: list[str]) -> None:
    async def check() -> None:
        async with serving() as url, connected(url, 1, transports) as (client,), connected(url) as (other,):
            await client.join("r", "u")
            await other.join("r", "v")
            assert (await other.heartbeat(patchState={"n": 1}))["changed"]
            assert seqs(await client.received(3)) == [1, 2, 3]

    run(check)


def test_a_post_may_have_more_packets_than_the_library_allows_by_default() -> None:
    async def check() -> None:
        async with serving() as url, connected(url) as (watcher,), aiohttp.ClientSession() as session:
            await watcher.join("r", "watcher")
            address = f"{url}/socket.io/?EIO=4&transport=polling"
            handshake = await (await session.get(address)).text()
            address += f"&sid={json.loads(handshake[1:])['sid']}"
            await session.post(address, data="40")
            packets = ['42["presence:join",{"roomId":"r","userId":"u"}]']
            packets += [f'42["presence:heartbeat",{{"patchState":{{"n":{n}}}}}]' for n in range(50)]
            assert (await session.post(address, data="\x1e".join(packets))).status == 200
            assert seqs(await watcher.received(52)) == list(range(1, 53))

    run(check)


@pytest.mark.parametrize("value", ["NaN", "1e999", "[" * 100_000])
def test_what_only_python_can_read_does_not_reach_other_clients(value: str) -> None:
    async def check() -> None:
        async with serving() as url, connected(url) as (client,), aiohttp.ClientSession() as session:
            await client.join("r", "u")
            async with session.ws_connect(f"{url}/socket.io/?EIO=4&transport=websocket") as socket:
                await socket.receive()
                await socket.send_str("40")
                await socket.receive()
                await socket.send_str('42["presence:join",{"roomId":"r","userId":"v","state":{"a":' + value + "}}]")
                await socket.send_str('42["presence:join",{"roomId":"r","userId":"w"}]')
                events = await client.received(2)
            assert [event["userId"] for event in events[:2]] == ["u", "w"]

    run(check)


def test_the_metrics_page_counts_connections_members_requests_events_and_deliveries() -> None:
    async def check() -> None:
        async with serving() as url, connected(url, 2) as (ann, bob), aiohttp.ClientSession() as session:
            await ann.join("r", "ann")
            await bob.join("r", "bob")
            await ann.heartbeat(patchState={"n": 1})
            await ann.leave()
            await bob.received(3)
            page = await (await session.get(f"{url}/metrics")).text()
            lines = page.splitlines()
            for line in (
                "presence_connections_open 2",
                "presence_members 1",
                "presence_joins_total 2",
                "presence_heartbeats_total 1",
                "presence_leaves_total 1",
                "presence_events_total 4",
                # Ann's join to her, Bob's join and the update to both, the leave to Bob.
                "presence_deliveries_total 6",
                "# TYPE presence_joins_total counter",
            ):
                assert line in lines
            assert (await session.get(f"{url}/healthz")).status == 200

    run(check)


async def until_answer(socket: aiohttp.ClientWebSocketResponse, answer: str) -> list[str]:
    """Returns the frames that come before an answer."""
    frames = []
    while not (frame := await socket.receive_str(timeout=20)).startswith(answer):
        frames.append(frame)
    return frames


async def keep_alive(client: Client) -> None:
    while True:
        await client.heartbeat()
        await asyncio.sleep(0.05)
