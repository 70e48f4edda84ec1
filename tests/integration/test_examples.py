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
}


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_example(example: Path) -> None:
    async def run() -> str:
        async with brokers(*HEAD_AND_TWO_EDGES) as (head, _, _):
            process = await asyncio.create_subprocess_exec(
                sys.executable, str(example), head.address, stdout=asyncio.subprocess.PIPE
            )
            out, _ = await asyncio.wait_for(process.communicate(), 30)
            assert process.returncode == 0
            return out.decode()

    assert WORDS[example.stem] in asyncio.run(run())
