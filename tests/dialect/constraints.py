"""Checks that every constraint of the dialect is stated, verified and tested under one label.

Its places: `- (rule_c1) ...` in a description, `// rule_c1` above the check in C++,
`// rule_c1` above the expected error, or `# rule_c1` above the CHECK of a .test file.
"""
import pathlib
import re
import sys

LABEL = r"([a-z]+_c[0-9]+)"
PLACES = {
    "description": rf"^ *- \({LABEL}\) \S",
    "verifier": rf"^ *// {LABEL}\n *if ",
    "test": rf"^ *(?://|#) {LABEL}\n *(?:// expected-error@|# [A-Z]+:)",
}


def main(dialect, tests, *others):
    files = {
        "description": sorted(pathlib.Path(dialect).glob("*.td")),
        "verifier": sorted(pathlib.Path(dialect).glob("*.cpp")),
        "test": sorted(pathlib.Path(tests).glob("invalid-*.mlir")) + [pathlib.Path(path) for path in others],
    }
    wrong, labels, mentioned = [], {}, set()
    for place, pattern in PLACES.items():
        texts = [path.read_text() for path in files[place]]
        labels[place] = [label for text in texts for label in re.findall(pattern, text, re.M)]
        mentioned.update(label for text in texts for label in re.findall(rf"\b{LABEL}\b", text))
        if place != "test":
            wrong += [f"{label} stands twice in a {place}"
                      for label in sorted(set(labels[place])) if labels[place].count(label) > 1]
    wrong += [f"{label} is in no {place}"
              for label in sorted(mentioned) for place in PLACES if label not in labels[place]]
    print("\n".join(wrong) or f"{len(mentioned)} constraints, each stated, verified and tested")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
