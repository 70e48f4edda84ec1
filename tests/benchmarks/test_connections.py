"""Many connections, and some that mean harm, at a live broker."""

import asyncio
import subprocess
import sys
import time

import msgspec
import pytest

from tests.benchmarks.servers import serving
from tidewire.benchmarks import connections
from tidewire.benchmarks.connections import Plan, Report, run
from tidewire.model.errors import Unavailable, UsageError


def test_a_crowd_a_flow_and_an_attack_are_measured() -> None:
    plan = Plan(
        connections=60, attackers=20, newcomers=6, newcomers_per_s=100.0, rounds=6, turn_s=0.05, idle_s=0.5,
        heartbeat_s=0.1, rate=500.0, subscribers=2,
    )  # fmt: skip
    report = run(plan)
    crowd, attack = report.crowd, report.attack
    assert (crowd.connections, crowd.ended) == (60, 0)
    assert crowd.connects_per_s > 0
    assert crowd.connect_cpu_us > 0
    assert crowd.idle_cpu > 0, "sixty that are pinged ten times a second are not for nothing"
    assert report.alone.lost == report.beside_crowd.lost == 0
    assert 0 < attack.during.p50_ms <= attack.during.max_ms
    assert report.cpu.low <= report.cpu.median <= report.cpu.high
    assert msgspec.json.decode(msgspec.json.encode(report), type=Report) == report


def test_attackers_send_byte_by_byte_and_come_back() -> None:
    got: list[bytes] = []

    async def end_after_two(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.append(await reader.readexactly(1))
        got.append(await reader.readexactly(1))

    with serving(end_after_two) as port:
        command = [sys.executable, "-m", "tidewire.benchmarks.loris", str(port), "3", "0.02"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as attack:
            assert attack.stdin is not None
            assert attack.stdout is not None
            assert attack.stdout.readline() == "connected\n"
            until = time.monotonic() + 20
            while len(got) < 12 and time.monotonic() < until:
                time.sleep(0.01)
            attack.stdin.close()
            assert int(attack.stdout.readline()) >= 3
    assert len(got) >= 12, "they come back"
    assert got[:2] in ([b"\x00", b"\x10"], [b"\x00", b"\x00"])


def test_without_enough_open_files_it_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "allow_many_files", lambda: 1_000)
    with pytest.raises(Unavailable, match="ulimit -n"):
        run(Plan())


def test_a_plan_needs_enough_rounds() -> None:
    with pytest.raises(UsageError, match="6 rounds"):
        Plan(rounds=5)
