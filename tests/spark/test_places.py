"""Places, whatever they are: what is written is there whole, one of several creates, one data cluster has the lease."""

from __future__ import annotations

import json
import pickle
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake.exceptions import DeltaError

from tests.spark.s3 import S3
from tidewire.benchmarks.processes import free_port
from tidewire.channels.cluster_events import Discard
from tidewire.channels.results import SubscriptionId
from tidewire.model.errors import BadConfiguration, NotPermitted, StoreDamaged, StoreLocked, TidewireError, Unavailable
from tidewire.model.ids import Tick
from tidewire.spark import journals, tables
from tidewire.spark.channel_book import ChannelBook, Noted, Progress
from tidewire.spark.datasets import Warehouse
from tidewire.spark.leases import Lease
from tidewire.spark.places import Folder, Place, decoded, encoded, place_of
from tidewire.spark.tables import append_files, create_table, open_table, write_file

ROWS = pa.table({"n": [1, 2, 3], "who": ["a", None, "c"]})


def test_what_is_written_is_read_listed_and_deleted(place: Place) -> None:
    """Also by who gets the place from elsewhere, as tasks do."""
    assert (place / "a").names() == []
    with pytest.raises(FileNotFoundError):
        (place / "a" / "one").read()
    for data in (b"first", b"second"):
        (place / "a" / "one").write(data)
    (place / "a" / "two").write(b"")
    assert ((place / "a").names(), (place / "a" / "one").exists(), (place / "b").exists()) == (
        ["one", "two"],
        True,
        False,
    )
    for other in (pickle.loads(pickle.dumps(place)), decoded(*encoded(place))):  # noqa: S301 - our own
        assert (other / "a" / "one").read() == b"second"
        assert other.at(str(place / "a" / "one")).read() == b"second"
    (place / "a" / "one").delete()
    (place / "a" / "one").delete()
    assert (place / "a").names() == ["two"]
    (place / "a").delete_all()
    assert (place / "a").names() == []


def test_rows_come_back(place: Place) -> None:
    """As Parquet, some columns of it, and as Arrow has them."""
    file = place / "t" / "day=2026-01-01" / "x.parquet"
    assert file.write_rows(ROWS) > 0
    assert (file.read_rows(), file.read_rows(["who"]), file.count_rows()) == (ROWS, ROWS.select(["who"]), 3)
    (place / "s").prepare()
    (place / "s" / "y.arrow").write_arrow(ROWS)
    assert (place / "s" / "y.arrow").read_arrow() == ROWS


def test_one_of_several_creates(place: Place) -> None:
    """And what it wrote stays."""
    for number in range(3):
        file = place / f"declared{number}.json"
        with ThreadPoolExecutor(6) as threads:
            made = list(threads.map(lambda n, file=file: file.create(f"{n}".encode()), range(6)))
        assert sum(made) == 1
        assert file.read() == f"{made.index(True)}".encode()
        assert not file.create(b"later")
        assert file.read() == f"{made.index(True)}".encode()


def test_who_finds_a_claim_alone_finishes_what_was_begun(s3: S3) -> None:
    """The process that had it was killed before it wrote the file: all agree that it is the creator."""
    file = s3.place() / "dataset.json"
    assert file.create(b"first")
    file.delete()
    assert not file.create(b"second")
    assert file.read() == b"first"


def test_commits_of_tables_do_not_overwrite_each_other(place: Place) -> None:
    """Several at once, each by its own process's view of the table: every one is there."""
    schema = pa.schema([pa.field("n", pa.int64())])
    create_table(place / "t", schema)

    def store(n: int) -> bool:
        files = [write_file(place / "t", pa.table({"n": [n]}, schema=schema))]
        return append_files(place / "t", schema, files, {f"{n:016x}": 1})

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(store, range(8)))
    table = open_table(place / "t")
    assert (table.version(), sorted(table.to_pyarrow_table()["n"].to_pylist())) == (8, list(range(8)))


