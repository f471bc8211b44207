"""Times of compiling a function and of its replays, in seconds."""

from __future__ import annotations

import math

MOST = 2  # ordinary calls that are timed
FIRST = 8  # replays that are timed; later ones ever rarer


class Costs:
    """Times of the calls with one cache key.

    The first call of a function is slow, because it imports and allocates, and comparisons run it
    with a mode around it. So two calls after the first replays are made as they are, to be timed.
    (A step of 40 us takes twice that long then: Python needs some 20 calls to get that fast.)
    """

    def __init__(self) -> None:
        self.ordinary = math.inf  # seconds of a call that is not compiled, the least
        self.replay = math.inf  # seconds of a replay with all that belongs to it, the least
        self.recording = 0.0  # seconds of the call that was recorded
        self.spent = 0.0  # seconds of all calls that were recorded or compared
        self.calls = 0  # how many these were
        self.timed = 0  # how many ordinary calls after the first were timed
        self.is_settled = False  # these are enough
        self.next_replay = 0  # number of the replay that is timed next

    def note_ordinary(self, seconds: float, is_first: bool = False) -> None:
        if not is_first:
            self.timed += 1
            self.is_settled = self.timed >= MOST
        self.ordinary = min(self.ordinary, seconds)

    def note_replay(self, seconds: float, number: int) -> None:
        self.replay = min(self.replay, seconds)
        self.next_replay = number if number < FIRST else 2 * number

    def note_spent(self, seconds: float) -> None:
        self.spent += seconds
        self.calls += 1

    def calls_until_paid(self) -> float:
        """The number of calls from which on all of them together took less time than ordinary ones.

        0: it is not known yet.
        """
        if not self.is_settled or self.replay == math.inf:
            return 0.0
        if self.ordinary <= self.replay:
            return math.inf
        beyond = max(self.spent - self.calls * self.ordinary, 0.0)
        others = self.calls + self.timed + 1  # with the first one
        return others + beyond / (self.ordinary - self.replay)
