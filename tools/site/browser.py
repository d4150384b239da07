"""Looks at the pages of the site with Chromium, as a phone and as a desk see them: browser.py SITE FOLDER [NAME...].

Draws each page in both widths, light and dark, and fails where something is cut: where it is wider than the window and
lies in nothing that scrolls. On a desk no table has to scroll.
"""
import functools
import html
import http.server
import pathlib
import re
import shutil
import subprocess
import sys
import threading

WIDTHS = 390, 1280
SCHEMES = {"dark": 0, "light": 1}  # Blink's numbers of prefers-color-scheme
FLAGS = "--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu"
PROBE = """<!doctype html><link rel="icon" href="data:,"><body><iframe src="%s" style="width: %dpx; height: 2400px; border: 0"></iframe><script>
function scrolls(node) {
  for (; node.tagName != "ARTICLE"; node = node.parentElement)
    if (/auto|scroll/.test(getComputedStyle(node).overflowX)) return true;
  return false;
}
window.onload = () => {
  const page = document.querySelector("iframe").contentDocument, wide = [];
  for (const box of page.querySelectorAll("article .md-typeset__scrollwrap"))
    if (%d > 1000 && box.scrollWidth > box.clientWidth + 1)
      wide.push("TABLE " + box.textContent.trim().replace(/\s+/g, " ").slice(0, 60));
  for (const node of page.querySelectorAll("article *"))
    if (node.getBoundingClientRect().right > %d + 1 && !scrolls(node) && !node.closest("[hidden]"))
      wide.push(node.tagName + " " + node.textContent.trim().slice(0, 60));
  document.body.innerHTML = "<pre>" + (wide.join("\\n") || "nothing").replace(/[<&]/g, " ") + "</pre>";
};
</script>"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Search works over HTTP alone."""

    def log_message(self, *words):
        pass

    def do_GET(self):
        """/probe/WIDTH/PAGE is a frame of that width with the page in it, which lists what is cut."""
        probe = re.fullmatch(r"/probe/(\d+)(/.*)", self.path)
        if not probe:
            return super().do_GET()
        text = (PROBE % (probe[2], *[int(probe[1])] * 3)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def serve(site):
    """The address of a server of a folder."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def chromium(*words):
    """What Chromium prints."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or sys.exit("no chromium: apt-get install chromium")
    return subprocess.run([program, *FLAGS, *words], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          timeout=120).stdout


def find_cut(address, page, width):
    """The elements of a page that are cut in a window of a width."""
    dumped = chromium("--window-size=1400,2400", "--dump-dom", f"{address}/probe/{width}/{page}")
    found = html.unescape(re.search(r"<pre>(.*)</pre>", dumped, re.S)[1])
    return [] if found == "nothing" else found.split("\n")


def main(site, folder, *only):
    site, folder = pathlib.Path(site).resolve(), pathlib.Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    address, cut = serve(site), []
    for path in sorted(site.rglob("*.html")):
        page = path.relative_to(site)
        name = "-".join(page.with_suffix("").parts)
        if name == "404" or "." in path.stem or (only and name not in only):  # sources have a second ending
            continue
        for width in WIDTHS:
            cut += [f"{page}, {width} pixels wide: {element}" for element in find_cut(address, page, width)]
            for scheme, number in SCHEMES.items():
                picture = folder / f"{name}-{width}-{scheme}.png"
                chromium(f"--blink-settings=preferredColorScheme={number}", f"--window-size={width},2400",
                         f"--screenshot={picture}", f"{address}/{page}")
                print(picture)
    sys.exit("\n".join(["cut:", *cut]) if cut else 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