def test_a_part_of_a_stream_that_two_store_at_once_is_stored_once(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that looked before the other had stored it fails: so much for one that is thought to be dead."""
    schema, files = ROWS.schema, [write_file(place / "t", ROWS) for _ in range(2)]
    create_table(place / "t", schema)
    looked_before = open_table(place / "t")
    assert append_files(place / "t", schema, files[:1], {"0a": 5})
    monkeypatch.setattr(tables, "open_table", lambda _: looked_before)
    with pytest.raises(DeltaError, match="Concurrent"):
        append_files(place / "t", schema, files[1:], {"0a": 5})
    assert open_table(place / "t").to_pyarrow_table() == ROWS


def test_a_folder_by_its_url(tmp_path: Path) -> None:
    """And s3a, as Spark says it."""
    (tmp_path / "a b").mkdir()
    found = place_of(f"file://{tmp_path}/a%20b")
    assert isinstance(found, Folder)
    assert found.path == tmp_path / "a b"
    assert str(place_of("s3a://bucket/path/")) == "s3://bucket/path"
    assert str(place_of("relative/folder")) == "relative/folder"


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("ftp://host/x", "tables are in a folder"),
        ("s3:/bucket/x", "in full"),
        ("s3://", "in full"),
        ("file://host/x", "file:///folder"),
        ("s3://key:secret@bucket/x", "keys do not belong"),
        ("s3://bucket/x?region=eu", "options are in the environment"),
    ],
)
def test_what_is_no_place_is_refused(url: str, said: str) -> None:
    """With what to write instead; what looks like a key is not said again."""
    with pytest.raises(BadConfiguration, match=said) as caught:
        place_of(url)
    assert "secret" not in caught.value.message


def test_what_is_no_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadConfiguration, match="is no folder"):
        place_of(tmp_path / "file")
    with pytest.raises(BadConfiguration, match="is no folder"):
        place_of((tmp_path / "file").as_uri())
    with pytest.raises(BadConfiguration, match="cannot be made"):
        place_of("/proc/nowhere").prepare()
    with pytest.raises(BadConfiguration, match="cannot be made"):
        place_of(tmp_path / "file" / "below").prepare()


def test_nothing_goes_in_clear_unless_it_is_said() -> None:
    """As for everything else."""
    with pytest.raises(BadConfiguration, match="AWS_ALLOW_HTTP"):
        place_of("s3://b/x", {"AWS_ENDPOINT_URL": "http://10.0.0.1:9000"})


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        """Whatever is asked."""
        body = b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(b"" if self.command == "HEAD" else body)

    do_HEAD = do_PUT = do_POST = do_GET  # noqa: N815 - as the server finds them

    def log_message(self, *_: object) -> None:
        """Nobody wants to know."""


@pytest.fixture
def refusing() -> Iterator[str]:
    """A store that lets nobody in."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_what_a_store_says_is_told_with_whose_fault_it_is(s3: S3, refusing: str) -> None:
    """Nobody there, nobody let in, no such bucket; never with the key."""
    nobody = f"http://127.0.0.1:{free_port()}"
    for where, endpoint, error, said in (
        ("s3://tables/x", nobody, Unavailable, "cannot be reached.*AWS_ENDPOINT_URL"),
        ("s3://tables/x", refusing, NotPermitted, "must be allowed to list, read, write and delete"),
        ("s3://nothing/x", s3.options["AWS_ENDPOINT_URL"], BadConfiguration, "no such bucket"),
    ):
        place = place_of(where, {**s3.options, "AWS_ENDPOINT_URL": endpoint})
        with pytest.raises(error, match=said) as read:
            place.names()
        with pytest.raises(TidewireError, match=said) as wrote:
            create_table(place / "t", ROWS.schema)
        for caught in (read, wrote):
            assert s3.options["AWS_SECRET_ACCESS_KEY"] not in f"{caught.value.message}{caught.value!r}"
    assert s3.options["AWS_SECRET_ACCESS_KEY"] not in f"{s3.place()!r} {s3.place()}"


def lease(place: Place, node: str, *, lease_s: float = 1.0) -> Lease:
    return Lease(place / "leases", node=node, machine=f"of {node}", lease_s=lease_s)


def test_one_has_the_lease(place: Place) -> None:
    """Who holds it keeps it; who ends leaves it; of those who try at the same moment one gets it."""
    one, other = lease(place, "one"), lease(place, "other")
    one.take(lambda _: None)
    with pytest.raises(StoreLocked, match=r"of one.* is at work"):
        other.take(lambda _: None)
    one.check()
    one.release()
    contenders = [lease(place, f"n{n}", lease_s=5.0) for n in range(4)]

    def took(which: Lease) -> bool:
        try:
            which.take(lambda _: None)
        except StoreLocked:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(took, contenders)) == 1
    assert sorted(one.number for one in contenders) == [0, 0, 0, 2]
    for contender in contenders:
        contender.release()


