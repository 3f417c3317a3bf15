"""From the settings of a planted world, whichever kind it is, to the world."""

from __future__ import annotations

from svr_async.simulation.family import DrawnConfig
from svr_async.simulation.family_world import FamilyWorld
from svr_async.simulation.world import World, WorldConfig

PlantedConfig = WorldConfig | DrawnConfig
"""Settings of a world from the catalogue, or of one of the family."""


def plant(config: PlantedConfig) -> World | FamilyWorld:
    """Return the world of these settings."""
    return FamilyWorld(config) if isinstance(config, DrawnConfig) else World(config)
