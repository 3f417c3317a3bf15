"""The options of `--method rrd`, by default the settings of the paper's reproduction (`app:rrd_repro`)."""

from __future__ import annotations

from dataclasses import dataclass

RANGES = {
    "samples": (1, 64), "broad": (0, 64), "children": (1, 16), "depth": (0, 8), "rejections": (1, 1_000),
    "initial": (1, 100),
}  # fmt: skip
TOKENS = dict.fromkeys(("tokens", "proposal_tokens", "judge_tokens", "direct_tokens"), (1, 1_000_000))


@dataclass(frozen=True, slots=True, kw_only=True)
class RrdOptions:
    """How rubrics are mined, and who is asked.

    `samples` responses a prompt come from `samplers` in turn, by default the judge, at `temperature` and `top_p`. A
    rubric that more than `broad` of them satisfy is replaced by `children` finer ones, down to `depth`; after
    `rejections` rejected rubrics no further ones are looked at. `strong` and `weak` write the references of the
    direction filter: by default the first sample, and what the judge writes when it is asked for a worse response.
    `initial` bounds the rubrics proposed. `shrink` is how far the covariance of verdicts is drawn to a multiple of the
    identity: 8 samples tell half of what there is to know of as many rubrics. The tokens bound single replies: of a
    judgment, a proposal, a direct comparison, and all others.
    """

    samples: int = 8
    samplers: tuple[str, ...] = ()
    temperature: float = 0.7
    top_p: float = 0.95
    initial: int = 10
    broad: int = 2
    children: int = 2
    depth: int = 3
    rejections: int = 15
    strong: str = ""
    weak: str = ""
    shrink: float = 0.5
    tokens: int = 2048
    proposal_tokens: int = 4096
    judge_tokens: int = 256
    direct_tokens: int = 512

    def __post_init__(self) -> None:
        for name, (least, most) in {**RANGES, **TOKENS}.items():
            if not least <= getattr(self, name) <= most:
                raise ValueError(f"{name} is from {least} to {most:,} (got {getattr(self, name)})")
        for name, low, high in (("temperature", 0, 2), ("top_p", 0, 1), ("shrink", 0, 1)):
            value, words = getattr(self, name), "from" if name == "temperature" else "above"
            if not low <= value <= high or (name != "temperature" and not value):
                raise ValueError(f"{name} is {words} {low}, at most {high} (got {value})")

    @property
    def others(self) -> tuple[str, ...]:
        """The judges that are named, each once."""
        return tuple(dict.fromkeys(name for name in (*self.samplers, self.strong, self.weak) if name))
