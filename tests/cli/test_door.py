"""The console beside a node: how it is started."""

from __future__ import annotations

import pytest

from tidewire.cli.serve import Speaker, _Door
from tidewire.model.errors import BadConfiguration


@pytest.mark.parametrize(("http", "certificate"), [("127.0.0.1:80", None), ("192.0.2.1:80", "keys/b1.pem")])
def test_other_machines_are_served_https_with_the_nodes_certificate(http: str, certificate: str | None) -> None:
    door = _Door(http, Speaker(as_json=True), name="b1", security="keys", insecure=False)
    assert (None if door._certificate is None else str(door._certificate)) == certificate


def test_other_machines_are_not_served_in_clear() -> None:
    with pytest.raises(BadConfiguration, match="can be reached from other machines"):
        _Door("192.0.2.1:80", Speaker(as_json=True), name="b1", security=None, insecure=False)
