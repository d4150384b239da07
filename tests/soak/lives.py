"""Random lives beside torch, each in a child of its own: optimizers, scalers, files, calls of the C ABI.

A life ends well, with a refusal in words, or badly: other numbers than torch's, something changed by a
refused step, an exception that no page names, a signal, or no end within a minute.
"""

import argparse
import collections
import importlib
import os
import random
import select
import signal
import sys
import time
import traceback
import warnings

import torch

import altgrad

KINDS = "optimizers", "scalers", "files", "calls"  # in turn
ALONE = "rules", "pairs"  # by their names only
# What documented errors are; AttributeError, IndexError or SystemError are mistakes of ours.
REFUSALS = (TypeError, ValueError, RuntimeError, KeyError, AssertionError, MemoryError, altgrad.Error)
SECONDS = collections.defaultdict(lambda: 60, rules=900, pairs=900)  # of which a kind ends in one, or is shrunk


class Life:
    """One life: `dice` for everything random, `said` counts what happened by words."""

    def __init__(self, seed):
        self.seed, self.dice, self.said = seed, random.Random(seed), collections.Counter()
        torch.manual_seed(seed)

    def refused(self, call, unchanged, about):
        """Whether `call` was refused in words; then nothing of `unchanged`, tensors, may have changed."""
        before = [bytes_of(tensor) for tensor in unchanged]
        try:
            call()
        except REFUSALS as error:
            if not str(error).strip():
                raise AssertionError(f"{about}: refused without a word") from error
            after = [bytes_of(tensor) for tensor in unchanged]
            assert before == after, f"{about}: refused ({error}), and tensors have changed"
            self.said[f"refused: {about}"] += 1
            return True
        self.said[f"taken: {about}"] += 1
        return False


def bytes_of(tensor):
    """The elements, whatever storage they lie in; None where that is too short to be read."""
    held = tensor.untyped_storage().nbytes()
    last = sum(stride * (size - 1) for stride, size in zip(tensor.stride(), tensor.shape))
    if tensor.numel() and (tensor.storage_offset() + last + 1) * tensor.itemsize > held:
        return None
    dense = torch.empty(tensor.shape, dtype=tensor.dtype).copy_(tensor.detach())
    return dense.view(-1).view(torch.uint8).numpy().tobytes()


def child(kind, seed, pipe):
    """Lives, and writes into `pipe` how it ended: a line for what was said, or a traceback behind "!"."""
    warnings.simplefilter("ignore")
    signal.alarm(SECONDS[kind])
    life = Life(seed)
    try:
        importlib.import_module(kind).live(life)
        words = "\n".join(f"{count} {what}" for what, count in life.said.items())
    except BaseException:
        words = "!" + traceback.format_exc()
    with os.fdopen(pipe, "w") as answer:
        answer.write(words)


def live(kind, seed):
    """(Counter of what was said, None or what went wrong) of a life in a child."""
    read, write = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(read)
        try:
            child(kind, seed, write)
        finally:
            os._exit(0)
    os.close(write)
    parts = []
    while select.select([read], [], [], 2 * SECONDS[kind])[0] and (part := os.read(read, 1 << 16)):
        parts.append(part)
    os.close(read)
    _, status = os.waitpid(pid, 0)
    text, said = b"".join(parts).decode(errors="replace"), collections.Counter()
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        return said, "no end" if number == signal.SIGALRM else f"signal {signal.Signals(number).name}"
    if text.startswith("!"):
        return said, text[1:]
    for line in text.splitlines():
        count, what = line.split(" ", 1)
        said[what] += int(count)
    return said, None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("minutes", type=float)
    parser.add_argument("--seed", type=int, default=int(time.time()), help="the first seed; default: the clock")
    parser.add_argument("--kind", choices=KINDS + ALONE, action="append", help="only these; default: all in turn")
    parser.add_argument("--lives", type=int, default=0, help="stop after so many lives")
    given = parser.parse_args()
    torch.set_num_threads(1)
    kinds, start, lives = given.kind or KINDS, time.monotonic(), collections.Counter()
    said, bad, seed, told = collections.Counter(), 0, given.seed, start
    for kind in kinds:  # what each child would do again
        getattr(importlib.import_module(kind), "warm", int)()
    while time.monotonic() - start < 60 * given.minutes and not 0 < given.lives <= sum(lives.values()):
        kind = kinds[seed % len(kinds)]
        counts, wrong = live(kind, seed)
        lives[kind] += 1
        said.update({f"{kind}: {what}": count for what, count in counts.items()})
        if wrong:
            bad += 1
            how = f"{kind} 1" if kind in ALONE else "lives 1"
            how += f" --kind {kind}" * bool(kind in KINDS and given.kind)
            print(f"--- {kind} {seed}: tools/soak.sh {how} --lives 1 --seed {seed}\n{wrong}", flush=True)
        seed += 1
        if time.monotonic() - told > 300:
            told = time.monotonic()
            print(f"{told - start:8.0f} s  {sum(lives.values())} lives, {bad} ended badly", flush=True)
    for what, count in sorted(said.items()):
        print(f"{count:8} {what}")
    print(f"{time.monotonic() - start:.0f} s, seeds from {given.seed}: "
          + ", ".join(f"{count} lives of {kind}" for kind, count in lives.items()) + f"; {bad} ended badly")
    sys.exit(bool(bad))


if __name__ == "__main__":
    main()
