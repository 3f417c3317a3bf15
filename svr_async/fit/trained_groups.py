"""Groups of prompts as training knows them: of its own prompts it also knows what was mined from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from svr_async.fit.group_count import Views
from svr_async.fit.grouping import Association, Groups, Size, View, associate, likely_groups, told_groups
from svr_async.fit.price import prices

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.integer]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TrainedGroups:
    """Groups, how likely each is of the training prompts (prompt, group), and the prices of effects (`fit.price`)."""

    groups: Groups
    likely: Floats
    price: Floats | None


def association_of(features: Any, views: Views, prompts: Ints, view: View) -> Association | None:
    """Return how the words of some prompts go with a view of what was mined from them; None where there is none."""
    return associate(features[prompts], views[view][prompts]) if view in views else None


def trained_groups(
    association: Association | None, features: Any, views: Views, mined: Any, prompts: Ints, size: Size, seed: int
) -> TrainedGroups:
    """Return the groups that some prompts tell; of all others only what their words say is known.

    `features` (prompt, feature), `views` (prompt, column) and `mined` (prompt, criterion; or None) are those of all
    prompts.
    """
    inside = features[prompts]
    view = views[size.view][prompts] if views else None
    groups, gates = told_groups(association, inside, view, size, seed)
    known = likely_groups(gates, view)
    likely = groups.gates(features)
    likely[prompts] = known
    return TrainedGroups(groups=groups, likely=likely, price=prices(known, None if mined is None else mined[prompts]))
