"""What is generated in the guides is what the program says today, Python's classes included."""
import subprocess
import sys

import pages

TOOL = pages.ROOT / "tools/guides.py"


def check(*words):
    return subprocess.run([sys.executable, TOOL, "--check", *words], text=True, capture_output=True)


def test_every_generated_part_is_up_to_date():
    generated = [str(page.relative_to(pages.ROOT)) for page in pages.pages() if "<!-- generated: " in page.read_text()]
    assert "runtime/python/Guide.md" in generated
    done = check(*generated)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_noticed(tmp_path):
    page = tmp_path / "stale"
    page.write_text((pages.ROOT / "runtime/python/Guide.md").read_text().replace("exp_avg_slow", "exp_avg_slower"))
    assert "run tools/guides.py" in check(page).stderr
