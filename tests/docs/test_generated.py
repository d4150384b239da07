"""What is generated in the guides is what the program says today, Python's classes included."""
import subprocess
import sys

import pages

TOOL = pages.ROOT / "tools/guides.py"


def check(*words):
    return subprocess.run([sys.executable, TOOL, "--check", *words], text=True, capture_output=True)


def test_every_generated_part_is_up_to_date():
    generated = [str(page.relative_to(pages.ROOT)) for page in pages.pages() if "<!-- generated: " in page.read_text()]
    assert "runtime/python/guide/Optimizers.md" in generated
    done = check(*generated)
    assert done.returncode == 0, done.stderr


def test_a_stale_page_is_noticed(tmp_path):
    page = tmp_path / "stale"
    page.write_text((pages.ROOT / "runtime/python/guide/Optimizers.md").read_text().replace("exp_avg_slow", "exp_avg_slower"))
    assert "run tools/guides.py" in check(page).stderr


def test_the_picture_of_the_readme_is_up_to_date():
    done = subprocess.run([sys.executable, pages.ROOT / "tools/front_picture.py", "--check"], text=True, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert "(tools/pictures/front.svg)" in (pages.ROOT / "README.md").read_text()
