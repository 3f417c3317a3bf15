"""The prefix cache: whole blocks, the least recently used go first, and none serves before it is computed."""

from svr_async.simulation.prefix import BLOCK_CHARS, BLOCK_TOKENS, PrefixCache


def test_a_common_beginning_is_cached_in_whole_blocks() -> None:
    """Two requests that share two and a half blocks: the second finds two; another model finds none."""
    cache, shared = PrefixCache(100), "s" * (5 * BLOCK_CHARS // 2)
    assert cache.visit("m", [shared + "a" * BLOCK_CHARS]) == 0
    assert cache.visit("m", [shared + "b" * BLOCK_CHARS]) == 2 * BLOCK_TOKENS
    assert cache.visit("n", [shared]) == 0
    assert cache.visit("m", [shared]) == 2 * BLOCK_TOKENS


def test_a_block_serves_only_once_it_is_computed() -> None:
    """A request that comes before the lag is over finds nothing, and does not start the lag again."""
    now = [0.0]
    cache, text = PrefixCache(100, lag_s=1.0, clock=lambda: now[0]), ["x" * (2 * BLOCK_CHARS)]
    assert cache.visit("m", text) == 0
    now[0] = 0.9
    assert cache.visit("m", text) == 0
    now[0] = 1.0
    assert cache.visit("m", text) == 2 * BLOCK_TOKENS


def test_without_blocks_nothing_is_cached() -> None:
    """A cache of no blocks never hits."""
    cache = PrefixCache(0)
    assert [cache.visit("m", ["x" * 4096]) for _ in range(2)] == [0, 0]
