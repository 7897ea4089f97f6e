"""The web mount behind Airflow's own login: real tokens, a real application, no services."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from penstock_airflow.web.files import served_file
from penstock_airflow.web.overview import sites

pytestmark = pytest.mark.airflow

REPORT = "validations/flights/scheduled__2013-10-01T00%3A00%3A00%2B00%3A00/x/audit.html"
PAGES = (
    "/penstock/", f"/penstock/docs/flights/{REPORT}", "/penstock/static/penstock.css",
    "/penstock/cluster", "/penstock/topology", "/penstock/alarms", "/penstock/queries",
)  # fmt: skip
TRAVERSALS = (
    "..%2f..%2fsecret.html",
    "%2e%2e/%2e%2e/secret.html",
    "flights/..%2f..%2fsecret.html",
    "%2fetc%2fpasswd",
    "..%5c..%5csecret.html",
    "flights/%00.html",
    "link.html",
    "linked/secret.html",
    ".gx/flights/hidden.html",
    "flights/latest.json",
    "flights",
    "",
)


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A docs folder with one audited pipeline, things not to serve, and a secret beside it."""
    home = tmp_path_factory.mktemp("home")
    docs, site = home / "docs", home / "docs" / "flights"
    page = site / "validations/flights/scheduled__2013-10-01T00:00:00+00:00/x/audit.html"
    for file in (page, site / "index.html", docs / ".gx/flights/hidden.html", home / "secret.html"):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"<p>{file.name}</p>")
    (docs / "link.html").symlink_to(home / "secret.html")
    (docs / "linked").symlink_to(home)
    latest = {
        "pipeline": "flights", "run_name": "<b>run</b>", "at": "2013-10-01T00:00:00+00:00",
        "success": False, "status": "failed", "expectations": 15,
        "failed": {"critical": 1, "warning": 0, "info": 0}, "claims": ["Every answer is right."],
        "steps": 2, "through_seq": 7, "answers_compared": 1234, "report": REPORT,
    }  # fmt: skip
    (site / "latest.json").write_text(json.dumps(latest))
    (site / "audits.json").write_text(json.dumps([latest]))
    (site / "timely-per_site.svg").write_text("<svg/>")
    (docs / "broken").mkdir()
    (docs / "broken" / "latest.json").write_text("{")
    return docs


@pytest.fixture(scope="module")
def airflow_app(docs: Path) -> FastAPI:
    """An application with Airflow's authentication and our plugin, as the api-server mounts it."""
    from airflow.api_fastapi.app import init_auth_manager
    from airflow.utils.db import initdb

    from penstock_airflow.web.app import docs_folder, pipeline_names
    from penstock_plugin import PenstockPlugin

    initdb()
    app = FastAPI()
    (mount,) = PenstockPlugin().fastapi_apps
    mount["app"].dependency_overrides[docs_folder] = lambda: docs
    mount["app"].dependency_overrides[pipeline_names] = lambda: ["flights", "taxis"]
    app.mount(mount["url_prefix"], mount["app"])
    init_auth_manager(app)
    return app


@pytest.fixture
def anonymous(airflow_app: FastAPI) -> Iterator[TestClient]:
    with TestClient(airflow_app, follow_redirects=False) as client:
        yield client


@pytest.fixture
def viewer(airflow_app: FastAPI) -> Iterator[TestClient]:
    with TestClient(
        airflow_app, follow_redirects=False, cookies={"_token": token_of_a_viewer()}
    ) as client:
        yield client


def token_of_a_viewer() -> str:
    from airflow.api_fastapi.app import get_auth_manager
    from airflow.api_fastapi.auth.managers.simple.user import SimpleAuthManagerUser

    return get_auth_manager().generate_jwt(SimpleAuthManagerUser(username="v", role="viewer"))


@pytest.mark.parametrize("url", [*PAGES, "/penstock/docs/none.html"])
def test_nobody_sees_anything_without_a_login(anonymous: TestClient, url: str) -> None:
    assert anonymous.get(url).status_code == 401
    assert anonymous.get(url, headers={"Authorization": "Bearer x"}).status_code == 403


