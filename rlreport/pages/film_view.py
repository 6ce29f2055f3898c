"""The film strip of the overview: the answers to a prompt across the run, or typical answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from rlreport.columns import TOKEN_FIGURES
from rlreport.draw.chart import Chart, drawable, evenly
from rlreport.draw.film_strip import (
    WIDTH,
    FilmCurveData,
    FilmRuleData,
    FilmStripData,
    film_strip,
    picture,
)
from rlreport.draw.film_text import FilmRowData, bin_of, clip_of, excerpt
from rlreport.draw.svg import svg_png
from rlreport.figures.ragged import Floats, Ints
from rlreport.pages.answers import with_text
from rlreport.pages.context import RunReport
from rlreport.pages.film import (
    Answers,
    Citations,
    Shown,
    answers_of,
    citations_of,
    film_answers,
)
from rlreport.pages.listed import listed_prompt
from rlreport.pages.moved import moved_of, rules_of_report
from rlreport.pages.page import Addresses
from rlreport.pages.table import Link
from rlreport.read.rollouts import Rollout
from rlreport.tables import Tables
from rlreport.text.clean import shortened
from rlreport.text.messages import listed, message, sentences
from rlreport.text.numbers import written

PICTURE = "film_strip"  # name of the picture in mail and Markdown
LOG_RATIO = next(figure for figure in TOKEN_FIGURES if figure.name == "log_ratio")
LEAST_STEPS = 3  # Minimum number of steps at which the prompt of the overview occurs
# A line between means of a prompt suggests values in between: it spans this part of the run at most
REACH = 0.2
MOST_POINTS = 400  # Maximum number of dots, and of means, of the curve
NAME_CHARS = 200  # Maximum number of characters of an answer in the name of its link
TITLE_CHARS = 240  # Maximum number of characters of a prompt above a strip


@dataclass(frozen=True, slots=True)
class FilmView:
    """The film strip of the overview."""

    heading: str
    prompt: Link | None  # the prompt, None if the answers are to different ones
    note: str  # why this prompt, and what the marks mean
    svg: Markup
    data: FilmStripData  # for scripts, which draw it for the width of the window


class _Film(NamedTuple):
    """What a strip shows."""

    prompt_id: int | None  # None for answers to different prompts
    is_cited: bool
    citations: Citations
    answers: Answers
    shown: list[Shown]
    two_rewards: bool  # whether the rewards of the run have two values

    def rewards_of(self, step: int, n: int) -> tuple[float, float]:
        """Return the reward of an answer, and the mean of those that it is compared with."""
        is_it = (self.answers.steps == step) & (self.answers.numbers == n)
        place = int(is_it.argmax())
        return float(self.answers.rewards[place]), float(self.answers.usual[place])


def film_view(report: RunReport, addresses: Addresses) -> FilmView | None:
    """Return the strip of the overview, None if texts are redacted or none are logged."""
    film = _film(report)
    if film is None:
        return None
    language = report.run.options.language
    data, legend = language.of(_strip(report, film, addresses))
    heading = message("Answers across the run")
    why = message("Typical answers: their reward is nearest to the mean of their step.")
    if film.two_rewards:
        why = message(
            "Typical answers: of the two rewards, theirs is the more frequent one at their step."
        )
    prompt = None
    if film.prompt_id is not None:
        heading = message("One prompt across the run")
        prompt = Link(data["title"], addresses.prompt(film.prompt_id))
        why = message("The prompt with answers at most steps.")
        if film.is_cited:
            why = message("The first prompt that the verdict cites.")
    return FilmView(
        heading=heading,
        prompt=prompt,
        note=sentences([why, legend]),
        svg=Markup(film_strip(data, WIDTH).markup()),
        data=data,
    )


def film_picture(report: RunReport, width: int) -> Chart | None:
    """Return the strip as a picture of ``width`` pixels, None if there is none."""
    film = _film(report)
    if film is None:
        return None
    data, _ = report.run.options.language.of(_strip(report, film, Addresses()))
    title = message("Answers across the run")
    if film.prompt_id is not None:
        title = message("Answers to one prompt across the run")
    return Chart(
        name=PICTURE,
        title=title,
        description=_in_words(film),
        spec={},
        vega={},
        png=svg_png(picture(data, width)),
    )


def _in_words(film: _Film) -> str:
    """Return the rewards of the answers, for those who do not see the picture."""
    parts = []
    for place, _ in film.shown:
        step = int(film.answers.steps[place])
        reward = written(float(film.answers.rewards[place]))
        parts.append(message("step {step}: reward {reward}", step=step, reward=reward))
    return message("{answers}.", answers=listed(parts))


def _film(report: RunReport) -> _Film | None:
    """Choose the answers: to the first cited prompt that recurs, else to another, else to many."""
    run = report.run
    if run.options.redact or not run.has_responses:
        return None
    tables = run.tables
    rows = with_text(report, np.arange(len(tables.responses)))
    citations = citations_of(run.verdict)
    onset = moved_of(report).onset
    onset_step = None if onset is None else onset.step
    answers = answers_of(tables, rows, ("prompt_id", "step"))
    prompts = tables.responses["prompt_id"].to_numpy()[answers.rows]
    prompt, is_cited = _prompt(answers, prompts, citations)
    if prompt is not None:
        answers = answers.take(np.flatnonzero(prompts == prompt))
    else:
        answers = answers_of(tables, rows, ("step",))
    if len(np.unique(answers.steps)) < 2:
        return None
    shown = film_answers(answers, citations, onset_step)
    two_rewards = has_two_rewards(tables)
    return _Film(prompt, is_cited, citations, answers, shown, two_rewards)


def has_two_rewards(tables: Tables) -> bool:
    """Return whether the rewards of a run have two values, such as 0 and 1.

    The reward of no answer is near to their mean then, which rows say, too.
    """
    rewards = tables.responses["reward"].to_numpy(np.float64)
    return len(np.unique(rewards[np.isfinite(rewards)])) == 2


def reach_of(tables: Tables) -> float:
    """Return the distance up to which means of a prompt are joined by a line.

    Neighbouring steps always are.
    """
    steps = tables.steps["step"].to_numpy(np.float64)
    if len(steps) < 2:
        return 0.0
    apart = float(np.diff(steps).min())
    run = float(steps[-1] - steps[0])
    return max(apart, REACH * run)


def _prompt(
    answers: Answers, prompts: Ints, citations: Citations
) -> tuple[int | None, bool]:
    """Return the prompt of the overview and whether it is cited; None if none recurs."""
    places = np.unique(np.column_stack([prompts, answers.steps]), axis=0)
    ids, steps = np.unique(places[:, 0], return_counts=True)
    recurring = set(ids[steps >= LEAST_STEPS].tolist())
    if not recurring:
        return None, False
    pairs = zip(answers.steps.tolist(), answers.numbers.tolist(), strict=True)
    prompt_of = dict(zip(pairs, prompts.tolist(), strict=True))
    for place in citations:
        if prompt_of.get(place) in recurring:
            return prompt_of[place], True
    return int(ids[steps.argmax()]), False


class _Strip(NamedTuple):
    """The data of a strip, and what its marks mean."""

    data: FilmStripData
    legend: str


def _strip(report: RunReport, film: _Film, addresses: Addresses) -> _Strip:
    """Return the strip of the answers that a film shows, and its legend."""
    rows = film.answers.rows[[one.place for one in film.shown]]
    rollouts = report.run.rollouts.read(rows)
    ratios = list(map(_log_ratios, rollouts))
    known = [values for values in ratios if values is not None]
    clip = clip_of(np.concatenate(known)) if known else 0.0
    title = message("Answers across the run")
    if film.prompt_id is not None:
        title = _brief(report, rollouts[0])
    steps = report.run.tables.steps["step"]
    low = float(steps.iloc[0])
    high = float(steps.iloc[-1])
    legend = legend_in_words(clip, is_compared=film.prompt_id is not None)
    about = message(
        "Run {run}, steps {low:count}–{high:count}.",
        run=report.run.title,
        low=low,
        high=high,
    )
    data: FilmStripData = {
        "title": title,
        "caption": sentences([about, legend]),
        "ends": legend_ends(clip) if clip else None,
        "curve": _curve(report.run.tables, film, low, high),
        "rules": film_rules(report, low, high),
        "rows": [
            _row(report, film, rollout, _bins(values, clip), addresses)
            for rollout, values in zip(rollouts, ratios, strict=True)
        ],
    }
    return _Strip(data, legend)


def _brief(report: RunReport, rollout: Rollout) -> str:
    """Return a prompt in a line, without what most prompts share."""
    text = listed_prompt(rollout, report.shared.prefixes).brief
    return shortened(" ".join(text.split()), TITLE_CHARS)


def _log_ratios(rollout: Rollout) -> Floats | None:
    """Return the log-ratios of a response's tokens, None if it has none."""
    values = rollout.figures.get("log_ratio")
    if values is None or not rollout.tokens or np.isnan(values).all():
        return None
    return values


