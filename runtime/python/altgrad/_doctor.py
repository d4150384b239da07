"""`python -m altgrad doctor`: what was found on this machine, and what to do about what was not.

Each check returns lines; none of them may end the doctor. The exit status is 1
when altgrad cannot train here, and 0 also where only something further is missing.
"""

import contextlib
import os
import platform
import shutil
import signal
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

from . import __version__, _cpu, _library, _precision, _probe

OK, NOTE, BAD = "ok", "note", "BAD"
_IN_CHECKOUT = Path("tools", "quickstart.sh")

# The groups of x86-64-v3 and -v4 in the words of /proc/cpuinfo, where lzcnt is abm.
_LEVELS = {"x86-64-v3": "avx avx2 bmi1 bmi2 f16c fma abm movbe",
           "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl"}

# The capabilities that bundles have code for; as runtime/cuda/Driver.cpp, the oldest driver.
_GPU_TARGETS = (90, 80)
_OLDEST_DRIVER = 11030


@dataclass(frozen=True)
class Line:
    """One line of the report; `advice` is "" where there is nothing to do."""

    state: str
    name: str
    words: str
    advice: str = ""


def python():
    """The version of Python."""
    return Line(OK, "python", f"{platform.python_version()}, {sys.executable}")


def settings(environment):
    """The environment variables that change what the other lines find."""
    found = [f"{name}={value}" for name, value in sorted(environment.items())
             if name.startswith("ALTGRAD_")]
    found += [f"{name}={environment[name]!r}" for name in ("CUDA_VISIBLE_DEVICES",)
              if name in environment]
    return [Line(OK, "settings", " ".join(found))] if found else []


def checkout(folder, own):
    """Whether the folder lies in a checkout other than the one, `own`, from which this package is imported, as in a copy of it."""
    for place in (folder, *folder.parents):
        if (place / _IN_CHECKOUT).is_file():
            is_other = place.resolve() != own.resolve() and (own / _IN_CHECKOUT).is_file()
            return [Line(NOTE, "checkout", f"this is {place}, and altgrad is imported from {own}",
                         f"to use this one remove its build and .venv, and run tools/quickstart.sh in {place}")] if is_other else []
    return []


def runtime():
    """Whether libaltgrad.so is found and has the right version."""
    try:
        return Line(OK, "runtime", f"{_library.runtime_version()}, {_library.find_library()}")
    except (_library.Error, OSError, AttributeError) as error:
        return Line(BAD, "runtime", str(error),
                    "install altgrad again; this wheel is for Linux on x86-64 with glibc 2.34")


def cpu(found):
    """Whether the CPU, a Cpu, can run the host code."""
    flags, name, machine = found.flags, found.name, found.machine
    if machine != "x86_64":
        return Line(BAD, "cpu", f"{machine}", "altgrad's host code is for x86-64")
    level = None
    for candidate, words in _LEVELS.items():
        lacking = [word for word in words.split() if word not in flags]
        if lacking:
            break
        level = candidate
    if level:
        return Line(OK, "cpu", f"{name}, {level}, {os.cpu_count()} processors")
    return Line(BAD, "cpu", f"{name} has no {' '.join(lacking)}",
                "altgrad's host code needs x86-64-v3 (Intel since 2013, AMD since 2015); in a "
                "virtual machine ask for the host's CPU")


def torch(found):
    """Lines about torch, libaltgrad_core.so and a first step, from what a process found that tried them."""
    failed = found.get("failed")
    if "version" not in found:
        return [Line(BAD, "torch", failed or "the check ended without an answer", _torch_advice(failed or ""))]
    kind = f"for CUDA {found['cuda']}" if found.get("cuda") else "for CPUs only"
    lines = [Line(OK, "torch", f"{found['version']}, {kind}")]
    if tuple(map(_digits, found["version"].split(".")[:2])) < (2, 10):
        lines[0] = Line(NOTE, "torch", f"{found['version']}, {kind}",
                        "altgrad is tested with torch 2.10 and newer")
    if found.get("known"):
        lines.append(Line(OK, "torch's objects", "libaltgrad_core.so reads them in memory"))
    elif "known" in found:
        lines.append(Line(NOTE, "torch's objects", "their layout is none that altgrad knows, or this Python has no GIL",
                          "nothing to do: altgrad calls torch instead, and a step of many small tensors takes longer"))
    if "ms" in found:
        lines.append(Line(OK, "a step", f"AdamW on the CPU, {found['ms']:.1f} ms, the first one"))
    else:
        lines.append(Line(BAD, "a step", failed or "the check ended without an answer",
                          "the lines above may say why; if they do not, report this message"))
    return lines


def _torch_advice(failed):
    if "No module named 'torch'" in failed:
        return "pip install torch: altgrad.optim steps torch's parameters"
    if failed.startswith(_probe.NO_ANSWER):
        return "the machine may be busy: run this again when it is not"
    return f"{sys.executable} -c 'import torch' may say more; a new pip install of torch may help"


def _digits(text):
    return int("".join(filter(str.isdigit, text)) or 0)


