"""The whole loop in containers, with kills, a change of scale, and a start after ``down``."""

import json
from collections.abc import Iterator

import pytest

from penstock.lake.history.balance import balance
from penstock.lake.history.position import position
from penstock.lake.history.standing import answers_in_force
from tests.compose.services import SLOW, Services, docker
from tests.e2e.rides import STEPS, RideFiles, RideTruth
from tests.e2e.running import Rest, eventually

pytestmark = [pytest.mark.e2e, pytest.mark.all]


def secrets_of(services: Services) -> Iterator[str]:
    """Every secret there is."""
    for file in ("keys.json", "passwords.json"):
        path = f"/var/lib/penstock/airflow/{file}"
        yield from json.loads(services.inside("api-server", "cat", path)).values()
    defaults = services.inside("spark-master", "cat", "/var/lib/penstock/spark/spark-defaults.conf")
    yield dict(line.split() for line in defaults.splitlines())["spark.authenticate.secret"]


def everything_is_sealed(services: Services, rides: RideFiles) -> None:
    seen = services.seen
    assert eventually(lambda: seen.sealed() == rides.received, SLOW), (seen.sealed(), seen.stream)


def test_no_secret_is_in_an_image_a_description_or_a_log(services: Services) -> None:
    known = list(secrets_of(services))
    assert len(set(known)) == 6
    told = docker("inspect", *services.containers()) + services.compose("logs")
    told += docker("history", "--no-trunc", "penstock:0.1.0")
    assert [secret for secret in known if secret in told] == []
    modes = services.inside(
        "scheduler", "stat", "-c", "%a %u",
        "/var/lib/penstock/airflow/keys.json", "/var/lib/penstock/airflow/passwords.json",
        "/var/lib/penstock/spark/spark-defaults.conf",
    )  # fmt: skip
    assert set(modes.splitlines()) == {"600 1000"}


def test_services_see_no_more_than_they_need(services: Services) -> None:
    for service in ("stream-runner", "spark-worker"):
        assert services.inside(service, "ls", "/var/lib/penstock/airflow") == ""
    for one in json.loads(docker("inspect", *services.containers())):
        bound = one["HostConfig"]["PortBindings"] or {}
        assert {b["HostIp"] for each in bound.values() for b in each} <= {"127.0.0.1"}
    assert services.inside("scheduler", "id", "-u").strip() == "1000"
    refused = "touch /opt/penstock/include/x 2>&1 || true"
    said = services.inside("stream-runner", "sh", "-c", refused)
    assert "Permission denied" in said or "Read-only" in said


def test_history_and_stream(services: Services, rides: RideFiles, airflow: Rest) -> None:
    assert airflow.finish(airflow.start("preload__rides")).state == "success"
    rides.arrive(3)
    airflow.start("stream__rides", by_itself=True)
    everything_is_sealed(services, rides)


def test_with_a_second_worker_a_killed_one_costs_nothing(
    services: Services, rides: RideFiles
) -> None:
    services.compose("up", "-d", "--no-recreate", "--scale", "spark-worker=2")
    assert eventually(lambda: not services.unhealthy(), SLOW), services.states()
    rides.arrive(1)
    docker("kill", services.containers("spark-worker")[-1])  # the older one, which has the stream
    rides.arrive(1)
    everything_is_sealed(services, rides)


def test_a_killed_stream_runner_comes_back_and_its_stream_with_it(
    services: Services, rides: RideFiles
) -> None:
    before = services.seen.stream.said["incarnation"]
    rides.arrive(1)
    services.inside("stream-runner", "sh", "-c", "kill -9 $(cat /proc/1/task/1/children)")
    rides.arrive(1)
    assert eventually(lambda: services.seen.stream.said["incarnation"] > before, SLOW)
    everything_is_sealed(services, rides)


def test_a_triggerer_that_ends_does_not_touch_the_stream(
    services: Services, rides: RideFiles
) -> None:
    before = services.seen.stream.said["incarnation"]
    services.compose("restart", "triggerer")
    rides.arrive(1)
    everything_is_sealed(services, rides)
    assert services.seen.stream.said["incarnation"] == before


def test_after_down_and_up_all_goes_on_and_the_audit_is_green(
    services: Services, rides: RideFiles
) -> None:
    known = set(secrets_of(services))
    services.compose("down")
    assert services.seen.stream.state == "wanted"
    rides.arrive(1)
    services.compose("up", "-d", seconds=SLOW)
    assert eventually(lambda: not services.unhealthy(), SLOW), services.states()
    assert set(secrets_of(services)) == known
    everything_is_sealed(services, rides)
    newest = RideTruth(rides).newest()
    seen = services.seen
    assert eventually(lambda: all(mark >= newest for _, mark in seen.positions()), SLOW)
    corrected, audited = services.rest().correct_and_audit()
    assert corrected.state == audited.state == "success"
    assert services.rest().outcome(audited)["failed"] == []


@pytest.mark.parametrize("step", STEPS)
def test_every_answer_is_true_and_every_record_accounted_for(
    services: Services, rides: RideFiles, step: str
) -> None:
    seen, truth = services.seen, RideTruth(rides)
    spec = seen.pipeline.spec(step)
    at, told = position(seen.tables, spec), balance(seen.tables, spec)
    assert at is not None
    assert told is not None
    assert truth.wrong(step, answers_in_force(seen.tables, spec), at.sealed.state.watermark) == []
    assert told.received == rides.received == told.accepted + told.quarantined
    assert told.accepted == truth.records()
    assert told.pairs == truth.pairs(step)


def test_a_stream_that_is_marked_failed_stops_and_stays_stopped(
    services: Services, airflow: Rest
) -> None:
    airflow.stop_stream()
    assert eventually(lambda: services.seen.stream.state == "stopped", SLOW)
    services.compose("restart", "stream-runner")
    assert eventually(lambda: not services.unhealthy(), SLOW), services.states()
    assert services.seen.stream.state == "stopped"
