#!/usr/bin/env python3
"""How long a page of `relive report --html` takes in a browser: load.py PAGE.html

Needs chromium and chromedriver. Prints, for three loads from the file: until everything is loaded, and then how long a filter, an order and
opening a function take.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import urllib.request

ARGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--window-size=1400,900"]
FILTER_AND_SORT = """
const start = performance.now(), input = document.querySelector('input[type=search]');
input.value = 'a';
input.dispatchEvent(new Event('input', { bubbles: true }));
const filtered = performance.now();
document.querySelector('thead th.wide button').click();
document.body.offsetHeight;
return [filtered - start, performance.now() - filtered, performance.memory.usedJSHeapSize]"""
OPEN = """
const done = arguments[0], start = performance.now();
location.hash = '#/function/1';
(function wait() { document.querySelector('.frame svg') ? done(performance.now() - start) : setTimeout(wait, 1); })()"""


def main():
    page = os.path.abspath(sys.argv[1])
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        port = next(found.group(1) for found in (re.search(r"successfully on port (\d+)", line) for line in driver.stdout) if found)

        def call(path, body):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data=json.dumps(body).encode(), headers={"Content-Type": "application/json"})
            return json.load(urllib.request.urlopen(request, timeout=100))["value"]

        with tempfile.TemporaryDirectory() as profile:
            options = {"args": [*ARGS, f"--user-data-dir={profile}"]}
            session = "/session/" + call("/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})["sessionId"]
            print(f"{page}: {os.path.getsize(page):,} bytes")
            for _ in range(3):
                call(f"{session}/url", {"url": "about:blank"})
                call(f"{session}/url", {"url": f"file://{page}#/functions"})
                loaded = call(f"{session}/execute/sync", {"script": "return performance.getEntriesByType('navigation')[0].loadEventEnd", "args": []})
                filtered, sorted_, heap = call(f"{session}/execute/sync", {"script": FILTER_AND_SORT, "args": []})
                opened = call(f"{session}/execute/async", {"script": OPEN, "args": []})
                print(f"loaded {loaded:.0f} ms, filter {filtered:.0f} ms, sort {sorted_:.0f} ms, open a function {opened:.0f} ms, heap {heap / 1e6:.0f} MB")
            urllib.request.urlopen(urllib.request.Request(f"http://127.0.0.1:{port}{session}", method="DELETE"))
    finally:
        driver.kill()
        driver.wait()


main()
