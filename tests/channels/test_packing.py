"""Rows in bytes: packed together or each by itself, they are the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidewire.channels.packing import joined, pack_each, pack_rows, unpack_rows
from tidewire.model.values import Timestamp

cells = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.text(max_size=5)
times = st.none() | st.builds(Timestamp, st.integers(-(2**63), 2**63 - 1))
origins = st.lists(st.tuples(st.integers(0, 2**63), st.integers(0, 2**63)), max_size=3).map(tuple)


@given(rows=st.lists(st.tuples(cells, times, origins), max_size=40))
def test_rows_that_are_packed_each_by_itself_are_the_same_together(
    rows: list[tuple[object, Timestamp | None, tuple[tuple[int, int], ...]]],
) -> None:
    """Byte by byte, whatever is in them."""
    packed = pack_each([[row[0] for row in rows], [row[1] for row in rows]], [row[2] for row in rows], timed=(1,))
    assert joined(packed) == pack_rows([((one, time), origin) for one, time, origin in rows])


@pytest.mark.parametrize("count", [0, 15, 16, 2**16 - 1, 2**16])
def test_any_number_of_rows_can_be_read_again(count: int) -> None:
    """Where the head of a list changes its form; rows may have no cells at all."""
    assert len(unpack_rows(joined(pack_each([], [()] * count)))) == count
