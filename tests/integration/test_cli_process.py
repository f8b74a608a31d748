"""The command line as a process: what it imports, pipes that close, Ctrl-C, two writers at once, and a Kafka store."""

from __future__ import annotations

import json
import os
import select
import shlex
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from kafka_broker import Broker

from schemas.errors import NotFound
from streams import Memory

ROOT = Path(__file__).resolve().parents[2]
SPACE = "acme/support"
ALICE = "user:alice"
PROGRAM = "from projectors.surfaces.cli import main; main(prog_name='slotlog')"
OWN_TERMINAL = "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "  # so that Ctrl-C typed there is one
DEADLINE_S = 60


def command(*words: str, python: tuple[str, ...] = (), first: str = "") -> list[str]:
    return [sys.executable, *python, "-c", first + PROGRAM, *words]


def environment(store: Path | str) -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name not in ("COLUMNS", "PYTHONUNBUFFERED")},
        "PYTHONPATH": str(ROOT),
        "SLOTLOG_STORE": str(store),
        "SLOTLOG_ACTOR": "agent:test",
    }


def run(
    store: Path | str, *words: str, code: int = 0, stdin: str = "", stderr: int = subprocess.PIPE, **extra: Any
) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        command(*words, **extra),
        env=environment(store),
        input=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done


