"""PyTorch's own OptimizerInfo configurations and error inputs, on our classes.

common_optimizers turns off torch's global flags when it is imported, so the
suite runs in its own process. float64 and complex64 are torch's part.
"""

import subprocess
import sys
from pathlib import Path


def test_configurations_and_error_inputs():
    script = Path(__file__).with_name("optimizer_info.py")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True)
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    executed, expected = done.stdout.split("executed ")[1].split(" of ")
    assert int(executed) == int(expected.split()[0]) > 0
