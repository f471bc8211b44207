"""Headless Chromium, driven over its debugging pipe with the standard library alone."""

from __future__ import annotations

import base64
import json
import os
import pathlib
import select
import shutil
import subprocess
import sys
import time
from typing import Any

CHROMIUM = os.environ.get("CHROMIUM") or next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)

# Chromium reads commands from descriptor 3 and answers on 4; this puts them there.
LAUNCHER = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 20) for fd in sys.argv[1:3]]
for place, fd in zip((3, 4), ends):
    os.dup2(fd, place)
os.execv(sys.argv[3], sys.argv[3:])
"""


class Browser:
    """One headless Chromium with one tab."""

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder
        commands, self.commands = os.pipe()
        self.answers, answers = os.pipe()
        switches = ["--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"]
        switches += ["--hide-scrollbars", "--no-first-run", f"--user-data-dir={folder / 'profile'}"]
        launch = [sys.executable, "-c", LAUNCHER, str(commands), str(answers), str(CHROMIUM)]
        self.process = subprocess.Popen(
            [*launch, *switches, "about:blank"],
            pass_fds=(commands, answers),
            stderr=subprocess.DEVNULL,
        )
        os.close(commands)
        os.close(answers)
        self.count = 0
        self.read = b""
        self.events: list[dict[str, Any]] = []
        self.session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        self.call("Page.enable")
        self.call("Runtime.enable")
        self.call("Network.enable")
        self.size(1280, 800)

    def message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self.read:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self.answers], [], [], left)[0]:
                raise TimeoutError("chromium does not answer")
            part = os.read(self.answers, 1 << 20)
            if not part:
                raise RuntimeError("chromium has ended")
            self.read += part
        text, _, self.read = self.read.partition(b"\0")
        return json.loads(text)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        self.count += 1
        message: dict[str, Any] = {"id": self.count, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        text = json.dumps(message).encode() + b"\0"
        while text:
            text = text[os.write(self.commands, text) :]
        until = time.monotonic() + 60
        while True:
            answer = self.message(until)
            if answer.get("id") == self.count:
                assert "error" not in answer, answer
                return answer["result"]
            self.events.append(answer)

    def size(self, width: int, height: int, scale: float = 1) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=scale, mobile=False,
        )  # fmt: skip

    def dark(self, on: bool) -> None:
        scheme = {"name": "prefers-color-scheme", "value": "dark" if on else "light"}
        calm = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, calm])

    def open(self, text: str) -> None:
        """Show a page given as text."""
        path = self.folder / "page.html"
        path.write_text(text, encoding="utf-8")
        self.visit(path)

    def visit(self, path: pathlib.Path) -> None:
        self.dark(False)
        self.events.clear()
        self.call("Page.navigate", url=path.as_uri())
        until = time.monotonic() + 60
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self.message(until))
        errors = self.errors()
        assert not errors, errors

    def js(self, source: str) -> Any:
        """The value of an expression in the page."""
        answer = self.call(
            "Runtime.evaluate", expression=source, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def errors(self) -> list[str]:
        """What went wrong in the page since it was opened."""
        self.js("0")
        return [
            json.dumps(event["params"])
            for event in self.events
            if event.get("method") == "Runtime.exceptionThrown"
            or (
                event.get("method") == "Runtime.consoleAPICalled"
                and event["params"]["type"] in ("error", "warning")
            )
        ]

    def requests(self) -> list[str]:
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
        ]

    def mouse(self, kind: str, x: float, y: float, clicks: int = 1, **more: Any) -> None:
        button = "none" if kind in ("mouseMoved", "mouseWheel") else "left"
        self.call(
            "Input.dispatchMouseEvent",
            type=kind, x=x, y=y, button=button, clickCount=clicks, **more,
        )  # fmt: skip

    def click(self, x: float, y: float, clicks: int = 1) -> None:
        for n in range(1, clicks + 1):
            self.mouse("mousePressed", x, y, n)
            self.mouse("mouseReleased", x, y, n)

    def key(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def spot(self, item: str) -> tuple[float, float]:
        """The middle on the screen of an item given as an expression."""
        x, y = self.js(
            f"(() => {{ const i = {item}, v = tapegrad.view,"
            " r = document.getElementById('graph').getBoundingClientRect();"
            " return [(i.x + i.w / 2) * v.k + v.x + r.left, (i.y + i.h / 2) * v.k + v.y + r.top];"
            " })()"
        )
        return x, y

    def frame(self) -> None:
        self.js("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def screenshot(self, path: pathlib.Path) -> None:
        self.frame()
        image = self.call("Page.captureScreenshot", format="png")["data"]
        path.write_bytes(base64.b64decode(image))

    def close(self) -> None:
        self.session = None
        try:
            self.call("Browser.close")
        except (OSError, RuntimeError, TimeoutError):
            self.process.kill()
        os.close(self.commands)
        os.close(self.answers)
        self.process.wait(20)
