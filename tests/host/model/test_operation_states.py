"""Every pair of status and event, and what each makes of effect and phase."""

from itertools import product

import pytest

from host.model.operation_states import (
    TRANSITIONS,
    Action,
    Effect,
    Event,
    IllegalTransition,
    Phase,
    Status,
    after,
    check_effect,
    phase_for,
)

ALLOWED = {
    Status.QUEUED: {Status.RUNNING, Status.WAITING_INPUT},
    Status.RUNNING: {Status.SUCCEEDED, Status.FAILED, Status.RECONCILING, Status.WAITING_INPUT},
    Status.WAITING_INPUT: {Status.QUEUED},
    Status.RECONCILING: {Status.RUNNING, Status.SUCCEEDED, Status.FAILED},
    Status.SUCCEEDED: set(),
    Status.FAILED: set(),
}


@pytest.mark.req("HA-42")
@pytest.mark.parametrize(("status", "event"), tuple(product(Status, Event)))
def test_a_pair_leads_where_the_contract_allows_or_is_refused(status: Status, event: Event) -> None:
    if (status, event) in TRANSITIONS:
        assert after(status, event) in ALLOWED[status]
    else:
        with pytest.raises(IllegalTransition):
            after(status, event)


@pytest.mark.req("HA-42")
def test_every_allowed_change_of_status_has_an_event() -> None:
    assert {status: {to for (at, _), to in TRANSITIONS.items() if at is status} for status in Status} == ALLOWED


@pytest.mark.req("HA-42", "HA-45")
def test_a_terminal_effect_is_never_unknown() -> None:
    assert check_effect(Status.SUCCEEDED, Effect.COMPLETE) is Effect.COMPLETE
    for status, effect in product((Status.SUCCEEDED, Status.FAILED), (Effect.UNKNOWN,)):
        with pytest.raises(IllegalTransition):
            check_effect(status, effect)
    with pytest.raises(IllegalTransition):
        check_effect(Status.FAILED, Effect.COMPLETE)


@pytest.mark.req("HA-39")
def test_the_phase_follows_the_last_operation() -> None:
    for status in (Status.QUEUED, Status.RUNNING, Status.WAITING_INPUT, Status.RECONCILING):
        assert phase_for(Action.CREATE, status) is phase_for(Action.UPDATE, status) is Phase.PENDING
        assert phase_for(Action.DELETE, status) is Phase.DELETING
    assert {phase_for(action, Status.FAILED) for action in Action} == {Phase.ERROR}