def _bins(values: Floats | None, clip: float) -> list[int] | None:
    if values is None:
        return None
    return [bin_of(value, clip) for value in values.tolist()]


def _row(
    report: RunReport,
    film: _Film,
    rollout: Rollout,
    bins: list[int] | None,
    addresses: Addresses,
) -> FilmRowData:
    """Return a row of the strip; ``bins`` of its tokens, without which its text is one token."""
    step = rollout.step
    n = rollout.n
    cited = film.citations.get((step, n))
    token = None if cited is None else cited.token
    part = excerpt([rollout.response], [0], None)
    if bins is not None:
        part = excerpt(rollout.tokens, bins, token)
    reward, usual = film.rewards_of(step, n)
    about = [message("reward {reward}", reward=written(reward))]
    if film.two_rewards and written(usual) != written(reward):
        about.append(message("mean {mean}", mean=written(usual)))
    if cited is not None and cited.finding:
        about.append(cited.finding)
    drawn = drawable(np.array([reward])).tolist()[0]
    head = message("step {step}", step=step)
    return {
        "name": message(
            "{which}: {text}",
            which=listed([head, *about]),
            text=shortened(" ".join(rollout.response.split()), NAME_CHARS),
        ),
        "head": head,
        "about": about,
        "above": "" if film.prompt_id is not None else _brief(report, rollout),
        "pieces": part.pieces,
        "bins": part.bins,
        "cited": part.cited,
        "step": step,
        "reward": None if np.isnan(drawn) else drawn,
        "href": addresses.response(step, n, token=token),
    }


