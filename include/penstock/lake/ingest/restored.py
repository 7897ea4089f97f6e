"""What a restored lake lacks of a source that does not keep its files.

What came after a backup is taken again from its source; of such a source it does not lie there any
more. Where it was archived, what no plan has taken is found there.
"""

from pathlib import Path

from penstock.config.intake import After, Source
from penstock.config.pipeline import Pipeline
from penstock.lake.ingest.origins import Origin, take_all
from penstock.lake.ingest.place import archive_of, folder_of, said
from penstock.lake.ingest.reading import SourceError
from penstock.lake.ingest.source import Waiting
from penstock.lake.ingest.taken import How
from penstock.lake.log.blocks import LIVE
from penstock.lake.storage.tables import Tables


def lacking(pipeline: Pipeline, home: Path, tables: Tables) -> str | None:
    """What a person has to do before the stream of a restored lake goes on; none: nothing.

    Args:
        pipeline: as its file is now.
        home: where relative places start.
        tables: the restored ones.
    """
    found = (
        _lacking(f"{pipeline.name} {stream}".rstrip(), (stream, LIVE), intake.source, home, tables)
        for stream, intake in pipeline.intakes.items()
    )
    return "; ".join(filter(None, found)) or None


def _lacking(name: str, origin: Origin, source: Source, home: Path, tables: Tables) -> str | None:
    folder = said(folder_of(source, home))
    if source.after is After.DELETE:
        return (
            f"{name}: the files that were taken after this backup were deleted from"
            f" {folder} (after: delete), and the restored lake does not hold their records."
            " Before the stream starts, put them there again from where they came"
        )
    archive = archive_of(source, home)
    if archive is None:
        return None
    try:
        strange = _strange(source, origin, home, tables, archive)
    except SourceError as away:
        return f"{name}: its archive may hold what the restored lake lacks: {away}"
    if not strange:
        return None
    return (
        f"{name}: {len(strange):,} files in its archive {said(archive)} were taken after"
        " this backup, and the restored lake does not hold their records. Before the stream"
        f" starts, move them back to {folder} (first: {said(strange[0])})"
    )


def _strange(source: Source, origin: Origin, home: Path, tables: Tables, archive: str) -> list[str]:
    """Files of an archive that no plan has taken.

    Raises:
        SourceError: it cannot be listed now.
    """
    place = {"files": archive, "after": After.KEEP, "archive": None}
    waiting = Waiting(source.model_copy(update=place), home)
    take_all({origin: waiting}, tables)
    files = waiting.places.listed().files
    hows = zip(waiting.known.look(files), files, strict=True)
    return sorted(file.path for how, file in hows if how in {How.NEW, How.UNCLEAR, How.REPLACED})
