"""What the benchmark shows: the machine, a table, JSON and a picture."""

import json
import os
import platform

import torch


def machine():
    model, bound = "unknown CPU", set()
    for line in open("/proc/cpuinfo"):
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
        if line.startswith("flags"):
            bound = set(line.split())
    level = "v4" if {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= bound else "v3" if "avx2" in bound else "older"
    pages = "/sys/kernel/mm/transparent_hugepage/enabled"
    return {"cpu": model, "cores": len(os.sched_getaffinity(0)), "level": f"x86-64-{level}",
            "threads": torch.get_num_threads(), "torch": torch.__version__, "python": platform.python_version(),
            "system": platform.platform(), "load": os.getloadavg()[0],
            "huge pages": open(pages).read().split("[")[-1].split("]")[0] if os.path.exists(pages) else "none"}


def print_machine(m):
    print(f"machine: {m['cpu']}, {m['cores']} cores ({m['level']}), {m['threads']} threads, "
          f"huge pages {m['huge pages']}, torch {m['torch']}, load {m['load']:.1f}, {m['clock']} time")
    if m["load"] > m["cores"] + 0.5:
        print("warning: other programs keep this machine busy; trust the ratios, and not too far")


def shown(value):
    return f"{value['median']:7.2f}" if value else "      -"


def print_case(title, rows):
    print(f"\n{title:<34}{'ms':>9}{'best':>9}{'of floor':>10}{'x fused':>9}   quartiles of x fused")
    for name, row in rows.items():
        spread = row["of_fused"]
        spread = f"{spread['low']:.2f} to {spread['high']:.2f}" if spread else ""
        print(f"  {name:<32}{row['ms']:9.3f}{row['best']:9.3f}   {shown(row['of_floor'])}  {shown(row['of_fused'])}"
              f"   {spread}", flush=True)


# (workload, dtype, mode, candidate, which ratio, at least).
AIMS = [
    ("64M", "f32", "plain", "altgrad", "of_floor", 0.92),
    ("64M", "f32", "plain", "altgrad", "of_fused", 1.0),
    ("64M", "f32", "clip", "altgrad", "of_fused", 1.3),
    ("64M", "f32", "scaler+clip", "altgrad", "of_fused", 1.6),
    ("64M", "bf16", "plain", "altgrad", "of_fused", 2.5),
    ("64M", "bf16", "scaler+clip", "altgrad", "of_fused", 3.0),
    ("1000x1024", "f32", "plain", "altgrad", "of_fused", 8.0),
    ("1000x1024", "f32", "scaler+clip", "altgrad", "of_fused", 15.0),
]


LIBTORCH_AIM = 12  # x torch fused, 1000 x 1024 f32


def print_aims(cases, latency, aims, libtorch):
    print("\naims")
    for workload, dtype, mode, name, key, least in AIMS:
        rows = cases.get(f"{workload} {dtype} {mode}", {})
        for candidate in (name, name + " C ABI"):
            value = rows.get(candidate, {}).get(key)
            if value:
                got = value["median"]
                what = {"of_floor": "of the floor", "of_fused": "x torch fused"}[key]
                print(f"  {'met   ' if got >= least else 'MISSED'} {workload} {dtype} {mode}, {candidate}: "
                      f"{got:.2f} {what}, aim {least}")
    if libtorch:
        got = libtorch["of_fused"]
        print(f"  {'met   ' if got >= LIBTORCH_AIM else 'MISSED'} 1000x1024 f32 plain, LibTorch: "
              f"{got:.2f} x torch fused, aim {LIBTORCH_AIM}")
    for case, most in aims.items():
        if case in latency:
            got = latency[case]["ms"]
            print(f"  {'met   ' if got <= most else 'MISSED'} {case}: {got:.0f} ms, aim {most}")


def write_json(path, data):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1) + "\n")
    print(f"wrote {path}")


def write_plot(path, data):
    try:
        import matplotlib
        matplotlib.use("Agg")
        import matplotlib.pyplot as plt
    except ImportError:
        print("no plot: matplotlib is not installed")
        return
    cases = data["cases"]
    names = list(dict.fromkeys(name for rows in cases.values() for name in rows if name != "floor"))
    figure, axes = plt.subplots(figsize=(9, 0.9 + 0.62 * len(cases)))
    height = 0.8 / max(len(names), 1)
    for i, name in enumerate(names):
        at = [(j + i * height, rows[name]["of_floor"]["median"]) for j, rows in enumerate(cases.values())
              if rows.get(name, {}).get("of_floor")]
        axes.barh([a for a, _ in at], [b for _, b in at], height, label=name)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks([j + 0.4 - height / 2 for j in range(len(cases))], list(cases))
    axes.invert_yaxis()
    axes.set_xlabel("speed as a fraction of the floor loop (same memory traffic, no arithmetic)")
    m = data["machine"]
    axes.set_title(f"AdamW step, {m['cpu']}, {m['threads']} threads, torch {m['torch']}", fontsize=9)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=120)
    print(f"wrote {path}")
