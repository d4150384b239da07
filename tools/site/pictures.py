"""Draws the pages of the site with Chromium, as a phone and as a desk see them: pictures.py SITE FOLDER [NAME...]."""
import functools
import http.server
import pathlib
import shutil
import subprocess
import sys
import threading

WIDTHS = 390, 1280


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Search works over HTTP alone."""

    def log_message(self, *words):
        pass


def main(site, folder, *only):
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("no chromium: apt-get install chromium")
    site, folder = pathlib.Path(site).resolve(), pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    for page in sorted(site.rglob("*.html")):
        name = "-".join(page.relative_to(site).with_suffix("").parts)
        if name == "404" or "." in page.stem or (only and name not in only):  # sources have a second ending
            continue
        for width in WIDTHS:
            subprocess.run([chromium, "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu",
                            f"--window-size={width},2400", f"--screenshot={folder / f'{name}-{width}.png'}", f"http://127.0.0.1:{server.server_port}/{page.relative_to(site)}"],
                           check=True, stderr=subprocess.DEVNULL)
            print(folder / f"{name}-{width}.png")


if __name__ == "__main__":
    main(*sys.argv[1:])
