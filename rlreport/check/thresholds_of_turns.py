"""Thresholds of the checks of turns, tools and asynchronous sampling."""

from __future__ import annotations

from dataclasses import dataclass

from rlreport.check.declared import CONTRACT, EOS, MISMATCH, limit
from rlreport.text.messages import marked

AGENTS = marked("verl issues 1569, 4998 (calls vanish); AReaL (share at the limit)")
PRIME_RL = marked("prime-rl: max_off_policy_steps is 8")
ROLLOUT_CORR = marked("verl rollout_corr; VCPO (a falling effective sample precedes collapse)")
TURN_MISMATCH = marked("verl 6719; NeMo-RL (9 one way, 22,015 the other)")
SIMPLE_TIR = marked("SimpleTIR (void turns)")
RAGEN = marked("RAGEN (reward std falls before the collapse)")
RAGEN_2 = marked("RAGEN-2 (template collapse)")


@dataclass(frozen=True, slots=True)
class StaleRollouts:
    """Thresholds of ``stale_rollouts``."""

    lag: float = limit(8.0, "steps", "mean lag of the last window", PRIME_RL)


@dataclass(frozen=True, slots=True)
class OffPolicyWeights:
    """Thresholds of ``off_policy_weights``."""

    ess: float = limit(0.3, "of responses", "effective sample below this", ROLLOUT_CORR)
    low: float = limit(0.5, "", "mean weight below this", ROLLOUT_CORR)
    high: float = limit(2.0, "", "mean weight above this", ROLLOUT_CORR)
    std: float = limit(1.0, "", "std of the weights above this", ROLLOUT_CORR)
    chi2: float = limit(1.0, "", "mean of squared weights − 1 above this", ROLLOUT_CORR)


@dataclass(frozen=True, slots=True)
class MismatchByTurn:
    """Thresholds of ``mismatch_by_turn``."""

    k3: float = limit(1e-3, "nats", "mean k3 of a token in the last turn", MISMATCH)
    ratio: float = limit(3.0, "times", "and against the first turn", CONTRACT)


@dataclass(frozen=True, slots=True)
class ToolDisuse:
    """Thresholds of ``tool_disuse``."""

    ratio: float = limit(0.3, "times", "calls a response against the first window", AGENTS)
    calls: float = limit(0.2, "calls", "fewer at the start are not judged", CONTRACT)


@dataclass(frozen=True, slots=True)
class ToolErrors:
    """Thresholds of ``tool_errors``."""

    rise: float = limit(0.2, "of calls", "rise of the share since the first window", CONTRACT)
    share: float = limit(0.5, "of calls", "answered by an error in the last window", CONTRACT)


@dataclass(frozen=True, slots=True)
class FailedRollouts:
    """Thresholds of ``failed_rollouts``."""

    rise: float = limit(0.2, "of rollouts", "rise of the share since the first window", CONTRACT)
    share: float = limit(0.5, "of rollouts", "failed in the last window", CONTRACT)


@dataclass(frozen=True, slots=True)
class TemplateCollapse:
    """Thresholds of ``template_collapse``."""

    prompts: int = limit(4, "prompts", "with two responses each, else a step is not judged")
    first: float = limit(0.3, "beyond chance", "responses that find their prompt at first", RAGEN_2)
    last: float = limit(0.1, "beyond chance", "the same in the last window, below this", RAGEN_2)
    surprisal: float = limit(
        0.8, "times", "surprisal that fell further is another matter", CONTRACT
    )


@dataclass(frozen=True, slots=True)
class VoidTurns:
    """Thresholds of ``void_turns``."""

    share: float = limit(0.1, "of turns", "have neither a call nor an answer", SIMPLE_TIR)


@dataclass(frozen=True, slots=True)
class TurnLimit:
    """Thresholds of ``turn_limit``."""

    note: float = limit(0.05, "of conversations", "info: stopped at the limit", AGENTS)
    rise: float = limit(0.2, "of conversations", "warning: rise since the first window", EOS)
    share: float = limit(0.5, "of conversations", "warning: stopped in the last window", EOS)


@dataclass(frozen=True, slots=True)
class UnclosedThinking:
    """Thresholds of ``unclosed_thinking``."""

    rise: float = limit(0.2, "of responses", "rise of the share since the first window", EOS)
    share: float = limit(0.5, "of responses", "that think do not end it in the last window", EOS)


@dataclass(frozen=True, slots=True)
class GroupStdFall:
    """Thresholds of ``group_std_fall``."""

    ratio: float = limit(0.1, "times", "std inside groups against the first ten steps", RAGEN)
    steps: int = limit(10, "steps", "that are compared, and that it lasts", RAGEN)


@dataclass(frozen=True, slots=True)
class ThresholdsOfTurns:
    """One group a check, named by its id."""

    stale_rollouts: StaleRollouts = StaleRollouts()
    off_policy_weights: OffPolicyWeights = OffPolicyWeights()
    mismatch_by_turn: MismatchByTurn = MismatchByTurn()
    tool_disuse: ToolDisuse = ToolDisuse()
    tool_errors: ToolErrors = ToolErrors()
    failed_rollouts: FailedRollouts = FailedRollouts()
    template_collapse: TemplateCollapse = TemplateCollapse()
    void_turns: VoidTurns = VoidTurns()
    turn_limit: TurnLimit = TurnLimit()
    unclosed_thinking: UnclosedThinking = UnclosedThinking()
    group_std_fall: GroupStdFall = GroupStdFall()