def _curve(
    tables: Tables, film: _Film, low: float, high: float
) -> FilmCurveData | None:
    """Return the mean rewards over the steps, and those of the answers; None without any."""
    responses = tables.training().responses
    answers = film.answers
    words = message("Mean reward")
    dots: list[tuple[int, float]] = []
    if film.prompt_id is not None:
        all_of_prompt = tables.responses["prompt_id"].to_numpy() == film.prompt_id
        responses = tables.responses[all_of_prompt]
        words = message("Reward")
        dots = _points(answers.steps, answers.rewards)
    means = responses.groupby("step")["reward"].mean()
    points = _points(means.index.to_numpy(), means.to_numpy(np.float64))
    if not points:
        return None
    return {
        "low": low,
        "high": high,
        "means": points,
        "dots": dots,
        "reach": reach_of(tables),
        "words": words,
    }


def _points(steps: Ints, values: Floats) -> list[tuple[int, float]]:
    """Return up to MOST_POINTS values with their steps, without those that cannot be drawn."""
    usable = drawable(values)
    places = np.flatnonzero(np.isfinite(usable))
    places = places[evenly(len(places), MOST_POINTS)]
    drawn = usable[places].tolist()
    return list(zip(steps[places].tolist(), drawn, strict=True))


def film_rules(report: RunReport, low: float, high: float) -> list[FilmRuleData]:
    """Return the rules of the run that are on the axis of a strip."""
    return [
        {
            "step": rule.step,
            "words": rule.words,
            "colour": rule.colour,
            "dashed": rule.dashed,
        }
        for rule in rules_of_report(report)
        if low <= rule.step <= high
    ]


def legend_ends(clip: float) -> tuple[str, str]:
    """Return the words at both ends of the colours."""
    value = written(clip)
    return (
        message("less likely −{value}", value=value),
        message("+{value} more likely than under the reference", value=value),
    )


def legend_in_words(clip: float, *, is_compared: bool) -> str:
    """Return what the marks of a strip mean.

    ``clip``: the log-ratio at the ends of its colours, 0 without any; ``is_compared``: whether
    words are compared with those of the row above.
    """
    parts = []
    if clip:
        colours = message(
            "Colour: the log-ratio of each token ({how}), clipped at ±{clip} {unit}, the 98th "
            "percentile.",
            how=LOG_RATIO.help,
            clip=written(clip),
            unit=LOG_RATIO.unit,
        )
        parts.append(colours)
    if is_compared:
        parts.append(message("Underlined: words that the row above does not have."))
    return sentences(parts)
