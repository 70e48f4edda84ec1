"""Operators at a secured network: what they are told when they may not look, and when it is not secured at all."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import tidewire
from tests.integration.network import brokers
from tests.integration.secured import Installation
from tests.integration.test_commands import WAIT_S, free_ports, process_with, running, says, told
from tidewire.live.operate import status_of
from tidewire.model.errors import Unavailable
from tidewire.model.messages import VERSION, Hello
from tidewire.wire.frames import message_frame


def findings(document: dict[str, Any], check: str) -> list[tuple[str, str]]:
    return [(one["level"], one["message"]) for one in document["findings"] if one["check"] == check]


def shown_to_people(*arguments: str, folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "tidewire", *arguments],
        capture_output=True,
        text=True,
        cwd=folder,
        timeout=WAIT_S,
        check=False,
    )
    return done.stdout + done.stderr


def test_doctor_says_what_the_matter_is_with_a_token(tmp_path: Path) -> None:
    port = free_ports(6)
    where = f"127.0.0.1:{port}"
    with running("up", "--secure", "--port", str(port), folder=tmp_path) as up:
        up.until(says("tidewire is up"))
        healthy = told("doctor", folder=tmp_path)
        assert healthy["problems"] == 0
        assert [level for level, _ in findings(healthy, "port")] == ["ok"] * 6
        assert f"port {port + 4} is that of tidewire console" in findings(healthy, "port")[4][1]
        told("token", "create", "blind", "--publish", "*", "--out", "blind.token", folder=tmp_path)
        told("token", "create", "gone", "--all", "--out", "gone.token", folder=tmp_path)
        told("token", "create", "late", "--all", "--expires", "1s", "--out", "late.token", folder=tmp_path)
        told("token", "revoke", "gone", folder=tmp_path)
        (tmp_path / "garbage.token").write_text("nothing of ours")
        for name, says_why in [
            ("blind", "blind lacks the permission to observe"),
            ("gone", "has been revoked"),
            ("late", "has expired"),
            ("garbage", "damaged, or is none of ours"),
        ]:
            until = monotonic() + WAIT_S
            while monotonic() < until:  # a second may pass until it has expired, or until the brokers know
                soon = told("doctor", "--token-file", f"{name}.token", folder=tmp_path, code=None)
                found = findings(soon, "answers")  # two, while one broker knows and another does not
                if len(found) == 1 and says_why in found[0][1]:
                    break
            sick = told("doctor", "--token-file", f"{name}.token", folder=tmp_path, code=3)
            ((level, message),) = findings(sick, "answers")
            assert level == "problem"
            assert says_why in message
            ports = findings(sick, "port")
            assert len(ports) == 6
            assert all(level == "ok" and "is that of tidewire" in message for level, message in ports[:5])
        clear = told("doctor", "--at", f"tidewire://{where}", folder=tmp_path, code=3)
        assert f"tidewires://{where}" in findings(clear, "answers")[0][1]
        assert "edge2" in told("drain", "edge3", folder=tmp_path, code=2)["error"]["message"]
        assert told("drain", "edge1", folder=tmp_path) == {"drained": "edge1"}


def test_who_is_hung_is_seen_as_missing(tmp_path: Path) -> None:
    port = free_ports(5)
    with running("up", "--port", str(port), "--no-console", folder=tmp_path) as up:
        up.until(says("tidewire is up"))
        hung = process_with(f"--name edge2 --listen 127.0.0.1:{port + 2}")
        os.kill(hung, signal.SIGSTOP)
        try:
            up.until(says("neighbour silent", broker="edge2", node="head"))
            until = monotonic() + WAIT_S
            while True:  # the coordinator notices in its own time
                look = told("overlay", "--seconds", "0", "--timeout", "0.5", folder=tmp_path)
                (view,) = look["coordinators"]
                if [one["broker"] for one in view["members"] if not one["is_alive"]] or monotonic() > until:
                    break
            assert [one["broker"] for one in look["silent"]] == ["edge2"]
            for command in (["overlay", "--seconds", "0"], ["top", "--once", "--every", "0.1"]):
                seen = shown_to_people(*command, "--timeout", "0.5", folder=tmp_path)
                assert re.search(rf"edge2.*127.0.0.1:{port + 2}", seen)
            sick = told("doctor", "--timeout", "0.5", folder=tmp_path, code=3)
            assert findings(sick, "vanished")[0][0] == "problem"
            assert ("warning", f"edge2 at 127.0.0.1:{port + 2} has left the coordinator") in findings(
                sick, "coordinator"
            )
        finally:
            os.kill(hung, signal.SIGCONT)


def test_up_says_that_it_is_open_and_that_the_first_token_is_not_good(tmp_path: Path) -> None:
    port = free_ports(3)
    small = ("--port", str(port), "--edges", "0", "--no-console")
    with running("up", "--secure", *small, folder=tmp_path) as up:
        assert up.until(lambda one: one["what"] in ("warning", "tidewire is up"))["what"] == "tidewire is up"
    with running("up", *small, folder=tmp_path) as up:
        warning = up.until(says("warning"))
        assert "this network is open" in warning["why"]
        up.until(says("tidewire is up"))
        sick = told("doctor", folder=tmp_path)
        assert [level for level, message in findings(sick, "security") if "is open" in message] == ["warning"]
    told("token", "revoke", "admin", folder=tmp_path)
    with running("up", "--secure", *small, folder=tmp_path) as up:
        warning = up.until(says("warning"))
        assert "no longer good: the token has been revoked" in warning["why"]
        up.until(says("tidewire is up"))
        advice = warning["why"].split("Make another one: tidewire ")[1].split(" ")
        assert told("overlay", "--seconds", "0", folder=tmp_path, code=2)["error"]["code"] == "not-authenticated"
        told(*advice, folder=tmp_path)
        assert told("overlay", "--seconds", "0", folder=tmp_path)["brokers"]


def test_an_address_of_the_other_kind_is_hinted_at(tmp_path: Path) -> None:
    """In clear to a secured broker, and with TLS to one that is not: by questions and by sessions."""

    async def run() -> None:
        here = Installation(tmp_path / "keys")
        async with here.brokers({}) as (secured,), brokers({}) as (plain,):
            with pytest.raises(Unavailable, match=f"if it is secured, write tidewires://{secured.address}"):
                await status_of(secured.address)
            with pytest.raises(Unavailable, match="if it is secured, write tidewires://"):
                async with tidewire.connect(secured.address, timeout=1.0):
                    pass
            with pytest.raises(Unavailable, match=f"if it is not secured, write tidewire://{plain.address}"):
                await status_of(f"tidewires://{plain.address}")
            with pytest.raises(Unavailable, match=f"if it is not secured, write tidewire://{plain.address}"):
                async with here.connect(plain, here.token(), timeout=3.0):
                    pass

    asyncio.run(run())


def test_nobody_writes_another_line_into_the_log(tmp_path: Path) -> None:
    """A client that is nobody says what it likes of itself; what it says is one line, and no more than seen."""
    port = free_ports(1)
    command = [sys.executable, "-m", "tidewire", "broker", "--listen", f"127.0.0.1:{port}", "--name", "lone"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, cwd=tmp_path) as node:
        assert node.stdout is not None
        try:
            while b"settings" not in node.stdout.readline():
                pass
            evil = "\x1b[2J\x1b]0;mine\x07\nneighbour up  broker forged\u202e"
            with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as connection:
                connection.sendall(message_frame(Hello(version=VERSION, name=evil, uses=["subscribe"])))
                connection.recv(1)
                shown = shown_to_people("top", "--once", "--every", "0.1", "--at", f"127.0.0.1:{port}", folder=tmp_path)
                connection.sendall(b"\x05\0\0\0\x01\xff\xff\xff\xff")
                while connection.recv(4096):
                    pass
        finally:
            node.send_signal(signal.SIGINT)
            told_of = node.stdout.read()
            node.wait(WAIT_S)
    assert b"\x1b" not in told_of
    assert "\x1b" not in shown
    assert not any(line.startswith(b"neighbour up") for line in told_of.splitlines())
