"""Whose steps the stream host of a log runs: the pipelines that are linked to it, as files say.

With a pipeline its versions are linked.
"""

import logging
from collections.abc import Collection, Sequence

from penstock.config.kept import catalog_to_run
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.core.version import pipeline_of
from penstock.runtime.streams import links
from penstock.runtime.streams.paths import StreamPaths
from penstock.runtime.streams.reading import Reading, is_gone, state_of

log = logging.getLogger(__name__)


class LinkedPipelines:
    """Reads files again once they have changed; started by hand, the log's own pipeline is linked.

    Args:
        settings: where files are.
        pipeline: whose log it is.
    """

    def __init__(self, settings: Settings, pipeline: Pipeline) -> None:
        self._settings, self._pipeline = settings, pipeline
        self._paths = StreamPaths(settings.streams, pipeline.log)
        self._alone = not links.linked(self._paths)
        self._reading = Reading()
        self._found: Sequence[Pipeline] = (pipeline,)

    def __call__(self) -> Sequence[Pipeline]:
        """Those that are linked now."""
        names = [self._pipeline.name] if self._alone else links.linked(self._paths)
        try:
            seen = state_of(self._settings), tuple(names)
            if self._reading.is_due(seen):
                self._read(seen, names)
        except (OSError, ConfigError) as away:  # the next look may see them
            log.warning("the pipeline files cannot be read now: %s", away)
        return self._found

    def _read(self, seen: object, names: Collection[str]) -> None:
        """Find those of some names; whose file cannot be read now stays as it was."""
        catalog = catalog_to_run(self._settings)
        known = {each.name for each in catalog.pipelines}
        unread = {name for each in self._found if (name := pipeline_of(each.name)) in names
                  and name not in known and not is_gone(self._settings, catalog, name)}  # fmt: skip
        if unread:
            log.warning("go on as they are, for nobody can tell what their files say: %s", unread)
        mine = [each for each in catalog.every if pipeline_of(each.name) in names]
        found = [each for each in mine if each.log == self._pipeline.log]
        stay = [each for each in self._found if pipeline_of(each.name) in unread]
        self._found = [*found, *stay]
        self._reading.took(seen, whole=not (catalog.errors or unread))
