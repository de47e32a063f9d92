"""Printing times relative to now, and parsing times on the command line."""

from datetime import UTC, datetime, timedelta, timezone

import click
import pytest

from treering.cli.options import Moment
from treering.cli.rows import when

NOW = datetime(2026, 12, 25, 15, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("moment", "expected"),
    [
        (datetime(2026, 12, 25, 14, 30, tzinfo=UTC), "Today 2:30 PM"),
        (datetime(2026, 12, 25, 10, 15, tzinfo=UTC), "Today 10:15 AM"),
        (datetime(2026, 12, 25, 0, 5, tzinfo=UTC), "Today 12:05 AM"),
        (datetime(2026, 12, 25, 12, 0, tzinfo=UTC), "Today 12:00 PM"),
        (datetime(2026, 12, 24, 23, 59, tzinfo=UTC), "Yesterday"),
        (datetime(2026, 12, 24, 0, 0, tzinfo=UTC), "Yesterday"),
        (datetime(2026, 12, 23, 23, 59, tzinfo=UTC), "Dec 23"),
        (datetime(2026, 1, 2, tzinfo=UTC), "Jan 2"),
        (datetime(2025, 12, 23, tzinfo=UTC), "Dec 23, 2025"),
        (datetime(2026, 12, 26, tzinfo=UTC), "Dec 26"),
    ],
)
def test_a_time_is_printed_relative_to_now(moment: datetime, expected: str) -> None:
    assert when(moment, NOW, UTC) == expected


def test_today_and_yesterday_depend_on_the_zone() -> None:
    late = datetime(2026, 12, 25, 1, 0, tzinfo=UTC)
    assert when(late, NOW, timezone(timedelta(hours=-5))) == "Yesterday"
    assert when(late, NOW, timezone(timedelta(hours=2))) == "Today 3:00 AM"


def test_times_and_ages_are_parsed() -> None:
    moment_type = Moment()
    assert moment_type.convert("2026-01-31T14:30Z", None, None) == datetime(2026, 1, 31, 14, 30, tzinfo=UTC)
    local = moment_type.convert("2026-01-31", None, None)
    assert local.utcoffset() is not None
    assert local.replace(tzinfo=None) == datetime(2026, 1, 31)
    before = datetime.now(UTC) - timedelta(days=7)
    assert before <= moment_type.convert("7d", None, None) <= datetime.now(UTC) - timedelta(days=7)
    assert moment_type.convert(local, None, None) is local
    for wrong in ("soon", "", "7x", "2026-13-01", "99999999999w"):
        with pytest.raises(click.BadParameter, match="is not a time"):
            moment_type.convert(wrong, None, None)
