"""Columns as arrays of the server's, and keys as partitions: the same as the client makes, record by record."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trunkline.client import arrays
from trunkline.engine.routing import partition_of_key
from trunkline.spark import packing
from trunkline.spark.packing import partitions_of_keys, sizes

some_bytes = st.binary(max_size=30) | st.sampled_from([b"", b"\0", b"\xff" * 7, b"k" * 5000])


@st.composite
def sliced(draw: st.DrawFn, each: st.SearchStrategy[Any], kind: pa.DataType) -> tuple[list[Any], pa.Array]:
    """Values, and an Arrow array of them that begins and ends somewhere inside another one."""
    values = draw(st.lists(each, max_size=40))
    before, after = draw(st.lists(each, max_size=3)), draw(st.lists(each, max_size=3))
    whole = pa.array([*before, *values, *after], kind)
    return values, whole.slice(len(before), len(values))


@settings(deadline=None)
@given(sliced(st.none() | some_bytes, pa.binary()), st.integers(1, 1024))
def test_keys_go_to_the_partitions_that_the_client_sends_them_to(
    keys: tuple[list[bytes | None], pa.Array], partitions: int
) -> None:
    values, column = keys
    found = partitions_of_keys(column, partitions)
    assert len(found) == len(values)
    for value, partition in zip(values, found, strict=True):
        assert value is None or partition == partition_of_key(value, partitions)


@pytest.mark.parametrize("column", [pa.array([], pa.binary()), pa.array([b"", None, b""], pa.binary())])
def test_keys_without_a_byte_have_a_partition(column: pa.Array) -> None:
    expected = [partition_of_key(b"", 7)] * len(column)
    assert [p for p, key in zip(partitions_of_keys(column, 7), column, strict=True) if key.is_valid] == [
        p for p, key in zip(expected, column, strict=True) if key.is_valid
    ]


@settings(deadline=None)
@given(sliced(st.none() | some_bytes, pa.binary()))
def test_bytes_are_encoded_as_the_client_encodes_them(column: tuple[list[bytes | None], pa.Array]) -> None:
    values, array = column
    assert packing.bytea_array(array).data == arrays.bytea_array(values).data


@settings(deadline=None)
@given(sliced(st.text(max_size=20), pa.string()))
def test_text_is_encoded_as_the_client_encodes_it(column: tuple[list[str], pa.Array]) -> None:
    values, array = column
    assert packing.text_array(array).data == arrays.text_array(values).data


@settings(deadline=None)
@given(st.lists(st.integers(-(2**31), 2**31 - 1), max_size=50))
def test_integers_are_encoded_as_the_client_encodes_them(values: list[int]) -> None:
    assert packing.integer_array(np.array(values, np.int64)).data == arrays.integer_array(values).data


@settings(deadline=None)
@given(sliced(st.none() | some_bytes, pa.binary()))
def test_sizes_are_those_of_the_values(column: tuple[list[bytes | None], pa.Array]) -> None:
    values, array = column
    assert list(sizes(array)) == [len(value or b"") for value in values]
