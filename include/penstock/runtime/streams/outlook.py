"""What pipeline files ask for, beside what there is and what streams run now."""

from penstock.config.catalog import Catalog
from penstock.config.settings import Settings
from penstock.core.version import NEXT, pipeline_of, which_of
from penstock.lake.proof.ready import unready
from penstock.lake.storage.tables import Tables
from penstock.lake.topology.plan import Outlook
from penstock.runtime.streams.links import running


def outlook_of(settings: Settings, in_force: Catalog) -> Outlook:
    """As of now."""
    logs = {pipeline.name: pipeline.log for pipeline in in_force.pipelines}
    return Outlook.of(settings, in_force, running(settings.streams, logs))


def owed_by(settings: Settings, in_force: Catalog) -> dict[str, list[str]]:
    """Versions that are built, with why readers cannot switch to each yet; empty: they can."""
    return {
        each.name: unready(
            Tables(settings.lake_uri, each.log), each, in_force.pipeline(pipeline_of(each.name))
        )
        for each in in_force.versions
        if which_of(each.name) == NEXT
    }
