# Generated from tests/aio/test_topics.py by tools/twins.py (make fix). Change the source, not this file.
"""Topics: created, listed, described, altered, grown, deleted."""

from __future__ import annotations

import psycopg
import pytest

import trunkline
from trunkline import TopicSettings, errors


def test_a_topic_is_created_with_its_settings_and_found_again(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        made = tl.create_topic(
            "orders", partitions=3, settings=TopicSettings(retention_age_s=3600, record_bytes_max=1000)
        )
        assert (made.name, made.partitions, made.retention_age_s, made.record_bytes_max) == (
            "orders",
            3,
            3600,
            1000,
        )
        assert made.retention_bytes is None
        assert tl.topic("orders") == made
        tl.create_topic("a/b.c-d_e")
        assert [topic.name for topic in tl.topics()] == ["a/b.c-d_e", "orders"]
        with pytest.raises(errors.AlreadyExists) as caught:
            tl.create_topic("orders")
        assert caught.value.code == "TL003"


def test_names_that_look_alike_are_different_topics(db_url: str) -> None:
    long = "x" * 63
    names = ["Foo", "foo", "select", "user", long + "a", long + "b", "x" * 200, "1", "_"]
    with trunkline.connect(db_url) as tl:
        for name in names:
            tl.create_topic(name)
        for name in names:
            tl.publish(name, name.encode())
        for name in names:
            assert [record.payload for record in tl.read(name)] == [name.encode()]


def test_settings_are_altered_one_by_one(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", settings=TopicSettings(retention_age_s=60, retention_bytes=10))
        altered = tl.alter_topic("orders", retention_age_s=None, key_bytes_max=16)
        assert (altered.retention_age_s, altered.retention_bytes, altered.key_bytes_max) == (None, 10, 16)
        again = tl.alter_topic("orders", key_bytes_max=None)
        assert again.key_bytes_max == 8192
        tl.alter_topic("orders", record_bytes_max=3)
        with pytest.raises(errors.TooLarge):
            tl.publish("orders", b"1234")


@pytest.mark.parametrize(
    "changes",
    [
        {"retention_age": 5},
        {},
        {"retention_age_s": 0},
        {"retention_age_s": -1},
        {"retention_age_s": 1.5},
        {"retention_age_s": True},
        {"retention_age_s": "10"},
        {"retention_age_s": float("nan")},
        {"record_bytes_max": 64 * 1024 * 1024 + 1},
        {"record_bytes_max": 2**31},
        {"segment_bytes": 2**63},
        {"batch_records_max": 10_001},
        {"header_count_max": 65},
    ],
)
def test_a_wrong_setting_changes_nothing(db_url: str, changes: dict[str, int | None]) -> None:
    with trunkline.connect(db_url) as tl:
        before = tl.create_topic("orders")
        with pytest.raises(errors.InvalidArgument) as caught:
            tl.alter_topic("orders", **changes)
        assert caught.value.code == "TL001"
        assert tl.topic("orders") == before


def test_an_unknown_setting_names_the_nearest(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders")
        with pytest.raises(errors.InvalidArgument, match="'retention_age_s'"):
            tl.alter_topic("orders", retention_ages=5)


def test_partitions_are_added_and_written_from_offset_one(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish("orders", b"x", partition=1)
        grown = tl.add_partitions("orders", 4)
        assert grown.partitions == 4
        assert tl.publish("orders", b"y", partition=3).offset == 1
        assert [valid.end for valid in tl.offsets("orders")] == [1, 2, 1, 2]
        for wrong in (4, 3, 0, -1, 1025):
            with pytest.raises(errors.InvalidArgument):
                tl.add_partitions("orders", wrong)


def test_S4_06_partitions_under_keyed_records_are_refused_unless_asked_for(db_url: str) -> None:
    """Also for a key that is published by a client which does not know of the new partitions yet."""
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as late:
        tl.create_topic("orders", partitions=2)
        late.publish("orders", b"x", key="a")
        with pytest.raises(errors.KeyOrderAtRisk) as caught:
            tl.add_partitions("orders", 16)
        assert caught.value.code == "TL010"
        with psycopg.connect(db_url) as connection:
            connection.execute("select trunkline.segment_roll(open_segment_id, true) from trunkline.topic")
        tl.retention_run()
        with pytest.raises(errors.KeyOrderAtRisk):
            tl.add_partitions("orders", 16)
        tl.add_partitions("orders", 16, break_key_order=True)
        keys = [str(n) for n in range(50)]
        assert [late.publish("orders", b"y", key=key).partition for key in keys] == [
            tl.publish("orders", b"z", key=key).partition for key in keys
        ]
        assert sum(valid.end - valid.start for valid in tl.offsets("orders")) == 101


def test_a_deleted_topic_is_gone_and_its_name_is_free_for_another(db_url: str) -> None:
    with trunkline.connect(db_url) as tl, trunkline.connect(db_url) as other:
        first = tl.create_topic("orders")
        other.publish_many("orders", [b"old"] * 5)
        tl.delete_topic("orders")
        for call in (
            lambda: tl.topic("orders"),
            lambda: other.publish("orders", b"x"),
            lambda: other.read("orders"),
            lambda: tl.delete_topic("orders"),
        ):
            with pytest.raises(errors.NotFound):
                call()
        second = tl.create_topic("orders")
        assert second.incarnation != first.incarnation
        assert other.publish("orders", b"new").offset == 1
        assert [record.payload for record in other.read("orders")] == [b"new"]
    with psycopg.connect(db_url) as connection:
        tables = connection.execute(
            "select count(*) from pg_class where relname ~ '^segment_[0-9]+$' and relkind = 'r'"
        ).fetchone()
        assert tables == (1,)


def test_a_topic_is_described_with_ranges_and_segments(db_url: str) -> None:
    with trunkline.connect(db_url) as tl:
        tl.create_topic("orders", partitions=2)
        tl.publish_many("orders", [b"x"] * 5, partition=1)
        described = tl.describe_topic("orders")
        assert described.topic.name == "orders"
        assert [(valid.start, valid.end) for valid in described.ranges] == [(1, 1), (1, 6)]
        assert [segment.state for segment in described.segments] == ["open"]
        assert (described.segments[0].byte_count or 0) > 0
