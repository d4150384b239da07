"""What is wrong with a random case, and the smallest case that is wrong in the same way."""

import time


def failure(run, spec):
    """What `run` finds wrong with a case, its exceptions included; None where it is right or refused."""
    try:
        words = run(spec)
    except Exception as error:
        words = f"{type(error).__name__}: {error}"
    return None if words is None or words.startswith("refused") else words


def shrink(run, smaller, spec, words, kind=lambda words: words.split(":")[0], seconds=400):
    """(case, words): the first of the `smaller(spec)` that is wrong takes its place, again and again. Its words have the
    `kind` of those that were found first, or any where that is ""."""
    wanted, again, end = kind(words), True, time.monotonic() + seconds
    while again:
        again = False
        for other in smaller(spec):
            if time.monotonic() > end:
                break
            found = failure(run, other)
            if found and wanted in ("", kind(found)):
                spec, words, again = other, found, True
                break
    return spec, words
