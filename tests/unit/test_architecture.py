"""What the linters cannot say, and that the linters would say it: each is shown a violation."""

import ast
import importlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import is_dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LIBRARY = ROOT / "include" / "penstock"
SMALL = 60
LARGE = 400
BANNED = {
    "utils", "util", "helpers", "helper", "common", "manager", "handler", "process_data", "misc",
    "df2", "res", "time", "timestamp", "delay", "batch",
}  # fmt: skip


def modules(*folders: str) -> list[Path]:
    found = [p for folder in folders for p in sorted((ROOT / folder).rglob("*.py"))]
    return [p for p in found if "__pycache__" not in p.parts]


PRODUCT = modules("include", "plugins", "dags", "spark_jobs")


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def imports(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{named(path)}: a relative import"
            yield node.module or ""


@pytest.mark.parametrize("path", modules("include/penstock/core"), ids=named)
def test_core_knows_only_the_standard_library_and_itself(path: Path) -> None:
    allowed = sys.stdlib_module_names | {"penstock"}
    strange = [name for name in imports(path) if name.split(".")[0] not in allowed]
    assert not strange
    own = [name for name in imports(path) if name.startswith("penstock")]
    assert all(name.startswith("penstock.core") for name in own), own


def test_no_module_is_too_large() -> None:
    lines = {named(p): len(p.read_text(encoding="utf-8").splitlines()) for p in PRODUCT}
    assert not {name: n for name, n in lines.items() if n > LARGE}
    thin = {name: n for name, n in lines.items() if name.startswith(("dags/", "spark_jobs/"))}
    assert thin
    assert not {name: n for name, n in thin.items() if n > SMALL}


def test_every_init_is_empty() -> None:
    assert not [named(p) for p in PRODUCT if p.name == "__init__.py" and p.stat().st_size]


def test_modules_have_names_that_mean_something() -> None:
    assert not [named(p) for p in PRODUCT if p.stem in BANNED]


def test_functions_and_classes_have_names_that_mean_something() -> None:
    pattern = re.compile(
        r"(^|_)(utils?|helpers?|manager|handler|process_data)(_|$)|Manager|Helper|Util"
    )
    bad = []
    for path in PRODUCT:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
            if isinstance(node, kinds) and pattern.search(node.name):
                bad.append(f"{named(path)}:{node.lineno} {node.name}")
    assert not bad


def test_no_variable_has_a_banned_name() -> None:
    bad = []
    for path in modules("include/penstock/core", "include/penstock/lake", "include/penstock/spark"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = node.arg if isinstance(node, ast.arg) else None
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                name = node.id
            if name in {"df2", "res", "time", "timestamp", "delay", "data2", "tmp"}:
                bad.append(f"{named(path)}:{node.lineno} {name}")
    assert not bad


@pytest.mark.parametrize("path", modules("dags", "spark_jobs"), ids=named)
def test_entry_points_load_no_engine_of_the_other_side(path: Path) -> None:
    tops = {name.split(".")[0] for name in imports(path)}
    foreign = {"dags": {"pyspark", "delta", "great_expectations"}, "spark_jobs": {"airflow"}}
    assert not tops & foreign[path.parent.name]


MAY_CHANGE = {
    "Behind", "Bell", "Bucket", "Classes", "Controller", "Damped", "Decided", "Development", "Fold",
    "Greatest", "Histogram", "Kept", "Overdue", "Paced", "Patient", "Required", "Runoff",
    "Shedder", "Steering",
}  # fmt: skip
"""What stands somewhere and goes on; everything else that only holds values is one itself."""


def test_values_cannot_be_changed() -> None:
    inner = ("core", "columns", "kinds", "lake/log", "lake/history")
    paths = modules(*(f"include/penstock/{folder}" for folder in inner))
    changing, every = set(), 0
    for path in paths:
        if path.stem in {"__init__", "truth"}:  # truth is Spark's
            continue
        name = ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts)
        for one in vars(importlib.import_module(name)).values():
            if isinstance(one, type) and one.__module__ == name and is_dataclass(one):
                every += 1
                if not one.__dataclass_params__.frozen:  # type: ignore[attr-defined]
                    changing.add(one.__name__)
    assert every > len(MAY_CHANGE)
    assert changing == MAY_CHANGE


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(root / part) for part in ("include", "plugins", "."))
    tool = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [str(tool), "--no-cache"], cwd=root, env=os.environ | {"PYTHONPATH": path},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_contracts_on_imports_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "0 broken" in done.stdout


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__", "*.pyc")
    for folder in ("include", "plugins", "dags", "spark_jobs"):
        shutil.copytree(ROOT / folder, root / folder, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", root)
    return root


VIOLATIONS = {
    "core takes numpy": ("include/penstock/core/slack.py", "import numpy\n",
                         "core is standard library only"),
    "core takes config": ("include/penstock/core/slack.py", "import penstock.config.settings\n",
                          "Rings of the library"),
    "lake takes spark": ("include/penstock/lake/history/view.py", "import penstock.spark.scan\n",
                         "Rings of the library"),
    "the storage takes history": ("include/penstock/lake/storage/room.py",
                                  "import penstock.lake.history.view\n", "Rooms of the lake"),
    "streams take the terminal": ("include/penstock/runtime/streams/paths.py",
                                  "import penstock.runtime.terminal.words\n",
                                  "Rooms of the runtime"),
    "a kind takes another": ("include/penstock/kinds/latest/views.py",
                             "import penstock.kinds.aggregate.views\n",
                             "A kind of step knows no other kind"),
    "a pipeline file needs columns": ("include/penstock/kinds/aggregate/config.py",
                                      "import penstock.columns.groups\n",
                                      "What a pipeline file may say needs no columns"),
    "the truth takes what answers": ("include/penstock/kinds/latest/truth.py",
                                     "import penstock.kinds.latest.layout\n",
                                     "The truth of a kind shares nothing"),
    "a kind takes the lake": ("include/penstock/kinds/windowed/wire.py",
                              "import penstock.lake.storage.tables\n", "Rings of the library"),
    "adapters meet": ("include/penstock/spark/audit.py", "import penstock.quality.suite\n",
                      "Rings of the library"),
    "the library takes Airflow": ("include/penstock/control/job.py", "import airflow\n",
                                  "never meet Airflow"),
    "a DAG takes pyspark, late": ("dags/correct.py", "def late():\n    import pyspark\n",
                                  "Only spark, quality and spark_jobs know an engine"),
    "the plugin takes a DAG": ("plugins/penstock_airflow/wiring.py", "import dags.correct\n",
                               "Rings of the repository"),
}  # fmt: skip


def test_an_injected_violation_of_each_contract_is_caught(copy: Path) -> None:
    originals = {place: (copy / place).read_text() for place, *_ in VIOLATIONS.values()}
    for place, text in originals.items():
        added = "".join(line for where, line, _ in VIOLATIONS.values() if where == place)
        (copy / place).write_text(f"{text}\n{added}")
    done = lint_imports(copy)
    for place, text in originals.items():
        (copy / place).write_text(text)
    assert done.returncode == 1, done.stdout[-2000:]
    for _, _, contract in VIOLATIONS.values():
        line = next(x for x in done.stdout.splitlines() if contract in x)
        assert "BROKEN" in line, line


BANS = {
    "now": ("from datetime import UTC, datetime\n\nNOW = datetime.now(UTC)\n", "TID251"),
    "the wall": ("import time\n\nNOW = time.time()\n", "TID251"),
    "the environment": ("import os\n\nHOME = os.environ['HOME']\n", "TID251"),
    "the path": ("import sys\n\nsys.path.append('x')\n", "TID251"),
    "an engine on top": ("import pandas\n\nFRAME = pandas.DataFrame\n", "TID253"),
    "a print": ("print('done')\n", "T201"),
    "a blind except": ("try:\n    X = 1\nexcept Exception:\n    X = 2\n", "BLE001"),
    "a relative import": ("from . import view\n\nV = view\n", "TID252"),
}


@pytest.mark.parametrize("name", BANS)
def test_ruff_catches_what_is_banned(copy: Path, name: str) -> None:
    text, rule = BANS[name]
    found = ruff(copy, "include/penstock/lake/offender.py", text)
    assert rule in found


@pytest.mark.parametrize("place", ["config/settings.py", "core/clock.py", "core/crash.py"])
def test_ruff_lets_the_places_that_may(place: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", f"include/penstock/{place}"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert "TID251" not in done.stdout


def ruff(root: Path, place: str, text: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format", "concise",
         "--stdin-filename", place, "-"],
        cwd=root, input=text, capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.stdout
