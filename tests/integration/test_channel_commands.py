"""`tidewire channel` and `tidewire.sync`, beside a broker and a data cluster that run."""

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Flag
from threading import Thread
from typing import Any, Self

import pytest

from tests.channels.emergencies import emergencies
from tests.datacluster.hosting import DataCluster
from tests.integration.network import brokers, until
from tests.integration.test_channels import report
from tidewire import sync
from tidewire.channels.commands import CreateChannel
from tidewire.live.broker import LiveBroker
from tidewire.live.clock import now

OF_TYPE = "create channel of_type(type string) continuous as select r.id from EmergencyReports r where r.type = :type"


class City:
    """A data cluster and a broker, in a thread of their own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._begun = Flag()
        self._thread = Thread(target=self._loop.run_until_complete, args=(self._run(),))
        self.cluster: DataCluster
        self.broker: LiveBroker

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._begun.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._loop.close()

    async def _run(self) -> None:
        async with DataCluster(emergencies()) as self.cluster:
            async with brokers({"data_cluster": self.cluster.address}) as [self.broker]:
                await until(lambda: self.broker.node.core.channels.is_there)
                self._begun.set()
                await self._ending.wait()

    def report(self, *numbers: int) -> None:
        """Fires are reported."""
        self.do(lambda: report(self.cluster, *numbers))

    def do(self, act: Callable[[], None]) -> None:
        """In its thread."""

        async def done() -> None:
            act()

        asyncio.run_coroutine_threadsafe(done(), self._loop).result(30)


@pytest.fixture
def city() -> Iterator[City]:
    """One that runs."""
    with City() as found:
        yield found


async def _run(folder: Path, *arguments: str) -> tuple[int, str, str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tidewire", *arguments, cwd=folder,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode is not None
    return process.returncode, out.decode(), err.decode()


def test_the_life_of_a_channel_on_the_command_line(city: City, tmp_path: Path) -> None:
    """Created, listed, explained, paused, resumed, dropped, for people and as documents."""
    (tmp_path / "of_type.sql").write_text(OF_TYPE)
    there = ["--data-cluster", city.cluster.address]

    def told(*arguments: str) -> Any:
        code, out, err = asyncio.run(_run(tmp_path, "channel", *arguments, *there, "--json"))
        assert code == 0, (out, err)
        return json.loads(out)

    made = told("create", "--file", "of_type.sql")["channel"]
    assert (made["channel"], made["parameters"]) == ("of_type", [{"name": "type", "type": "string"}])
    assert [one["channel"] for one in told("list")["channels"]] == ["of_type"]
    assert "matched by the index" in "\n".join(told("explain", "of_type")["explanation"])
    assert told("explain", OF_TYPE.replace("of_type", "another"))["explanation"][0].startswith("channel another(")
    assert told("pause", "of_type")["channel"]["is_paused"]
    _, shown, _ = asyncio.run(_run(tmp_path, "channel", "list", *there))
    assert "paused" in shown
    assert not told("resume", "of_type")["channel"]["is_paused"]
    assert told("drop", "of_type")["channel"]["channel"] == "of_type"
    code, out, _ = asyncio.run(_run(tmp_path, "channel", "drop", "of_type", *there, "--json"))
    assert (code, json.loads(out)["error"]["code"]) == (2, "unknown-name")
    code, _, err = asyncio.run(_run(tmp_path, "channel", "list", "--data-cluster", "127.0.0.1:9"))
    assert (code, "unavailable" in err) == (2, True)


def test_results_on_the_command_line(city: City, tmp_path: Path) -> None:
    """By a name they come where it was left; a parameter that is none is refused."""
    there = ["--at", city.broker.address, "--json"]
    wanted = ["channel", "subscribe", "of_type", "type=fire", "--name", "ann", *there]
    code, out, err = asyncio.run(_run(tmp_path, "channel", "create", OF_TYPE, "--data-cluster", city.cluster.address))
    assert (code, "of_type is there" in out) == (0, True), err
    with sync.connect(city.broker.address) as wire, wire.channel("of_type", name="ann", type="fire"):
        pass
    city.report(1, 2)
    code, out, err = asyncio.run(_run(tmp_path, "names", *there))
    assert code == 0, (out, err)
    [name] = json.loads(out)["names"]
    assert (name["name"], name["channel"], name["parameters"]) == ("ann", "of_type", {"type": "fire"})
    assert name["behind_s"] > 0
    code, out, _ = asyncio.run(_run(tmp_path, "names", *there[:-1]))
    assert "the channel of_type(type=fire)" in out
    code, out, err = asyncio.run(_run(tmp_path, *wanted, "--count", "2"))
    assert code == 0, (out, err)
    documents = [json.loads(line) for line in out.splitlines()]
    assert [one["rows"] for one in documents] == [
        [{"row": {"id": number}, "origins": [[f"{3:016x}", number]]}] for number in (1, 2)
    ]
    assert documents[0]["parameters"] == {"type": "fire"}
    code, out, _ = asyncio.run(_run(tmp_path, "names", *there))
    assert [one["behind_s"] for one in json.loads(out)["names"]] == [0.0]
    code, out, _ = asyncio.run(_run(tmp_path, *wanted, "--forget"))
    assert json.loads(out)["forgotten"] == "ann"
    code, out, _ = asyncio.run(_run(tmp_path, "channel", "subscribe", "of_type", "type", *there))
    assert (code, json.loads(out)["error"]["message"]) == (2, "'type' is no parameter: write NAME=VALUE")
    code, out, _ = asyncio.run(_run(tmp_path, "channel", "subscribe", "of_type", "type=5", *there))
    assert (code, json.loads(out)["error"]["code"]) == (2, "channel-parameters")


def test_a_channel_without_asyncio(city: City) -> None:
    """The blocking twin: iterate, leave, come back by name."""
    create = CreateChannel(OF_TYPE)
    city.do(lambda: city.cluster.server.post(city.cluster.host.cluster.asked(create, now_ns=now())[1]))
    with sync.connect(city.broker.address) as wire:
        with wire.channel("of_type", name="ann", type="fire") as fires:
            city.report(1, 2)
            found = [[row["id"] for row in fires.get(30)] for _ in range(2)]
            assert found == [[1], [2]]
        city.report(3)
        with wire.channel("of_type", {"type": "fire"}, name="ann") as fires:
            assert [row["id"] for row in next(iter(fires))] == [3]
            fires.forget()
        with pytest.raises(TimeoutError), wire.channel("of_type", type="flood") as floods:
            floods.get(0.01)


BAD = [
    ("select n.x from Nothing n where n.x = :a", "unknown-name", "no dataset named 'Nothing'; known: EmergencyReports"),
    ("select r.colour from EmergencyReports r where r.type = :a", "channel-meaningless", "no column 'colour'"),
    ("select r.id from EmergencyReports r where r.severity >= :a", "channel-meaningless", "is given double, string"),
    ("select r.id from EmergencyReports r where r.type = :b", "channel-meaningless", "no parameter :b; there are: a"),
    (
        "select r.id from EmergencyReports r cross join Shelters s cross join Shelters t where r.type = :a",
        "channel-too-costly",
        "one run would look at about",
    ),
]


def test_a_channel_that_cannot_be_is_refused_and_all_else_goes_on(city: City, tmp_path: Path) -> None:
    """With a code and a reason each, in lines that fit into a terminal; a wrong parameter too, and a cluster that is
    not there."""
    there = ["--data-cluster", city.cluster.address]
    asyncio.run(_run(tmp_path, "channel", "create", OF_TYPE, *there))
    for query, kind, reason in BAD:
        text = f"create channel c(a string) period 1s as {query}"
        code, _, err = asyncio.run(_run(tmp_path, "channel", "create", text, *there))
        assert (code, f"[{kind}]" in err, reason in err) == (2, True, True), err
        assert all(len(line) <= 80 for line in err.splitlines()[1:])
    wrong = ["channel", "subscribe", "of_type", "type=5", "--at", city.broker.address]
    code, _, err = asyncio.run(_run(tmp_path, *wrong))
    assert (code, "type is a string: 5 does not fit" in err) == (2, True)
    code, _, err = asyncio.run(_run(tmp_path, "channel", "list", "--data-cluster", "127.0.0.1:9"))
    assert (code, "the data cluster does not answer" in err, "is that its address?" in err) == (2, True, True)
    code, out, _ = asyncio.run(_run(tmp_path, "channel", "list", *there, "--json"))
    assert (code, [one["channel"] for one in json.loads(out)["channels"]]) == (0, ["of_type"])
