"""Reads machine code of NVIDIA's GPUs: `cuobjdump -sass` as instructions with what ptxas decided for each.

The control bits (stall count, barriers set and waited for) are where Jia, Maggioni, Staiger and Scarpazza found
them, "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (arXiv:1804.06826, section 2)."""

import importlib.util
import os
import re
import shutil
import subprocess

_FUNCTION = re.compile(r"\s*Function : (\S+)")
_FIRST = re.compile(r"\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;\s+/\* 0x([0-9a-f]{16}) \*/")
_SECOND = re.compile(r"\s+/\* 0x([0-9a-f]{16}) \*/")
_TEXT = re.compile(r"(?:@(!?U?P\w+)\s+)?(\S+)\s*(.*)")
_USAGE = re.compile(r"Function (\S+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")
_JUMPS = ("BRA", "CALL", "BSSY")
NO_BARRIER = 7
# Tools run on threads, and pytest writes to the environment of this process beside them.
ENVIRONMENT = dict(os.environ)


class MissingTool(Exception):
    """A program of the CUDA toolkit is not on this machine."""


def _folders():
    yield from os.environ.get("PATH", "").split(os.pathsep)
    for variable in ("CUDA_PATH", "CUDA_HOME"):
        if os.environ.get(variable):
            yield os.path.join(os.environ[variable], "bin")
    yield "/usr/local/cuda/bin"
    found = importlib.util.find_spec("triton")
    if found and found.origin:
        yield os.path.join(os.path.dirname(found.origin), "backends", "nvidia", "bin")


def tool(name):
    """The path of a program of the CUDA toolkit: from PATH, a toolkit, or the triton wheel of this Python."""
    path = shutil.which(name, path=os.pathsep.join(_folders()))
    if not path:
        raise MissingTool(f"no {name} on this machine (looked in PATH, CUDA_PATH, /usr/local/cuda and the triton wheel)")
    return path


class Instruction:
    def __init__(self, address, text, high):
        guard, self.opcode, self.operands = _TEXT.match(text).groups()
        self.address, self.guarded = address, guard is not None
        self.base, _, modifiers = self.opcode.partition(".")
        self.modifiers = modifiers.split(".")
        bits = high >> 41
        self.stall, self.sets, self.releases, self.waits = bits & 15, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63
        target = re.search(r"0x([0-9a-f]+)\)?$", text)
        self.target = int(target[1], 16) if self.base in _JUMPS and target else None

    def conditional(self):
        """Whether a jump may fall through: by a guard, or by a predicate among its operands."""
        return self.guarded or bool(re.match(r"!?U?P\d|UR\d", self.operands))

    def again(self):
        """Whether it is a strong access: of what a thread has had and let go, for an exact body, or of a table before a wait."""
        return "STRONG" in self.modifiers

    def bytes(self):
        """What one thread moves between global memory and registers."""
        if self.base not in ("LDG", "STG", "LD", "ST"):
            return 0
        for modifier, size in (("128", 16), ("64", 8), ("U16", 2), ("S16", 2), ("U8", 1), ("S8", 1)):
            if modifier in self.modifiers:
                return size
        return 4


class Function:
    def __init__(self, name):
        self.name, self.instructions = name, []
        self.registers = self.stack = self.shared = self.local = 0


def _parse(text):
    functions, words = {}, None
    for line in text.splitlines():
        if match := _FUNCTION.match(line):
            functions[match[1]] = words = []
        elif words is not None and (match := _FIRST.match(line)):
            words.append([int(match[1], 16), match[2], 0])
        elif words and (match := _SECOND.match(line)):
            words[-1][2] = int(match[1], 16)
    return functions


def _run(*command):
    environment = dict(ENVIRONMENT)
    environment["PATH"] = os.pathsep.join([os.path.dirname(tool("nvdisasm")), environment.get("PATH", "")])
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{os.path.basename(command[0])}: {(done.stderr + done.stdout)[:2000]}")
    return done.stdout


def read(cubin):
    """{name: Function} of a cubin."""
    functions = {}
    for name, words in _parse(_run(tool("cuobjdump"), "-sass", cubin)).items():
        functions[name] = Function(name)
        code = [Instruction(*word) for word in words]
        functions[name].instructions = [i for i in code if i.base != "NOP"]
    usage = re.sub(r":\n\s+REG", ": REG", _run(tool("cuobjdump"), "-res-usage", cubin))
    for name, registers, stack, shared, local in _USAGE.findall(usage):
        function = functions[name]
        function.registers, function.stack = int(registers), int(stack)
        function.shared, function.local = int(shared), int(local)
    return functions


def assemble(ptx, target, cubin):
    """Assembles PTX text into the file `cubin`."""
    with open(cubin + ".ptx", "w") as file:
        file.write(ptx)
    _run(tool("ptxas"), f"-arch={target}", cubin + ".ptx", "-o", cubin)
