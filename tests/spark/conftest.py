"""Places for tables: a folder, and a store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.spark.s3 import S3
from tidewire.spark.places import Folder, Place


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """One for all tests, each with a place of its own in it."""
    store = S3(tmp_path_factory.mktemp("s3"))
    yield store
    store.stop()


@pytest.fixture(params=["folder", "s3"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Of either kind."""
    if request.param == "folder":
        return Folder(tmp_path / "tables")
    found: Place = request.getfixturevalue("s3").place()
    return found
