"""Charts of one step, and charts that compare two runs, BASE and NEW."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from rlreport.check.finding import SEVERITIES, Finding
from rlreport.choose import evenly
from rlreport.columns import RESPONSE
from rlreport.draw.chart import (
    Axis,
    Chart,
    Rows,
    bins,
    counts,
    drawable,
    fill,
    layer_named,
    limits,
    records,
)
from rlreport.draw.curves import DrawnCurve, Frame, curve_chart, floats, path_chart
from rlreport.draw.direct import PLOT_WIDTH, RIGHT, bars, dots, draw, legend, zero_line
from rlreport.draw.theme import DASHED, LIGHT, VALUE_FORMAT, Spec
from rlreport.figures.ragged import Floats
from rlreport.tables import length_column
from rlreport.text.language import ENGLISH, Language
from rlreport.text.messages import figure, message, plural, sentences, translatable

# Columns that the charts need
CHARTED = ("reward", "ref_reward", "reward_gap", "kl_k1", "response_tokens", "response_chars")

MOST_DOTS = 600  # maximum number of dots in the drawing of a scatter plot
MOST_BARS = 200  # maximum number of bars in the chart of reward gaps


def step_charts(
    rows: Mapping[str, Floats], first_rewards: Floats, language: Language = ENGLISH
) -> list[Chart]:
    """Return those charts of a step for which its responses (``rows``) have values."""
    length = length_column(rows)
    rows = {name: drawable(values) for name, values in rows.items()}
    charts = (
        _histogram(rows["reward"], rows["ref_reward"], drawable(first_rewards), language),
        _gap(rows, language),
        _plane(rows, "kl_k1", "step_reward_kl", message("Reward against KL"), language),
        _plane(rows, length, "step_reward_length", message("Reward against length"), language),
    )
    return [chart for chart in charts if chart is not None]


def _histogram(  # noqa: PLR0914
    reward: Floats, reference: Floats, first_step: Floats, language: Language
) -> Chart | None:
    policy, reference, ghost = (x[np.isfinite(x)] for x in (reward, reference, first_step))
    if not policy.size:
        return None
    arrays = (policy, reference, ghost)
    edges = bins(np.concatenate(arrays))
    histograms = []
    for values in arrays:
        low, high, numbers = counts(values, *edges)
        histograms.append(((low, high), numbers / len(values)))
    highest = max(share for _, shares in histograms for share in shares.tolist())
    names = [(message("policy"), "policy")]
    words = [
        message(
            "Policy: mean {mean}, from {low} to {high}.",
            mean=figure(float(policy.mean())),
            low=figure(float(policy.min())),
            high=figure(float(policy.max())),
        )
    ]
    if reference.size:
        names.append((message("reference"), "reference"))
        words.append(message("Reference: mean {mean}.", mean=figure(float(reference.mean()))))
    if ghost.size:
        names.append((message("first step"), "muted"))
        words.append(message("First step: mean {mean}.", mean=figure(float(ghost.mean()))))
    axes = (
        Axis(*edges[1:], message("reward")),
        Axis(0.0, 1.08 * highest, message("share of responses"), percent=True, count=4),
    )
    key = _key(names)
    (low, high), ghost_shares = histograms[2]
    spec = _page_spec(
        "histogram",
        axes,
        {
            "ghost": records({"low": low, "high": high, "share": ghost_shares}),
            "key": [{"px": x, "label": text, "colour": LIGHT[look]} for x, text, look in key],
        },
        dict(zip(("$bins.step", "$bins.low", "$bins.high"), edges, strict=True)),
    )
    looks = (
        'fill="var(--policy)" fill-opacity="0.7"',
        'stroke="var(--reference)" stroke-width="1.5" stroke-dasharray="4,2"',
        'fill="var(--muted)" fill-opacity="0.28"',
    )
    marks = [
        bars(axes, bin_edges, (shares, 0.0 * shares), look)
        for (bin_edges, shares), look in zip(histograms, looks, strict=True)
    ]
    # The first step is behind the others.
    marks = [marks[-1], *marks[:-1], legend(key, language)]
    description = sentences(words)
    svg = draw(axes, marks, description, language)
    return Chart("step_reward", message("Reward of the responses"), description, spec, {}, svg)


def _gap(rows: Mapping[str, Floats], language: Language) -> Chart | None:
    gap = rows["reward_gap"][np.isfinite(rows["reward_gap"])]
    if not (count := len(gap)):
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
    axes = (
        Axis(
            0.0,
            float(count),
            message("responses, smallest gap first"),
            format=",d",
            count=min(6, count),
        ),
        Axis(*limits([np.append(gap, 0.0)]), message("reward − reference reward")),
    )
    spec = _page_spec("ordered_bars", axes, {"zero": [{"zero": 0}]})
    # Let the axis fit the page's rows, which may be fewer than all logged responses.
    del layer_named(spec, "bars")["encoding"]["x"]["scale"]["domain"]
    # Of many responses, draw those at evenly spaced ranks, each for equally many.
    ordered = np.sort(gap)[evenly(count, MOST_BARS)]
    ends = np.linspace(0.0, count, len(ordered) + 1)
    marks = []
    for side, look in ((ordered >= 0, "policy"), (ordered < 0, "reference")):
        place = (ends[:-1][side], ends[1:][side])
        gaps = ordered[side]
        marks.append(bars(axes, place, (gaps, 0.0 * gaps), f'fill="var(--{look})"'))
    svg = draw(axes, [*marks, zero_line(axes)], words, language)
    return Chart("step_gap", message("Gap to the reference"), words, spec, {}, svg)


def _plane(
    rows: Mapping[str, Floats], field: str, name: str, title: str, language: Language
) -> Chart | None:
    finite = np.isfinite(rows[field]) & np.isfinite(rows["reward"])
    if not finite.any():
        return None
    across = rows[field][finite]
    up = rows["reward"][finite]
    titles = {field: RESPONSE[field].title, "reward": message("reward")}
    x = Axis(*limits([across]), titles[field])
    y = Axis(*limits([up]), titles["reward"])
    words = plural("{count} response.", "{count} responses.", len(up))
    if len(up) > MOST_DOTS:
        words = sentences([words, message("The plot shows {most:count} of them.", most=MOST_DOTS)])
    spec = _page_spec("scatter", (x, y), {})
    # Name the fields like the columns of the page's dataset, which the brush filters.
    for layer in spec["layer"]:
        encoding = layer["encoding"]
        encoding["x"]["field"] = field
        encoding["y"]["field"] = "reward"
        encoding.setdefault("tooltip", []).extend(
            {"field": key, "type": "quantitative", "title": text, "format": VALUE_FORMAT}
            for key, text in titles.items()
        )
    selection = evenly(len(up), MOST_DOTS)
    svg = draw((x, y), [dots((x, y), across[selection], up[selection])], words, language)
    return Chart(name, title, words, spec, {}, svg)


def _page_spec(
    design: str,
    axes: tuple[Axis, Axis],
    data: dict[str, Rows],
    placeholders: dict[str, float] | None = None,
) -> Spec:
    """Return a Vega-Lite specification whose rows the page's script provides."""
    spec, _ = fill(design, {"rows": (), **data}, axes, placeholders, size="step", right=RIGHT)
    return spec | {"data": {"name": "rows"}}


