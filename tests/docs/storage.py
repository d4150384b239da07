"""Compares the tables of templates/Storage.md with the compiler's report: bytes kept and bytes moved per parameter."""
import pathlib
import re
import subprocess
import sys

page = pathlib.Path(sys.argv[1]).read_text()
rows = re.findall(r"^\| `([^`]+)` \| .+ \| ([\d.]+) \| ([\d.]+) \|$", page, re.M)
for line, kept, moved in rows:
    run = subprocess.run(["altgrad-opt", "--rule=adamw", f"--storage={line}", "--emit=report"], capture_output=True, text=True)
    found = re.search(r"([\d.]+) bytes per element \([\d.]+ read, ([\d.]+) written\)", run.stdout)
    if not found:
        sys.exit(f"{line}: {run.stderr}")
    if (found[2], found[1]) != (kept, moved):
        sys.exit(f"{line}: the page says {kept} kept and {moved} moved, the report {found[2]} and {found[1]}")
print(f"{len(rows)} rows agree")
