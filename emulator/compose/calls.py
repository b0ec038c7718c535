"""Where calls of app code arrive before and after those who answer them exist. Knows the kinds, answers none itself."""

from emulator.contexts import BindingCall, BindingCalls

_UNAVAILABLE = '["error","backend_unavailable","the host is starting"]'
_UNKNOWN = '["error","backend_unavailable","this host has no such binding"]'


class CallDesk(BindingCalls):
    """Gateway and runners exist before the engine that answers them: until then everything is unavailable (DW-18)."""

    def __init__(self) -> None:
        self._by_kind: dict[str, BindingCalls] = {}
        self._is_open = False

    def open(self, by_kind: dict[str, BindingCalls]) -> None:
        """From now on calls reach the handlers."""
        self._by_kind = by_kind
        self._is_open = True

    async def answer(self, call: BindingCall) -> str:
        handler = self._by_kind.get(call.kind)
        if handler is None:
            return _UNKNOWN if self._is_open else _UNAVAILABLE
        return await handler.answer(call)