def compiler(environment):
    """The altgrad-opt that the runtime would start, found in its order."""
    given = environment.get("ALTGRAD_OPT")
    found = given or _library.find_compiler() or shutil.which("altgrad-opt")
    advice = "stock optimizers in f32, bf16 and f16 need no compiler; rules of your own do: "
    if not found:
        return Line(NOTE, "compiler", "altgrad-opt is neither in the package nor on PATH",
                    advice + "install altgrad's wheel, or set ALTGRAD_OPT to an altgrad-opt")
    words, why = _probe.run(found, "--version")
    if words is None:
        return Line(NOTE, "compiler", f"{found} does not start: {why}",
                    advice + ("ALTGRAD_OPT names this one, unset it" if given
                              else "install altgrad again"))
    return Line(OK, "compiler", f"{words.splitlines()[0] if words else 'no version'}, {found}")


def bundles():
    """Stock bundles beside the runtime, as runtime/compile/Prebuilt.cpp looks for them."""
    try:
        library = _library.find_library().parent
        rules = len(list(_library.find_templates().glob("*.mlir")))
    except _library.Error as error:
        return Line(BAD, "stock rules", str(error), "install altgrad again")
    folders = [(library / place).resolve() for place in ("../bundles", "bundles") if (library / place).is_dir()]
    count = sum(len(list(folder.glob("*.bundle"))) for folder in folders)
    for path in [path for folder in folders for path in (folder, *folder.glob("*.bundle"))]:
        if path.stat().st_mode & 0o022:
            return Line(NOTE, "stock rules", f"{path} can be written by a group or by others, so it is passed over",
                        f"chmod -R go-w {path.parent if path.is_file() else path}")
    if count:
        return Line(OK, "stock rules", f"{rules}, {count} bundles of them compiled ahead")
    return Line(NOTE, "stock rules", f"{rules}, none of them compiled ahead",
                "the first step of each process and rule waits for the compiler or the cache; "
                "in a checkout: ninja -C build stock-bundles")


def _cache_folder(environment):
    """The folder of the cache, as runtime/files/Cache.cpp chooses it."""
    if environment.get("ALTGRAD_CACHE_DIR"):
        return Path(environment["ALTGRAD_CACHE_DIR"])
    for name, inner in (("XDG_CACHE_HOME", "altgrad"), ("HOME", ".cache/altgrad")):
        if environment.get(name, "").startswith("/"):
            return Path(environment[name]) / inner
    return None


def _why_no_cache(folder):
    """Why the cache cannot use a folder, or ""."""
    if not folder.is_absolute():
        return "is a relative path, which names another folder in every working directory"
    if os.path.islink(folder):
        return "is a symbolic link"
    if not os.path.lexists(folder):
        parent = next(parent for parent in folder.absolute().parents if os.path.lexists(parent))
        if not parent.is_dir():
            return f"cannot be made: {parent} is no folder"
        return "" if os.access(parent, os.W_OK | os.X_OK) else f"cannot be made: {parent} is read-only"
    facts = os.stat(folder)
    if not stat.S_ISDIR(facts.st_mode):
        return "is not a folder"
    if facts.st_uid != os.geteuid():
        return "belongs to another user"
    if facts.st_mode & 0o022:
        return "can be written by other users, and code is loaded from it"
    return "" if os.access(folder, os.W_OK | os.X_OK) else "cannot be written"


def cache(environment):
    """Whether compiled rules can be kept, and how many are."""
    advice = ("rules of your own are compiled in every process; set ALTGRAD_CACHE_DIR to a folder "
              "that is yours and that others cannot write")
    folder = _cache_folder(environment)
    if folder is None:
        return Line(NOTE, "cache", "no place for it: neither ALTGRAD_CACHE_DIR nor HOME is set", advice)
    why = _why_no_cache(folder)
    if why:
        return Line(NOTE, "cache", f"{folder} {why}", advice)
    sizes = []
    for path in folder.glob("*.bundle"):
        with contextlib.suppress(FileNotFoundError):  # another process keeps the cache small
            sizes.append(path.stat().st_size)
    return Line(OK, "cache", f"{folder}, {len(sizes)} entries, {sum(sizes) / 2**20:.1f} MiB")


_INIT_FAILS = {
    34: ("libcuda.so.1 is the CUDA toolkit's stub, not a driver",
         "take the folder with the stub from LD_LIBRARY_PATH"),
    803: ("libcuda.so.1 does not fit the driver in the kernel",
          "restart after an update of the driver, or remove another libcuda.so.1 from LD_LIBRARY_PATH"),
}


