"""The warning system whose cable breaks: what it shows, and that it ends what it began."""

from __future__ import annotations

import asyncio
import gzip
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from tidewire.benchmarks.data import BUOY_FILE, load_buoy
from tidewire.cli.demo_tsunami import _act, _picture, _show_end
from tidewire.cli.tsunami_scene import DEMAND, LINE_BYTES_S, SERVICES, Act, Publisher, Readings, Scene, ServiceSeen
from tidewire.model.errors import UsageError

READINGS = Readings([(0.0, 0.1), (60.0, -0.1)], [(7.1, "off the coast")])


def test_a_buoy_is_read_or_generated(tmp_path: Path) -> None:
    """Real records when they are there; the same generated ones else."""
    assert load_buoy(tmp_path).origin == "generated"
    assert load_buoy(tmp_path) == load_buoy(tmp_path)
    (tmp_path / BUOY_FILE).write_bytes(gzip.compress(b"-900.0 0.01\n0.0 -0.25\n"))
    assert load_buoy(tmp_path) == ([(-900.0, 0.01), (0.0, -0.25)], "real")
    (tmp_path / BUOY_FILE).write_bytes(gzip.compress(b"tsunami\n"))
    with pytest.raises(UsageError, match="pairs of numbers"):
        load_buoy(tmp_path)


def test_what_is_published_is_three_times_what_the_lines_carry() -> None:
    """Each class has its share; warnings are worth most (epeer §1.1, Eq 8)."""
    publishers = [Publisher(one, number) for one in SERVICES for number in range(len(one.words))]
    assert sum(one.share for one in SERVICES) == pytest.approx(1)
    rates = sum(1 / one._every_s for one in publishers)
    assert rates * 600 == pytest.approx(DEMAND * LINE_BYTES_S)
    worth = {(one.service.name, one.number): one.utility for one in publishers}
    assert worth["warning", 0] == 1.0
    assert worth["social", 1] == 0.0
    assert all(0 <= one <= 1 for one in worth.values())


def test_what_people_see_fits_a_terminal() -> None:
    """80 columns."""
    out = Console(width=80, record=True, file=StringIO())
    scene = Scene(READINGS, is_epeer=True)
    scene.recent["warning"].extend([(0.0, 0.2), (0.0, 9.0)])
    out.print(_picture(scene, "With ePEER"))
    seen = ServiceSeen(offered=1000, held_back=200, delivered=3000, late=10, p99_s=1.5, missing=0)
    act = Act(
        is_epeer=True,
        services={one.name: seen for one in SERVICES},
        experience=0.5,
        utility_s=1234.5,
        limited_after_s=2.0,
        lifted_after_s=None,
    )
    _show_end(out, [act, act])
    text = out.export_text()
    assert "warning" in text
    assert "1,234" in text
    assert all(len(line) <= 80 for line in text.splitlines())
    scene._end()


def test_with_epeer_warnings_go_through_and_all_processes_end() -> None:
    """epeer §2.10, live: the least valuable gives way, and nothing is left behind."""
    scenes: list[Scene] = []
    begin = Scene.begin

    async def noted(self: Scene) -> None:
        scenes.append(self)
        await begin(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scene, "begin", noted)
        act = asyncio.run(_act(Console(quiet=True), READINGS, is_epeer=True, seconds=15.0))
    assert act.services["warning"].held_back == 0
    assert act.services["social"].held_back > act.services["social"].offered / 2
    assert act.limited_after_s is not None
    assert all(process._process.poll() is not None for process in scenes[0]._processes)
    assert not scenes[0]._folder.exists()
