"""The host's own HTTP/1.1 fronts: Hypercorn behind a strict reading of requests. Knows no application."""

from emulator.front.limits import FrontLimits
from emulator.front.listener import HttpListener
from emulator.front.refusals import Refusal, RefusalBody, RefusalWriter

__all__ = ["FrontLimits", "HttpListener", "Refusal", "RefusalBody", "RefusalWriter"]
