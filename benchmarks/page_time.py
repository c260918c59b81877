"""How long the page of ``graph-retrievers serve`` takes from the question to the drawing, in Debian's Chromium.

    python benchmarks/page_time.py [--nodes 5000] [--runs 5]

The graph is a hub with that many neighbours, all of which the search finds; times are from the submission of the question to the
second frame after the graph was drawn, in a page that was just opened. The last column is the time of the processor that the page
took for it, without what other programs of the machine took.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import socket
import statistics
import tempfile
import threading

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.wait import WebDriverWait
from uvicorn import Config, Server

from graph_retrievers import GraphIndex, Node, Retriever, SpreadingActivation
from graph_retrievers.serve.app import search_app

FLAGS = "headless=new no-sandbox disable-gpu disable-dev-shm-usage disable-background-networking no-first-run window-size=1280,800"
ASK = """
const done = arguments[0], start = performance.now();
delete document.body.dataset.drawn;
new MutationObserver((_, watching) => {
  if (!document.body.dataset.drawn) return;
  watching.disconnect();
  const drawn = performance.now();
  const { seconds } = [...searches.values()][0].picture, told = () => [drawn - start, performance.now() - start, 1000 * seconds];
  requestAnimationFrame(() => requestAnimationFrame(() => done([Number(document.body.dataset.drawn), ...told()])));
}).observe(document.body, { attributes: true });
byId("question").value = "What does the Archive list?";
byId("ask").requestSubmit();
"""


def serve(index: GraphIndex) -> str:
    """Serve an index in a thread; return the address."""
    listening = socket.create_server(("127.0.0.1", 0))
    app = search_app({"spreading": Retriever(index, SpreadingActivation(gate="uniform", steps=2))})
    server = Server(Config(app, log_level="error"))
    threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True).start()
    return f"http://127.0.0.1:{listening.getsockname()[1]}/"


def busy(browser: webdriver.Chrome) -> float:
    """Return the seconds that the main thread of the page has worked."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return float(next(each["value"] for each in metrics if each["name"] == "TaskDuration"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--runs", type=int, default=5)
    args = parser.parse_args()
    nodes = [
        Node("hub", "All pages of the archive.", title="Archive"),
        *(Node(f"d{n}", f"page {n}") for n in range(args.nodes - 1)),
    ]
    url = serve(GraphIndex.from_nodes(nodes, [("hub", f"d{n}", "lists") for n in range(args.nodes - 1)]))
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in [*FLAGS.split(), f"user-data-dir={profile}"]:
            options.add_argument(f"--{flag}")
        browser = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            browser.set_script_timeout(120)
            browser.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
            rows = []
            for _ in range(args.runs):
                browser.get("about:blank")
                browser.get(url)
                WebDriverWait(browser, 60).until(
                    lambda page: page.execute_script("return document.querySelector('#retrievers input')")
                )
                before = busy(browser)
                rows.append([*browser.execute_async_script(ASK), 1000 * (busy(browser) - before)])
        finally:
            browser.quit()
    print("nodes  search ms  drawn ms  shown ms  busy ms")
    for count, drawn, shown, search, work in rows:
        print(f"{count:>5}  {search:>9.0f}  {drawn:>8.0f}  {shown:>8.0f}  {work:>7.0f}")
    shown, work = (statistics.median(row[column] for row in rows) / 1000 for column in (2, 4))
    print(f"median: shown after {shown:.2f} s, of which the page was busy {work:.2f} s")


if __name__ == "__main__":
    main()
