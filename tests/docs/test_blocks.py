"""Every code block of the README and of the guides does what the page says. The conventions are in pages.py."""
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pages  # noqa: E402
import running  # noqa: E402

SECTIONS = [section for page in pages.pages() for section in pages.sections(page) if section.blocks]


def name(section):
    return f"{section.page.relative_to(pages.ROOT)}:{section.title}"


@pytest.mark.parametrize("section", SECTIONS, ids=name)
def test_the_blocks_of_a_section_run(section, tmp_path):
    assert not list(pages.mistakes(section))
    runner = running.Runner(section.page, tmp_path)
    blocks = section.blocks
    for block, after in zip(blocks, [*blocks[1:], None]):
        runner.run(block, after.text if after and after.tag == "output" else None)
    runner.finish()


CPP = {str(page.relative_to(pages.ROOT)): found for page in pages.pages()
       if (found := [section for section in SECTIONS if section.page == page
                     and any(block.tag == "cpp" and not block.value("title") for block in section.blocks)])}


@pytest.mark.parametrize("page", CPP)
def test_the_cpp_of_a_page_runs(page, tmp_path):
    running.run_cpp_of(CPP[page], tmp_path)


def test_cpp_that_is_wrong_fails(tmp_path, monkeypatch):
    monkeypatch.setattr(running, "ROOT", tmp_path)
    wrong = sections(tmp_path, "```cpp\n#include <cstdlib>\nint main() { std::exit(3); }\n```\n")
    (tmp_path / "folder").mkdir()
    with pytest.raises(AssertionError, match="ends with 3"):
        running.run_cpp_of(wrong, tmp_path / "folder")


def sections(tmp_path, text):
    page = tmp_path / "README.md"
    page.write_text(text)
    return pages.sections(page)


def run(tmp_path, monkeypatch, text):
    """Runs a page of one section as the test above does."""
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    monkeypatch.setattr(running, "ROOT", tmp_path)
    section, = sections(tmp_path, text)
    folder = tmp_path / "folder"
    folder.mkdir()
    test_the_blocks_of_a_section_run(section, folder)


@pytest.mark.parametrize("text, words", [
    ("```python\nprint(1)\n```\n```output\n2\n```\n", "it printed"),
    ("```python fails\nx = 1\n```\n```output\n1\n```\n", "does not fail"),
    ("```sh\nfalse\n```\n", "ends with 1"),
    ("```console\n$ echo one\ntwo\n```\n", "it printed"),
    ("```mlir\naltgrad.rule\n```\n", "README.md:2"),
    ("```mlir in-rule\n%x = addf %w, %absent : f32\n```\n", "absent"),
    ("```c\nint main(void) { return 3; }\n```\n", "ends with 3"),
    ("```\nno tag\n```\n", "a block tagged ''"),
    ("```python reader\nx = 1\n```\n", "a recipe is tagged sh"),
    ("```python title=\"a.py\"\n```\n", "uses a.py")])
def test_a_page_that_is_wrong_fails(tmp_path, monkeypatch, text, words):
    with pytest.raises(AssertionError, match=words):
        run(tmp_path, monkeypatch, text)


def test_a_page_that_is_right_passes(tmp_path, monkeypatch):
    run(tmp_path, monkeypatch, """# Page
<!--python
hidden = 2
-->
```python
print(hidden, model.training)
```
```output
2 ...
```
```mlir title="half.mlir"
altgrad.rule @half(param %w: f32, grad %g: f32) {
  altgrad.yield param(%w) state()
}
```
```console
$ wc -l \\
    half.mlir
3 half.mlir
$ altgrad-opt --version
```
```python fails
altgrad.optim.AdamW(model.parameters(), lr=-1.0)
```
```output
ValueError: ...
```
```diff
 kept = 1
-kept = torch.optim.AdamW(model.parameters())
+kept = altgrad.optim.AdamW(model.parameters())
```
```c
#include <altgrad/altgrad.h>
```
""".replace("#include <altgrad/altgrad.h>\n", "int main(void) { return 0; }\n"))
