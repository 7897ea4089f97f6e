"""Whose steps the stream host of a log runs: the pipelines that are linked to it, as files say.

With a pipeline its versions are linked.
"""

import logging
from collections.abc import Collection, Sequence

from penstock.config.kept import catalog_to_run, kept_file, put_out
from penstock.config.pipeline import Pipeline
from penstock.config.settings import Settings
from penstock.core.errors import ConfigError
from penstock.core.version import pipeline_of, which_of
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
        """Find those of some names; of whom nobody can tell what is meant stays as it was."""
        catalog = catalog_to_run(self._settings)
        unread = {*names}.intersection(pipeline_of(each.name) for each in self._found)
        unread -= {each.name for each in catalog.pipelines}
        if unread:  # rarely
            unread -= put_out(self._settings, catalog).keys()
            unread = {one for one in unread if not is_gone(self._settings, catalog, one)}
        if unread:
            log.warning("go on as they are, for nobody can tell what their files say: %s", unread)
        mine = [each for each in catalog.every if pipeline_of(each.name) in names]
        found = [each for each in mine if each.log == self._pipeline.log]
        stay = [each for each in self._found if pipeline_of(each.name) in unread]
        stay = [each for each in stay if not self._was_removed(each.name)]
        self._found = [*stay, *found]  # of a run that both have, what a file says now goes
        self._reading.took(seen, whole=not (catalog.errors or unread))

    def _was_removed(self, version: str) -> bool:
        """Whether that is a version whose definition somebody has removed."""
        return bool(which_of(version)) and not kept_file(self._settings, version).is_file()