def test_a_person_without_a_login_is_sent_to_it_and_back(anonymous: TestClient) -> None:
    answer = anonymous.get(PAGES[1], headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 303
    assert answer.headers["location"].startswith("/auth/login?next=%2Fpenstock%2Fdocs%2Fflights")


@pytest.mark.parametrize("url", PAGES)
def test_a_viewer_reads(viewer: TestClient, anonymous: TestClient, url: str) -> None:
    assert viewer.get(url).status_code == 200
    bearer = {"Authorization": f"Bearer {token_of_a_viewer()}"}
    assert anonymous.get(url, headers=bearer).status_code == 200


@pytest.mark.parametrize("path", TRAVERSALS)
def test_only_reports_are_given_out(viewer: TestClient, path: str) -> None:
    answer = viewer.get(f"/penstock/docs/{path}")
    assert answer.status_code == 404
    assert "secret" not in answer.text


@pytest.mark.parametrize("url", ["openapi.json", "redoc", "static/", "static/NOTICE.md"])
def test_there_is_nothing_beside_the_reports(viewer: TestClient, url: str) -> None:
    assert viewer.get(f"/penstock/{url}").status_code == 404


def test_a_folder_with_a_slash_is_its_index(viewer: TestClient) -> None:
    assert viewer.get("/penstock/docs/flights/").text == "<p>index.html</p>"


@pytest.mark.parametrize(("url", "kind"), [
    (PAGES[0], "text/html; charset=utf-8"),
    (PAGES[1], "text/html; charset=utf-8"),
    (PAGES[2], "text/css; charset=utf-8"),
    ("/penstock/static/quality.svg", "image/svg+xml"),
])  # fmt: skip
def test_kinds_are_right_and_scripts_are_forbidden(viewer: TestClient, url: str, kind: str) -> None:
    headers = viewer.get(url).headers
    assert headers["content-type"] == kind
    assert headers["content-security-policy"].startswith("default-src 'none'; style-src 'self'")
    assert "script-src" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "SAMEORIGIN"  # Airflow shows the pages in a frame
    assert headers["cache-control"].startswith("private")


def test_refusals_carry_the_headers_too(anonymous: TestClient) -> None:
    assert "content-security-policy" in anonymous.get(PAGES[0]).headers


@pytest.mark.parametrize("path", ["docs", "docs/flights", "static", "/evil.example/", "docs//"])
def test_no_answer_names_the_host_that_the_request_named(viewer: TestClient, path: str) -> None:
    answer = viewer.get(f"/penstock/{path}", headers={"Host": "evil.example"})

    assert "://evil.example" not in str(answer.headers)
    assert not answer.headers.get("location", "/").startswith("//")


def test_nothing_can_be_written(viewer: TestClient) -> None:
    for method in ("POST", "PUT", "DELETE", "PATCH"):
        assert viewer.request(method, PAGES[1]).status_code == 405


def test_the_overview_shows_the_last_audit_and_leaves_out_what_is_broken(
    viewer: TestClient,
) -> None:
    page = viewer.get("/penstock/").text
    for text in ("flights", "Failed", "14 of 15 hold", "not: Every answer is right.", "1,234"):
        assert text in page
    assert f'href="docs/flights/{REPORT}"' in page
    assert 'src="docs/flights/timely-per_site.svg"' in page
    assert "correct__flights" not in page, "only without a picture"
    assert "<b>run</b>" not in page
    assert page.count("Never audited") == 1
    assert "audit__taxis" in page
    assert "broken" not in page


def test_the_overview_shows_the_last_words_of_a_stream_that_cannot_start(
    viewer: TestClient, airflow_app: FastAPI, tmp_path: Path
) -> None:
    from penstock_airflow.web.app import streams_folder

    for name, state in (("flights", "gave_up"), ("rides", "finished")):
        (tmp_path / f"{name}.supervisor.lock").touch()
        said = {"state": state, "restarts": 6, "error": f"no worker of {name} <came>"}
        (tmp_path / f"{name}.supervisor.json").write_text(json.dumps(said))
    (mount,) = [route for route in airflow_app.routes if getattr(route, "path", "") == "/penstock"]
    mount.app.dependency_overrides[streams_folder] = lambda: tmp_path  # type: ignore[attr-defined]
    page = viewer.get("/penstock/").text
    assert "gave up" in page
    assert "no worker of flights &lt;came&gt;" in page
    assert "no worker of rides" not in page, "a failure that is past"


def test_without_any_audit_the_overview_says_what_to_do(tmp_path: Path) -> None:
    from penstock_airflow.web.app import views

    assert sites(tmp_path / "none") == []
    assert "Trigger an" in views().get_template("overview.html").render(sites=[])


def test_no_job_is_named_that_records_more_of_a_version(docs: Path, tmp_path: Path) -> None:
    from penstock_airflow.web.app import views

    for name in ("trucks", "trucks@next"):
        shutil.copytree(docs / "flights", tmp_path / name)
        (tmp_path / name / "timely-per_site.svg").unlink()
    page = views().get_template("overview.html").render(sites=sites(tmp_path))
    assert "correct__trucks</code> records it" in page
    assert page.count("records it") == 1


def test_a_file_beside_the_folder_is_not_served_by_any_path(docs: Path) -> None:
    for path in ("../secret.html", "/../secret.html", "flights/../../secret.html", "x" * 5000):
        assert served_file(docs, path) is None
    assert served_file(docs, "flights/index.html") is not None


def test_a_task_process_does_not_load_the_web_mount() -> None:
    code = (
        "import sys, penstock_plugin as p; p.PenstockPlugin();"
        "sys.exit('fastapi' in sys.modules or 'penstock_airflow.web.app' in sys.modules)"
    )
    plugins = Path(served_file.__code__.co_filename).parents[2]
    path = os.pathsep.join([str(plugins), str(plugins.parent / "include")])
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": path})
