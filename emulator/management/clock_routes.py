"""`/v1/clock`: shows and changes contract time. Knows only HTTP and `ClockControl`."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from emulator.management.bodies import read_object, require
from emulator.management.clock import AdvanceHeld, ClockControl, ClockReading
from emulator.management.errors import ManagementRefused
from host.model.json import JsonObject
from host.model.time import ClockRefused, timestamp


class ClockRoutes:
    def __init__(self, control: ClockControl) -> None:
        self._control = control

    async def show(self, request: Request) -> Response:
        return JSONResponse(_reading(await self._control.read()))

    async def change(self, request: Request) -> Response:
        """`freeze`, `thaw`, `advance` with `{"seconds": n}`, `run-to-idle`."""
        change = request.path_params["change"]
        try:
            match change:
                case "freeze":
                    await read_object(request, {})
                    reading = await self._control.freeze()
                case "thaw":
                    await read_object(request, {})
                    reading = await self._control.thaw()
                case "advance":
                    reading = await self._control.advance(await _seconds(request))
                case "run-to-idle":
                    await read_object(request, {})
                    reading = await self._control.run_to_idle()
                case _:
                    raise ManagementRefused(404, "not_found", f"the clock has no change {change!r}")
        except ClockRefused as error:
            raise ManagementRefused(400, "invalid_request", str(error)) from error
        except AdvanceHeld as error:
            raise ManagementRefused(409, "advance_held", str(error)) from error
        return JSONResponse(_reading(reading))


async def _seconds(request: Request) -> float:
    body = await read_object(request, {"seconds": (int, float)})
    seconds = require(body, "seconds")
    assert isinstance(seconds, int | float)
    try:
        return float(seconds)
    except OverflowError as error:
        raise ClockRefused("the clock cannot go beyond the year 9999") from error


def _reading(reading: ClockReading) -> JsonObject:
    due = reading.next_due_ms
    return {
        "mode": reading.mode.value,
        "now": timestamp(reading.now_ms),
        "nowMs": reading.now_ms,
        "nextDue": None if due is None else timestamp(due),
        "nextDueMs": due,
    }
