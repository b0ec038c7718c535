"""Every fault point of a whole host: points are declared where they lie, so all of a host has to be imported."""

from collections.abc import Mapping

from emulator.compose import edges, host
from host.model.faults import registered

PARTS = (edges, host)
"""Imported for the points that they and what they use declare."""


def declared_points() -> Mapping[str, str]:
    """Name and meaning of each, in order of name."""
    return registered()
