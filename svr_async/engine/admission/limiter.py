"""How many calls may be under way: a pure controller, told what became of each call and what time it is.

It grows while growing pays, and falls when the endpoint turns calls away:

- **seek**: at the start, one more call for each success (twice as many each round trip), until calls are turned away
  or the time per output token rises as fast as the number of calls, so that nothing is gained;
- **hold**: the limit that paid; now and then **up**: a quarter more, then more still while calls a second rise with it;
- **down**: now and then, and when the time per output token is well above the best of the long run, fewer calls, kept
  if the endpoint does as much with them;
- **recover**: after rejections (429, 503, timeouts) half, then up again at once to just below where it fell.

Only a share of rejections above what is usual counts, so that an endpoint that fails at random is not taken for one
that is full. Calls that left before the limit fell tell of the time before: they make it fall no further, which is why
a storm of rejections is one event. Permits are never revoked: a limit that falls below what is under way only waits.
Peers of it: TCP's slow start and fast recovery, Netflix's Gradient2 (github.com/Netflix/concurrency-limits), BBR.
"""

from __future__ import annotations

from math import exp, log

START = 16  # the first limit, where no number of calls is named
FALL = 0.5
RAMP_S = 0.25  # before any answer, the limit grows this often, by START calls a second
RETURN_TO = 0.97  # share of the level at which calls were turned away that the limit returns to at once
MOST_CARE = 4  # the pause before a probe doubles with each probe that is turned away, up to this factor
HOLD_S, SHORT_HOLD_S, HOLD_TURNS = 7.0, 2.0, 10.0  # pause before a probe: most, least, and in mean latencies
SMOOTH = 0.05  # weight of a new latency in the running mean
USUAL_TURNS = 200  # outcomes that the running mean of the usual share of rejections spans
MOST_USUAL = 0.35
LOW = 0.75  # rejections below this share of the last level that was too high are not due to the load
RARE = 0.01  # where the usual share of rejections is below this, a single one ends a probe
ALLOWED_SHARE = 0.075  # share of rejections in a round that is tolerated beyond twice the usual share
ROUND = 40  # outcomes in a round, or as many as the limit where that is higher
STEP, LOW_STEP, MORE, MOST_STEP = 1.25, 1.5, 1.3, 2.0  # factors: a probe's, a low limit's, its growth, its bound
LOW_LIMIT = 48
DOWN = 0.7  # factor of a probe downwards
GAIN = 0.12  # more calls pay from this share of the ideal gain on (work that grows with the calls)
SAMPLES = 32  # least replies to judge a level by
DOUBT = 0.35  # the margin for noise is this over the root of the number of replies
LOSS = 0.08  # share of the highest throughput that a smaller limit may cost
REST = 8  # most probes upwards between two downwards, reached where those downwards do not help
QUEUED = log(1.6)  # a pace so much above the best one means that calls queue at the endpoint
CHOKED = log(2.5)  # a pace so much above that of the last level halves the limit at once
QUICK = 12  # replies over which that pace is taken
DRIFT = 0.01  # how far the best pace is let slip at each level that is judged


