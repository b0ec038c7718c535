"""Cron expressions: what is one, and what is said of anything else."""

import random

import pytest

from host.model.cron import LONGEST_CRON, CronRefused, check_cron

RIGHT = [
    "* * * * *",
    "*/5 * * * MON-FRI",
    "0,15,30-45/5,*/7 0-23 1-31 1-12 1-7",
    "59/3 23/23 31 12 7",
    "00 007 01 jan,Feb-DEC/2 sun,2,THU",
    "50-10 22-4 28-3 NOV-FEB FRI-MON",
    "0 0 L * *",
    "0 0 LW * *",
    "0 0 L-3 * *",
    "0 0 L-30W * *",
    "0 0 15W * *",
    "0 0 * * L",
    "0 0 * * 6L",
    "0 0 * * friL",
    "0 0 * * MON#2",
    "0 0 * * 1#5",
    f"{','.join(map(str, range(60)))} * * * *",
]


@pytest.mark.req("MW-17")
@pytest.mark.parametrize("text", RIGHT)
def test_what_cloudflare_takes_is_an_expression(text: str) -> None:
    check_cron(text)


WRONG = {
    "": "a cron expression has five fields",
    "* * * *": "a cron expression has five fields",
    "* * * * * *": "a cron expression has five fields",
    "* *  * * *": "a cron expression has five fields",
    " * * * * *": "a cron expression has five fields",
    "*\t* * * *": "a cron expression has five fields",
    "@daily": "a cron expression has five fields",
    "* * * * *" + " " * LONGEST_CRON: "a cron expression has five fields",
    "60 * * * *": "minute: 60 is not a value from 0 to 59",
    "-1 * * * *": "minute: '' is not a value: a number from 0 to 59",
    "5- * * * *": "minute: '' is not a value: a number from 0 to 59",
    "5-70 * * * *": "minute: 70 is not a value from 0 to 59",
    "1,,2 * * * *": "minute: '' is not a value: a number from 0 to 59",
    "*,5 * * * *": "minute: '*,5' has * beside other values: it stands alone, or with a step",
    "*-5 * * * *": "minute: '*' is not a value: a number from 0 to 59",
    "*/0 * * * *": "minute: 0 is not a step from 1 to 59",
    "*/60 * * * *": "minute: 60 is not a step from 1 to 59",
    "*/ * * * *": "minute: '' is not a step: a number from 1 to 59",
    "*/5/5 * * * *": "minute: '5/5' is not a step: a number from 1 to 59",
    "1-2-3 * * * *": "minute: '2-3' is not a value: a number from 0 to 59",
    "? * * * *": "minute: '?' is not a value: a number from 0 to 59",
    "\u0663 * * * *": "minute: '\\u0663' is not a value: a number from 0 to 59",
    "5\n * * * *": "minute: '5\\n' is not a value: a number from 0 to 59",
    "* 24 * * *": "hour: 24 is not a value from 0 to 23",
    "* L * * *": "hour: 'L' is not a value: a number from 0 to 23",
    "* * 0 * *": "day of month: 0 is not a value from 1 to 31",
    "* * 32 * *": "day of month: 32 is not a value from 1 to 31",
    "* * L-31 * *": "day of month: 31 is not a number of days before the last from 1 to 30",
    "* * L- * *": "day of month: '' is not a number of days before the last: a number from 1 to 30",
    "* * W * *": "day of month: '' is not a value: a number from 1 to 31",
    "* * 1,L * *": "day of month: 'L' is not a value: a number from 1 to 31",
    "* * 1-5W * *": "day of month: '1-5' is not a value: a number from 1 to 31",
    "* * * 13 *": "month: 13 is not a value from 1 to 12",
    "* * * JANU *": "month: 'JANU' is not a value: a number from 1 to 12, or JAN to DEC",
    "* * * MON *": "month: 'MON' is not a value: a number from 1 to 12, or JAN to DEC",
    "* * * */12 *": "month: 12 is not a step from 1 to 11",
    "* * * * 0": "day of week: 0 is not a value from 1 to 7",
    "* * * * 8": "day of week: 8 is not a value from 1 to 7",
    "* * * * SUNDAY": "day of week: 'SUNDAY' is not a value: a number from 1 to 7, or SUN to SAT",
    "* * * * \u017fun": "day of week: '\\u017fun' is not a value: a number from 1 to 7, or SUN to SAT",
    "* * * * 2#6": "day of week: 6 is not a week of the month from 1 to 5",
    "* * * * #2": "day of week: '' is not a value: a number from 1 to 7, or SUN to SAT",
    "* * * * 1,2#2": "day of week: '1,2' is not a value: a number from 1 to 7, or SUN to SAT",
    f"{'9' * 60} * * * *": f"minute: '{'9' * 40}'... is not a value: a number from 0 to 59",
}


@pytest.mark.req("MW-17")
@pytest.mark.parametrize("text", list(WRONG))
def test_what_is_wrong_is_said_of_the_field_where_it_is(text: str) -> None:
    with pytest.raises(CronRefused) as told:
        check_cron(text)
    assert str(told.value).startswith(WRONG[text])


@pytest.mark.req("MW-17")
def test_no_text_at_all_raises_anything_else() -> None:
    chance = random.Random(3)
    for _ in range(20_000):
        text = " ".join("".join(chance.choices("0159*/,-LW#?aJAN", k=chance.randint(1, 5))) for _ in range(5))
        try:
            check_cron(text)
        except CronRefused as refused:
            assert str(refused).partition(":")[0] in ("minute", "hour", "day of month", "month", "day of week")
