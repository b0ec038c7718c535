"""Strict reading and comparing of a megabyte of JSON beside `json.loads` of the same text: printed.

Goal: no single step keeps the event loop for 100 ms on a quiet core; the longest wait of a ticking loop is printed.
"""

import asyncio
import json
import time

import pytest

from host.http import bodies
from host.model.json import canonical_text, decode

SIZE = 1024 * 1024


def filled(item: str) -> str:
    return "[" + ",".join([item] * (SIZE // (len(item) + 1))) + "]"


SHAPES = {
    "zeros": filled("0"),
    "empty arrays": filled("[]"),
    "empty objects": filled("{}"),
    "small objects": filled('{"a":0}'),
    "one object": "{" + ",".join(f'"a{number}":0' for number in range(SIZE // 12)) + "}",
    "90 deep": filled("[" * 90 + "]" * 90),
    "fractions": filled("0.1"),
    "many fractions": "[" + ",".join(f"0.{number}" for number in range(100000, 100000 + SIZE // 9)) + "]",
    "1e300": filled("1e300"),
    "no double": "[0.1000000000000000055," + filled("0")[1:],
    "strings": filled('""'),
    "escapes": filled('"\\ud83d\\ude00"'),
}


def seconds_of(work: object, rounds: int = 3) -> float:
    best = float("inf")
    for _ in range(rounds):
        began_s = time.process_time()
        work()  # type: ignore[operator]
        best = min(best, time.process_time() - began_s)
    return best


async def longest_wait_s(data: bytes) -> float:
    """The longest that a loop with nothing else to do is kept from a turn while the body is read as a request's is."""
    longest = 0.0
    reading = asyncio.create_task(asyncio.to_thread(bodies._make_undisturbed, b'{"a":%s}' % data, canonical_text))
    while not reading.done():
        began_s = time.perf_counter()
        await asyncio.sleep(0.001)
        longest = max(longest, time.perf_counter() - began_s - 0.001)
    await reading
    return longest


@pytest.mark.bench
@pytest.mark.req("HA-02", "HA-12")
async def test_a_megabyte_of_json() -> None:
    print("\n1 MB of JSON: times of json.loads, CPU; and the longest wait of the loop meanwhile")
    for name, text in SHAPES.items():
        data = text.encode()
        base_s = seconds_of(lambda data=data: json.loads(data))
        read_s = seconds_of(lambda data=data: decode(data))
        value = decode(data)
        compare_s = seconds_of(lambda value=value: canonical_text(value))
        del value
        wait_s = min([await longest_wait_s(data) for _ in range(3)])
        print(
            f"  {name:<15} json.loads {base_s * 1000:4.0f} ms, decode {read_s / base_s:4.1f} x, canonical"
            f" {compare_s / base_s:4.1f} x, longest wait {wait_s * 1000:3.0f} ms"
        )
