"""Registers what Penstock adds to Airflow: quality reports, listeners, who gets a slot first.

Airflow loads this file in every process, each task's included. So it only registers: the web
application is imported when the api-server asks for it, and nowhere else.
"""

from functools import cached_property
from types import ModuleType
from typing import Any, ClassVar

from airflow.plugins_manager import AirflowPlugin

from penstock_airflow import listeners, refusal
from penstock_airflow.priority import PersonsFirst
from penstock_airflow.timetables import AskedFor

PREFIX = "/penstock"


class PenstockPlugin(AirflowPlugin):
    """Quality reports behind Airflow's login, an entry in its navigation, the listener.

    One entry: Airflow folds two into a menu. The page *Cluster* is one click further.
    """

    name = "penstock"
    external_views: ClassVar[list[dict[str, str]]] = [
        {
            "name": "Quality",  # a longer one is cut off in the navigation
            "href": f"{PREFIX}/",
            "destination": "nav",
            "url_route": "quality",
            "icon": f"{PREFIX}/static/quality.svg",
            "icon_dark_mode": f"{PREFIX}/static/quality_dark.svg",
        },
    ]
    listeners: ClassVar[list[ModuleType]] = [listeners]
    priority_weight_strategies: ClassVar[list[type[PersonsFirst]]] = [PersonsFirst]
    timetables: ClassVar[list[type[AskedFor]]] = [AskedFor]

    @classmethod
    def on_load(cls, *_arguments: Any, **_more: Any) -> None:
        """Once a process, where runs may be created: refuse what no run of ours understands."""
        refusal.install()

    @cached_property
    def fastapi_apps(self) -> list[dict[str, Any]]:
        """The web mount; imported here because it costs a task almost a second."""
        from penstock_airflow.web.app import create_app

        return [{"name": "penstock", "url_prefix": PREFIX, "app": create_app()}]
