"""Every threshold of the checks: value, unit, meaning and source, in one typed table."""

from __future__ import annotations

import dataclasses
import stat
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlreport.check.declared import CONTRACT as CONTRACT
from rlreport.check.declared import EOS as EOS
from rlreport.check.declared import MISMATCH as MISMATCH
from rlreport.check.declared import limit as _set
from rlreport.check.thresholds_of_turns import ThresholdsOfTurns
from rlreport.errors import UsageError
from rlreport.text.messages import marked

TRL_KL = marked(
    "TRL guide: keep the KL between 0 and 10; LMFlow's PPO runs reached 500 before failing"
)
NEGATIVE_KL = marked(
    "TRL FAQ (top-k, min_length); LMFlow post (nearly half negative after a minimum length)"
)
LMFLOW = marked("LMFlow post on PPO training")
RL_BOARD = marked("RLLoggingBoard post")
FIGHTIN_WORDS = marked(
    "LMFlow post (# grew from 3 % to half of the responses); method: Monroe et al. 2008, "
    "Fightin' Words"
)
DISTINCT = marked("LMFlow post: distinct-2 fell from 0.39 to 0.22")
ENTROPY = marked("entropy-collapse threads of TRL, verl and DAPO")
SHORT_RESPONSES = marked("TRL error on responses under 4 tokens (LMFlow post)")
CRITIC = marked("RLLoggingBoard post (critic variance); PPO practice")
RATIO = marked("TRL: val/ratio floats around 1.0; 2.0 or 0.1 is too drastic")
GROUPS = marked("DAPO; TRL frac_reward_zero_std")


@dataclass(frozen=True, slots=True)
class Trend:
    """How windows of steps are made and compared."""

    share: float = _set(0.2, "of steps", "size of the first and of the last window")
    least_steps: int = _set(3, "steps", "least size of a window")
    shortest_run: int = _set(5, "steps", "a shorter run is too short to judge")
    z: float = _set(3.0, "std errors", "a difference of means must be larger than chance by this")


@dataclass(frozen=True, slots=True)
class KlExplosion:
    """Thresholds of ``kl_explosion``."""

    warn: float = _set(10.0, "nats", "warning: mean KL of a response in the last window", TRL_KL)
    critical: float = _set(50.0, "nats", "critical: the same mean", TRL_KL)
    response: float = _set(500.0, "nats", "critical: KL of any one response", TRL_KL)
    warn_token: float = _set(0.1, "nats a token", "warning: and the same mean by token")
    critical_token: float = _set(0.5, "nats a token", "critical: and the same mean by token")
    response_token: float = _set(1.0, "nats a token", "and of that response by token")


@dataclass(frozen=True, slots=True)
class NegativeKl:
    """Thresholds of ``negative_kl``."""

    z: float = _set(
        -3.0, "std errors", "warning: mean KL of the last window over its error", NEGATIVE_KL
    )
    mean: float = _set(-0.01, "nats", "and the mean is below this, more than rounding")


@dataclass(frozen=True, slots=True)
class RewardCollapse:
    """Thresholds of ``reward_collapse``."""

    lost: float = _set(0.5, "of the gain", "warning: part of the reward's gain lost again", LMFLOW)
    spread: float = _set(
        0.5, "std of reward", "and lost by more than this, of the std inside a step"
    )


@dataclass(frozen=True, slots=True)
class RewardShift:
    """Thresholds of ``reward_shift``."""

    z: float = _set(6.0, "std errors", "warning: jump of the reference's reward at one step")
    spread: float = _set(0.25, "std of reward", "least jump, of the std inside a step")
    still: float = _set(
        4.0, "std errors", "without a reference: nothing else jumps by this at that step"
    )


@dataclass(frozen=True, slots=True)
class EntropyExplosion:
    """Thresholds of ``entropy_explosion``."""

    ratio: float = _set(3.0, "times", "warning: mean surprisal against the first window", ENTROPY)
    rise: float = _set(1.0, "nats", "and mean surprisal rose by this", ENTROPY)


@dataclass(frozen=True, slots=True)
class RewardStalled:
    """Thresholds of ``reward_stalled``."""

    z: float = _set(2.0, "std errors", "info: gain of the last window over the first", RL_BOARD)


@dataclass(frozen=True, slots=True)
class RewardHackingToken:
    """Thresholds of ``reward_hacking_token``."""

    share: float = _set(
        0.2, "of responses", "share of responses that hold it, last window", FIGHTIN_WORDS
    )
    ratio: float = _set(
        3.0, "times", "that share, against the first window or the reference", FIGHTIN_WORDS
    )
    z: float = _set(5.0, "std errors", "how clearly that share rose, over its error", FIGHTIN_WORDS)
    lift_z: float = _set(3.0, "std errors", "what holding it earns inside a step, over its error")
    lift: float = _set(0.25, "std of reward", "what holding it earns inside a step")
    gain: float = _set(
        1 / 3, "of the gain", "of the reward, since it spread, that having spread earns"
    )
    held: float = _set(0.5, "of responses", "critical: hold it in the last window")
    carried: float = _set(0.5, "of the gain", "critical: and hold this part of the reward's gain")


