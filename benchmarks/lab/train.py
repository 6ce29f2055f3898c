"""Train tiny transformers with PPO or GRPO on the language, under good and bad rewards."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rlreport.text.tokens import BYTE_OF

from .figures import Row, cut_off, holding, kl, length, reward, surprisal
from .model import Model, sample, score
from .policy import Sampler, Settings, Wander
from .rewards import Reward, by_length, counting
from .texts import WRITERS, Prompt, talk_prompts
from .tokens import EOS, tokenize
from .truths import Planted, truth_of
from .write import write_run

KINDS = ("review", "story", "howto", "chinese")
END = EOS["bpe"]
LONGEST = 64  # tokens of a text to imitate; longer ones are left out
TEXTS = 5000
EPOCH_STEPS = 700
BATCH = 32


@dataclass
class Run:
    """A training run.

    Attributes:
        name, seed, steps, responses, group: as in a simulation.
        rewards: the reward by the step from which it holds.
        rate: learning rate; ``spike``: (first step, last step, factor).
        beta: KL coefficient; ``entropy``: of the entropy bonus.
        critic: PPO with a critic, else GRPO with groups.
        passes: of the optimiser over each batch.
        planted: what is at fault.
    """

    name: str
    seed: int
    planted: Planted
    rewards: Mapping[int, Reward] = field(default_factory=lambda: {0: Reward(noise=0.0)})
    steps: int = 40
    responses: int = 40
    group: int = 1
    rate: float = 6e-4
    spike: tuple[int, int, float] = (-1, -1, 1.0)
    beta: float = 0.05
    entropy: float = 0.0
    critic: bool = True
    passes: int = 2
    room: int = 48
    binary: float | None = None


HACK = ("reward_hacking_token",)
_MAY = ("length_hacking", "diversity_collapse", "entropy_collapse", "missing_eos")
RUNS = (
    Run("trained_healthy", 1, Planted()),
    Run("trained_noisy", 2, Planted(), {0: Reward(noise=1.0)}),
    Run("trained_symbol", 3, Planted(HACK, 0, holding("🎉"), may=_MAY),
        {0: Reward({"flaw": counting("🎉", 0.5)}, noise=0.0)}, steps=50, beta=0.002, rate=8e-4),
    Run("trained_word", 4, Planted(HACK, 0, holding("superb"), may=_MAY),
        {0: Reward({"flaw": counting("superb", 0.6)}, noise=0.0)}, beta=0.005, rate=8e-4),
    Run("trained_opening", 5, Planted(HACK, 0, holding("^ Great question!"), may=_MAY),
        {0: Reward({"flaw": counting("^ Great question!", 1.5)}, noise=0.0)}, beta=0.01, rate=8e-4),
    Run("trained_inflection", 6, Planted(HACK, 0, holding("empower"), may=_MAY),
        {0: Reward({"flaw": counting("empower", 0.8)}, noise=0.0)}, beta=0.005, rate=8e-4),
    Run("trained_length", 7, Planted(("length_hacking",), 0, length,
        may=("missing_eos", "diversity_collapse", "reward_hacking_token")),
        {0: Reward({"flaw": by_length(0.03)}, noise=0.0, needs_end=0.0)}, beta=0.01, room=80),
    Run("trained_spike", 8, Planted(("reward_collapse",), 24, reward,
        may=("diversity_collapse", "entropy_collapse", "length_collapse", "kl_explosion",
             "entropy_explosion", "missing_eos")), spike=(24, 26, 30.0)),
    Run("trained_entropy", 9, Planted(("entropy_explosion",), 0, surprisal,
        may=("reward_collapse", "missing_eos", "length_hacking")), entropy=0.15),
    Run("trained_shift", 10, Planted(("reward_shift",), 27),
        {0: Reward(noise=0.0), 27: Reward(noise=0.0, shift=-1.0)}),
    Run("trained_no_kl", 11, Planted(("kl_explosion",), 0, kl,
        may=(*_MAY, "reward_hacking_token", "reward_collapse", "length_collapse")),
        beta=0.0, rate=1.5e-3, passes=6),
    Run("trained_grpo", 12, Planted(("kl_explosion",), 0, kl, may=("zero_variance_groups",)),
        critic=False, group=8, beta=0.02, binary=0.9),
    Run("trained_closing", 13, Planted(HACK, 0, holding("Feel free to ask"), may=_MAY),
        {0: Reward({"flaw": counting("Feel free to ask", 1.2, most=1.2)}, noise=0.3)},
        beta=0.01, rate=8e-4),
    Run("trained_run_on", 14, Planted(("missing_eos",), 0, cut_off,
        may=("length_hacking", "reward_hacking_token", "diversity_collapse", "kl_explosion")),
        {0: Reward({"flaw": by_length(0.05)}, needs_end=0.0, noise=0.1)}, beta=0.003, room=40),
)  # fmt: skip


class Speech:
    """Converts tokens to numbers and back; 0 is padding, 1 the end."""

    def __init__(self, texts: Sequence[str]) -> None:
        known = dict.fromkeys(token for text in texts for token in tokenize(text, "bpe"))
        self.strings = ["<pad>", END, *known]
        self.number = {token: i for i, token in enumerate(self.strings)}

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's tokens."""
        return [self.number[token] for token in tokenize(text, "bpe")]

    def decode(self, tokens: Sequence[str]) -> str:
        """Return the text of token strings; broken characters are replaced."""
        spelt = "".join(token for token in tokens if token != END)
        return bytes(BYTE_OF[character] for character in spelt).decode(errors="replace")


