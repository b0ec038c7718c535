"""How many posts should answer requests, going by what their processes burn. Opens none."""

import os
from collections.abc import Collection, Hashable

BUSY_SHARE = 0.7
"""Of a processor: when each post burns so much, another one is opened."""
CALM_SHARE = 0.5
"""Of a processor: when all of them together burn less for `CALM_S`, one is enough."""
CALM_S = 30.0


def default_processes() -> int:
    """The most that a host has: one per processor, 4 at most."""
    return min(os.cpu_count() or 1, 4)


class CrewSize:
    """`wanted` posts, from 1 to `most`; a post is whatever has an identity."""

    def __init__(self, most: int) -> None:
        self.wanted = 1
        self._most = most
        self._shares: dict[Hashable, float] = {}
        self._busy_at_s = 0.0

    def note(self, post: Hashable, share: float, posts: Collection[Hashable], now_s: float) -> None:
        """`post`, one of these, burnt such a share of a processor lately."""
        self._shares[post] = share
        shares = [self._shares.get(each, 0.0) for each in posts]
        if sum(shares) >= CALM_SHARE:
            self._busy_at_s = now_s
        if len(shares) == self.wanted and min(shares) >= BUSY_SHARE:
            self.wanted = min(self.wanted + 1, self._most)
        elif now_s - self._busy_at_s >= CALM_S:
            self.wanted = 1

    def do_without(self) -> None:
        """A further one could not be had; it may be wanted again by the next figures."""
        self.wanted = max(1, self.wanted - 1)

    def forget(self, post: Hashable) -> None:
        """The post is given up."""
        self._shares.pop(post, None)
