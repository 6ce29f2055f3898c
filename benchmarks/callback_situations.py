"""How ``ReportCallback`` ends with a training: ``python benchmarks/callback_situations.py FOLDER``.

Each situation is a real GRPO training of TRL in a process of its own, of a tiny random model on the
CPU, without network. Needs torch, trl, transformers, datasets, ipykernel and nbclient. Prints a row
per situation; the outputs are in FOLDER. Names of situations select some.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SIGNAL_STEP = 6  # after which a training is interrupted
LIMIT = 240  # seconds for a situation

TRAINING = '''
import json, os, signal, sys, time
from pathlib import Path
import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
from rlreport import ReportCallback

situation, folder = sys.argv[1], Path(sys.argv[2])
torch.set_num_threads(1)
torch.manual_seed(0)
words = [f"what is {i} plus {j}?" for i in range(9) for j in range(9)]
raw = Tokenizer(models.BPE(unk_token=None))
raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
raw.decoder = decoders.ByteLevel()
special = ["<|pad|>", "<|end|>"]
alphabet = pre_tokenizers.ByteLevel.alphabet()
raw.train_from_iterator(words, trainers.BpeTrainer(
    vocab_size=320, special_tokens=special, initial_alphabet=alphabet))
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=raw, pad_token="<|pad|>", eos_token="<|end|>", padding_side="left")
model = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=len(tokenizer), hidden_size=16, intermediate_size=32, num_hidden_layers=2,
    num_attention_heads=2, num_key_value_heads=1, pad_token_id=0, eos_token_id=1))
rank = int(os.environ.get("RANK", 0))
step = 0


def digits(completions, **_):
    """Reward digits; fail or die in some situations."""
    if step == STEP:
        if situation == "raised":
            raise ValueError("the grader failed")
        if situation == "rank 1 raises" and rank == 1:
            raise ValueError("the grader of rank 1 failed")
        if situation == "rank 0 is killed" and rank == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        if situation == "notebook cell fails":
            raise ValueError("the grader failed in a cell")
    return [sum(c.isdigit() for c in text) / (1 + len(text)) for text in completions]


class Mark(TrainerCallback):
    """Tell the step to this script, and to the one that sends signals."""

    def on_step_end(self, args, state, control, **_):
        global step
        step = state.global_step
        if rank == 0:
            (folder / "step").write_text(str(step))
        time.sleep(PAUSE)


def before(number, frame):
    print("the earlier handler was called", flush=True)
    sys.exit(7)


if situation == "SIGTERM, own handler":
    signal.signal(signal.SIGTERM, before)
report = ReportCallback(folder / "run.html", every=3, title=situation)
assert isinstance(report, TrainerCallback)
trainer = GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=[digits],
    train_dataset=Dataset.from_list([{"prompt": word} for word in words]),
    args=GRPOConfig(
        output_dir=str(folder / "out"), log_completions=True, logging_steps=1, max_steps=STEPS,
        per_device_train_batch_size=4, num_generations=4, max_completion_length=8, use_cpu=True,
        report_to="none", save_strategy="no", learning_rate=1e-3,
        hub_token="hf_notarealtoken0123456789",
        dataloader_num_workers=2 if situation == "SIGTERM, data workers" else 0, disable_tqdm=True,
    ),
    callbacks=[report, Mark()],
)
trainer.train()
if situation == "trained twice":
    trainer.train()
print("the script goes on", flush=True)
'''


class Situation(NamedTuple):
    name: str
    signal: str = ""  # sent at SIGNAL_STEP
    ranks: int = 1
    notebook: bool = False


SITUATIONS = (
    Situation("finished"),
    Situation("trained twice"),
    Situation("raised"),
    Situation("SIGTERM", "SIGTERM"),
    Situation("SIGTERM, own handler", "SIGTERM"),
    Situation("SIGTERM, data workers", "SIGTERM"),
    Situation("Ctrl-C", "SIGINT"),
    Situation("SIGHUP", "SIGHUP"),
    Situation("SIGKILL", "SIGKILL"),
    Situation("rank 1 raises", ranks=2),
    Situation("rank 0 is killed", ranks=2),
    Situation("SIGTERM to torchrun", "SIGTERM", ranks=2),
    Situation("notebook cell fails", notebook=True),
    Situation("notebook kernel is killed", "SIGKILL", notebook=True),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("names", nargs="*", help="situations; default: all")
    given = parser.parse_args()
    # A job in the background inherits that Ctrl-C is ignored, and would hand it on.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    print("| situation | exit status | seconds | report | how it ended | verdict |")
    print("|---|---|---|---|---|---|")
    for situation in SITUATIONS:
        if not given.names or situation.name in given.names:
            print(row(situation, given.folder / situation.name.replace(" ", "_")))


def row(situation: Situation, folder: Path) -> str:
    """Run a situation; return it as a row of a Markdown table."""
    folder.mkdir(parents=True)
    script = folder / "train.py"
    steps = 4 if situation.name in ("finished", "trained twice") else 200
    code = TRAINING
    for name, value in {"STEPS": steps, "STEP": SIGNAL_STEP, "PAUSE": 0.3}.items():
        code = re.sub(rf"\b{name}\b", str(value), code)
    script.write_text(code)
    output = folder / "output.txt"
    with output.open("wb") as stream:
        process = subprocess.Popen(
            command(situation, script, folder),
            stdout=stream,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        )
        before = time.monotonic()
        if situation.signal:
            wait_for_step(folder / "step", process)
            before = time.monotonic()
            target = kernel_of(process.pid) if situation.notebook else process.pid
            os.kill(target, getattr(signal, situation.signal))
        try:
            status: object = process.wait(LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            status = "did not end"
    seconds = time.monotonic() - before
    wait_for_builds(folder)
    since_death = time.monotonic() - before - seconds
    report = folder / "run.html"
    later = f" (+ {since_death:.0f} s)" if since_death >= 1 else ""
    text = output.read_text(errors="replace")
    ended = last_match(r"rlreport: training (.*)", text)
    verdict = last_match(r"What +([^.:]*)", text)
    is_there = "yes" if report.exists() else "no"
    took = f"{seconds:.0f}" if situation.signal else "–"
    cells = (situation.name, status, took, is_there + later, ended, verdict)
    return f"| {' | '.join(map(str, cells))} |"


def command(situation: Situation, script: Path, folder: Path) -> list[str]:
    """Return the command that trains."""
    arguments = [str(script), situation.name, str(folder)]
    if situation.ranks > 1:
        launcher = "torch.distributed.run"
        ranks = f"--nproc-per-node={situation.ranks}"
        return [sys.executable, "-m", launcher, "--master-port=0", ranks, *arguments]
    if situation.notebook:
        return [sys.executable, "-c", NOTEBOOK, *arguments]
    return [sys.executable, *arguments]


NOTEBOOK = """
import sys
from pathlib import Path
import nbclient, nbformat
path, name, folder = sys.argv[1:]
cells = [f"import sys; sys.argv = [{path!r}, {name!r}, {folder!r}]", Path(path).read_text()]
cells += ["import os, time; time.sleep(1); print('next cell; report:', os.path.exists('run.html'))"]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
try:
    nbclient.NotebookClient(book, timeout=200, allow_errors=True).execute()
finally:
    for cell in book.cells:
        for output in cell.get("outputs", []):
            print(output.get("text") or output.get("evalue") or "")
"""


def wait_for_step(path: Path, process: subprocess.Popen[bytes]) -> None:
    while process.poll() is None:
        if path.exists() and int(path.read_text() or 0) >= SIGNAL_STEP:
            return
        time.sleep(0.1)


def wait_for_builds(folder: Path) -> None:
    """Wait until no process of rlreport is left that works for a training in ``folder``."""
    end = time.monotonic() + 60
    while any(builds(folder)) and time.monotonic() < end:
        time.sleep(0.2)


def builds(folder: Path) -> Iterator[int]:
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes()
            is_here = (entry / "cwd").readlink() == folder.resolve()
        except OSError:  # it has ended
            continue
        if b"rlreport.training" in words and is_here:
            yield int(entry.name)


def kernel_of(pid: int) -> int:
    """Return the kernel that a process started."""
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            words = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        if parent == pid and b"ipykernel" in words:
            return int(entry.name)
    raise ProcessLookupError(f"no kernel of {pid}")


def last_match(pattern: str, text: str) -> str:
    found = re.findall(pattern, text)
    return found[-1].strip() if found else "–"


if __name__ == "__main__":
    main()
