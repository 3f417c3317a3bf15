"""How figures look: two themes over a transparent ground, and colours that mean one thing in every figure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from svr_async.reports.figure_model import Role

WIDTH = 4.8  # inches: one column of a page, and a phone's width at 81 %
TEXT = 8.0  # points
DPI = 220  # of PNG, and of what texts are measured at
MARKERS = "os^Dvp<>hX"  # by place, so that colour is not all that tells series apart


@dataclass(frozen=True, slots=True, kw_only=True)
class Theme:
    """Colours on a light or a dark page: those of the report's style sheet, and one a place for runs: no green, no red.

    `ends` are the colours of a heat map's 0 and 1, `over` is of text on each.
    """

    ending: str
    ink: str
    muted: str
    hair: str
    warn: str
    roles: Mapping[Role, str]
    places: tuple[str, ...]
    ends: tuple[str, str]
    over: tuple[str, str]


LIGHT = Theme(
    ending="",
    ink="#1c1f24",
    muted="#5b606a",
    hair="#d5d2ca",
    warn="#8a5a00",
    roles={
        "ours": "#1d5f82", "dev": "#1d5f82", "train": "#5b606a", "printed": "#1c1f24",
        "ahead": "#2b6a4d", "behind": "#a33a35", "other": "#9a9da3",
        "negatives": "#a4551c", "active": "#7a4b8f", "best": "#1c1f24",
    },
    places=("#1d5f82", "#a4551c", "#0f766e", "#7a4b8f", "#8a6d00", "#9d3c7c", "#3f8fa8", "#5b606a"),
    ends=("#f3f1ec", "#1d5f82"),
    over=("#1c1f24", "#ffffff"),
)  # fmt: skip
DARK = Theme(
    ending="-dark",
    ink="#e9e7e1",
    muted="#a3a8b2",
    hair="#3a404b",
    warn="#e0b25a",
    roles={
        "ours": "#7fb7d6", "dev": "#7fb7d6", "train": "#a3a8b2", "printed": "#e9e7e1",
        "ahead": "#8ccbaa", "behind": "#ee9a94", "other": "#6d737d",
        "negatives": "#d99b6a", "active": "#c6a3da", "best": "#e9e7e1",
    },
    places=("#7fb7d6", "#d99b6a", "#63c7bd", "#c6a3da", "#d8c060", "#e59ac8", "#9fdbe6", "#a3a8b2"),
    ends=("#20242b", "#7fb7d6"),
    over=("#e9e7e1", "#14161a"),
)  # fmt: skip
THEMES = (LIGHT, DARK)


def colour(theme: Theme, role: Role, place: int) -> str:
    """Return the colour of a role, or of a place where there is no role."""
    return theme.roles[role] if role else theme.places[place % len(theme.places)]


def settings(theme: Theme) -> dict[Any, Any]:
    """Return matplotlib's settings: the fonts that it ships, letters as outlines, ids that do not change."""
    return {
        "svg.hashsalt": "svr-async",
        "svg.fonttype": "path",
        "font.family": "DejaVu Sans",
        "font.size": TEXT,
        "axes.labelsize": TEXT,
        "xtick.labelsize": TEXT - 0.5,
        "ytick.labelsize": TEXT - 0.5,
        "text.hinting": "none",
        "text.parse_math": False,
        "axes.unicode_minus": True,
        "text.color": theme.ink,
        "axes.labelcolor": theme.muted,
        "axes.edgecolor": theme.hair,
        "xtick.color": theme.hair,
        "xtick.labelcolor": theme.muted,
        "ytick.color": theme.hair,
        "ytick.labelcolor": theme.ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.linewidth": 0.8,
        "axes.axisbelow": True,
        "grid.color": theme.hair,
        "grid.linewidth": 0.6,
        "lines.linewidth": 1.5,
        "lines.markersize": 4,
    }
