"""All that Airflow is told, by environment variables: there is no airflow.cfg to edit."""

import json
import os
import sys
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

from penstock.config.settings import Settings, child_environment
from penstock.core.errors import ConfigError
from penstock.runtime.embedded.credentials import USERS, Keys, ensure_passwords

HOST = "127.0.0.1"
EVERYWHERE = "0.0.0.0"  # noqa: S104  of a container; who gets there is its network's business
SPARK_POOL = "spark"
PARALLEL_TASKS = 4
_PARSE_SECONDS = "10"
_FILE_SECONDS = "30"
"""A changed pipeline file shows within this time; a parse costs about a second of a core."""
_LOCAL = "127.0.0.1,localhost"  # never through a proxy


def base_url(settings: Settings) -> str:
    """Where the user interface is."""
    return f"http://{HOST}:{settings.port}"


def passwords_file(settings: Settings) -> Path:
    """Where the passwords are."""
    return settings.airflow_home / "passwords.json"


def airflow_environment(settings: Settings, database_url: str) -> dict[str, str]:
    """The environment of every Airflow process, of its tasks and so of the Spark jobs."""
    ensure_passwords(passwords_file(settings))
    keys = Keys.ensure(settings.airflow_home / "keys.json")
    url = base_url(settings)
    elsewhere = bool(settings.airflow_url)
    options = {
        "CORE__DAGS_FOLDER": settings.root / "dags",
        "CORE__PLUGINS_FOLDER": settings.root / "plugins",
        "CORE__LOAD_EXAMPLES": "False",
        "CORE__EXECUTOR": "LocalExecutor",
        "CORE__PARALLELISM": PARALLEL_TASKS,
        "CORE__FERNET_KEY": keys.fernet,
        "CORE__EXECUTION_API_SERVER_URL": f"{settings.airflow_url or url}/execution/",
        "CORE__SIMPLE_AUTH_MANAGER_USERS": ",".join(f"{n}:{r}" for n, r in USERS.items()),
        "CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": passwords_file(settings),
        "CORE__MIN_SERIALIZED_DAG_UPDATE_INTERVAL": "5",
        "CORE__HOSTNAME_CALLABLE": "socket.gethostname",  # the default asks the name server
        "DATABASE__SQL_ALCHEMY_CONN": database_url,
        "API__HOST": EVERYWHERE if elsewhere else HOST,
        "API__PORT": settings.port,
        "API__BASE_URL": url,
        "API__WORKERS": "1",
        "API__SECRET_KEY": keys.session,
        "API__INSTANCE_NAME": "Penstock",
        "API_AUTH__JWT_SECRET": keys.jwt,
        "DAG_PROCESSOR__REFRESH_INTERVAL": _PARSE_SECONDS,
        "DAG_PROCESSOR__MIN_FILE_PROCESS_INTERVAL": _FILE_SECONDS,
        "LOGGING__BASE_LOG_FOLDER": settings.logs / "airflow",
        "LOGGING__FILE_TASK_HANDLER_NEW_FOLDER_PERMISSIONS": "0o700",
        "LOGGING__FILE_TASK_HANDLER_NEW_FILE_PERMISSIONS": "0o600",
        "LOGGING__DAG_PROCESSOR_LOG_TARGET": "stdout",  # into the rotated log of the processor
        "LOGGING__DAG_PROCESSOR_CHILD_PROCESS_LOG_DIRECTORY": settings.logs / "airflow/parsing",
        "LOGGING__COLORED_CONSOLE_LOG": "False",
    }
    return project_environment(settings) | {
        "AIRFLOW_HOME": str(settings.airflow_home),
        "AIRFLOW_CONN_SPARK_DEFAULT": _spark_connection(settings.spark_master),
        **{f"AIRFLOW__{name}": str(value) for name, value in options.items()},
    }


def project_environment(settings: Settings) -> dict[str, str]:
    """What every process of this project needs: paths, Python, Spark, the settings."""
    present = child_environment()
    chosen = {
        f"PENSTOCK_{name.upper()}": str(value) for name, value in settings.model_dump().items()
    }
    programs = Path(sys.executable).parent
    direct = (_LOCAL, urlsplit(settings.airflow_url).hostname)
    proxies = {
        name: ",".join(filter(None, (present.get(name, ""), *direct)))
        for name in ("no_proxy", "NO_PROXY")
    }
    return (
        present
        | proxies
        | chosen
        | {
            "PATH": f"{programs}{os.pathsep}{present.get('PATH', os.defpath)}",
            "PYTHONPATH": f"{settings.root / 'include'}{os.pathsep}{settings.root / 'plugins'}",
            "PYTHONUNBUFFERED": "1",
            "PYSPARK_PYTHON": sys.executable,
            "PYSPARK_DRIVER_PYTHON": sys.executable,
            "SPARK_HOME": str(spark_home()),
            "GX_ANALYTICS_ENABLED": "false",
        }
    )


def spark_home() -> Path:
    """The folder of Spark inside the virtual environment, found without importing it."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise ConfigError("pyspark is not installed in this virtual environment. Run: make setup")
    return Path(found.origin).parent


def _spark_connection(master: str) -> str:
    return json.dumps({"conn_type": "spark", "host": master, "extra": {"deploy-mode": "client"}})
