"""Charts of one step."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from rlreport.columns import RESPONSE
from rlreport.draw.chart import (
    Axis,
    Bins,
    Chart,
    Rows,
    bins,
    counts,
    drawable,
    evenly,
    fill,
    layer_named,
    limits,
    records,
)
from rlreport.draw.direct import (
    PLOT_WIDTH,
    RIGHT,
    Axes,
    bars,
    dots,
    draw,
    legend,
    zero_line,
)
from rlreport.draw.theme import LIGHT, VALUE_FORMAT, Spec
from rlreport.figures.ragged import Floats
from rlreport.tables import length_column
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import figure, message, plural, sentences

# Columns that the charts need
CHARTED = (
    "reward",
    "ref_reward",
    "reward_gap",
    "kl_k1",
    "response_tokens",
    "response_chars",
)

MOST_DOTS = 600  # maximum number of dots in the drawing of a scatter plot
MOST_BARS = 200  # maximum number of bars in the chart of reward gaps


def step_charts(
    rows: Mapping[str, Floats], first_rewards: Floats, language: Language = ENGLISH
) -> list[Chart]:
    """Return those charts of a step for which its responses have values.

    Args:
        rows: the columns CHARTED of the step's responses.
        first_rewards: rewards of the responses of the run's first step, to compare.
        language: that of the texts in the drawings.
    """
    length = length_column(rows)
    rows = {name: drawable(values) for name, values in rows.items()}
    charts = (
        _histogram(rows, drawable(first_rewards), language),
        _gap(rows, language),
        _plane(rows, "kl_k1", "step_reward_kl", message("Reward against KL"), language),
        _plane(
            rows,
            length,
            "step_reward_length",
            message("Reward against length"),
            language,
        ),
    )
    return [chart for chart in charts if chart is not None]


class _Rewards(NamedTuple):
    """The finite rewards of one group of responses in a histogram, and how they look."""

    values: Floats
    name: str
    colour: str  # name of a colour in ``theme.LIGHT``, also the CSS property
    look: str  # attributes of the bars


class _Shares(NamedTuple):
    """The share of a group's rewards in each bin that is not empty; float64 (B,) each."""

    starts: Floats
    ends: Floats
    shares: Floats

    @classmethod
    def of(cls, rewards: _Rewards, edges: Bins) -> _Shares:
        filled = counts(rewards.values, edges)
        return cls(filled.starts, filled.ends, filled.numbers / len(rewards.values))

    def drawn(self, axes: Axes, look: str) -> str:
        """Return the bars as SVG, which reach from 0 to the share of each bin."""
        zeros = np.zeros_like(self.shares)
        return bars(axes, (self.starts, self.ends), (zeros, self.shares), look)

    def rows(self) -> list[dict[str, Any]]:
        """Return a row per bin: ``low``, ``high`` and ``share``."""
        return records({"low": self.starts, "high": self.ends, "share": self.shares})


def _histogram(
    rows: Mapping[str, Floats], first_rewards: Floats, language: Language
) -> Chart | None:
    """Return a histogram of rewards: of the policy, the reference, and the run's first step.

    None if the step's responses have no rewards.
    """
    policy = _Rewards(
        values=_finite(rows["reward"]),
        name=message("policy"),
        colour="policy",
        look='fill="var(--policy)" fill-opacity="0.7"',
    )
    reference = _Rewards(
        values=_finite(rows["ref_reward"]),
        name=message("reference"),
        colour="reference",
        look='stroke="var(--reference)" stroke-width="1.5" stroke-dasharray="4,2"',
    )
    first_step = _Rewards(
        values=_finite(first_rewards),
        name=message("first step"),
        colour="muted",
        look='fill="var(--muted)" fill-opacity="0.28"',
    )
    if not policy.values.size:
        return None
    groups = [group for group in (policy, reference, first_step) if group.values.size]
    edges = bins(np.concatenate([group.values for group in groups]))
    shares = {group.name: _Shares.of(group, edges) for group in groups}
    highest = max(float(one.shares.max()) for one in shares.values())
    share = message("share of responses")
    axes = (
        Axis(edges.low, edges.high, message("reward")),
        # A margin of 8% above the highest bar
        Axis(0.0, 1.08 * highest, share, percent=True, count=4),
    )
    # The page has no rows of the first step, only of this one.
    of_first_step = shares.get(first_step.name)
    key = _key([(group.name, group.colour) for group in groups])
    spec = _page_spec(
        "histogram",
        axes,
        {
            "ghost": of_first_step.rows() if of_first_step else [],
            "key": [
                {"px": x, "label": text, "colour": LIGHT[colour]}
                for x, text, colour in key
            ],
        },
        {"$bins.step": edges.width, "$bins.low": edges.low, "$bins.high": edges.high},
    )
    # What is drawn first is behind the others.
    drawing_order = [first_step, policy, reference]
    marks = [
        shares[group.name].drawn(axes, group.look)
        for group in drawing_order
        if group.name in shares
    ]
    description = _histogram_description(policy, reference, first_step)
    svg = draw(axes, [*marks, legend(key, language)], description, language)
    return Chart(
        name="step_reward",
        title=message("Reward of the responses"),
        description=description,
        spec=spec,
        vega={},
        svg=svg,
    )


