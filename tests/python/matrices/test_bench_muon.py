"""tools/bench_muon.py measures several shapes in one run."""

import os
import subprocess
import sys
from pathlib import Path

TOOLS = Path(__file__).parents[3] / "tools"


def test_a_table_of_two_shapes():
    work = "import bench_muon, sys; bench_muon.TABLE = '16x24', '2@8x8'; sys.argv[1:] = ['--runs', '1']; bench_muon.main()"
    done = subprocess.run([sys.executable, "-c", work], text=True, capture_output=True,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join([str(TOOLS), *sys.path])})
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()[-2:]] == ["16x24", "2@8x8"], done.stdout