def _key(names: list[tuple[str, str]]) -> list[tuple[float, str, str]]:
    right = float(PLOT_WIDTH)
    keys = []
    for text, colour in reversed(names):
        keys.append((right, text, colour))
        right -= 6 * len(text) + 12
    return keys


# Per step: reward of run NEW − that of BASE, and the band's low and high edge; (S,) each
Band = tuple[Floats, Floats, Floats]


def comparison_charts(
    steps: Floats, base: Floats, new: Floats, band: Band, paths: Sequence[pd.DataFrame]
) -> list[Chart]:
    charts = []
    if len(steps):
        frame = Frame(steps, _findings(steps, band))
        difference, low, high = band
        has_band = bool(np.isfinite(low).any())
        charts = [
            curve_chart(
                frame,
                "reward",
                message("Reward of both runs"),
                _runs(base, new)[::-1],
                axis=message("mean reward"),
                wide=True,
            ),
            curve_chart(
                frame,
                "difference",
                message("Difference of the reward, NEW − BASE"),
                [DrawnCurve("difference", "NEW − BASE", difference, low=low, high=high)],
                axis=message("difference of the reward, with a 95% band for all steps at once")
                if has_band
                else message("difference of the reward, without a band"),
                note=message(
                    "The band is a 95% confidence band for all steps together; steps where it "
                    "excludes 0 are marked."
                )
                if has_band
                else "",
            ),
        ]
    if paths and not any(path.empty for path in paths):
        charts.append(_path_chart(paths))
    return [chart for chart in charts if chart is not None]


def _runs(base: Floats, new: Floats) -> list[DrawnCurve]:
    return [DrawnCurve("BASE", "BASE", base, LIGHT["muted"], DASHED), DrawnCurve("NEW", "NEW", new)]


def _findings(steps: Floats, band: Band) -> list[Finding]:
    _, low, high = band
    below = translatable("The whole band lies below 0 at {some:count} of {all:count} steps")
    above = translatable("The whole band lies above 0 at {some:count} of {all:count} steps")
    findings = []
    for name, severity, mask, literal in (
        ("below 0", SEVERITIES[1], high < 0, below),
        ("above 0", SEVERITIES[2], low > 0, above),
    ):
        if mask.any():
            numbers = tuple(map(int, steps[mask]))
            title = message(literal, some=len(numbers), all=len(steps))
            findings.append(
                Finding(name, severity, "note", steps=numbers, charts=("difference",), title=title)
            )
    return findings


def _path_chart(tables: Sequence[pd.DataFrame]) -> Chart:
    paths = []
    endings = []
    curves = _runs(*(floats(table, "reward") for table in tables))
    for curve, table in zip(curves, tables, strict=True):
        distance = floats(table, "distance")
        paths.append((curve, floats(table, "step"), distance, {-1: curve.key}))
        endings.append(
            message(
                "{name} ends with reward {reward} at a √KL of {distance}.",
                name=curve.key,
                reward=figure(curve.values[-1]),
                distance=figure(distance[-1]),
            )
        )
    return path_chart(
        "reward_at_equal_kl",
        message("Reward at the same distance from the reference"),
        sentences(endings),
        message("√KL (√nats)"),
        paths,
    )
