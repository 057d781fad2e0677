"""Records by key and group key: every one in one section, in order, whatever the keys are."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from trunkline.engine.sections import section_name, sections
from trunkline.records import GROUP_KEY_HEADER, Record

NOW = datetime(2026, 1, 1, tzinfo=UTC)
KEYS = st.sampled_from([None, b"", b"a", b"b"])


def record(offset: int, key: bytes | None, group_key: bytes | None, partition: int = 0) -> Record:
    headers = () if group_key is None else ((GROUP_KEY_HEADER, group_key),)
    return Record("events", partition, offset, key, b"", headers, NOW)


@given(st.lists(st.tuples(KEYS, KEYS, st.integers(0, 1))))
def test_every_record_is_in_one_section_with_those_of_its_keys_in_order(keys: list[tuple[bytes | None, ...]]) -> None:
    offsets = count(1)
    records = [record(next(offsets), key, group_key, partition) for key, group_key, partition in keys]  # type: ignore[arg-type]
    found = sections(records)
    assert sorted(each.offset for section in found for each in section.records) == [each.offset for each in records]
    assert len({section.name for section in found}) == len(found)
    for section in found:
        assert {section_name(each) for each in section.records} == {section.name}
        assert [each.offset for each in section.records] == sorted(each.offset for each in section.records)
        assert (section.first_offset, section.last_offset) == (section.records[0].offset, section.records[-1].offset)
        assert section.is_keyed or len(section.records) == 1
    assert [section.first_offset for section in found] == sorted(section.first_offset for section in found)


def test_a_key_that_is_missing_is_not_one_that_is_empty_and_the_parts_are_not_exchanged() -> None:
    names = [(None, b""), (b"", None), (b"", b""), (b"a", b"b"), (b"b", b"a"), (b"ab", None), (None, b"ab")]
    assert len(sections(record(n, *keys) for n, keys in enumerate(names, start=1))) == len(names)


def test_the_last_group_key_counts() -> None:
    passed_on = ((GROUP_KEY_HEADER, b"old"), ("h", b"1"), (GROUP_KEY_HEADER, b"new"))
    assert Record("events", 0, 1, None, b"", passed_on, NOW).group_key == b"new"
