"""What is documented is true: references are fresh, links lead somewhere, snippets are valid."""

import importlib.util
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

from penstock.__main__ import parser
from penstock.config.catalog import Catalog, read_pipeline

ROOT = Path(__file__).resolve().parents[2]
SKIPPED = {".venv", ".penstock", ".git", ".pytest_cache", ".hypothesis", "node_modules"}
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
PIPELINE = re.compile(r"^```yaml pipeline\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINKED = re.compile(r"^```yaml (?:on|over) (\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
DOCUMENTS = sorted(
    path
    for path in ROOT.rglob("*.md")
    if not SKIPPED.intersection(path.relative_to(ROOT).parts[:-1])
)


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


def snippets() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for number, content in enumerate(PIPELINE.findall(path.read_text()), 1):
            yield f"{name(path)} {number}", content


def linked() -> Iterator[tuple[str, str, str, str]]:
    """Pipelines that stand on the first one of their page."""
    for path in DOCUMENTS:
        for below, content in LINKED.findall(text := path.read_text()):
            yield name(path), below, PIPELINE.findall(text)[0], content


@pytest.mark.parametrize(("page", "below", "first", "content"), [*linked()])
def test_a_pipeline_on_another_one_is_valid(
    tmp_path: Path, page: str, below: str, first: str, content: str
) -> None:
    (tmp_path / f"{below}.yaml").write_text(first)
    (tmp_path / "above.yaml").write_text(content)
    found = Catalog.read(tmp_path)
    assert found.errors == (), page
    assert {below, "above"} <= {each.name for each in found.pipelines}


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_reference", ROOT / "docs" / "generate_reference.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_reference_is_what_the_code_says(generator: ModuleType) -> None:
    for file, content in generator.pages().items():
        assert (generator.FOLDER / file).read_text() == content, (
            f"docs/reference/{file} is stale. Run:"
            " PYTHONPATH=include .venv/bin/python docs/generate_reference.py"
        )


def test_the_walk_through_the_folders_names_what_is_there() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    walk = text[text.index("## A walk") : text.index("## Rings")]
    rows = [
        re.findall(r"`([\w/*.]+)`", row.split("|")[2]) for row in walk.splitlines() if "|" in row
    ]
    package, missing = ROOT / "include" / "penstock", []
    for places in filter(None, rows):
        folder = places[0].rpartition("/")[0]
        for place in places:
            there = place if "/" in place else f"{folder}/{place}"
            if not any(package.glob(there.rstrip("/"))):
                missing.append(there)
    assert not missing
    assert sum(map(len, rows)) > 30


def test_every_page_of_the_reference_is_generated(generator: ModuleType) -> None:
    assert {path.name for path in generator.FOLDER.iterdir()} == set(generator.pages())


@pytest.mark.parametrize("path", DOCUMENTS, ids=name)
def test_every_relative_link_leads_somewhere(path: Path) -> None:
    broken = []
    for target in LINK.findall(FENCED.sub("", path.read_text())):
        if "://" in target or target.startswith("mailto:"):
            continue
        file, _, heading = target.partition("#")
        found = (path.parent / file).resolve() if file else path
        if not found.exists() or (heading and heading not in anchors(found)):
            broken.append(target)
    assert not broken


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", FENCED.sub("", path.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("snippet", list(snippets()), ids=lambda each: each[0])
def test_every_pipeline_snippet_is_a_valid_pipeline(
    snippet: tuple[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "snippet.yaml"
    path.write_text(snippet[1])
    pipeline, problems = read_pipeline(path)
    assert not problems
    assert pipeline is not None


def commands() -> Iterator[tuple[str, str]]:
    for path in DOCUMENTS:
        for block in SHELL.findall(path.read_text()):
            whole = re.sub(r'"[^"]*"', lambda text: text[0].replace("\n", " "), block)
            whole = whole.replace("\\\n", " ")
            for line in re.findall(r"^(?:\.venv/bin/)?penstock .+$", whole, re.MULTILINE):
                yield name(path), line


@pytest.mark.parametrize(("file", "line"), list(commands()))
def test_every_command_that_is_shown_is_one(file: str, line: str) -> None:
    del file
    words = shlex.split(line, comments=True)
    named = vars(parser().parse_args(words[1:]))
    assert " " not in str(named.get("pipeline", ""))


def test_the_readme_shows_the_shipped_pipeline() -> None:
    (shown,) = PIPELINE.findall((ROOT / "README.md").read_text())
    shipped = (ROOT / "include" / "pipelines" / "flights.yaml").read_text()
    assert yaml.safe_load(shown) == yaml.safe_load(shipped)


def test_the_readme_names_the_commands_there_are() -> None:
    shown = set(re.findall(r"^\| `penstock (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE))
    lines = parser().format_help().splitlines()
    commands = {line.split()[0] for line in lines if re.match(r"    [a-z]+ ", line)}
    assert commands == shown


@pytest.mark.parametrize("path", [ROOT / "README.md", ROOT / "CONTRIBUTING.md"], ids=name)
def test_every_target_of_make_that_is_named_exists(path: Path) -> None:
    named = set(re.findall(r"(?:`|^)make ([a-z-]+)", path.read_text(), re.MULTILINE))
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named
    assert named <= targets