class Limiter:
    """The limit of one endpoint, between 1 and `ceiling`; seconds on any steady clock.

    `limit` is to be read before each call. `by_latency` is off where the user named a number: that one is taken at its
    word, and falls for rejections only.
    """

    __slots__ = (
        "_base", "_best", "_by_latency", "_care", "_down_in", "_failed_since", "_goal", "_held", "_latency",
        "_level_sum", "_mode", "_outcomes", "_pace_sum", "_probe_at", "_quick", "_quick_n", "_ramp_at", "_rejected",
        "_rest", "_samples", "_since", "_skip", "_step", "_top", "_usual", "_was", "ceiling", "falls",
        "fell_at", "limit",
    )  # fmt: skip

    def __init__(self, *, ceiling: int, start: int | None = None, by_latency: bool = True) -> None:
        self.ceiling = ceiling
        self.limit = max(1, min(start or ceiling, ceiling))
        self.falls = 0
        self._by_latency = by_latency
        self._mode = "seek"
        self._goal = ceiling
        self.fell_at = self._since = float("-inf")
        self._probe_at = float("inf")
        self._step = STEP
        self._was = self._held = 0
        self._rest = self._down_in = 2
        self._failed_since = False
        self._outcomes = self._rejected = 0
        self._usual = 0.0
        self._ramp_at: float | None = None
        self._latency = 0.0
        self._care = 1
        self._base: tuple[float, float] | None = None  # the level that is held, and its pace, as logarithms
        self._best = float("inf")
        self._top = float("-inf")
        self._forget()

    def bound(self, ceiling: int) -> None:
        """Go on below another ceiling: what stood at the old one stands at the new."""
        at_goal, at_limit = self._goal >= self.ceiling, self.limit >= self.ceiling
        self.ceiling = ceiling
        self._goal = ceiling if at_goal else min(self._goal, ceiling)
        self.limit = ceiling if at_limit else min(self.limit, ceiling)

    @property
    def mode(self) -> str:
        """What it is doing: seek, hold, up, down or recover."""
        return self._mode

    def grows_at(self, now: float) -> float:
        """Return when a full limit grows by itself: at the start, a few more for each second without an answer."""
        if self._mode != "seek" or self.limit >= self._goal or not self._by_latency:
            return float("inf")
        if self._ramp_at is None:
            self._ramp_at = now + RAMP_S
        return self._ramp_at

    def grow(self, now: float, in_flight: int, told: float | None = None) -> None:
        """A call leaves: make room for it if it is time; by as many as the endpoint says that it takes, where it does.

        `told` is in calls a second.
        """
        if in_flight >= self.limit and now >= self.grows_at(now):
            self.limit = min(self._goal, self.limit + max(1, int(RAMP_S * (told or START))))
            self._ramp_at = now + RAMP_S

    def succeeded(self, now: float, sent_at: float, level: int, pace: float, *, told: bool = False) -> None:
        """Note a success: sent when `level` calls were under way, itself included, at `pace` seconds a token.

        A pace of 0 is not known and not used. `told`: the endpoint says how many it takes, so `grow` goes on.
        """
        self._count(0, level)
        if sent_at < self.fell_at:
            return
        self._failed_since = False
        self._latency += SMOOTH * (now - sent_at - self._latency)
        if not told:
            self._ramp_at = None
        if self.limit < self._goal and 4 * level >= 3 * self.limit:
            self.limit += 1
        elif self._mode == "recover" and self.limit >= self._goal:
            self._hold(now)
        if now >= self._probe_at and 4 * level >= 3 * self.limit:
            self._probe(now)
        if pace > 0 and self._by_latency and sent_at >= self._since:
            self._sample(now, level, log(pace))

    def rejected(self, now: float, sent_at: float, level: int) -> bool:
        """Note a call that was turned away (429, 503, no time); return whether the limit has fallen for it."""
        self._count(1, level)
        if sent_at < self.fell_at:
            return False
        self._rejected += 1
        probing = self._mode == "up" and self._usual < RARE  # then one rejection is enough
        few = 0 if probing else max(ROUND, level)  # refusals are heard of before the answers of their round
        if self._rejected <= (ALLOWED_SHARE + 2 * self._usual) * max(self._outcomes, few):
            return False
        self.fall(now, level)
        return True

    def fall(self, now: float, level: int) -> None:
        """Halve the limit; it returns to just below `level` at once and grows from there with care.

        A probe upwards that is turned away only goes back to where it came from: there nothing was wrong.
        """
        low = FALL * min(level, self.limit)
        if self._mode == "up":
            low = min(self._held, RETURN_TO * level)
            self._care = min(MOST_CARE, 2 * self._care)
        if not self._failed_since:  # of several falls without a success between, the first has the true level
            self._was = min(level, self.limit)
        self._failed_since = True
        self.limit = max(1, int(low))
        self._recover(now)

    def restart(self, now: float) -> None:
        """After an outage begin with few calls, and return at once to just below what was possible before it."""
        if not self._failed_since:
            self._was = self.limit
        self._failed_since = True
        self.limit = max(1, min(self.limit // 2, START))
        self._recover(now)

    def _recover(self, now: float) -> None:
        self.falls += 1
        self._mode = "recover"
        self._goal = max(self.limit, int(RETURN_TO * self._was))
        self.fell_at = now
        self._base = None
        self._step = STEP
        self._outcomes = self._rejected = 0
        self._probe_at = float("inf")
        self._settle(now)

    def _count(self, rejected: int, level: int) -> None:
        if level < LOW * self._was:
            self._usual = min(MOST_USUAL, self._usual + (rejected - self._usual) / USUAL_TURNS)
        self._outcomes += 1
        if self._outcomes >= max(ROUND, self.limit):
            self._outcomes = self._rejected = 0

    def _settle(self, now: float) -> None:
        """Judge the level from here on by calls that leave from now on."""
        self._since = now
        self._forget()

    def _forget(self) -> None:
        self._skip = 0 if self._mode == "seek" else max(8, self.limit)
        self._samples = 0
        self._level_sum = self._pace_sum = 0.0
        self._quick = 0.0
        self._quick_n = 0

    def _hold(self, now: float) -> None:
        self._mode = "hold"
        self._goal = self.limit
        self._probe_at = now + min(HOLD_S, self._care * max(SHORT_HOLD_S, HOLD_TURNS * self._latency))
        self._settle(now)

    def _probe(self, now: float) -> None:
        """Try more calls, or now and then fewer; without a pace to judge by, until some are turned away."""
        judged = self._by_latency and self._base is not None
        self._down_in -= judged
        if judged and self._base is not None and self._down_in <= 0 and self.limit > 1:
            self._down(now, self._base, DOWN)
            return
        step = self._step if self.limit >= LOW_LIMIT else max(self._step, LOW_STEP)
        self._held = self.limit
        self._goal = min(self.ceiling, max(self.limit + 1, int(self.limit * step)))
        self._mode = "up"
        self._probe_at = float("inf") if judged else now + HOLD_S / 3
        if not judged:
            self._step = min(MOST_STEP, self._step * MORE)
        self._settle(now)

    def _sample(self, now: float, level: int, pace: float) -> None:
        self._quick_n += 1
        self._quick += (pace - self._quick) / min(self._quick_n, QUICK)
        if self._base is not None and self._quick_n >= QUICK and self._quick > self._base[1] + CHOKED:
            self._choke(now, level)
            return
        if self._skip > 0:  # short answers come back first and would flatter the level
            self._skip -= self._mode != "up" or self.limit >= self._goal
            return
        self._samples += 1
        self._level_sum += log(level)
        self._pace_sum += pace
        if self._samples >= max(SAMPLES, self.limit):
            self._judge(now, self._level_sum / self._samples, self._pace_sum / self._samples)

    def _choke(self, now: float, level: int) -> None:
        """The endpoint has become much slower at the same level: half as many at once, and see what that does."""
        seen = (log(max(1, level)), self._quick)
        if self._mode == "up":
            seen = self._base or seen
        self._down(now, seen, FALL)

    def _judge(self, now: float, level: float, pace: float) -> None:
        """Decide by a level that has been seen in full (logarithms of the calls under way and of seconds a token)."""
        self._best = min(self._best + DRIFT, pace)
        before, self._base = self._base, (level, pace)
        if self._mode == "seek":
            self._judge_seeking(now, before)
        elif self._mode == "up" and before is not None:
            self._judge_up(now, before)
        elif self._mode == "down" and before is not None:
            self._judge_down(now, before)
        else:
            if before is not None:
                self._base = level, pace = (level + before[0]) / 2, (pace + before[1]) / 2
            self._top = max(self._top - DRIFT, level - pace)
            if pace > self._best + QUEUED:
                self._down_in = 1
            self._forget()
            self._skip = 0

    def _judge_seeking(self, now: float, before: tuple[float, float] | None) -> None:
        level, pace = self._base or (0.0, 0.0)
        if before is not None and level - before[0] > 0.1 and not self._pays(before, (level, pace)):
            knee = exp(level + min(0.0, self._best - pace)) * 1.25
            self.limit = max(1, min(self.limit, int(max(knee, exp(before[0])))))
            self._base = None
            self._hold(now)
        else:
            self._settle(now)

    def _judge_up(self, now: float, before: tuple[float, float]) -> None:
        if self._pays(before, self._base or before):
            self._care = 1
            self._step = min(MOST_STEP, self._step * MORE)
            if self.limit < self.ceiling:
                self._probe(now)
                return
        else:
            self.limit = max(1, min(self.limit, round(exp(before[0]))))
            self._base = before
            self._step = STEP
        self._hold(now)

    def _down(self, now: float, seen: tuple[float, float], factor: float) -> None:
        self._base = seen
        self._top = min(self._top, seen[0] - seen[1] + LOSS)  # an older maximum may be out of date
        self._was = self.limit
        self.limit = max(1, int(self.limit * factor))
        self._goal = self.limit
        self._mode = "down"
        self._probe_at = float("inf")
        self._settle(now)

    def _judge_down(self, now: float, before: tuple[float, float]) -> None:
        """Keep fewer calls if as much is done with them; otherwise the slower pace is what this load costs."""
        level, pace = self._base or before
        if self._top - (level - pace) > LOSS or self._pays((level, pace), before, doubt=0.0):
            self.limit = min(self.ceiling, max(self.limit, self._was))
            self._base = before
            self._best = max(self._best, before[1] - QUEUED / 2)
            self._rest = min(REST, 2 * self._rest)
        else:
            self._rest = 1
        self._down_in = self._rest
        self._hold(now)

    def _pays(self, before: tuple[float, float], after: tuple[float, float], doubt: float = DOUBT) -> bool:
        """Whether a higher level does more: calls a second are the level over the time that each takes."""
        wider = after[0] - before[0]
        margin: float = doubt / max(SAMPLES, self.limit) ** 0.5
        return wider - (after[1] - before[1]) >= GAIN * wider + margin
