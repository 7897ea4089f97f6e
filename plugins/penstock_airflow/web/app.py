"""The web mount: reports, alarms, results and the cluster, behind Airflow's login, read-only."""

from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, HTTPException, Request, Response, status
from fastapi.exception_handlers import http_exception_handler
from fastapi.responses import FileResponse, HTMLResponse, RedirectResponse
from jinja2 import Environment, FileSystemLoader
from starlette.exceptions import HTTPException as StarletteHTTPException

from penstock.config.kept import catalog_in_force, read_files
from penstock.config.settings import Settings
from penstock.core.clock import SystemClock
from penstock.lake.serve.newest import GONE
from penstock_airflow.web.alarms import SHOWN, alarms
from penstock_airflow.web.cluster import HEIGHT, WIDTH, told_instant, view
from penstock_airflow.web.files import served_file
from penstock_airflow.web.overview import sites, streams
from penstock_airflow.web.queries import SHOWN as ROWS
from penstock_airflow.web.queries import results
from penstock_airflow.web.topology import view as drawn

HERE = Path(__file__).parent
STATIC = HERE / "static"

# Reports need no script, so none may run: what a record holds cannot act for the reader.
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        " base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "SAMEORIGIN",
    "Referrer-Policy": "same-origin",
}
REPORT_CACHE = {"Cache-Control": "private, no-cache"}
ASSET_CACHE = {"Cache-Control": "private, max-age=3600"}


def docs_folder() -> Path:
    """Where the sites of all pipelines are."""
    return Settings().docs


def streams_folder() -> Path:
    """Where the streams' status files are."""
    return Settings().streams


@cache
def views() -> Environment:
    """The templates of this mount."""
    return Environment(loader=FileSystemLoader(HERE / "templates"), autoescape=True)


def pipeline_names() -> list[str]:
    """Pipelines with a valid file."""
    return [pipeline.name for pipeline in read_files(Settings()).pipelines]


def results_folder() -> Path:
    """Where the results of all pipelines are."""
    return Settings().results


Docs = Annotated[Path, Depends(docs_folder)]
Pipelines = Annotated[list[str], Depends(pipeline_names)]
Results = Annotated[Path, Depends(results_folder)]
Streams = Annotated[Path, Depends(streams_folder)]


def create_app() -> FastAPI:
    """The application that Airflow mounts; every route of it asks for a logged-in reader."""
    app = FastAPI(
        title="Penstock",
        dependencies=[Depends(requires_access_view(AccessView.WEBSITE))],
        docs_url=None,  # no pages beside the routes below: those would be open to anybody
        redoc_url=None,
        openapi_url=None,
        redirect_slashes=False,  # a redirect to another form of a path names the Host it was told
    )

    @app.middleware("http")
    async def secured(
        request: Request, call_next: Callable[[Request], Awaitable[Response]]
    ) -> Response:
        response = await call_next(request)
        response.headers.update(HEADERS)
        return response

    @app.exception_handler(StarletteHTTPException)
    async def refused(request: Request, error: StarletteHTTPException) -> Response:
        return await _refused(request, error)

    _add_pages(app)
    _add_files(app)
    return app


def _add_pages(app: FastAPI) -> None:
    @app.get("/")
    def overview(docs: Docs, folder: Streams, pipelines: Pipelines) -> HTMLResponse:
        page, found = views().get_template("overview.html"), sites(docs)
        never = sorted({*pipelines} - {site.pipeline for site in found})
        page = page.render(sites=found, never=never, streams=streams(folder))
        return HTMLResponse(page, headers=REPORT_CACHE)

    @app.get("/cluster")
    def cluster() -> HTMLResponse:
        page = views().get_template("cluster.html")
        told = page.render(
            view=view(Settings(), SystemClock()), width=WIDTH, height=HEIGHT,
            told_instant=told_instant,
        )  # fmt: skip
        return HTMLResponse(told, headers=REPORT_CACHE)

    @app.get("/topology")
    def topology() -> HTMLResponse:
        page = views().get_template("topology.html")
        return HTMLResponse(page.render(view=drawn(Settings())), headers=REPORT_CACHE)

    @app.get("/alarms")
    def said() -> HTMLResponse:
        page, settings = views().get_template("alarms.html"), Settings()
        known = catalog_in_force(settings).pipelines
        page = page.render(steps=alarms(known, settings.lake_uri), shown=SHOWN, gone=GONE)
        return HTMLResponse(page, headers=REPORT_CACHE)

    @app.get("/queries")
    def asked(folder: Results, pipelines: Pipelines) -> HTMLResponse:
        page = views().get_template("queries.html")
        page = page.render(results=results(folder, pipelines), shown=ROWS)
        return HTMLResponse(page, headers=REPORT_CACHE)


def _add_files(app: FastAPI) -> None:
    @app.get("/results/{path:path}")
    def result(path: str, folder: Results) -> FileResponse:
        return _file(folder, path, REPORT_CACHE)

    @app.get("/docs/{path:path}")
    def report(path: str, docs: Docs) -> FileResponse:
        return _file(docs, path, REPORT_CACHE)

    @app.get("/static/{path:path}")
    def asset(path: str) -> FileResponse:
        return _file(STATIC, path, ASSET_CACHE)


def _file(folder: Path, path: str, headers: Mapping[str, str]) -> FileResponse:
    served = served_file(folder, path)
    if served is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "There is no such report.")
    file, kind = served
    return FileResponse(file, media_type=kind, headers=headers)


async def _refused(request: Request, error: StarletteHTTPException) -> Response:
    """Send a person without a login to the login and back; tell a program what is wrong."""
    person = "text/html" in request.headers.get("accept", "")
    if error.status_code == status.HTTP_401_UNAUTHORIZED and person:
        login = get_auth_manager().get_url_login(next_url=request.url.path)
        return RedirectResponse(login, status.HTTP_303_SEE_OTHER)
    return await http_exception_handler(request, error)