@dataclass(frozen=True, slots=True)
class DiversityCollapse:
    """Thresholds of ``diversity_collapse``."""

    fall: float = _set(
        0.3, "of distinct-2", "warning: fall at an equal number of bigrams", DISTINCT
    )
    least_bigrams: int = _set(
        200, "bigrams", "with fewer, judge by identical responses only", DISTINCT
    )
    identical: float = _set(0.5, "of responses", "warning: have a twin in their step", DISTINCT)
    rise: float = _set(0.1, "of responses", "and that share rose by this since the start")


@dataclass(frozen=True, slots=True)
class EntropyCollapse:
    """Thresholds of ``entropy_collapse``."""

    share: float = _set(
        0.2, "of the first", "warning: mean surprisal against the first window", ENTROPY
    )
    surprisal: float = _set(0.3, "nats", "and mean surprisal in the last window is below", ENTROPY)


@dataclass(frozen=True, slots=True)
class LengthHacking:
    """Thresholds of ``length_hacking``."""

    ratio: float = _set(1.5, "times", "mean length against the first window")
    correlation: float = _set(0.4, "", "of reward and length inside a step")


@dataclass(frozen=True, slots=True)
class LengthCollapse:
    """Thresholds of ``length_collapse``."""

    ratio: float = _set(0.5, "times", "mean length against the first window", SHORT_RESPONSES)
    tokens: int = _set(4, "tokens", "a response with fewer is a stub", SHORT_RESPONSES)
    stubs: float = _set(0.1, "of responses", "are stubs in the last window", SHORT_RESPONSES)


@dataclass(frozen=True, slots=True)
class MissingEos:
    """Thresholds of ``missing_eos``."""

    rise: float = _set(0.2, "of responses", "rise of the share cut off since the first window", EOS)
    share: float = _set(0.5, "of responses", "share cut off in the last window", EOS)


@dataclass(frozen=True, slots=True)
class ValueDivergence:
    """Thresholds of ``value_divergence``."""

    explained: float = _set(-0.5, "", "warning: explained variance of the last window", CRITIC)
    weak: float = _set(0.0, "", "info: explained variance of the last window", CRITIC)
    spread: float = _set(5.0, "times", "warning: std of values against std of returns", CRITIC)
    floor: float = _set(0.01, "of the run's", "least variance of returns that can be followed")


@dataclass(frozen=True, slots=True)
class RatioDrift:
    """Thresholds of ``ratio_drift``."""

    low: float = _set(0.5, "", "mean exp(new - old) below this", RATIO)
    high: float = _set(2.0, "", "mean exp(new - old) above this", RATIO)
    outside: float = _set(0.3, "of tokens", "have a ratio outside 1 ± 0.2", RATIO)


@dataclass(frozen=True, slots=True)
class EngineMismatch:
    """Thresholds of ``engine_mismatch``."""

    ratio: float = _set(1.05, "", "mean exp|trainer - sampler| of a token", MISMATCH)
    k3: float = _set(1e-3, "nats", "mean k3 of a token, trainer against sampler", MISMATCH)
    prob: float = _set(0.01, "", "mean |trainer - sampler| probability of a token", MISMATCH)


@dataclass(frozen=True, slots=True)
class ZeroVarianceGroups:
    """Thresholds of ``zero_variance_groups``."""

    share: float = _set(0.5, "of groups", "have a reward std below 1e-6 in the last window", GROUPS)
    grouped: float = _set(
        0.5, "of responses", "are in a group of two or more, else not checked", GROUPS
    )


@dataclass(frozen=True, slots=True)
class PersistentLosers:
    """Thresholds of ``persistent_losers``."""

    seen: int = _set(5, "responses", "a prompt seen less often is not judged", RL_BOARD)
    share: float = _set(0.05, "of prompts", "never beat the reference", RL_BOARD)


@dataclass(frozen=True, slots=True)
class LanguageDrift:
    """Thresholds of ``language_drift``."""

    rise: float = _set(
        0.2, "of responses", "info: rise of the share in another script than the prompt's", LMFLOW
    )
    most: float = _set(0.5, "of responses", "warning: that share")


@dataclass(frozen=True, slots=True)
class RewardPartDominance:
    """Thresholds of ``reward_part_dominance``."""

    share: float = _set(
        0.75, "of the reward", "info: its variance inside steps, or its gain, from one part"
    )


@dataclass(frozen=True, slots=True)
class BrokenLog:
    """Thresholds of ``broken_log``."""

    unreadable: float = _set(0.001, "of lines", "warning: unreadable; below it, info")
    usual: float = _set(0.8, "of steps", "alike in responses or distance, else neither is judged")
    fewer: float = _set(0.9, "of the usual", "a step with fewer responses is incomplete")


