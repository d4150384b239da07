"""ptx-run as a user meets it: exit codes and messages.

usage: command-line.py PTX-RUN KERNELS
"""

import os
import subprocess
import sys
import tempfile

HEADER = ".version 7.0\n.target sm_80\n.address_size 64\n"
LOOP = HEADER + ".visible .entry k(.param .u64 p)\n{\nagain:\nbra again;\n}\n"
TOUCH = HEADER + ".visible .entry k(.param .u64 p, .param .u32 n)\n{\n.reg .b64 %rd;\nld.param.b64 %rd, [p];\nst.global.b32 [%rd+12], 1;\n}\n"


def main(tool, kernels):
    failures = []
    folder = tempfile.mkdtemp()

    def write(name, data):
        path = os.path.join(folder, name)
        with open(path, "wb") as out:
            out.write(data if isinstance(data, bytes) else data.encode())
        return path

    def expect(code, text, *arguments):
        done = subprocess.run([tool, *arguments], capture_output=True, text=True, errors="replace", timeout=60)
        if done.returncode != code or text not in done.stdout + done.stderr:
            failures.append(f"{arguments}: exit {done.returncode}, wanted {code} and '{text}'\n{done.stdout}{done.stderr}")

    samples = [os.path.join(kernels, f) for f in sorted(os.listdir(kernels)) if f.endswith(".ptx")]
    loop, touch = write("loop.ptx", LOOP), write("touch.ptx", TOUCH)
    with open(samples[0], "rb") as file:
        whole = file.read()
    expect(0, "", *samples)
    expect(0, "add.rn.f32", "--coverage", *samples)
    expect(1, "line ", write("cut.ptx", whole[: len(whole) // 2]))
    expect(1, "line 1: unexpected character byte", write("random.ptx", bytes(range(256))))
    expect(1, "line 1: no .version directive", write("empty.ptx", b""))
    expect(1, "cannot be read", os.path.join(folder, "absent.ptx"))
    expect(1, "line 7: step-limit: the launch did not end within 5000", "--launch=k", "--steps=5000", "--buffer=4", loop)
    expect(1, "a parameter block of 0 bytes, kernel 'k' takes 8", "--launch=k", loop)
    expect(1, "no kernel 'j'", "--launch=j", loop)
    expect(0, "3 thread-instructions", "--launch=k", "--buffer=16", "--value=01000000", touch)
    expect(1, "line 8: out-of-bounds: write of 4 bytes", "--launch=k", "--buffer=12", "--value=01000000", touch)
    few = write("few.txt", "st.global.b32\t9\n")
    expect(1, "no test: ld.param.b64", "--coverage", "--tested=" + few, touch)
    expect(1, "no test: st.global.b32", "--coverage", "--tested=" + few, "--least=10", touch)
    expect(0, "2 of 2 forms", "--coverage", "--tested=" + write("both.txt", "st.global.b32\t9\nld.param.b64\t9\n"), touch)
    expect(1, "line 1: not 'form<tab>cases'", "--coverage", "--tested=" + write("bad.txt", "x\n"), touch)
    expect(2, "usage", "--sideways", touch)
    expect(2, "no file")
    expect(2, "'x' is not a number", "--grid=x", touch)
    for failure in failures:
        print("FAIL", failure)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
