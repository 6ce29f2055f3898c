"""Times the charts of a step page and of an overview against plain vl-convert.

``python -m benchmarks.bench_draw`` from the checkout. The yardstick is drawing the same
specifications by ``vl_convert.vegalite_to_svg`` in the same run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import vl_convert

from rlreport.draw.catalogue import overview_charts
from rlreport.draw.svg import drawn
from tests.tables_builder import charts_of_step, table_of_rows, tables_of

RUNS = 7
STEPS, EACH = 24, 128


def main() -> None:
    """Print the best CPU time of each way to draw, in milliseconds."""
    random = np.random.default_rng(0)
    responses = table_of_rows(
        [
            {
                "step": step,
                "reward": random.normal(),
                "ref_reward": random.normal(),
                "kl_k1": random.normal(step),
                "kl_k3": random.random(),
                "response_tokens": random.integers(1, 400),
                "response_chars": 9,
            }
            for step in range(STEPS)
            for _ in range(EACH)
        ]
    )
    tables = tables_of(responses)
    last, first = (responses[responses["step"] == step] for step in (STEPS - 1, 0))
    for name, draw in (
        ("step page", lambda: drawn(charts_of_step(last, first, step=STEPS - 1))),
        ("overview", lambda: drawn(overview_charts(tables))),
    ):
        charts = draw()
        rows = last.astype(object).where(last.notna(), None).to_dict("records")
        specs = [
            json.dumps(
                {**chart.spec, "data": {"values": rows}}
                if "name" in chart.spec["data"]
                else chart.spec
            )
            for chart in charts
        ]
        ours = best(draw)
        plain = best(partial(alone, specs))
        print(
            f"{name}: {len(charts)} charts {ours:.1f} ms, by vl-convert alone {plain:.1f} ms "
            f"({plain / ours:.1f} times); {sum(len(c.svg) for c in charts) / 1000:.0f} kB"
        )


def alone(specs: list[str]) -> None:
    """Draw the charts with plain vl-convert, one after the other."""
    for spec in specs:
        vl_convert.vegalite_to_svg(spec)


def best(draw: Callable[[], object]) -> float:
    """Return the least CPU time of several calls, in milliseconds."""
    taken = []
    for _ in range(RUNS):
        start = time.process_time()
        draw()
        taken.append(time.process_time() - start)
    return 1000 * min(taken)


if __name__ == "__main__":
    main()