@dataclass(frozen=True, slots=True)
class Thresholds(ThresholdsOfTurns):
    """All thresholds; one group a check, named by its id, and ``trend`` for the windows."""

    trend: Trend = Trend()
    kl_explosion: KlExplosion = KlExplosion()
    negative_kl: NegativeKl = NegativeKl()
    reward_shift: RewardShift = RewardShift()
    entropy_explosion: EntropyExplosion = EntropyExplosion()
    reward_collapse: RewardCollapse = RewardCollapse()
    reward_stalled: RewardStalled = RewardStalled()
    reward_hacking_token: RewardHackingToken = RewardHackingToken()
    diversity_collapse: DiversityCollapse = DiversityCollapse()
    entropy_collapse: EntropyCollapse = EntropyCollapse()
    length_hacking: LengthHacking = LengthHacking()
    length_collapse: LengthCollapse = LengthCollapse()
    missing_eos: MissingEos = MissingEos()
    value_divergence: ValueDivergence = ValueDivergence()
    ratio_drift: RatioDrift = RatioDrift()
    engine_mismatch: EngineMismatch = EngineMismatch()
    zero_variance_groups: ZeroVarianceGroups = ZeroVarianceGroups()
    persistent_losers: PersistentLosers = PersistentLosers()
    language_drift: LanguageDrift = LanguageDrift()
    reward_part_dominance: RewardPartDominance = RewardPartDominance()
    broken_log: BrokenLog = BrokenLog()


@dataclass(frozen=True, slots=True)
class ThresholdRow:
    """One threshold as documented: its group and key in TOML, value, unit, meaning, source."""

    group: str
    key: str
    value: float
    unit: str
    meaning: str
    source: str


def describe(thresholds: Thresholds | None = None) -> list[ThresholdRow]:
    """List every threshold in the order of the table, for the docs and ``rlreport checks``."""
    table = thresholds or Thresholds()
    rows = []
    for group in dataclasses.fields(table):
        settings = getattr(table, group.name)
        for setting in dataclasses.fields(settings):
            value = getattr(settings, setting.name)
            rows.append(ThresholdRow(group.name, setting.name, value, **setting.metadata))
    return rows


def limit_of(thresholds: Thresholds, group: str, key: str) -> tuple[float, str]:
    """Return a threshold's value and unit."""
    settings = getattr(thresholds, group)
    (setting,) = (field for field in dataclasses.fields(settings) if field.name == key)
    return float(getattr(settings, key)), str(setting.metadata["unit"])


MAX_TOML = 1_000_000
"""Bytes of a file of thresholds that are read."""


def load_thresholds(path: str | Path) -> Thresholds:
    """Read thresholds from TOML (``[kl_explosion]``, ``warn = 10``); the rest keep their defaults.

    Raises:
        UsageError: the file cannot be read, is no TOML, or holds an unknown group, an
            unknown key or a value that is not a finite number.
    """
    file = Path(path)
    try:
        # A pipe or a device may have no end.
        if not (stat.S_ISREG(file.stat().st_mode) and file.stat().st_size <= MAX_TOML):
            raise UsageError(f"{path}: is no file of at most {MAX_TOML:,} bytes; give a TOML file")
        given = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: cannot read thresholds: {error.strerror}") from error
    except RecursionError:
        raise UsageError(f"{path}: not valid TOML: nested too deep") from None
    except ValueError as error:  # no UTF-8, no TOML, a number of thousands of digits, NUL in a name
        raise UsageError(f"{path}: not valid TOML: {error}") from error
    defaults = Thresholds()
    groups = {group.name: getattr(defaults, group.name) for group in dataclasses.fields(defaults)}
    changed = {}
    for name, settings in given.items():
        if name not in groups:
            raise UsageError(f"{path}: unknown check [{name}]; known: {', '.join(groups)}")
        if not isinstance(settings, dict):
            raise UsageError(f"{path}: [{name}] must be a table, such as [{name}]")
        changed[name] = _replace(groups[name], settings, f"{path}: [{name}]")
    return dataclasses.replace(defaults, **changed)


def _replace(group: Any, settings: dict[str, object], where: str) -> Any:
    """Return the group with the given settings, checked against the types of its defaults."""
    for key, value in settings.items():
        if key not in {setting.name for setting in dataclasses.fields(group)}:
            known = ", ".join(setting.name for setting in dataclasses.fields(group))
            raise UsageError(f"{where} has no threshold {key!r}; known: {known}")
        whole = isinstance(getattr(group, key), int)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            kind = "a whole number" if whole else "a number"
            raise UsageError(f"{where} {key} must be {kind}, not {value!r}")
        if not abs(value) <= sys.float_info.max:
            raise UsageError(f"{where} {key} must be finite, not {value!r:.40}")
    return dataclasses.replace(group, **settings)
