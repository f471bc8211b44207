"""Files of `tapegrad.export.c` as WebAssembly: in Node, and in a browser."""

from __future__ import annotations

import functools
import http.server
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from browser import CHROMIUM, Browser
from tapegrad.kernels.cpu import KERNELS
from test_export_c import HERE, exported, run

EXAMPLE = HERE.parent / "examples" / "c_web"
STEPS = 20
TARGET = ["clang", "--target=wasm32-wasi", "--sysroot=/usr", "-O3", "-msimd128", "-std=c11"]
SERVES = """
import { readFileSync } from "fs";
import { load } from "./program.js";
import { steps } from "./steps.js";
const [wasm, given] = ["model.wasm", "given.bin"].map((name) => readFileSync(name));
process.stdout.write(await steps(await load(wasm), given.buffer, given.byteOffset));
"""
RUNS = """
export async function steps(call, buffer, begin) {
    let text = "";
    call("model_init");
    for (let i = 0; i < %(steps)d; i++) {
        const args = %(sizes)s.map((n) => new Uint8Array(buffer.slice(begin, (begin += n))));
        text += new Uint32Array(new Float32Array([call("model_step", ...args)]).buffer)[0] + " ";
    }
    return text;
}
"""


@functools.cache
def compiles() -> bool:
    if not (shutil.which("clang") and shutil.which("wasm-ld") and shutil.which("node")):
        return False
    text = "#include <math.h>\ndouble f(double x) { return log1p(x); }\n"
    command = [*TARGET, "-nostartfiles", "-Wl,--no-entry", "-Wl,--export=f", "-xc", "-", "-o"]
    done = subprocess.run([*command, os.devnull, "-lm"], input=text.encode(), capture_output=True)
    return done.returncode == 0


pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        KERNELS is None or not compiles(),
        reason="needs the kernels, clang for wasm32-wasi and Node",
    ),
]


@pytest.fixture
def site(tmp_path):
    """A folder that a server of its own offers."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    for path in (EXAMPLE / "program.js", EXAMPLE / "page.html"):
        shutil.copy(path, tmp_path)
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=tmp_path)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield tmp_path, f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def built(name: str, folder: Path) -> str:
    """A program as model.wasm; the losses of the compiled step, as words."""
    sizes = exported(name, folder)
    exports = [f"-Wl,--export={f}" for f in ("__heap_base", "model_init", "model_step")]
    command = [*TARGET, "-Wall", "-Werror", "-nostartfiles", "-Wl,--no-entry", *exports]
    run([*command, "-o", str(folder / "model.wasm"), str(folder / "model.c"), "-lm"])
    (folder / "steps.js").write_text(RUNS % {"steps": STEPS, "sizes": sizes["arguments"]})
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "serves.js").write_text(SERVES)
    wanted = (folder / "wanted.bin").read_bytes()[: 4 * STEPS]
    words = [int.from_bytes(wanted[i : i + 4], "little") for i in range(0, len(wanted), 4)]
    return "".join([f"{word} " for word in words])


@pytest.mark.parametrize(
    "name", ["mlp_adam", "conv_net", "lstm", "gpt", "dropout", "batch_norm", "variational"]
)
def test_node_has_the_bits_of_the_compiled_step(name, tmp_path):
    wanted = built(name, tmp_path)
    shutil.copy(EXAMPLE / "program.js", tmp_path)
    assert run(["node", "serves.js"], cwd=tmp_path) == wanted


def settled(browser: Browser, expression: str, until) -> str:
    """The value of an expression of the page, once it is as wanted."""
    end = time.monotonic() + 180  # on a busy machine it takes a minute
    while time.monotonic() < end:
        found = browser.js(expression)
        if until(found):
            return found
        time.sleep(0.2)
    raise AssertionError(found)


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_a_browser_trains_and_has_the_same_bits(site):
    folder, address = site
    wanted = built("mlp_sgd", folder)
    run(
        ["sh", str(EXAMPLE / "build.sh")],
        env={**os.environ, "OUT": str(folder), "PYTHON": sys.executable},
    )
    (folder / "bits.html").write_text(
        "<meta charset=utf-8><output></output><script type=module>"
        'import { load } from "./program.js"; import { steps } from "./steps.js";'
        "const [wasm, given] = await Promise.all(['model.wasm', 'given.bin'].map("
        "async (name) => (await fetch(name)).arrayBuffer()));"
        "document.querySelector('output').textContent = await steps(await load(wasm), given, 0);"
        "</script>"
    )
    browser = Browser(folder)
    try:
        text = "document.querySelector('output')?.textContent ?? ''"
        browser.call("Page.navigate", url=f"{address}/bits.html")
        assert settled(browser, text, lambda found: len(found) > 1) == wanted
        browser.call("Page.navigate", url=f"{address}/page.html")
        said = settled(browser, text, lambda found: "right" in found)
        assert float(re.search(r"([\d.]+) % of new points right", said)[1]) > 95
        assert not browser.errors()
    finally:
        browser.close()
