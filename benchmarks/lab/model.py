"""A tiny transformer over the language's tokens, with a value head and cached sampling."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

Cache = list[tuple[Tensor, Tensor]]


class Block(nn.Module):
    """Attention and a feed-forward layer, both after layer norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before = nn.LayerNorm(width)
        self.after = nn.LayerNorm(width)
        self.mix = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.feed = nn.Sequential(
            nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width)
        )

    def forward(
        self, x: Tensor, mask: Tensor, past: tuple[Tensor, Tensor] | None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the block's output and its keys and values; ``mask`` is true where seen."""
        batch, length, width = x.shape
        query, key, value = (
            part.view(batch, length, self.heads, -1).transpose(1, 2)
            for part in self.mix(self.before(x)).split(width, dim=2)
        )
        if past is not None:
            key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        seen = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.feed(self.after(x)), (key, value)


class Model(nn.Module):
    """Logits and a value at each position; prompts are padded on the left with token 0."""

    def __init__(
        self, vocabulary: int, width: int = 64, layers: int = 2, context: int = 160
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.places = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, 4) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.value = nn.Linear(width, 1)
        for module in (self.tokens, self.places):
            nn.init.normal_(module.weight, std=0.05)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)

    def forward(
        self, ids: Tensor, known: Tensor, past: Cache | None = None
    ) -> tuple[Tensor, Tensor, Cache]:
        """Return logits (B, T, V), values (B, T) and the cache.

        ``known`` (B, all positions so far) is true where a token is no padding.
        """
        length = ids.shape[1]
        total = known.shape[1]
        place = (known.cumsum(1) - 1).clamp(min=0)[:, total - length :]
        causal = torch.ones(length, total, dtype=torch.bool).tril(total - length)
        mask = causal[None, None] & known[:, None, None, :]
        mask = mask | torch.eye(length, total, dtype=torch.bool).roll(total - length, 1)[None, None]
        x = self.tokens(ids) + self.places(place)
        cache: Cache = []
        for i, block in enumerate(self.blocks):
            x, kept = block(x, mask, None if past is None else past[i])
            cache.append(kept)
        x = self.norm(x)
        logits = functional.linear(x, self.tokens.weight)
        return logits, self.value(x).squeeze(-1), cache


@torch.no_grad()
def sample(model: Model, prompts: Tensor, end: int, room: int) -> Tensor:
    """Return responses (B, <= room), padded with 0 after their end token."""
    known = prompts != 0
    ids = prompts
    past = None
    alive = torch.ones(len(prompts), dtype=torch.bool)
    drawn: list[Tensor] = []
    for _ in range(room):
        logits, _, past = model(ids, known, past)
        last = logits[:, -1]
        last[:, 0] = -torch.inf
        chosen = torch.multinomial(last.softmax(-1), 1)
        chosen = torch.where(alive[:, None], chosen, torch.zeros_like(chosen))
        drawn.append(chosen)
        known = torch.cat([known, alive[:, None]], 1)
        alive = alive & (chosen[:, 0] != end)
        ids = chosen
        if not bool(alive.any()):
            break
    return torch.cat(drawn, 1)


def score(model: Model, prompts: Tensor, responses: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return log-probabilities (B, T), values (B, T) and entropies (B, T) of the responses."""
    ids = torch.cat([prompts, responses], 1)
    logits, values, _ = model(ids[:, :-1], ids[:, :-1] != 0)
    start = prompts.shape[1] - 1
    logits = logits[:, start:].clone()
    logits[:, :, 0] = -1e9
    every = logits.log_softmax(-1)
    logp = every.gather(2, responses[:, :, None]).squeeze(2)
    entropy = -(every.exp() * every).sum(-1)
    return logp, values[:, start:], entropy
