"""A real Kafka broker for tests: a thin handle on `ops/kafka/broker`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[1] / "ops" / "kafka" / "broker"


class Broker:
    """The broker whose data is in `folder`. Starting it again keeps data and port."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bootstrap = ""
        self.pid = 0

    def start(self) -> Broker:
        """Start it, unless it runs, and wait until it answers."""
        state = json.loads(self._run("start"))
        self.bootstrap, self.pid = state["bootstrap"], state["pid"]
        return self

    def stop(self) -> None:
        """End it in good order."""
        self._run("stop")

    def kill(self) -> None:
        """End it as a crash would, and wait until it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        self._run("stop")

    def _run(self, command: str) -> str:
        call = [sys.executable, str(SCRIPT), command, "--dir", str(self.folder)]
        done = subprocess.run(call, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout
