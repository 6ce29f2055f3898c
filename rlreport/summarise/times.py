"""When a run was logged, how long its steps and their phases took, and its throughput.

Times come from the log alone, never from the clock or the files of this machine. Units are
converted only where a metric's name tells its unit.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rlreport.figures.ragged import Floats, Ints
from rlreport.formats.metric_rows import CLOCK, LOCAL_CLOCK, RUNTIME
from rlreport.metrics.find import TrainerMetrics
from rlreport.metrics.table import Part
from rlreport.system.timestamps import TIME_KEYS, timestamp
from rlreport.times import Phase, Throughput, Times

# A gap between two steps that is so many times the usual one is a pause, such as before a
# resumption, and no duration of a step; our convention
PAUSE = 20.0
_SECONDS_OF_PAUSE = 60.0  # shorter gaps are never pauses
# A duration that is logged per step may exceed the time between steps by this factor at most, as
# phases may overlap; beyond it, its unit is not seconds
_MOST_OF_CLOCK = 3.0
# Durations of all steps may exceed the time of the run by this factor, as clocks are read apart
_MOST_OF_RUN = 1.2
_MIN_VALUES = 5  # of a metric, that show whether it only grows
MAX_PHASES = 64  # further phases, by name, are left out

# Groups of metrics whose values are seconds per step: of verl; NeMo-RL; SkyRL and OpenRLHF;
# prime-rl, Tinker and open-instruct; AReaL
_GROUPS = ("timing_s/", "timing/train/", "timing/", "time/", "timeperf/", "time_perf/")
# Prefixes that loggers put before the names of metrics
_LOGGER = re.compile(r"^(?:.* - )?(?:(?:train|trainer|training|metrics)/)?")
# What a group calls a whole step
_WHOLE_STEP = re.compile(
    r"(?:step|total|step_total|total_step(?:_time)?|step_time|time_per_step)(?:_s|_seconds)?"
)
# Names of a step's duration outside of these groups: of TRL and slime; of verl
_STEP_NAMES = re.compile(
    r"(?:perf/)?(?:(?:train_)?step_time|time_per_step|seconds_per_step)(?:_s|_sec|_seconds)?"
)
# slime's durations of phases
_PERF_PHASE = re.compile(r"perf/(\w+)_time")
# Words of names in a group that are no durations of a step, or only the extremes of one
_OTHER = re.compile(
    r".*[_/](?:elapsed|remaining|eta|fps|iterations?|timesteps|per_token|per_sec|total_time"
    r"|percent|ratio|frac|count|min|max|std|p\d+)(?:[_/].*)?"
)
_MILLISECONDS = re.compile(r"(.+)_(?:ms|msec|millis|milliseconds)")
_PER_SECOND = re.compile(
    r"(?:.*[/_])?(?:tokens?|toks?)(?P<gpu>_per_(?:gpu|device|chip))?_per_(?:s|secs?|seconds?)"
    r"(?P<gpu_after>_per_(?:gpu|device|chip))?(?:[/_](?:mean|avg))?"
)
# The longest duration of the rollouts of a step, as verl logs it next to their mean
_SLOWEST = re.compile(
    r"(?P<base>timing_s/(?:agent_loop/)?gen(?:erate_sequences|eration_timing)?)(?P<mark>[/_])max"
)
_MEANS = ("mean", "avg")
# verl's throughput is tokens per second and GPU, which no name tells; what it logs next to it
_VERL_THROUGHPUT = "perf/throughput"
_MARK_OF_VERL = "perf/time_per_step"
# Tokens processed since the start, over all processes: of TRL, of transformers
_TOKEN_COUNTERS = ("num_tokens", "num_input_tokens_seen")


def times_of(
    responses: pd.DataFrame, extras: pd.DataFrame, metrics: TrainerMetrics
) -> Times:
    """Return the times of a run: of its metrics, else of the columns of its responses."""
    table = metrics.table
    clock = _clock_of_metrics(metrics.clocks)
    if clock is None and not responses.empty:
        clock = _clock_of_rows(responses["step"].to_numpy(np.int64), extras)
    by_step = _by_step(clock)
    usual = _median(by_step["seconds"])  # by the clock, None if it is unknown
    durations = dict(_durations(table, usual))
    source = _step_metric(durations)
    if source is not None:
        logged = pd.DataFrame({"step": table["step"], "seconds": durations[source]})
        by_step = _with_logged(by_step, logged.dropna())
    times = by_step["time"].dropna().tolist()
    start = min(times, default=None)
    end = max(times, default=None)
    phases = _phases(durations)
    seconds = None
    if start is not None and end is not None and end > start:
        seconds = end - start
    return Times(
        start=start,
        end=end,
        is_utc=clock is None or clock.is_utc,
        seconds=_runtime(metrics.clocks) if seconds is None else seconds,
        pause_seconds=clock.pauses if clock else 0.0,
        by_step=by_step,
        step_seconds=_median(by_step["seconds"]),
        step_source=source or "",
        phases=phases,
        by_phase=_by_phase(phases, durations, table),
        by_rollout=_by_rollout(table),
        throughput=tuple(_throughputs(table, by_step, seconds)),
        turn_seconds=_median(responses.get("turn_seconds", ())),
    )


@dataclass(slots=True)
class _Clock:
    """When each step was done: ``step`` ascending, ``time``, ``seconds`` since the one before."""

    table: pd.DataFrame
    is_utc: bool
    pauses: float  # seconds


def _clock_of_metrics(clocks: Mapping[str, Part]) -> _Clock | None:
    for name in (CLOCK, LOCAL_CLOCK):
        part = clocks.get(name)
        if part is not None:
            return _clock(part.steps, part.values, part.pieces, is_utc=name == CLOCK)
    runtime = clocks.get(RUNTIME)
    if runtime is None or len(np.unique(runtime.steps)) < 2:
        return None
    clock = _clock(runtime.steps, runtime.values, runtime.pieces, is_utc=True)
    clock.table["time"] = np.nan  # it is not known when the run began
    return clock


def _clock_of_rows(steps: Ints, extras: pd.DataFrame) -> _Clock | None:
    """Return the clock of responses with a time each, by the first column that has times."""
    for name in TIME_KEYS:
        if name not in extras:
            continue
        column = extras[name]
        values_logged = column.dropna().unique()
        found = [timestamp(value) for value in values_logged]
        known = [time for time in found if time is not None]
        # A column of other texts and numbers may have a value that looks like a time.
        if not known or len(known) < len(found):
            continue
        seconds_known = [time.seconds for time in known]
        seconds = column.map(dict(zip(values_logged, seconds_known, strict=True)))
        is_utc = all(time.is_utc for time in known)
        values = seconds.to_numpy(np.float64)
        # Rows come sorted by step, so that they show no resumption.
        return _clock(steps, values, np.zeros_like(steps), is_utc=is_utc)
    return None


def _clock(steps: Ints, times: Floats, pieces: Ints, *, is_utc: bool) -> _Clock:
    """Return the clock of logged times; ``pieces`` number the resumptions of the log.

    Of a step that was logged again, the later piece counts.
    """
    logged = pd.DataFrame({"step": steps, "time": times, "piece": pieces}).dropna()
    by_piece = logged.groupby(["step", "piece"])["time"].max().reset_index()
    table = by_piece.drop_duplicates("step", keep="last").reset_index(drop=True)
    gap = table["time"].diff().to_numpy(np.float64)
    count = table["step"].diff().to_numpy(np.float64)  # of steps since the last row
    per_step = gap / count
    is_resumed = table["piece"].diff().to_numpy(np.float64) > 0
    # A clock may be set back.
    is_duration = (per_step >= 0) & ~is_resumed
    usual = _median(per_step[is_duration]) or 0.0
    is_long = (gap > _SECONDS_OF_PAUSE) & (per_step > PAUSE * usual)
    is_pause = (gap > 0) & (is_resumed | (is_long & (usual > 0)))
    # If most rows have the time of the row before, it is too coarse, or that of an upload.
    is_known = is_duration & ~is_pause & (usual > 0)
    table["seconds"] = np.where(is_known, per_step, np.nan)
    pauses = float(gap[is_pause].sum())
    return _Clock(table[["step", "time", "seconds"]], is_utc, pauses)


def _by_step(clock: _Clock | None) -> pd.DataFrame:
    if clock is not None:
        return clock.table
    nothing = pd.DataFrame(columns=["step", "time", "seconds"], dtype=np.float64)
    return nothing.astype({"step": np.int64})


def _with_logged(by_step: pd.DataFrame, logged: pd.DataFrame) -> pd.DataFrame:
    """Return the times by step with the durations that a metric has instead of differences."""
    times = by_step[["step", "time"]]
    merged = times.merge(logged, on="step", how="outer", sort=True)
    return merged.astype({"step": np.int64}).reset_index(drop=True)


def _runtime(clocks: Mapping[str, Part]) -> float | None:
    """Return the run time that the log counts, None if it does not."""
    part = clocks.get(RUNTIME)
    if part is None:
        return None
    seconds = part.values[np.isfinite(part.values) & (part.values >= 0)]
    return float(seconds.max()) if len(seconds) else None


def _durations(
    table: pd.DataFrame, usual: float | None
) -> Iterator[tuple[str, Floats]]:
    """Yield metric -> its durations in seconds by row, NaN where it has none.

    ``usual`` is the median time between steps by the clock: metrics that are far larger are in
    another unit, and left out.
    """
    for name in sorted(map(str, table.columns)):
        if not _is_duration(name):
            continue
        scale = 1e-3 if _MILLISECONDS.fullmatch(_plain(name)) else 1.0
        values = table[name].to_numpy(np.float64) * scale
        median = _median(values)
        if median is None or np.nanmin(values) < 0 or _is_cumulative(values):
            continue
        if usual is None or median <= _MOST_OF_CLOCK * usual:
            yield name, values


def _is_duration(name: str) -> bool:
    """Return whether a metric is the duration of a step, or of a phase of it, by its name."""
    plain = _without_unit(name)
    if _STEP_NAMES.fullmatch(plain) or _PERF_PHASE.fullmatch(plain):
        return True
    return _group_of(plain) is not None and not _OTHER.fullmatch(plain)


def _plain(name: str) -> str:
    return _LOGGER.sub("", name.lower())


def _without_unit(name: str) -> str:
    plain = _plain(name)
    match = _MILLISECONDS.fullmatch(plain)
    return match[1] if match else plain


def _group_of(plain: str) -> str | None:
    return next((group for group in _GROUPS if plain.startswith(group)), None)


def _is_cumulative(values: Floats) -> bool:
    """Return whether values only grow, such as the time since the start of a run."""
    finite = values[np.isfinite(values)]
    if len(finite) < _MIN_VALUES or finite[-1] <= 2 * finite[0]:
        return False
    return bool((np.diff(finite) > 0).all())


def _step_metric(durations: Mapping[str, Floats]) -> str | None:
    """Return the metric with the duration of whole steps, None without one."""
    for name in sorted(durations, key=lambda one: (len(one), one)):
        if _is_whole_step(name):
            return name
    return None


def _is_whole_step(name: str) -> bool:
    plain = _without_unit(name)
    if _STEP_NAMES.fullmatch(plain):
        return True
    group = _group_of(plain)
    return group is not None and bool(_WHOLE_STEP.fullmatch(plain[len(group) :]))


def _phases(durations: Mapping[str, Floats]) -> tuple[Phase, ...]:
    """Return the parts of a step, the longest first; those that never took time are left out."""
    phases: list[Phase] = []
    for metric, values in durations.items():
        if _is_whole_step(metric):
            continue
        plain = _without_unit(metric)
        of_slime = _PERF_PHASE.fullmatch(plain)
        group = _group_of(plain) or ""
        name = of_slime[1] if of_slime else plain[len(group) :]
        seconds = _median(values)
        if seconds:
            phases.append(Phase(name, seconds, metric))
    phases.sort(key=lambda one: (-one.seconds, one.name))
    return tuple(phases[:MAX_PHASES])


def _by_phase(
    phases: Iterable[Phase], durations: Mapping[str, Floats], table: pd.DataFrame
) -> pd.DataFrame:
    """Return the seconds of each phase by step; of phases with one name, those of the longest."""
    columns: dict[str, Floats] = {}
    for phase in phases:
        columns.setdefault(phase.name, durations[phase.metric])
    if not columns:
        return pd.DataFrame()
    return pd.DataFrame({"step": table["step"].to_numpy(), **columns})


def _by_rollout(table: pd.DataFrame) -> pd.DataFrame:
    """Return mean and largest duration of a step's rollouts, of the first such metrics."""
    plain = {_plain(name): name for name in sorted(map(str, table.columns))}
    for name, metric in plain.items():
        match = _SLOWEST.fullmatch(name)
        if match is None:
            continue
        for word in _MEANS:
            mean = plain.get(f"{match['base']}{match['mark']}{word}")
            if mean is None:
                continue
            both = table[["step", mean, metric]]
            return both.set_axis(["step", "mean", "slowest"], axis="columns")
    return pd.DataFrame()


