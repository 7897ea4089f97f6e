"""An executor of which Spark does not say yet where it is, is none yet."""

from penstock.spark.nodes import DRIVER, Executor, placed


def executor(number: str, host: str, cores: int = 1) -> Executor:
    return Executor(number, host, active=True, cores=cores, busy=0, memory=0, removed="")


def test_who_has_no_place_yet_is_not_there_yet() -> None:
    there, early = executor("0", "127.0.0.11"), executor("1", "")
    assert placed([there, early]) == [there]


def test_a_driver_counts_where_it_runs_tasks_itself() -> None:
    alone, beside = executor(DRIVER, "here", 2), executor(DRIVER, "here", 0)
    assert placed([alone]) == [alone]
    assert placed([beside]) == []