@contextmanager
def started(words: list[str], store: Path | str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs beside the test, and that does not outlive it."""
    with subprocess.Popen(words, env=environment(store), stdout=subprocess.PIPE, **streams) as process:
        try:
            yield process
        finally:
            process.kill()


def read_terminal(terminal: int, mark: bytes | None = None) -> bytes:
    """What is drawn there, up to and with a mark, or until nobody has it open any more."""
    until, drawn = time.monotonic() + DEADLINE_S, b""
    while mark is None or mark not in drawn:
        assert select.select([terminal], [], [], max(until - time.monotonic(), 0))[0], drawn
        try:
            drawn += os.read(terminal, 10_000)
        except OSError:  # Linux: the other side was closed
            assert mark is None, drawn
            break
    return drawn


def events(count: int, session: str = "run-1") -> str:
    return "".join(
        json.dumps(
            {"type": "Observed", "space": SPACE, "session": session, "role": "user", "text": f"{number} {'x' * 100}"}
        )
        + "\n"
        for number in range(count)
    )


def count(store: Path) -> int:
    """Events on the log; 0 while there is none."""
    try:
        with Memory.open(store, actor="agent:test", hold=False, create=False) as memory:
            return memory.info().partitions[0].next
    except NotFound:
        return 0


@pytest.mark.parametrize("words", [("get", SPACE, ALICE, "employer"), ("remember", SPACE, ALICE, "employer", "Acme")])
def test_an_embedded_store_imports_no_client_of_a_broker_and_nothing_for_looks(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Acme")
    imported = run(tmp_path, *words, python=("-X", "importtime")).stderr
    names = {line.rpartition("|")[2].strip() for line in imported.splitlines() if line.startswith("import time:")}
    assert "streams.memory" in names
    unwanted = ("confluent_kafka", "rich", "asyncio", "importlib.metadata", "concurrent")
    assert not [name for name in names if name.startswith(unwanted)]


def imported_by(store: Path, *words: str, folder: Path) -> set[str]:
    """The modules that are there once a command has run in a folder."""
    program = "import sys; from projectors.surfaces.cli import main; main(sys.argv[1:], standalone_mode=False); "
    done = subprocess.run(
        [sys.executable, "-c", program + "print(*sys.modules)", *words],
        env=environment(store),
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def test_a_command_imports_no_other_commands(tmp_path: Path) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Acme")
    names = imported_by(tmp_path, "get", SPACE, ALICE, "employer", folder=tmp_path)
    assert "projectors.surfaces.reading" in names
    for other in ("writing", "appending", "reasoning", "render_why", "ruling", "moving", "branching", "tending"):
        assert f"projectors.surfaces.{other}" not in names
    assert not names & {"click.shell_completion", "streams.doctor"}


def test_git_is_thought_of_in_a_work_tree_alone(tmp_path: Path) -> None:
    words = ("remember", SPACE, ALICE, "employer", "Acme")
    for name, is_there in (("plain", False), ("tree", True)):
        folder = tmp_path / name
        folder.mkdir()
        if is_there:
            subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
        names = imported_by(tmp_path / "store", *words, folder=folder)
        assert ("streams.git_client" in names) == ("streams.repository" in names) == is_there
        assert "tomllib" not in names


@pytest.mark.parametrize(
    ("typed", "code", "events"),
    [("y", 0, 2), ("YES", 0, 2), ("n", 1, 1), ("", 1, 1), ("\x04", 130, 1), ("\x03", 130, 1)],
)
def test_a_question_is_asked_on_a_terminal(tmp_path: Path, typed: str, code: int, events: int) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Acme")
    ours, theirs = os.openpty()
    words = command("distrust", SPACE, "agent:test", first=OWN_TERMINAL)
    with started(words, tmp_path, stdin=theirs, stderr=theirs, start_new_session=True) as asking:
        os.close(theirs)
        drawn = read_terminal(ours, b"? [y/N]: ")
        os.write(ours, typed.encode() + b"\n")
        drawn += read_terminal(ours)
        shown, _ = asking.communicate(timeout=DEADLINE_S)
    os.close(ours)
    assert asking.returncode == code, drawn
    told = shown.splitlines()
    assert told[:2] == [b"changes 1 slot:", b"  user:alice employer  distrusted"]
    assert [line for line in told if line.startswith(b"accepted")] == told[3:]
    assert len(told) == (4 if code == 0 else 3)
    assert b"Distrust agent:test? [y/N]: " in drawn
    assert (b"nothing was written" in drawn) == (code == 1)
    assert (b"interrupted" in drawn) == (code == 130)
    assert count(tmp_path) == events


def test_a_bisect_by_slotlog_itself_asks_as_of_each_event(tmp_path: Path) -> None:
    for value in ("Acme", "Globex", "Initech", "Globex Corp"):
        run(tmp_path, "remember", SPACE, ALICE, "employer", value)
    asked = f"{shlex.join(command('get', SPACE, ALICE, 'employer', '--value-only'))} | grep -q 'Initech\\|Corp'"
    found = run(tmp_path, "bisect", SPACE, "--json", "--", "sh", "-c", asked)
    assert json.loads(found.stdout)["found"]["event"]["value"] == "Initech"


def test_help_imports_nothing_of_the_store(tmp_path: Path) -> None:
    imported = run(tmp_path, "--help", python=("-X", "importtime")).stderr
    names = {line.rpartition("|")[2].strip() for line in imported.splitlines()}
    assert "projectors.surfaces.cli" in names
    assert not names & {"streams", "schemas", "msgspec", "fastavro", "rocksdict"}


def test_text_that_a_terminal_can_not_show_is_escaped(tmp_path: Path) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "city", "Zürich")
    shown = subprocess.run(
        command("get", SPACE, ALICE, "city"),
        env={**environment(tmp_path), "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        timeout=DEADLINE_S,
        check=True,
    )
    assert shown.stdout.startswith(b"Z\\xfcrich\n")


@pytest.mark.parametrize("words", [("replay", SPACE), ("timeline", SPACE, "--json")])
def test_a_reader_that_goes_away_is_met_with_silence(tmp_path: Path, words: tuple[str, ...]) -> None:
    run(tmp_path, "append", stdin=events(3_000))
    with subprocess.Popen(
        command(*words), env=environment(tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as reading:
        assert reading.stdout is not None
        assert reading.stderr is not None
        assert reading.stdout.readline()
        reading.stdout.close()
        assert reading.stderr.read() == b""
        assert reading.wait(DEADLINE_S) == 141


def test_output_that_can_not_be_written_is_an_error(tmp_path: Path) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Acme")
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command("get", SPACE, ALICE, "employer"),
            env=environment(tmp_path),
            stdout=full,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            timeout=DEADLINE_S,
            check=False,
        )
    assert done.returncode == 4
    assert done.stderr == "error: No space left on device\n"


def test_output_and_errors_keep_their_order_in_one_file(tmp_path: Path) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Acme")
    run(tmp_path, "branch", "create", SPACE, "idea")
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Globex", "--branch", "idea")
    words = ("branch", "rollback", SPACE, "idea", "--to", "1", "--yes")
    done = run(tmp_path, *words, stderr=subprocess.STDOUT)
    heads = [line.split()[0] for line in done.stdout.splitlines()]
    assert heads == ["changes", ALICE, "-", "+", "accepted", "to"]


def test_standard_streams_that_are_closed(tmp_path: Path) -> None:
    run(tmp_path, "remember", SPACE, ALICE, "employer", "Acme")
    for words, closing, code in (
        (("get", SPACE, ALICE, "employer"), ">&-", 0),
        (("get", SPACE, ALICE, "employer"), "2>&-", 0),
        (("append",), "<&-", 2),
    ):
        script = f"exec {shlex.join(command(*words))} {closing}"
        done = subprocess.run(
            ["bash", "-c", script],
            env=environment(tmp_path),
            capture_output=True,
            encoding="utf-8",
            timeout=DEADLINE_S,
            check=False,
        )
        assert done.returncode == code
        assert "Traceback" not in done.stderr


def test_an_interrupted_append_tells_exactly_what_is_on_the_log(tmp_path: Path) -> None:
    store = tmp_path / "store"
    with subprocess.Popen(
        command("append"),
        env=environment(store),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    ) as appending:
        assert appending.stdin is not None
        assert appending.stdout is not None
        assert appending.stderr is not None
        appending.stdin.write(events(2_500))
        appending.stdin.flush()
        until = time.monotonic() + DEADLINE_S
        while count(store) < 2_000:
            assert time.monotonic() < until
            time.sleep(0.02)
        appending.send_signal(signal.SIGINT)
        assert appending.wait(DEADLINE_S) == 130
        told = appending.stderr.read()
        assert appending.stdout.read() == ""
    assert told.split("\n") == ["2,000 events had been appended by then", "", "interrupted", ""]
    assert count(store) == 2_000


def test_an_edit_of_the_log_is_found(tmp_path: Path) -> None:
    run(tmp_path, "append", stdin=events(10))
    run(tmp_path, "rebuild")
    with sqlite3.connect(tmp_path / "log.sqlite") as log:
        log.execute("UPDATE log SET value = (SELECT value FROM log WHERE offset = 5) WHERE offset = 4")
    log.close()
    found = run(tmp_path, "verify", code=4)
    assert found.stdout == "log     0:4  the record is not the one that was folded here\n"
    assert found.stderr.startswith("hint: ")
    told = run(tmp_path, "doctor", code=4).stdout
    assert "\nwrong    log is what was folded: 0:4: " in told


def test_progress_is_drawn_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    source, target = str(tmp_path / "source"), str(tmp_path / "target")
    run(source, "append", stdin=events(2_500))
    ours, theirs = os.openpty()
    with started(command("copy", source, target), source, stderr=theirs) as copying:
        os.close(theirs)
        drawn = read_terminal(ours)
        assert copying.communicate(timeout=DEADLINE_S)[0] == b"2,500 copied, 0 there already\n"
        assert copying.returncode == 0
    os.close(ours)
    assert b"  40%  1,000 records" in drawn
    assert b" 100%  2,500 records" in drawn
    assert drawn.endswith(b"\r\x1b[K")
    assert run(source, "copy", source, target).stderr == ""


def test_bash_completes_commands(tmp_path: Path) -> None:
    program = tmp_path / "slotlog"
    program.write_text(f'#!/bin/sh\nexec {shlex.join(command())} "$@"\n', encoding="utf-8")
    program.chmod(0o755)
    script = """
        eval "$(slotlog completion bash)"
        COMP_WORDS=(slotlog re) COMP_CWORD=1
        _slotlog_completion slotlog
        echo "${COMPREPLY[@]}"
    """
    found = environment(tmp_path)
    done = subprocess.run(
        ["bash", "-c", script],
        env={**found, "PATH": f"{tmp_path}:{found['PATH']}"},
        capture_output=True,
        encoding="utf-8",
        timeout=DEADLINE_S,
        check=False,
    )
    assert (done.stdout, done.returncode) == ("remember replay review rebuild\n", 0), done.stderr


def test_two_processes_append_at_once(tmp_path: Path) -> None:
    processes = []
    for session in ("left", "right"):
        file = tmp_path / f"{session}.jsonl"
        file.write_text(events(3_500, session), encoding="utf-8")
        processes.append(
            subprocess.Popen(
                command("append", str(file)),
                env=environment(tmp_path / "store"),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
            )
        )
    assert [process.communicate(timeout=DEADLINE_S) for process in processes] == [
        ("3,500 appended, 0 refused\n", "")
    ] * 2
    assert [process.returncode for process in processes] == [0, 0]
    with Memory.open(tmp_path / "store", actor="agent:test", create=False) as memory:
        assert memory.info().spaces[0].events == 7_000
        for session in ("left", "right"):
            texts = [recorded.event.text for recorded in memory.replay(SPACE, session)]  # type: ignore[attr-defined]
            assert [int(text.split()[0]) for text in texts] == list(range(3_500))


def test_a_store_on_kafka(broker: Broker, tmp_path: Path) -> None:
    store = f"kafka://{broker.bootstrap}/cli-process?state={tmp_path}"
    missing = json.loads(run(store, "topic", "check", "--json", code=1).stdout)
    assert [(one["setting"], one["found"], one["ok"]) for one in missing] == [("topic", "missing", False)]
    assert "slotlog topic create" in run(store, "get", SPACE, ALICE, "employer", code=2).stderr
    assert run(store, "topic", "create", "--partitions", "3").stdout.startswith("cli-process made: 3 partitions")
    assert run(store, "topic", "create", code=2).stderr.startswith("error: ")
    assert "wrong" not in run(store, "topic", "check").stdout
    receipt = json.loads(run(store, "remember", SPACE, ALICE, "employer", "Acme", "--wait", "--json").stdout)
    assert receipt["status"] == "applied"
    words = ("get", SPACE, ALICE, "employer", "--json", "--as-of")
    place = receipt["position"]
    belief = json.loads(run(store, *words, f"{place['partition']}:{place['offset']}").stdout)
    assert (belief["value"], belief["position"]) == ("Acme", place)
    assert "another partition" in run(store, *words, f"{(place['partition'] + 1) % 3}:0", code=2).stderr
    assert json.loads(run(store, "append", "--json", stdin=events(50)).stdout)["appended"] == 50
    assert len(run(store, "replay", SPACE, "--json").stdout.splitlines()) == 51
    assert run(store, "rebuild").stdout == "51 events folded in 3 partitions\n"


def test_a_copy_to_kafka_and_back(broker: Broker, tmp_path: Path) -> None:
    here, back = str(tmp_path / "here"), str(tmp_path / "back")
    there = f"kafka://{broker.bootstrap}/cli-copy?state={tmp_path / 'state'}"
    run(here, "append", stdin=events(20))
    run(here, "append", "--space", "acme/other", stdin=events(5).replace(f'"space": "{SPACE}", ', ""))
    assert "slotlog topic create" in run(here, "copy", here, there, code=2).stderr
    run(there, "topic", "create", "--partitions", "3")
    assert run(here, "copy", here, there).stdout == "25 copied, 0 there already\n"
    assert run(here, "copy", there, back).stdout == "25 copied, 0 there already\n"
    assert len({run(store, "digest").stdout for store in (here, there, back)}) == 1
    assert run(there, "verify").stdout == "no difference: 25 records in 3 partitions\n"
    assert "wrong" not in run(there, "doctor").stdout


def test_a_broker_that_is_not_there_is_to_be_tried_again(tmp_path: Path, unused_port: Callable[[], int]) -> None:
    store = f"kafka://127.0.0.1:{unused_port()}/x?state={tmp_path}"
    assert "hint: " in run(store, "topic", "check", "--timeout", "1", code=3).stderr


@pytest.fixture
def unused_port() -> Callable[[], int]:
    import socket

    def find() -> int:
        with socket.socket() as bound:
            bound.bind(("127.0.0.1", 0))
            port: int = bound.getsockname()[1]
            return port

    return find
