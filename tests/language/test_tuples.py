"""The tuple notation of PADRES (peer §1.1): subscriptions, advertisements and publications, read and written."""

from __future__ import annotations

import math
from contextlib import suppress

import pytest
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from tests.strategies import conjunctive_filters, literals, names
from tidewire.language import compile_filter, read_publication, read_tuples, write_publication, write_tuples
from tidewire.language.spelling import spell_name, spell_value
from tidewire.language.tuples import OPERATORS
from tidewire.model.errors import (
    BadAttributeName,
    FilterMeaningless,
    FilterSyntaxError,
    FilterTooLong,
    UsageError,
    ValueOutOfRange,
)
from tidewire.model.filters import Filter
from tidewire.model.values import Timestamp, Value

# peer §1.1, the examples of the thesis word for word
PUBLICATION = (
    "[class,'STOCK'],[symbol,'YHOO'],[open,30.25],[high,31.75],[low,30.00],[close,31.62],"
    "[volume,203400],[date,'1-May-96']"
)
SUBSCRIPTION = "[class,eq,'STOCK'],[symbol,eq,'YHOO'],[volume,>,300000]"
ADVERTISEMENT = (
    "[class,eq,'STOCK'],[symbol,eq,'YHOO'],[open,isPresent,0],[high,isPresent,0],[low,isPresent,0],"
    "[close,isPresent,0],[volume,isPresent,0],[date,isPresent,'00-00-00']"
)


def test_the_examples_of_the_thesis() -> None:
    """peer §1.1, L1, L2."""
    event = read_publication(PUBLICATION)
    assert event == {
        "class": "STOCK",
        "symbol": "YHOO",
        "open": 30.25,
        "high": 31.75,
        "low": 30.0,
        "close": 31.62,
        "volume": 203400,
        "date": "1-May-96",
    }
    assert read_tuples(SUBSCRIPTION) == compile_filter("class = 'STOCK' and symbol = 'YHOO' and volume > 300000")
    assert not read_tuples(SUBSCRIPTION).accepts(event)
    assert read_tuples(ADVERTISEMENT).accepts(event)
    assert not read_tuples(ADVERTISEMENT).accepts({**event, "open": "30.25"})


SAME: list[tuple[str, str]] = [
    ("[a,eq,1]", "a = 1"),
    ("[a,=,1]", "a = 1"),
    ("[a,eq,'x']", "a = 'x'"),
    ("[a,neq,'x']", "a <> 'x'"),
    ("[a,<>,1]", "a <> 1"),
    ("[a,>,1],[a,<=,5.5]", "a > 1 and a <= 5.5"),
    ("[a,<,1],[b,>=,'x']", "a < 1 and b >= 'x'"),
    ("[a,str-prefix,'ab']", "a like 'ab%'"),
    ("[a,str-suffix,'10%']", "a like '%10!%' escape '!'"),
    ("[a,str-contains,'_\\']", "a like '%!_\\%' escape '!'"),
    ("[a,str-contains,'']", "a is string"),
    ("[a,isPresent,0]", "a is number"),
    ("[a,isPresent,'']", "a is string"),
    ("[a,isPresent,true]", "a is boolean"),
    ("[a,isPresent,x'']", "a is bytes"),
    ("[a,isPresent,1970-01-01T00:00:00Z]", "a is timestamp"),
    ("[a,isPresent,*]", "a is not null"),
    ("[class,eq,*]", "class is not null"),
    ("[class,eq,*],[class,eq,'STOCK']", "class = 'STOCK'"),
    (' [ a , eq , \'it\'\'s\' ] , [ "odd, ""name""",>,-2.5e3 ] ', 'a = \'it\'\'s\' and "odd, ""name""" > -2500'),
    ("[a,>,5],[a,<,3]", "false"),
    ("[a,<,''],[b,eq,1]", "false"),
    ("[a,>,1],[a,eq,'x']", "false"),
    ("[brokerID,eq,'B2'],[a.b-c,eq,1]", "brokerID = 'B2' and \"a.b-c\" = 1"),
]


@pytest.mark.parametrize(("tuples", "selector"), SAME)
def test_tuples_say_what_a_selector_says(tuples: str, selector: str) -> None:
    assert read_tuples(tuples) == compile_filter(selector)


WRITTEN = [
    SUBSCRIPTION,
    "[class,eq,*]",
    "[a,isPresent,0]",
    "[a,isPresent,'']",
    "[a,>,1],[a,<=,5.5],[b,str-prefix,'x']",
    "[a,>=,1],[a,neq,3],[a,neq,4]",
    "[a,neq,9007199254740993],[a,neq,9007199254740994]",
    "[a,str-contains,'%'],[a,str-prefix,'x']",
    "[a,str-suffix,'it''s']",
    '["odd name",eq,true]',
    "[a,>,2010-02-27T06:34:11Z],[b,eq,x'ff']",
]


@pytest.mark.parametrize("text", WRITTEN)
def test_what_is_written_so_is_written_so_again(text: str) -> None:
    assert write_tuples(read_tuples(text)) == text


@given(conjunctive_filters())
def test_what_can_be_written_reads_as_the_same(candidate: Filter) -> None:
    with suppress(UsageError):
        assert read_tuples(write_tuples(candidate)) == candidate


