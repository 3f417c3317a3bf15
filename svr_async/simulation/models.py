"""The judges that the simulated endpoint serves: how often each errs, leans and is dazzled."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeModel:
    """How good one simulated judge is.

    `noise` is the chance that a verdict is the wrong way round; `position_bias` the chance that, where two responses
    do equally well on a rubric, it says A without looking; `direct_bias` the same for a verdict without rubrics;
    `insight` how much the true worth of a response weighs in that direct verdict, against the glamour of its surface;
    `invention` the share of self-written rubrics that name something the prompt's type cares about.
    """

    name: str
    noise: float
    position_bias: float = 0.1
    direct_bias: float = 0.1
    insight: float = 0.45
    invention: float = 0.25


MODELS: dict[str, JudgeModel] = {
    model.name: model
    for model in (
        JudgeModel(name="gpt-oss-120b", noise=0.10),
        JudgeModel(name="gpt-oss-20b", noise=0.16, position_bias=0.2, direct_bias=0.2, insight=0.4, invention=0.2),
        JudgeModel(name="gpt-4o-mini", noise=0.14, direct_bias=0.15, insight=0.42, invention=0.15),
        JudgeModel(name="deepseek-v4-flash", noise=0.09, position_bias=0.08, insight=0.6, invention=0.35),
        JudgeModel(name="Qwen/Qwen3.5-397B-A17B", noise=0.06, position_bias=0.06, insight=0.8, invention=0.3),
        JudgeModel(name="gpt-5.4", noise=0.05, position_bias=0.05, direct_bias=0.05, insight=0.7, invention=0.4),
        JudgeModel(name="gemini-3-flash", noise=0.07, direct_bias=0.12, insight=0.6, invention=0.35),
        JudgeModel(name="sim-perfect", noise=0.0, position_bias=0.0, direct_bias=0.0, insight=50.0, invention=1.0),
        JudgeModel(name="sim-strong", noise=0.04, position_bias=0.05, direct_bias=0.05, insight=1.2, invention=0.5),
        JudgeModel(name="sim-weak", noise=0.25, position_bias=0.3, direct_bias=0.3, insight=0.3, invention=0.1),
        JudgeModel(name="sim-biased", noise=0.10, position_bias=0.8, direct_bias=0.8),
    )
}
