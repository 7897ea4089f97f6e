"""Where things are on this machine: the one place that reads the environment."""

import os
from pathlib import Path

from pydantic import Field
from pydantic_settings import BaseSettings, SettingsConfigDict

ROOT = Path(__file__).resolve().parents[3]


class Settings(BaseSettings):
    """Settings from ``PENSTOCK_*`` variables; every one has a default that works after a clone."""

    model_config = SettingsConfigDict(env_prefix="PENSTOCK_", frozen=True, extra="forbid")

    root: Path = Field(default=ROOT, description="The checkout: dags/, include/, Makefile.")
    home: Path = Field(default=ROOT / ".penstock", description="All that is written at run time.")
    lake: str = Field(default="", description="URI of the tables; empty: home/lake.")
    pipelines: Path = Field(
        default=ROOT / "include" / "pipelines", description="One YAML file per pipeline."
    )
    jars: Path = Field(default=ROOT / "jars", description="Delta's jars, fetched by make.")
    port: int = Field(default=8080, ge=1, le=65535, description="Port of the user interface.")
    spark_master: str = Field(default="local[2]", description="Master URL of Spark.")
    driver_memory: str = Field(default="1g", description="Heap of a Spark driver.")

    @property
    def lake_uri(self) -> str:
        """URI below which every table lies."""
        if "://" in self.lake:
            return self.lake
        return str(Path(self.lake).absolute() if self.lake else self.home.absolute() / "lake")

    @property
    def logs(self) -> Path:
        """The one place of logs."""
        return self.home / "logs"

    @property
    def docs(self) -> Path:
        """Data Docs, one site per pipeline."""
        return self.home / "docs"

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


def child_environment(**extra: str) -> dict[str, str]:
    """The environment for a child process: this one's, without Airflow's, with ``extra``.

    A Spark driver must not see AIRFLOW* variables: it never talks to Airflow, and a leaked
    secret would end in its logs.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("AIRFLOW", "_AIRFLOW"))}
    return kept | extra


def pin_python(executable: str) -> None:
    """Make Spark's workers run this interpreter; otherwise they take python3 from the path."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = executable
