"""Every ALTGRAD_SAMPLE-th test, where that is set: the same ones in every run, of every file in proportion."""

import os
import zlib


def pytest_collection_modifyitems(config, items):
    every = int(os.environ.get("ALTGRAD_SAMPLE", 1))
    kept = [item for item in items if zlib.crc32(item.nodeid.encode()) % every == 0]
    config.hook.pytest_deselected(items=[item for item in items if zlib.crc32(item.nodeid.encode()) % every])
    items[:] = kept
