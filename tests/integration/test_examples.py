"""The examples run as they are."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from tests.integration.network import HEAD_AND_TWO_EDGES, brokers

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.py"))
WORDS = {
    "quakes": "off Tohoku",
    "change_filter": "above 10: 20",
    "blocking": "[3, 4, 5]",
    "advertise": "events refused",
    "guaranteed": "alarm 1\nnobody listens\nalarm 2\nalarm 3\nalarm 4\n",
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path, tmp_path: Path) -> None:
    async def run() -> str:
        nodes = [{**node, "store": str(tmp_path / str(place))} for place, node in enumerate(HEAD_AND_TWO_EDGES)]
        async with brokers(*nodes) as (head, _, _):
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(example), head.address, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(process.communicate(), 30)
            assert process.returncode == 0
            return out.decode()

    assert WORDS[example.stem] in asyncio.run(run())