def _histogram_description(
    policy: _Rewards, reference: _Rewards, first_step: _Rewards
) -> str:
    """Return a sentence on the rewards of each group that has any."""
    rewards = policy.values
    words = [
        message(
            "Policy: mean {mean}, from {low} to {high}.",
            mean=figure(float(rewards.mean())),
            low=figure(float(rewards.min())),
            high=figure(float(rewards.max())),
        )
    ]
    if reference.values.size:
        mean = figure(float(reference.values.mean()))
        words.append(message("Reference: mean {mean}.", mean=mean))
    if first_step.values.size:
        mean = figure(float(first_step.values.mean()))
        words.append(message("First step: mean {mean}.", mean=mean))
    return sentences(words)


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _gap(rows: Mapping[str, Floats], language: Language) -> Chart | None:
    """Return a chart with a bar per response: its reward minus that of the reference.

    Bars are in ascending order; None if no response has both rewards.
    """
    gap = _finite(rows["reward_gap"])
    count = len(gap)
    if count == 0:
        return None
    words = plural(
        "{better:count} of {count} response beats the reference, {worse:count} fall short; mean "
        "gap {gap}.",
        "{better:count} of {count} responses beat the reference, {worse:count} fall short; mean "
        "gap {gap}.",
        count,
        better=int((gap > 0).sum()),
        worse=int((gap < 0).sum()),
        gap=figure(float(gap.mean())),
    )
    x = Axis(
        0.0,
        float(count),
        message("responses, smallest gap first"),
        format=",d",
        count=min(6, count),
    )
    low, high = limits([np.append(gap, 0.0)])  # so that the axis has 0
    axes = (x, Axis(low, high, message("reward − reference reward")))
    spec = _page_spec("ordered_bars", axes, {"zero": [{"zero": 0}]})
    # Let the axis fit the page's rows, which may be fewer than all logged responses.
    del layer_named(spec, "bars")["encoding"]["x"]["scale"]["domain"]
    # Of many responses, draw those at evenly spaced ranks, each for equally many.
    ordered = np.sort(gap)[evenly(count, MOST_BARS)]
    edges = np.linspace(0.0, count, len(ordered) + 1)
    starts = edges[:-1]
    ends = edges[1:]
    marks = []
    # A path has one colour: bars above 0 and those below are two.
    for side, colour in ((ordered >= 0, "policy"), (ordered < 0, "reference")):
        gaps = ordered[side]
        look = f'fill="var(--{colour})"'
        bar_edges = (starts[side], ends[side])
        marks.append(bars(axes, bar_edges, (np.zeros_like(gaps), gaps), look))
    svg = draw(axes, [*marks, zero_line(axes)], words, language)
    return Chart(
        name="step_gap",
        title=message("Gap to the reference"),
        description=words,
        spec=spec,
        vega={},
        svg=svg,
    )


def _plane(
    rows: Mapping[str, Floats], field: str, name: str, title: str, language: Language
) -> Chart | None:
    """Return a scatter plot of reward over a ``field``, None if no response has both values.

    ``name`` and ``title`` are those of the chart.
    """
    finite = np.isfinite(rows[field]) & np.isfinite(rows["reward"])
    if not finite.any():
        return None
    x = rows[field][finite]
    y = rows["reward"][finite]
    titles = {field: RESPONSE[field].title, "reward": message("reward")}
    axes = (
        Axis(*limits([x]), titles[field]),
        Axis(*limits([y]), titles["reward"]),
    )
    words = plural("{count} response.", "{count} responses.", len(y))
    if len(y) > MOST_DOTS:
        omission = message("The plot shows {most:count} of them.", most=MOST_DOTS)
        words = sentences([words, omission])
    spec = _page_spec("scatter", axes, {})
    # Name the fields like the columns of the page's dataset, which the brush filters.
    for layer in spec["layer"]:
        encoding = layer["encoding"]
        encoding["x"]["field"] = field
        encoding["y"]["field"] = "reward"
        encoding.setdefault("tooltip", []).extend(
            {
                "field": key,
                "type": "quantitative",
                "title": text,
                "format": VALUE_FORMAT,
            }
            for key, text in titles.items()
        )
    selection = evenly(len(y), MOST_DOTS)
    marks = [dots(axes, x[selection], y[selection])]
    svg = draw(axes, marks, words, language)
    return Chart(
        name=name,
        title=title,
        description=words,
        spec=spec,
        vega={},
        svg=svg,
    )


def _page_spec(
    design: str,
    axes: tuple[Axis, Axis],
    data: dict[str, Rows],
    placeholders: dict[str, float] | None = None,
) -> Spec:
    """Return a Vega-Lite specification whose rows the page's script provides.

    ``data``: layer -> rows of a layer that has data of its own; ``placeholders`` as for ``fill``.
    """
    rows: dict[str, Rows] = {"rows": (), **data}
    spec, _ = fill(design, rows, axes, placeholders, size="step", right=RIGHT)
    return spec | {"data": {"name": "rows"}}


def _key(names: list[tuple[str, str]]) -> list[tuple[float, str, str]]:
    """Return (right end in pixels, text, colour) of the legend's entries, the last one first.

    ``names``: (text, colour) of each, from left to right. They end at the right end of the plot.
    """
    right = float(PLOT_WIDTH)
    keys = []
    for text, colour in reversed(names):
        keys.append((right, text, colour))
        # A character is about six pixels wide; entries are two characters apart.
        right -= 6 * len(text) + 12
    return keys
