"""Figures to files: SVG and PNG, for light pages and for dark ones; the same figures give the same bytes."""

from __future__ import annotations

import io
import warnings
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from svr_async.core.files import open_folder, write_atomic
from svr_async.errors import UsageError
from svr_async.reports.figure_model import Figure
from svr_async.reports.figure_style import DARK, DPI, LIGHT, THEMES, Theme, settings

METADATA: dict[str, dict[str, Any]] = {"svg": {"Date": None, "Creator": None}, "png": {"Software": None}}


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A figure in its files, by their names: NAME.svg, NAME.png, NAME-dark.svg, NAME-dark.png."""

    figure: Figure
    files: dict[str, bytes]

    @property
    def light(self) -> str:
        """The SVG for light pages as an address that holds it."""
        return self._address(LIGHT)

    @property
    def dark(self) -> str:
        """The SVG for dark pages as an address that holds it."""
        return self._address(DARK)

    def _address(self, theme: Theme) -> str:
        data = self.files[f"{self.figure.name}{theme.ending}.svg"]
        return f"data:image/svg+xml;base64,{b64encode(data).decode()}"


def open_figures(folder: Path) -> None:
    """Make the folder of figures; UsageError without matplotlib. Called before the work whose results they show."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise UsageError(
            "--figures needs the package matplotlib", hint="pip install 'svr-async[figures]', or leave --figures out"
        ) from None
    open_folder(folder, "--figures")


def write_figures(folder: Path, figures: Sequence[Figure]) -> tuple[Drawn, ...]:
    """Draw figures into a folder, which is made where it is missing; return them."""
    open_figures(folder)
    drawn = tuple(map(draw, figures))
    for one in drawn:
        for name, data in one.files.items():
            write_atomic(folder / name, data)
    return drawn


def draw(figure: Figure) -> Drawn:
    """Draw a figure in every theme and format."""
    return Drawn(figure=figure, files=dict(_files(figure)))


def _files(figure: Figure) -> Iterator[tuple[str, bytes]]:
    from matplotlib import rc_context

    from svr_async.reports.figure_drawing import drawn

    for theme in THEMES:
        with rc_context(settings(theme)), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # shown as an empty box
            canvas = drawn(figure, theme)
            for kind, metadata in METADATA.items():
                out = io.BytesIO()
                canvas.savefig(out, format=kind, metadata=metadata, transparent=True, dpi=DPI)
                yield f"{figure.name}{theme.ending}.{kind}", out.getvalue()