def test_a_lease_whose_holder_is_silent_goes_to_another_one(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while; the same node need not wait. The silent one notices when it looks again."""
    said: list[str] = []
    monkeypatch.setattr(Lease, "_hold", lambda self: None)
    dead, again, other = lease(place, "dead"), lease(place, "dead"), lease(place, "other")
    dead.take(said.append)
    again.take(said.append)
    assert (again.number, said) == (2, [])
    other.take(said.append)
    assert (other.number, len(said)) == (3, 1)
    monkeypatch.undo()
    again._beat_s = 0.01
    again._hold()
    for look in (again.check, dead.look):
        with pytest.raises(StoreLocked, match="taken over"):
            look()
    other.look()
    other.release()


def test_two_data_clusters_of_two_machines_are_refused(s3: S3, tmp_path: Path) -> None:
    """And the checkpoint of an earlier lease counts no more."""
    place = s3.place()
    here, there = (Warehouse(place, state=tmp_path / name) for name in ("here", "there"))
    with here.locked(lease_s=5.0):
        here.check()
        here.checkpoint.mkdir()
        with pytest.raises(StoreLocked, match="at work in s3://"), there.locked(lease_s=5.0):
            pass
    first = here.checkpoint
    with there.locked(lease_s=5.0), pytest.raises(StoreLocked), here.locked(lease_s=5.0):
        pass
    with here.locked():
        assert (here.life, here.checkpoint != first, first.exists()) == (3, True, False)


def test_a_second_node_is_told_who_is_there(s3: S3, tmp_path: Path) -> None:
    """By the command itself, before Spark starts."""
    url = s3.url()
    with Warehouse(place_of(url, s3.options), state=tmp_path / "there").locked(lease_s=5.0):
        command = [sys.executable, "-m", "tidewire", "datacluster", "--json", "--folder", url]
        command += ["--state", str(tmp_path / "here"), "--at", "127.0.0.1:1"]
        ended = subprocess.run(command, env=s3.environment(), capture_output=True, text=True, timeout=120, check=False)
    told = json.loads(ended.stdout.splitlines()[-1])["error"]
    assert (ended.returncode, told["code"]) == (2, "store-locked")
    assert f"{socket.gethostname()}, is at work in {url}" in told["message"]


def noted(name: str, run: int = 0) -> Noted:
    place = Progress(1, Tick(run))
    return Noted(name=name, text="t", is_paused=False, floor=Tick(0), run=run, place=place, before=place)


def test_the_book_is_known_to_the_next_life(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through whole books and changes; what an earlier life still writes is not heard."""
    monkeypatch.setattr(journals, "CHANGES_MAX", 3)
    first = ChannelBook(place, life=1)
    for number in range(5):
        first.note_channel(noted(f"c{number}"))
    first.forget_channel("c1", [Discard(SubscriptionId(7))])
    first.note_run(4, [("c2", Progress(9, Tick(8)), Progress(1, Tick(0)))])
    if not place.is_remote:
        first.close()
    second = ChannelBook(place, life=2)
    known = second.channels()
    assert [one.name for one in known] == ["c0", "c2", "c3", "c4"]
    assert (known[1].run, known[1].place, known[1].place_after(3)) == (4, Progress(9, Tick(8)), Progress(1, Tick(0)))
    if place.is_remote:
        first.note_channel(noted("late"))
        first.close()
    second.close()
    third = ChannelBook(place, life=3)
    assert third.channels() == known
    third.close()


def test_a_change_that_is_missing_is_noticed(s3: S3) -> None:
    """Rather than channels that are where they never were."""
    place = s3.place()
    book = ChannelBook(place, life=1)
    for number in range(3):
        book.note_channel(noted(f"c{number}"))
    book.close()
    (place / "book" / f"{1:012d}" / f"{2:012d}.change").delete()
    with pytest.raises(StoreDamaged, match="a change is missing"):
        ChannelBook(place, life=2)
