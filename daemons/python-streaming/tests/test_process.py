"""The daemon as a process: signals, sockets, limits, exit codes."""

from __future__ import annotations

import os
import re
import signal
import socket
import stat
import subprocess
from pathlib import Path

import pytest
from support import (
    ANSWER_BYTES,
    FOLDER,
    PAYLOAD,
    TIMEOUT_S,
    Process,
    client_pair,
    command_line,
    is_closed_by_peer,
    pass_on,
    read_all,
    wait_until,
)

uvloop = pytest.mark.parametrize("uvloop", [True, False], ids=["uvloop", "asyncio"])


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs the daemon with arguments that make it exit by itself."""
    environment = {"PATH": os.environ["PATH"], **variables}
    command = command_line(*arguments)
    return subprocess.run(
        command, cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )


@uvloop
def test_sigterm_under_load_loses_no_stream(tmp_path: Path, uvloop: bool) -> None:
    with Process(tmp_path, "--benchmark", "--message-delay", "20ms", uvloop=uvloop) as daemon:
        clients, was_asked = [], False
        try:
            while True:
                clients.append(daemon.hand_over())
                if len(clients) == 300:
                    daemon.terminate()
                    was_asked = True
        except (ConnectionRefusedError, FileNotFoundError):
            assert was_asked
        assert {len(read_all(client)) for client in clients} == {ANSWER_BYTES}
        assert len(clients) >= 300
        started = len(clients)
        lines = dict(line.split(": ") for line in daemon.output().splitlines())
        assert int(lines.pop("peak concurrent")) > 100
        assert lines == {
            "started": str(started),
            "completed": str(started),
            "failed": "0",
            "bytes": str(started * ANSWER_BYTES),
        }
        assert not daemon.path.exists()


@uvloop
def test_streams_open_after_the_grace_period_are_closed(tmp_path: Path, uvloop: bool) -> None:
    with Process(tmp_path, "-d", "3600000", "--shutdown-grace", "50ms", "--benchmark", uvloop=uvloop) as daemon:
        silent = daemon.connect()
        client = daemon.hand_over()
        assert client.recv(1) == b"H"
        daemon.terminate()
        assert b"[DONE]" not in read_all(client)
        assert is_closed_by_peer(silent)
        silent.close()
        assert "failed: 1\n" in daemon.output()


def test_a_second_signal_ends_the_daemon_at_once(tmp_path: Path) -> None:
    with Process(tmp_path, "--message-delay", "1h", "--shutdown-grace", "1h") as daemon:
        client = daemon.hand_over()
        assert client.recv(1) == b"H"
        daemon.terminate()
        wait_until("the first signal was heard", lambda: not daemon.path.exists())
        daemon.child.send_signal(signal.SIGINT)
        read_all(client)
        daemon.output()


def test_handoffs_that_wait_in_the_accept_queue_are_served_after_sigterm(tmp_path: Path) -> None:
    with Process(tmp_path) as daemon:
        daemon.child.send_signal(signal.SIGSTOP)
        clients = [daemon.hand_over() for _ in range(50)]
        daemon.terminate()
        daemon.child.send_signal(signal.SIGCONT)
        assert {len(read_all(client)) for client in clients} == {ANSWER_BYTES}
        daemon.output()


def test_the_socket_has_the_mode_that_was_asked_for(tmp_path: Path) -> None:
    for mode in ("600", "0660", "0o666"):
        with Process(tmp_path, "-m", mode, shell="umask 077;") as daemon:
            assert stat.S_IMODE(daemon.path.stat().st_mode) == int(mode, 8)
            daemon.terminate()
            daemon.output()


def test_a_second_daemon_is_refused_and_a_stale_socket_is_replaced(tmp_path: Path) -> None:
    with Process(tmp_path) as first:
        second = run("--socket", str(first.path), "--benchmark")
        assert (second.returncode, "another process is listening on" in second.stderr) == (1, True)
        assert len(first.answer()) == ANSWER_BYTES
        first.child.kill()
        first.child.wait()
        assert first.path.exists()
    with Process(tmp_path) as third:
        assert len(third.answer()) == ANSWER_BYTES


def test_a_socket_file_of_another_process_is_not_removed(tmp_path: Path) -> None:
    with Process(tmp_path) as daemon:
        daemon.path.unlink()
        daemon.path.write_text("precious")
        daemon.terminate()
        daemon.output()
        assert daemon.path.read_text() == "precious"


def test_the_backlog_is_limited_by_the_system(tmp_path: Path) -> None:
    granted = min(int(Path("/proc/sys/net/core/somaxconn").read_text()), 300)
    with Process(tmp_path) as daemon:
        daemon.child.send_signal(signal.SIGSTOP)
        clients = []
        for _ in range(granted):
            with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sender:
                sender.setblocking(False)
                sender.connect(str(daemon.path))
                ours, theirs = client_pair()
                with theirs:
                    pass_on(sender, PAYLOAD, [theirs])
                clients.append(ours)
        daemon.child.send_signal(signal.SIGCONT)
        assert {len(read_all(client)) for client in clients} == {ANSWER_BYTES}


def test_the_daemon_raises_its_limit_of_open_files(tmp_path: Path) -> None:
    with Process(tmp_path, shell="ulimit -S -n 50;") as daemon:
        limits = Path(f"/proc/{daemon.child.pid}/limits").read_text()
        soft, hard = re.search(r"Max open files +(\d+) +(\d+)", limits).groups()
        assert soft == hard != "50"


def test_more_streams_than_descriptors_are_answered_503(tmp_path: Path) -> None:
    """The limit of open files limits the streams if it is lower: 100 - 64."""
    with Process(tmp_path, "--message-delay", "1h", shell="ulimit -n 100;") as daemon:
        held = [daemon.hand_over() for _ in range(36)]
        assert all(client.recv(1) == b"H" for client in held)
        assert daemon.answer().startswith(b"HTTP/1.1 503 ")
        for client in held:
            client.close()


def test_a_burst_above_the_limit_loses_no_client(tmp_path: Path) -> None:
    """The reserved descriptors must suffice for the clients that are turned away: 164 - 64 slots."""
    with Process(tmp_path, "--message-delay", "1h", shell="ulimit -n 164;") as daemon:
        daemon.child.send_signal(signal.SIGSTOP)
        clients = [daemon.hand_over() for _ in range(300)]
        daemon.child.send_signal(signal.SIGCONT)
        answers = [client.recv(12)[9:] for client in clients]
        assert (answers.count(b"200"), answers.count(b"503")) == (100, 200)
        for client in clients:
            client.close()
        assert "descriptor" not in daemon.log.read_text()


@uvloop
def test_after_a_client_is_lost_for_lack_of_descriptors_the_others_wait_in_the_queue(
    tmp_path: Path, uvloop: bool
) -> None:
    with Process(tmp_path, "--message-delay", "0", shell="ulimit -n 80;", uvloop=uvloop) as daemon:
        daemon.answer()  # After this the descriptors of the readiness probe are closed.
        # One descriptor is free: enough for a connection, but not for its client.
        silent = []
        while (before := open_below(80, daemon)) < 79:
            silent.append(daemon.connect())
            wait_until("it was accepted", lambda before=before: open_below(80, daemon) > before)
        daemon.child.send_signal(signal.SIGSTOP)
        clients = [daemon.hand_over() for _ in range(200)]
        daemon.child.send_signal(signal.SIGCONT)
        assert read_all(clients[0]) == b""
        for sender in silent:
            sender.close()
        answers = [read_all(client) for client in clients[1:]]
        assert all(answer.startswith(b"HTTP/1.1 ") for answer in answers if answer)
        assert answers.count(b"") < 100


@uvloop
def test_accepting_pauses_without_free_descriptors_and_resumes_later(tmp_path: Path, uvloop: bool) -> None:
    with Process(tmp_path, shell="ulimit -n 80;", uvloop=uvloop) as daemon:
        silent = [daemon.connect() for _ in range(100)]
        folder = Path(f"/proc/{daemon.child.pid}/fd")
        wait_until("it has run out", lambda: len(list(folder.iterdir())) >= 80)
        before = cpu_ticks(daemon.child.pid)
        # An accepted sender sends: no descriptor is free for its client, and both are closed.
        ours, theirs = client_pair()
        with theirs:
            pass_on(silent[0], PAYLOAD, [theirs])
        assert read_all(ours) == b""
        assert is_closed_by_peer(silent[0])
        for sender in silent:
            sender.close()
        assert len(daemon.answer()) == ANSWER_BYTES
        # Spinning would use a whole core during the wait.
        assert cpu_ticks(daemon.child.pid) - before < 50
        assert "raise the limit of open files" in daemon.log.read_text()


def open_below(limit: int, daemon: Process) -> int:
    """Returns the number of open descriptors below a limit. The shell may have passed on descriptors above it."""
    folder = Path(f"/proc/{daemon.child.pid}/fd")
    return sum(os.path.lexists(folder / str(number)) for number in range(limit))


def cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_an_unusable_socket_path_or_address_is_reported(tmp_path: Path) -> None:
    for arguments, word in (
        (["--socket", "/tmp/" + "x" * 200, "--benchmark"], "107 bytes"),
        (["--socket", "/no/such/folder/a.sock", "--benchmark"], "/no/such/folder"),
        (["--socket", "/dev/null", "--benchmark"], "is not a socket"),
        (["--socket", str(tmp_path / "a.sock"), "--metrics-addr", "192.0.2.1:1"], "DAEMON_METRICS_ADDR"),
    ):
        result = run(*arguments)
        assert (result.returncode, word in result.stderr) == (1, True), result.stderr
        assert len(result.stderr.splitlines()) == 1, "an explanation, not a traceback"


def test_usage_errors_exit_with_2_and_a_remedy() -> None:
    result = run("--message-delay", "5")
    assert result.returncode == 2
    assert all(word in result.stderr for word in ("--message-delay", "DAEMON_MESSAGE_DELAY", "50ms"))


def test_workers_are_accepted_with_a_warning_that_they_have_no_effect(tmp_path: Path) -> None:
    with Process(tmp_path, "-w", "4") as daemon:
        assert "--workers (DAEMON_WORKERS) has no effect" in daemon.log.read_text()
        assert len(daemon.answer()) == ANSWER_BYTES
        assert len(list(Path(f"/proc/{daemon.child.pid}/task").iterdir())) == 1


def test_the_version_goes_to_stdout() -> None:
    result = run("--version")
    assert (result.returncode, result.stdout.startswith("streaming-daemon ")) == (0, True)
