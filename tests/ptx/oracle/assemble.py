"""Many one-kernel texts through ptxas, a few hundred at a time."""

import os
import re
import subprocess
import tempfile

from kernels import HEADER

BATCH = 400


def renamed(text, n):
    """Makes the kernel and its module variables distinct, so texts can be joined."""
    text = text.removeprefix(HEADER)
    for name in re.findall(r"^\.(?:const|global) .* \.b\d+ (\w+)", text, re.M) + ["k"]:
        text = re.sub(rf"\b{name}\b", f"{name}_{n}", text)
    return text


def run(ptxas, texts):
    """(line, message) pairs of what ptxas says of the joined texts."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "joined.ptx")
        with open(path, "w") as out:
            out.write(HEADER + "\n".join(texts))
        done = subprocess.run([ptxas, "-O0", "-arch=sm_90", path, "-o", os.devnull], capture_output=True, text=True)
    if done.returncode == 0:
        return []
    return re.findall(r"line (\d+); error\s*: (.*)", done.stderr) or [("0", done.stderr[:300])]


def batches(texts):
    """At most BATCH texts with 64 KB of constant memory between them."""
    batch, constant = [], 0
    for text in texts:
        need = sum(int(n) for n in re.findall(r"^\.const .*\[(\d+)\]", text, re.M)) + 64
        if batch and (len(batch) == BATCH or constant + need > 65536):
            yield batch
            batch, constant = [], 0
        batch.append(renamed(text, len(batch)))
        constant += need
    yield batch


def refused(ptxas, texts):
    """One sentence for each error, with the PTX line it is about."""
    found = []
    for batch in batches(texts):
        lines = (HEADER + "\n".join(batch)).split("\n")
        for line, message in run(ptxas, batch):
            found.append(f"ptxas: {lines[int(line) - 1].strip()}: {message}")
    return found
