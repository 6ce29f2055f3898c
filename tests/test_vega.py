"""Vega in a process of its own draws what it draws here, and leaves this process without V8."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="forks")

# Each script has a process of its own, as V8 starts once in a process and rules out forking.
BEFORE = """
import json, sys
from rlreport.draw.vega import convert, start_converting, vega_process
from rlreport.system.workers import Workers, can_fork

def chart(height):
    size = {"width": {"value": 9}, "height": {"value": height}}
    bar = {"type": "rect", "encode": {"enter": {**size, "fill": {"value": "red"}}}}
    schema = "https://vega.github.io/schema/vega/v6.json"
    return json.dumps({"$schema": schema, "width": 20, "height": 20, "marks": [bar]})

CHARTS = [chart(height) for height in (3, 5, 8)]

def drawn(height, shared):
    return convert("vega_to_svg", chart(height))

def has_v8():
    return "vl_convert" in sys.modules

"""


def result_of(script: str) -> Any:
    """Return what a script prints as JSON."""
    done = subprocess.run(
        [sys.executable, "-c", BEFORE + script],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_a_process_of_its_own_draws_the_same_and_this_one_can_still_fork():
    script = """
with vega_process(2):
    wait = start_converting("vega_to_svg", CHARTS, allowed_base_urls=[])
    inner = "never read"
    with vega_process(2):
        inner = convert("vega_to_svg", CHARTS[1])
    there = wait()
    before = has_v8(), can_fork()
here = start_converting("vega_to_svg", CHARTS, allowed_base_urls=[])()
print(json.dumps([there, inner, here, before, has_v8()]))
"""
    there, inner, here, before, has_v8 = result_of(script)
    assert there == here
    assert inner == here[1]
    assert len(set(here)) == 3
    assert (before, has_v8) == ([False, True], True)


@pytest.mark.parametrize("workers", [1, 2])
def test_one_worker_is_this_process(workers):
    script = f"""
with vega_process({workers}):
    convert("vega_to_svg", CHARTS[0])
print(has_v8())
"""
    assert result_of(script.replace("has_v8()", "json.dumps(has_v8())")) == (
        workers == 1
    )


def test_a_chart_that_vega_refuses_fails_alone():
    script = """
with vega_process(2):
    refused = start_converting("vega_to_svg", ["nonsense", CHARTS[0]])
    try:
        refused()
        error = ""
    except ValueError as refusal:
        error = str(refusal)
    drawing = convert("vega_to_svg", CHARTS[0])
print(json.dumps([error, drawing]))
"""
    error, drawing = result_of(script)
    assert error
    assert drawing.startswith("<svg")


def test_processes_forked_meanwhile_draw_by_themselves():
    script = """
with vega_process(2), Workers(2) as workers:
    wait = start_converting("vega_to_svg", CHARTS)
    others = list(workers.map(drawn, [8, 5, 3], None))
    print(json.dumps([others, wait()]))
"""
    others, ours = result_of(script)
    assert others == ours[::-1]


def test_a_process_forked_after_v8_started_is_refused_and_does_not_hang():
    script = """
import os
from rlreport.errors import RlreportError

convert("vega_to_svg", CHARTS[0])
reader, writer = os.pipe()
child = os.fork()
if not child:
    try:
        convert("vega_to_svg", CHARTS[0])
    except RlreportError as error:
        os.write(writer, str(error).encode())
    os._exit(0)
os.close(writer)
print(json.dumps(os.read(reader, 1000).decode()))
os.waitpid(child, 0)
"""
    assert "start it with the method 'spawn'" in result_of(script)
