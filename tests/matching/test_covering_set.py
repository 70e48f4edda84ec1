"""The covering set tells its changes, with few filters and with many, and across the bound between them."""

from random import Random

import pytest

from tidewire.language import compile_filter
from tidewire.matching import poset
from tidewire.matching.covering import covers
from tidewire.matching.poset import CoveringSet
from tidewire.model.filters import decode_filter, encode_filter

SHAPES = ("price > {}", "price < {}", "symbol = 'A' and price > {}", "symbol = 'B' and price < {}", "price = {}")


@pytest.mark.parametrize("few_max", [3, 8, 128])
@pytest.mark.parametrize("seed", range(10))
def test_the_changes_lead_to_the_covering_set(seed: int, few_max: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members are there, cover all that is there, and none covers another (peer L6)."""
    monkeypatch.setattr(poset, "FEW_MAX", few_max)
    chance = Random(seed)
    tested, have, roots = CoveringSet(), dict[bytes, None](), dict[bytes, None]()
    for _ in range(40):
        drawn = [chance.choice(SHAPES).format(chance.randrange(8)) for _ in range(chance.randrange(4))]
        add = [one for one in dict.fromkeys(encode_filter(compile_filter(text)) for text in drawn) if one not in have]
        remove = [one for one in have if chance.random() < 0.2]
        come, gone = tested.change(add=add, remove=remove)
        have = {one: None for one in [*have, *add] if one not in remove}
        assert not any(one in roots for one in come)
        assert all(one in roots for one in gone)
        roots = {one: None for one in [*roots, *come] if one not in gone}
        assert len(tested) == len(roots)
        assert all(one in have for one in roots)
        assert all(any(covers(decode_filter(root), decode_filter(one)) for root in roots) for one in have)
        assert not any(a != b and covers(decode_filter(a), decode_filter(b)) for a in roots for b in roots)
