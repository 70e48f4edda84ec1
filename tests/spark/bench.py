"""A kind of channel with its files, as tasks of Spark get them: written from plain rows, for tests."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq

from tidewire.channels.evaluator import FedRow
from tidewire.channels.kinds import Member
from tidewire.channels.plans import Plan
from tidewire.channels.results import SubscriptionId, SubscriptionRow
from tidewire.channels.schemas import Catalog, Cell, Dataset, Row, cell_of
from tidewire.model.ids import PubendId, Tick
from tidewire.model.values import Value
from tidewire.spark.frames import cells_of, column_of
from tidewire.spark.jobs import Job, Piece, Standing
from tidewire.spark.places import Folder
from tidewire.spark.subscription_files import SubscriptionFiles
from tidewire.spark.worker import columns_needed

STREAM = "000000000000000a"


def fed_rows(rows: Sequence[Row], *, first: int = 1) -> list[FedRow]:
    """With the events that they come from."""
    return [FedRow(row, (PubendId(int(STREAM, 16)), Tick(tick))) for tick, row in enumerate(rows, start=first)]


def table_of(dataset: Dataset, rows: Sequence[Row], *, ticks: range) -> pa.Table:
    """Rows as a table has them, with their place."""
    columns = {
        one.name: column_of([cell_of(one, row.get(one.name)) for row in rows], one.type) for one in dataset.columns
    }
    columns["tw_stream"] = pa.array([STREAM] * len(rows), pa.string())
    columns["tw_tick"] = pa.array(list(ticks), pa.int64())
    return pa.table(columns)


class KindBench:
    """One kind, whose rows and subscriptions a test gives."""

    def __init__(self, folder: Path, catalog: Catalog, member: Member, plan: Plan) -> None:
        self._folder = folder
        self._catalog = catalog
        self.plan = plan
        self._id = uuid4().hex
        self.files = SubscriptionFiles(Folder(folder / self._id), member.kind, life=self._id)
        self._tick = 1

    def write(self, dataset: str, rows: Sequence[Row]) -> str:
        path = self._folder / f"{uuid4().hex}.parquet"
        ticks = range(self._tick, self._tick + len(rows))
        self._tick = ticks.stop
        pq.write_table(table_of(self._catalog.dataset(dataset), rows, ticks=ticks), path)
        return str(path)

    def subscribe(self, number: int, values: tuple[Value, ...], channel: str = "c") -> None:
        self.files.add(SubscriptionRow(SubscriptionId(number), channel, values))

    def job(self, new: Sequence[Row], others: Sequence[Sequence[Row]], seen: dict[str, int] | None = None) -> Job:
        """Everything anew: new rows in two files, of versions 1 and 2."""
        query = self.plan.query
        half = len(new) // 2
        pieces = [
            Piece(self.write(query.sources[0].dataset, rows), version, 0, len(rows))
            for version, rows in ((1, new[:half]), (2, new[half:]))
        ]
        standings = {
            number: self.standing(number, [self.write(query.sources[number].dataset, rows)])
            for number, rows in enumerate(others, start=1)
        }
        subscriptions = self.files.present(self.files.take())
        runs = {self.files.number_of(name): upto for name, upto in (seen or {"c": 0}).items()}
        return Job(
            kind=self._id,
            plan=self.plan,
            pieces=tuple(pieces),
            seen=runs,
            subscriptions=subscriptions,
            datasets=standings,
        )

    def standing(self, source: int, files: list[str], *, version: int = 1) -> Standing:
        names = tuple(columns_needed(self.plan)[source])
        return Standing(columns=names, key=(), version=version, base=version, files=tuple(files), floor=version)


def counted(plan: Plan, found: pa.Table | None) -> dict[int, Counter[tuple[Cell, ...]]]:
    """Results by subscription, without their order."""
    by_subscription: dict[int, Counter[tuple[Cell, ...]]] = {}
    if found is None:
        return by_subscription
    columns = [cells_of(found[output.name]) for output in plan.query.outputs]
    for one, cells in zip(found["tw_subscription"].to_pylist(), zip(*columns, strict=True), strict=True):
        by_subscription.setdefault(one, Counter())[cells] += 1
    return by_subscription