def driver(found, environment, torch_cuda):
    """The driver and each of its GPUs; `torch_cuda` is what torch was built for: None for
    CPUs only, "" where there is no torch."""
    if "missing" in found:
        return [Line(NOTE, "driver", f"no NVIDIA driver ({found['missing']})",
                     "for parameters on a GPU install NVIDIA's driver; on the CPU altgrad works")]
    if "init" not in found:
        return [Line(NOTE, "driver", f"libcuda.so.1: {found.get('failed', 'the check ended without an answer')}",
                     "nvidia-smi may say more; on the CPU altgrad works")]
    gpus = found.get("gpus", [])
    if found["init"] == 100 or (found["init"] == 0 and not gpus and "failed" not in found):
        visible = environment.get("CUDA_VISIBLE_DEVICES")
        return [Line(NOTE, "driver", "sees no GPU",
                     f"CUDA_VISIBLE_DEVICES is {visible!r}: unset it" if visible is not None else
                     "is one given to this container or machine? on the CPU altgrad works")]
    if found["init"]:
        words, advice = _INIT_FAILS.get(found["init"], (f"cuInit: error {found['init']}",
                                                        "nvidia-smi may say more"))
        return [Line(NOTE, "driver", words, advice + "; on the CPU altgrad works")]
    if "failed" in found:
        return [Line(NOTE, "driver", found["failed"], "nvidia-smi may say more")]
    return [_version(found["version"] or 0, torch_cuda),
            *(_gpu(ordinal, *gpu) for ordinal, gpu in enumerate(gpus))]


def _version(version, torch_cuda):
    words = f"for CUDA {version // 1000}.{version % 1000 // 10}"
    if version < _OLDEST_DRIVER:
        return Line(NOTE, "driver", words, "altgrad's kernels need one for CUDA 11.3 or newer")
    if torch_cuda is None:
        return Line(NOTE, "driver", words + ", and this torch is for CPUs only",
                    "install torch for CUDA, see pytorch.org")
    if _digits(torch_cuda.split(".")[0]) > version // 1000:
        return Line(NOTE, "driver", f"{words}, and this torch is for CUDA {torch_cuda}",
                    "install a newer driver, or torch for an older CUDA")
    return Line(OK, "driver", words)


def _gpu(ordinal, name, major, minor):
    place = f"cuda:{ordinal}"
    if major is None or minor is None:
        return Line(NOTE, place, f"{name} does not say its capability", "nvidia-smi may say more")
    words = f"{name}, capability {major}.{minor}"
    for target in _GPU_TARGETS:
        if target <= 10 * major + minor:
            return Line(OK, place, f"{words}: code for sm_{target}")
    return Line(NOTE, place, words, "altgrad's kernels are for capability 8.0 (Ampere) and newer; "
                                    "on the CPU altgrad works")


def precision(cpu, found, torch_cuda):
    """What AmpConfig.auto() chooses: for the GPUs, where torch can use them, else for the CPU."""
    usable = found.get("gpus") and "failed" not in found and torch_cuda and (
        _version(found.get("version") or 0, torch_cuda).state == OK)
    devices = [_precision.Device(f"cuda:{ordinal}", name, (major or 0, minor or 0))
               for ordinal, (name, major, minor) in enumerate(found["gpus"] if usable else [])]
    devices = devices or [_precision.Device("cpu", cpu.name, flags=cpu.flags)]
    return Line(OK, "precision", str(_precision.weakest(map(_precision.choose, devices))))


def _guard(check, *arguments):
    """The lines of a check. An exception that it did not expect becomes a line, too."""
    try:
        lines = check(*arguments)
    except Exception as error:
        return [Line(NOTE, check.__name__, f"the check failed: {error!r}",
                     "please report this message")]
    return lines if isinstance(lines, list) else [lines]


def _cpuinfo():
    return cpu(_cpu.read())


def _chosen(found, torch_cuda):
    return precision(_cpu.read(), found, torch_cuda)


def examine(environment):
    """All lines, in the order in which one thing needs another."""
    lines = [line for check in (python, runtime, _cpuinfo) for line in _guard(check)]
    lines[1:1] = _guard(settings, environment) + _guard(checkout, Path.cwd(), Path(__file__).resolve().parents[3])
    found = _probe.ask(_probe.TORCH, str(Path(__file__).resolve().parents[1]))
    lines += _guard(torch, found)
    lines += _guard(compiler, environment) + _guard(bundles) + _guard(cache, environment)
    torch_cuda = found.get("cuda") if "version" in found else ""
    gpus = _probe.ask(_probe.DRIVER)
    return (lines + _guard(driver, gpus, environment, torch_cuda)
            + _guard(_chosen, gpus, torch_cuda))


def main():
    """Prints what was found; gives the exit status."""
    # Where a caller has SIGCHLD ignored, nobody learns how a process ended.
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    lines = examine(dict(os.environ))
    text = [f"altgrad {__version__} in {Path(__file__).resolve().parent}"]
    for line in lines:
        text.append(f"  {line.state:<5} {line.name:<14} {' '.join(line.words.split())}")
        if line.advice:
            text.append(f"{'':<23}-> {line.advice}")
    bad = [line.name for line in lines if line.state == BAD]
    text.append(f"altgrad does not work here: {', '.join(bad)}" if bad else "altgrad works here")
    return _write("\n".join(text)) or (1 if bad else 0)


def _write(text):
    """0, or 1 if stdout is closed. A path may have letters that the encoding of stdout lacks."""
    try:
        if hasattr(sys.stdout, "reconfigure"):
            sys.stdout.reconfigure(errors="backslashreplace")
        print(text, flush=True)
        return 0
    except OSError as error:
        print(f"the report cannot be written: {error}", file=sys.stderr)
        # Else Python writes them once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
