import pytest

from engine.log.parquet_limits import is_inflated

GB = 1 << 30


@pytest.mark.parametrize(
    ("row_count", "size_bytes", "inflated"),
    [
        (1_000_000_000, 10_000, True),
        (2**62, GB, True),
        (1_000_000_000, GB, False),
        (300_000_000, 100_000_000, False),
        (1_000_000, 1_000, False),
        (0, 0, False),
    ],
)
def test_a_footer_is_believed_as_far_as_its_bytes_go(
    row_count: int, size_bytes: int, inflated: bool
):
    assert is_inflated(row_count, size_bytes) is inflated