@given(st.lists(st.tuples(names(), st.sampled_from([*OPERATORS[:8], "isPresent"]), literals()), min_size=1, max_size=5))
def test_what_was_read_from_tuples_can_be_written_as_tuples(rows: list[tuple[str, str, Value]]) -> None:
    text = ",".join(f"[{spell_name(name)},{operator},{spell_value(value)}]" for name, operator, value in rows)
    try:
        found = read_tuples(text)
    except FilterMeaningless:
        reject()
    assume(found.conjunctions)
    assert read_tuples(write_tuples(found)) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a = 1 or b = 1", "alternatives"),
        ("false", "nothing"),
        ("true", "everything"),
        ("within(lat, lon, 1, 2, 3)", "areas"),
        ("a is null", "'a'"),
        ("a not like '%x%'", "not like"),
        ("a like 'x%y'", "'x%y'"),
        ("a like '_x'", "'_x'"),
        ("a in (1, 2)", "several ranges"),
        ("a < 0 or a >= 0", "NaN"),
    ],
)
def test_what_tuples_cannot_say_is_refused_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(UsageError) as caught:
        write_tuples(compile_filter(text))
    assert reason in str(caught.value)


@given(st.dictionaries(names(), literals(), min_size=1))
def test_a_publication_reads_as_it_was_written(attributes: dict[str, Value]) -> None:
    found = read_publication(write_publication(attributes))
    assert found == attributes
    assert [type(value) for value in found.values()] == [type(value) for value in attributes.values()]


def test_a_publication_has_no_words_for_infinities_and_nan() -> None:
    for value in (math.nan, math.inf, -math.inf):
        with pytest.raises(UsageError, match="tuple notation"):
            write_publication({"a": value})


ERRORS: list[tuple[str, type[UsageError], int]] = [
    ("", FilterSyntaxError, 0),
    ("a", FilterSyntaxError, 0),
    ("[", FilterSyntaxError, 1),
    ("[a", FilterSyntaxError, 2),
    ("[a]", FilterSyntaxError, 2),
    ("[,eq,1]", FilterSyntaxError, 1),
    ("['a',eq,1]", FilterSyntaxError, 1),
    ('["",eq,1]', FilterSyntaxError, 1),
    ("[1,eq,1]", FilterSyntaxError, 1),
    ('[a,eq,"x"]', FilterSyntaxError, 6),
    ("[" + "é" * 128 + ",eq,1]", BadAttributeName, -1),
    ("[a,is,1]", FilterSyntaxError, 3),
    ("[a,eq]", FilterSyntaxError, 5),
    ("[a,eq,b]", FilterSyntaxError, 6),
    ("[a,eq,'b]", FilterSyntaxError, 6),
    ("[a,eq,x'0']", FilterSyntaxError, 6),
    ("[a,eq,1", FilterSyntaxError, 7),
    ("[a,eq,1],", FilterSyntaxError, 9),
    ("[a,eq,1] [b,eq,1]", FilterSyntaxError, 9),
    ("[a,eq,nan]", FilterSyntaxError, 6),
    ("[a,eq,\ud800]", FilterSyntaxError, 6),
    ("[a,>,*]", FilterMeaningless, -1),
    ("[a,str-prefix,5]", FilterMeaningless, -1),
    ("[a,<,true]", FilterMeaningless, -1),
    ("[a,eq,9223372036854775808]", ValueOutOfRange, -1),
    ("[a,eq,1e999]", ValueOutOfRange, -1),
    ("[a,eq,2010-13-01T00:00:00Z]", ValueOutOfRange, -1),
    ("[a,eq,1]" + ",[a,eq,1]" * 1024, FilterTooLong, -1),
    ("[a,eq,'" + "x" * 16_384 + "']", FilterTooLong, -1),
    ("[a,str-contains,'" + "x" * 1024 + "']", FilterTooLong, -1),
]


@pytest.mark.parametrize(("text", "error", "position"), ERRORS, ids=lambda case: str(case)[:30])
def test_damaged_tuples_are_refused_where_they_are_damaged(text: str, error: type[UsageError], position: int) -> None:
    with pytest.raises(UsageError) as caught:
        read_tuples(text)
    assert type(caught.value) is error
    assert getattr(caught.value, "position", -1) == position


MESSAGES = [
    ('[a,eq,"x"]', """line 1, column 7: '"x"' cannot stand here\n  [a,eq,"x"]\n        ^"""),
    ("[a,eq,STOCK]", "'STOCK' cannot stand here"),
    ("[a,eq,1e999]", "  [a,eq,1e999]\n        ^"),
    ("[b,eq,1],[a,<,true]", "  [b,eq,1],[a,<,true]\n                ^"),
    ("[1,eq,2]", "a name like it stands in double quotes"),
    ("[" + "a" * 256 + ",eq,1]", "at most 255"),
]


@pytest.mark.parametrize(("text", "message"), MESSAGES, ids=lambda case: case[:20])
def test_the_message_names_the_field_and_points_at_it(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_tuples(text)
    assert message in str(caught.value)


def test_a_name_that_looks_like_a_number_is_quoted() -> None:
    assert write_publication({"1": 2}) == '["1",2]'
    assert read_publication('["1",2]') == {"1": 2}
    with pytest.raises(FilterSyntaxError):
        read_publication("[1,2]")


def test_a_publication_gives_each_attribute_once_and_wholly() -> None:
    with pytest.raises(BadAttributeName):
        read_publication("[a,1],[a,2]")
    with pytest.raises(FilterMeaningless):
        read_publication("[a,*]")
    with pytest.raises(FilterSyntaxError):
        read_publication("[a,eq,1]")
    assert read_publication("[t,2010-02-27T06:34:11Z]") == {"t": Timestamp.parse("2010-02-27T06:34:11Z")}
