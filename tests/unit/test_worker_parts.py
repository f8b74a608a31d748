"""The parts of a worker that need no broker: settings, routing, membership, credentials, metrics, its state folder."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path
from typing import Any

import faust
import pytest
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import KafkaError
from faust.transport.drivers import aiokafka as driver

from schemas.errors import InvalidInput, NotServing, SlotlogError, StoreBusy
from streams import group_membership
from streams.faust_client import _ended, check_private_members, credentials
from streams.group_membership import Membership
from streams.metrics import Metrics
from streams.partitioner import partition_of
from streams.routing import Router
from streams.settings import WorkerSettings, left_url, lock_state, remember_url, worker_id_of
from streams.status import PartitionStatus, quarantine_reasons

OWN, OTHER = "http://127.0.0.1:8081", "http://127.0.0.1:8082"


def router(owners: dict[str, dict[str, list[int]]]) -> Router:
    return Router(OWN, "memory", 4, lambda: owners)


def test_a_space_is_where_murmur2_puts_it_and_the_assignment_says_who_has_that() -> None:
    found = router({OWN: {"memory": [0, 2]}, f"{OTHER}/": {"memory": [1, 3], "other": [0]}})
    for number in range(40):
        space = f"acme/{number}"
        partition = found.partition(space)
        assert partition == partition_of(space.encode(), 4)
        assert found.url_of(partition) == (OWN if partition in (0, 2) else OTHER)
    assert found.others() == [OTHER]


@pytest.mark.parametrize("owners", [{}, {OWN: {"memory": []}}, {OWN: {"memory": [0]}, OTHER: {"memory": [0]}}])
def test_nobody_answers_where_the_assignment_names_nobody_or_two(owners: dict[str, dict[str, list[int]]]) -> None:
    with pytest.raises(NotServing, match="partition 0"):
        router(owners).url_of(0)


def test_a_rebalance_is_seen_at_the_next_question() -> None:
    owners = {OWN: {"memory": [0, 1, 2, 3]}}
    found = router(owners)
    assert found.url_of(3) == OWN
    owners.clear()
    owners[OTHER] = {"memory": [0, 1, 2, 3]}
    assert found.url_of(3) == OTHER


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"port": 0}, "port is 0"),
        ({"port": 65_536}, "port is 65,536"),
        ({"behind": 99}, "behind is 99"),
        ({"session_timeout_s": 2}, "session_timeout_s is 2"),
        ({"session_timeout_s": 3, "heartbeat_s": 2}, "a third"),
        ({"watchdog_s": 0}, "watchdog_s is 0"),
        ({"flush_s": 0}, "flush_s is 0"),
        ({"advertise": "10.0.0.7:8080"}, "must be a URL"),
        ({"host": "0.0.0.0"}, "can't reach 0.0.0.0"),
    ],
)
def test_a_setting_out_of_range_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        WorkerSettings(**given).checked()


def test_where_others_reach_a_worker() -> None:
    assert WorkerSettings(port=8081).checked().url == OWN
    assert WorkerSettings(host="::1", port=8081).checked().url == "http://[::1]:8081"
    assert WorkerSettings(host="0.0.0.0", advertise="http://w1:80/").checked().url == "http://w1:80"


def test_a_worker_keeps_its_id_in_its_state_folder(tmp_path: Path) -> None:
    made = worker_id_of(tmp_path / "state", None)
    assert worker_id_of(tmp_path / "state", None) == made
    assert worker_id_of(tmp_path / "other", None) != made
    assert worker_id_of(tmp_path / "state", "w1") == "w1"


@pytest.mark.parametrize("bad", ["", "two words", "a\nb", "x" * 129])
def test_an_id_that_can_not_be_one_is_refused(tmp_path: Path, bad: str) -> None:
    with pytest.raises(InvalidInput, match="no worker's id"):
        worker_id_of(tmp_path, bad)


def test_one_worker_has_a_state_folder_and_the_next_is_told_what_to_do(tmp_path: Path) -> None:
    held = lock_state(tmp_path)
    with pytest.raises(StoreBusy) as refused:
        lock_state(tmp_path)
    assert "a state folder of its own" in str(refused.value.hint)
    held.close()
    lock_state(tmp_path).close()


def test_a_worker_remembers_where_it_was_a_member_last(tmp_path: Path) -> None:
    state = tmp_path / "state"
    assert left_url(state, OWN) is None  # it was nowhere
    remember_url(state, OWN)
    assert left_url(state, OWN) is None
    assert left_url(state, OTHER) == OWN
    assert left_url(state, OTHER) == OWN  # until it is a member there, however often it is started
    remember_url(state, OTHER)
    assert left_url(state, OTHER) is None
    assert left_url(state, OWN) == OTHER


def test_a_file_is_no_state_folder(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(InvalidInput, match="is a file"):
        lock_state(tmp_path / "state")


def test_membership_holds_for_a_session_timeout_from_when_the_question_was_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 100.0
    monkeypatch.setattr(group_membership, "boot_time", lambda: now)
    membership = Membership(10.0)
    assert not membership.holds
    membership.confirmed(95.0)
    now = 104.9
    assert membership.holds
    now = 105.0
    assert not membership.holds


@pytest.mark.parametrize(
    ("given", "error", "told"),
    [
        (RuntimeError("boom"), SlotlogError, r"a member of its group has failed: RuntimeError\('boom'\)"),
        (KafkaError("no right"), InvalidInput, "does not let this worker be a member of its group: .*no right"),
        (NotServing("ours"), NotServing, "ours"),
    ],
)
def test_what_ends_the_task_that_talks_to_the_group_is_told(
    given: Exception, error: type[SlotlogError], told: str
) -> None:
    """aiokafka wraps it. A task that was cancelled, as it is when the worker stops, tells nothing."""
    membership = Membership(10.0)

    async def fail() -> None:
        raise KafkaError("Unexpected error during coordination") from given

    async def play() -> None:
        stopped, failed = asyncio.create_task(asyncio.sleep(60)), asyncio.create_task(fail())
        stopped.cancel()
        await asyncio.wait((stopped, failed))
        _ended(membership, stopped)
        membership.check()
        _ended(membership, failed)

    asyncio.run(play())
    with pytest.raises(error, match=told):
        membership.check()


@pytest.mark.parametrize(
    ("owner", "name"),
    [
        (driver.Consumer, "perform_seek"),
        (driver.AIOKafkaConsumerThread, "seek_wait"),
        (GroupCoordinator, "_do_heartbeat"),
    ],
)
def test_another_faust_is_refused_by_name(owner: type, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_private_members()
    monkeypatch.setattr(owner, name, None)
    with pytest.raises(SlotlogError, match=f"has no {name}"):
        check_private_members()


def test_a_broker_that_asks_for_nothing_gets_nothing() -> None:
    assert credentials({}) is None
    assert credentials({"security.protocol": "PLAINTEXT"}) is None


def test_the_store_s_name_says_for_faust_too_how_to_reach_the_broker() -> None:
    found = credentials(
        {
            "security.protocol": "SASL_SSL",
            "sasl.mechanisms": "SCRAM-SHA-512",
            "sasl.username": "worker",
            "sasl.password": "secret",
            "ssl.endpoint.identification.algorithm": "none",
        }
    )
    assert isinstance(found, faust.SASLCredentials)
    assert (found.username, found.password, found.mechanism.value) == ("worker", "secret", "SCRAM-SHA-512")
    assert isinstance(found.ssl_context, ssl.SSLContext)
    assert not found.ssl_context.check_hostname
    assert isinstance(credentials({"security.protocol": "ssl"}), faust.SSLCredentials)
    assert isinstance(credentials({"security.protocol": "sasl_plaintext"}), faust.SASLCredentials)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "kerberos"}, "security.protocol is 'kerberos'"),
        ({"security.protocol": "sasl_plaintext", "sasl.mechanism": "GSSAPI"}, "can't do sasl.mechanism 'GSSAPI'"),
        ({"security.protocol": "ssl", "ssl.ca.location": "/nowhere.pem"}, "TLS settings"),
    ],
)
def test_what_a_worker_can_not_do_is_refused(given: dict[str, str], told: str) -> None:
    with pytest.raises(InvalidInput, match=told):
        credentials(given)


def test_metrics_forget_the_partitions_that_went_elsewhere() -> None:
    metrics = Metrics()
    first = PartitionStatus(0, "active", "live", 10, 14, 2, ready=True)
    metrics.partitions([first, PartitionStatus(1, "standby", "catching up", 3, 9, 0, ready=False)])
    metrics.folded(0, "live", 3)
    text = metrics.exposition()[0].decode()
    assert 'slotlog_lag_events{partition="0"} 4.0' in text
    assert 'slotlog_partition_catching_up{partition="1"} 1.0' in text
    assert 'slotlog_records_folded_total{partition="0",path="live"} 3.0' in text
    metrics.partitions([first])
    assert 'partition="1"' not in metrics.exposition()[0].decode()


def test_quarantined_records_are_a_reason() -> None:
    assert quarantine_reasons([PartitionStatus(0, "active", "live", 1, 1, 0, ready=True)]) == ()
    (told,) = quarantine_reasons([PartitionStatus(3, "active", "live", 1, 1, 2, ready=True)])
    assert told.startswith("partition 3: 2 quarantined")