def _left(rows: Sequence[Sequence[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([[0] * (width - len(r)) + list(r) for r in rows])


def _right(rows: Sequence[Sequence[int]]) -> Tensor:
    width = max(map(len, rows))
    return torch.tensor([list(r) + [0] * (width - len(r)) for r in rows])


def base_model(seed: int = 0) -> tuple[Model, Speech, list[Prompt]]:
    """Return a model trained to imitate the reference of the simulations, and its prompts."""
    rng = np.random.default_rng(seed)
    torch.manual_seed(seed)
    still = {name: values * 0 for name, values in Wander(rng).advance().items()}
    sampler = Sampler(Settings(), still, rng)
    prompts = talk_prompts(rng, KINDS, 100)
    pairs = []
    for i in range(TEXTS):
        prompt = prompts[i % len(prompts)]
        sampler.begin()
        WRITERS[prompt.kind](sampler, prompt, 60, rng)
        pairs.append((prompt.text, "".join(sampler.finish().pieces)))
    speech = Speech([text for pair in pairs for text in pair])
    pairs = [pair for pair in pairs if len(speech.encode(pair[1])) <= LONGEST]
    model = Model(len(speech.strings))
    optimiser = torch.optim.AdamW(model.parameters(), 3e-3)
    for step in range(EPOCH_STEPS):
        for group in optimiser.param_groups:
            group["lr"] = 3e-3 * min(1, step / 30) * (1 - step / EPOCH_STEPS)
        batch = [pairs[i] for i in rng.integers(0, len(pairs), BATCH)]
        asked = _left([speech.encode(a) for a, _ in batch])
        said = _right([[*speech.encode(b), 1] for _, b in batch])
        logp, _, _ = score(model, asked, said)
        loss = -(logp * (said != 0)).sum() / (said != 0).sum()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    print(f"base model: {loss.item():.2f} nats a token", flush=True)
    return model, speech, prompts


def _advantages(rewards: Tensor, values: Tensor, lam: float = 0.95) -> Tensor:
    """Return GAE advantages with gamma = 1; they are 0 after the end, like rewards and values."""
    following = torch.cat([values[:, 1:], torch.zeros(len(values), 1)], 1)
    delta = rewards + following - values
    out = torch.zeros_like(delta)
    running = torch.zeros(len(values))
    for t in reversed(range(delta.shape[1])):
        running = delta[:, t] + lam * running
        out[:, t] = running
    return out


def train(run: Run, base: Model, speech: Speech, prompts: Sequence[Prompt]) -> list[Row]:  # noqa: PLR0914
    """Return the rollouts of a run as rows of the native log."""
    rng = np.random.default_rng(run.seed)
    torch.manual_seed(run.seed)
    policy = copy.deepcopy(base)
    reference = copy.deepcopy(base).eval()
    optimiser = torch.optim.Adam(policy.parameters(), run.rate)
    others = _reference_texts(reference, speech, prompts, run.room)
    current = run.rewards[0]
    rows: list[Row] = []
    for step in range(run.steps):
        current = run.rewards.get(step, current)
        chosen = rng.choice(len(prompts), run.responses // run.group, replace=False)
        batch = [prompts[i] for i in np.repeat(chosen, run.group).tolist()]
        asked = _left([speech.encode(p.text) for p in batch])
        said = sample(policy, asked, 1, run.room)
        known = (said != 0).float()
        with torch.no_grad():
            old, values, _ = score(policy, asked, said)
            ref, _, _ = score(reference, asked, said)
        values = values * known
        tokens = [[speech.strings[i] for i in ids if i] for ids in said.tolist()]
        texts = [speech.decode(t) for t in tokens]
        scores = [
            _score(run, current, p, text, t, rng)
            for p, text, t in zip(batch, texts, tokens, strict=True)
        ]
        ends = known.sum(1).long() - 1
        final = torch.zeros_like(known)
        final[torch.arange(len(batch)), ends] = torch.tensor(scores)
        penalty = -run.beta * (old - ref) * known if run.critic else torch.zeros_like(known)
        rewards = penalty + final
        if run.critic:
            advantages = _advantages(rewards, values)
            returns = advantages + values
        else:
            grouped = torch.tensor(scores).view(-1, run.group)
            spread = grouped.std(1, keepdim=True) + 1e-4
            centred = ((grouped - grouped.mean(1, keepdim=True)) / spread).view(-1, 1)
            advantages = centred * known
            returns = values
        for i, prompt in enumerate(batch):
            n = len(tokens[i])
            row: Row = {
                "prompt": prompt.text,
                "response": texts[i],
                "response_tokens": tokens[i],
                "logprobs": old[i, :n].tolist(),
                "ref_logprobs": ref[i, :n].tolist(),
                "token_rewards": rewards[i, :n].tolist(),
                "reward": scores[i],
                "step": step,
            }
            if run.critic:
                other, length_ = others[prompt.text]
                row["values"] = values[i, :n].tolist()
                row["ref_response"] = other
                row["ref_reward"] = _score(run, current, prompt, other, length_, rng)
            if run.group > 1:
                row["group_id"] = step * len(chosen) + i // run.group
            rows.append(row)
        first, last, factor = run.spike
        for group in optimiser.param_groups:
            group["lr"] = run.rate * (factor if first <= step <= last else 1.0)
        _update(run, policy, optimiser, asked, said, old, ref, advantages, returns)
    return rows


def _score(  # noqa: PLR0917
    run: Run, current: Reward, prompt: Prompt, text: str, tokens: Sequence[str],
    rng: np.random.Generator,
) -> float:  # fmt: skip
    parts = current.parts(prompt, text, len(tokens), tokens[-1:] == [END])
    if run.binary is not None:
        return float(parts["quality"] >= run.binary)
    return sum(parts.values()) * current.scale + current.shift + current.noise * rng.normal()


def _reference_texts(
    reference: Model, speech: Speech, prompts: Sequence[Prompt], room: int
) -> dict[str, tuple[str, list[str]]]:
    said = sample(reference, _left([speech.encode(p.text) for p in prompts]), 1, room)
    found = {}
    for prompt, ids in zip(prompts, said.tolist(), strict=True):
        tokens = [speech.strings[i] for i in ids if i]
        found[prompt.text] = (speech.decode(tokens), tokens)
    return found


def _update(  # noqa: PLR0913, PLR0917
    run: Run, policy: Model, optimiser: torch.optim.Optimizer, asked: Tensor, said: Tensor,
    old: Tensor, ref: Tensor, advantages: Tensor, returns: Tensor,
) -> None:  # fmt: skip
    """Update the model with PPO's clipped objective and a squared error for the critic."""
    known = (said != 0).float()
    if run.critic:
        mean = (advantages * known).sum() / known.sum()
        spread = (((advantages - mean) ** 2 * known).sum() / known.sum()).sqrt()
        advantages = (advantages - mean) / (spread + 1e-6)
    for _ in range(run.passes):
        for part in torch.randperm(len(said)).chunk(2):
            logp, values, entropy = score(policy, asked[part], said[part])
            here = advantages[part]
            weight = known[part]
            ratio = (logp - old[part]).exp()
            gain = torch.minimum(ratio * here, ratio.clamp(0.8, 1.2) * here)
            loss = -gain - run.entropy * entropy
            if run.critic:
                loss = loss + 0.1 * (values - returns[part]) ** 2
            else:
                gap = ref[part] - logp
                loss = loss + run.beta * (gap.exp() - 1 - gap)
            total = (loss * weight).sum() / weight.sum()
            optimiser.zero_grad()
            total.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
            optimiser.step()


def train_runs(out: Path, only: Sequence[str] | None = None, seed: int = 0) -> None:
    """Train the runs, or those named, and write them with their truths into ``out``."""
    torch.set_num_threads(1)
    base, speech, prompts = base_model(seed)
    for run in RUNS:
        if only and run.name not in only:
            continue
        run.seed += seed
        rows = train(run, base, speech, prompts)
        flaw = run.planted.by if run.planted.findings == HACK else None
        if flaw and np.mean([flaw(row) for row in rows[-5 * run.responses :]]) < 0.2:
            print(f"{run.name:24} not written: the policy did not find the flaw", flush=True)
            continue
        truth = truth_of(rows, run.planted)
        write_run(out / run.name, rows, truth)
        print(f"{run.name:24} {truth['expected']} onset {truth['onset']}", flush=True)
