"""Attributes as headers of the log: whatever they are, they come back as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trunkline.drivers.postgres.attributes import attributes_of, headers_of

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
AWKWARD = ["\0", "trunkline-escaped:%00", "trunkline-binary:x", "trunkline-deliver-after", "%00", "%2500", "é\0%"]


@given(st.dictionaries(st.one_of(TEXT.filter(bool), st.sampled_from(AWKWARD)), TEXT))
def test_S2_17_any_attributes_come_back_as_they_were(attributes: dict[str, str]) -> None:
    headers = headers_of(attributes)
    assert all(name and "\0" not in name for name, _ in headers)
    assert "trunkline-deliver-after" not in dict(headers)
    assert attributes_of(headers) == attributes


@given(
    st.lists(
        st.tuples(TEXT.filter(lambda name: bool(name) and "\0" not in name), st.binary()), unique_by=lambda h: h[0]
    )
)
def test_any_headers_that_are_sent_on_are_the_same_headers(headers: list[tuple[str, bytes]]) -> None:
    assert headers_of(attributes_of(tuple(headers))) == tuple(headers)


@pytest.mark.parametrize("value", ["aGk=", "/w==", "/w", "/x==", "no", ""])
def test_an_attribute_that_looks_like_a_binary_header_comes_back_as_text(value: str) -> None:
    attributes = {"trunkline-binary:x": value, "trunkline-binary:": value}
    assert attributes_of(headers_of(attributes)) == attributes
