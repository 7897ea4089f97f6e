"""Where things are on this machine: the one place that reads the environment."""

import os
from pathlib import Path

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from penstock.core.errors import ConfigError
from penstock.core.place import is_remote, path_of, unsuited

ROOT = Path(__file__).resolve().parents[3]


class Settings(BaseSettings):
    """Settings from ``PENSTOCK_*`` variables; every one has a default that works after a clone."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", frozen=True, extra="forbid")

    root: Path = Field(default=ROOT, description="The checkout: dags/, include/, Makefile.")
    home: Path = Field(default=ROOT / ".penstock", description="All that is written at run time.")
    lake: str = Field(default="", description="Folder or URI of the tables; empty: home/lake.")
    pipelines: Path = Field(
        default=ROOT / "include" / "pipelines", description="One YAML file per pipeline."
    )
    cluster: Path = Field(
        default=ROOT / "include" / "cluster.yaml", description="The file of the node pool."
    )
    jars: Path = Field(default=ROOT / "jars", description="Delta's jars, fetched by make.")
    port: int = Field(default=8080, ge=1, le=65535, description="Port of the user interface.")
    spark_master: str = Field(default="local[2]", description="Master URL of Spark.")
    shards: int = Field(
        default=0,
        ge=0,
        le=1_024,
        description="Into how many shards, tasks of a micro-batch, each step's state is cut. 0: as"
        " many as the master has cores when a state begins; it then keeps the number. Another"
        " number than a state has begins a new generation at the next start.",
    )
    sync: bool = Field(
        default=True,
        description="Whether a commit is on the disk before the next one depends on it. false is"
        " faster; a power loss may then damage tables.",
    )
    driver_memory: str = Field(default="1g", description="Heap of a Spark driver.")
    state_memory: int = Field(
        default=512,
        ge=32,
        description="Memory that RocksDB may take in an executor for the states of a stream, MiB;"
        " what does not fit stays on the disk.",
    )
    approve: bool = Field(
        default=False,
        description="Whether an edit of a pipeline file that has a past computed anew waits until"
        " a run of apply__topology is approved, and is proved beside the former definition, which"
        " is in force till then.",
    )
    airflow_url: str = Field(
        default="",
        description="Where processes reach an Airflow that is not embedded mode's; empty: it is.",
    )
    stream_runner: bool = Field(
        default=False,
        description="Whether a stream runner keeps the streams' supervisors, on a host of its own;"
        " false: they run where Airflow's triggerer does.",
    )

    @field_validator("root", "home", "lake", "pipelines", "cluster", "jars")
    @classmethod
    def _can_be_said(cls, value: Path | str) -> Path | str:
        try:
            str(Path(value).absolute()).encode()
        except UnicodeEncodeError:
            said = ascii(str(value))[1:-1]
            raise ValueError(f"{said}: a folder's name there is not UTF-8. Rename it") from None
        return value

    @property
    def lake_uri(self) -> str:
        """Below it lies every table: a folder of this machine as a plain path, or a URI.

        Raises:
            ConfigError: no Delta table can lie there.
        """
        if is_remote(self.lake):
            return self.lake
        try:
            folder = path_of(self.lake) if self.lake else self.home / "lake"
        except ValueError as wrong:
            raise ConfigError(f"PENSTOCK_LAKE: {wrong}.") from wrong
        folder = folder.absolute()
        if found := unsuited(folder.resolve()):
            raise ConfigError(
                f"{folder.resolve()}: Delta tables cannot lie in a folder whose path holds"
                f" {found!r}. Set PENSTOCK_LAKE to another folder."
            )
        return str(folder)

    @property
    def logs(self) -> Path:
        """The one place of logs."""
        return self.home / "logs"

    @property
    def docs(self) -> Path:
        """Data Docs, one site per pipeline."""
        return self.home / "docs"

    @property
    def results(self) -> Path:
        """What was asked by form: one folder a pipeline."""
        return self.home / "results"

    @property
    def streams(self) -> Path:
        """Locks and status files of supervised stream hosts."""
        return self.home / "streams"

    @property
    def airflow_home(self) -> Path:
        """AIRFLOW_HOME of embedded mode."""
        return self.home / "airflow"

    @property
    def postgres(self) -> Path:
        """Data folder of the embedded PostgreSQL."""
        return self.home / "postgres"


JVM_OPTIONS = "-XX:+ExitOnOutOfMemoryError"
"""Of Spark's drivers and executors: one that has run out of memory does not hang half dead."""
JVM_FULL = 3
"""Exit code of a JVM that ran out of memory."""
JVM_FULL_SAID = (
    "Spark's heap was full, so its JVM ended; nothing is lost. Give it more: PENSTOCK_DRIVER_MEMORY"
    " (1g by default; docs/concepts/spark-settings.md says what fits)"
)


def child_environment(**extra: str) -> dict[str, str]:
    """The environment for a child process: this one's, without Airflow's, with ``extra``.

    A Spark driver must not see AIRFLOW* variables: it never talks to Airflow, and a leaked
    secret would end in its logs.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "_AIRFLOW"))}
    return kept | extra


def pin_python(executable: str, worker: str, **more: str) -> None:
    """Make Spark's workers run this interpreter; otherwise they take python3 from the path.

    Args:
        executable: the interpreter.
        worker: what Spark starts in its place, as a program; it runs ``WORKER_PYTHON``.
        more: of the environment that the JVM hands on to it.
    """
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = worker
    os.environ.update(more, WORKER_PYTHON=executable)
