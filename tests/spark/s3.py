"""A store that speaks S3's language, on loopback: Moto's, in a process of its own.

It serves one request at a time: else Moto looks whether a file is there, and writes it a moment later.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyarrow import fs

from tidewire.benchmarks.processes import free_port
from tidewire.spark.places import Place, place_of

BUCKET = "tables"
START_S = 60.0


class S3:
    """With one bucket."""

    def __init__(self, folder: Path) -> None:
        self._port = free_port()
        self.options = {
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self._port}",
            "AWS_ALLOW_HTTP": "true",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "somebody",
            "AWS_SECRET_ACCESS_KEY": uuid4().hex,
        }
        with (folder / "s3.txt").open("wb") as log:
            command = [sys.executable, __file__, str(self._port)]
            self._process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=_without_keys())
        self._until_there()

    def _until_there(self) -> None:
        system = fs.S3FileSystem(
            access_key=self.options["AWS_ACCESS_KEY_ID"],
            secret_key=self.options["AWS_SECRET_ACCESS_KEY"],
            region=self.options["AWS_REGION"],
            endpoint_override=f"127.0.0.1:{self._port}",
            scheme="http",
            allow_bucket_creation=True,
        )
        until_s = time.monotonic() + START_S
        while True:
            try:
                system.create_dir(BUCKET)
            except OSError:
                assert self._process.poll() is None, "the store has ended by itself"
                assert time.monotonic() < until_s, "the store does not answer"
                time.sleep(0.1)
            else:
                return

    def url(self) -> str:
        """A place where nobody has been."""
        return f"s3://{BUCKET}/{uuid4().hex}"

    def place(self) -> Place:
        """The same."""
        return place_of(self.url(), self.options)

    def environment(self) -> dict[str, str]:
        """For processes that use it."""
        return {**os.environ, **self.options}

    def stop(self) -> None:
        """It forgets all."""
        self._process.terminate()
        self._process.wait()


def _without_keys() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}


def serve(port: int) -> None:
    """Until it is ended."""
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import run_simple

    app, turn = DomainDispatcherApplication(create_backend_app), threading.Lock()

    def answer(request: dict[str, Any], start: Any) -> Iterable[bytes]:
        with turn:
            return list(app(request, start))

    run_simple("127.0.0.1", port, answer, threaded=True)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