def _throughputs(
    table: pd.DataFrame, by_step: pd.DataFrame, elapsed: float | None
) -> Iterator[Throughput]:
    """Yield the metrics of tokens per second, else what a counter of tokens shows.

    ``elapsed`` are the seconds of the whole run by the clock.
    """
    plain = {str(name): _plain(str(name)) for name in table.columns}
    is_of_verl = _MARK_OF_VERL in plain.values()
    found_any = False
    for name in sorted(plain):
        match = _PER_SECOND.fullmatch(plain[name])
        is_verl = is_of_verl and plain[name] == _VERL_THROUGHPUT
        median = _median(table[name]) if match or is_verl else None
        if median is None:
            continue
        found_any = True
        per_gpu = is_verl or bool(match and (match["gpu"] or match["gpu_after"]))
        yield Throughput(median, per_gpu, name)
    if found_any:
        return
    for name in sorted(plain):
        if plain[name] in _TOKEN_COUNTERS:
            median = _median(_tokens_per_second(table, name, by_step, elapsed))
            if median is not None:
                yield Throughput(median, per_gpu=False, metric=name)
            return


def _tokens_per_second(
    table: pd.DataFrame, name: str, by_step: pd.DataFrame, elapsed: float | None
) -> Floats:
    """Return the increase of a counter of tokens per second, from row to row.

    Nothing, if the steps take longer than the run: then they are not the trainer's, but a logger's.
    """
    counted = table[["step", name]].dropna()
    rows = counted.merge(by_step[["step", "seconds"]], on="step")
    tokens = rows[name].diff().to_numpy(np.float64)
    seconds = (rows["step"].diff() * rows["seconds"]).to_numpy(np.float64)
    is_known = (tokens >= 0) & (seconds > 0)
    if elapsed is not None and seconds[is_known].sum() > _MOST_OF_RUN * elapsed:
        return np.empty(0)
    rates: Floats = tokens[is_known] / seconds[is_known]
    return rates


def _median(values: Iterable[float]) -> float | None:
    """Return the median of the finite values, None without any."""
    numbers = np.asarray(values, np.float64)
    finite = numbers[np.isfinite(numbers)]
    return float(np.median(finite)) if len(finite) else None
