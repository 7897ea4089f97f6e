"""Maintenance: fewer, larger files; nothing that a sealed or planned reader needs goes away.

No row of ``events`` is ever removed: readers go by ``arrival_seq``, never by files or versions.
"""

import logging

from deltalake.exceptions import CommitFailedError

from penstock.config.pipeline import Pipeline
from penstock.core.crash import reached
from penstock.lake.commit import Table, writer
from penstock.lake.generation import drop_former_checkpoints
from penstock.lake.tables import Tables, TableSpec

log = logging.getLogger(__name__)

KEEP_HOURS = 168
"""Replaced files stay a week: longer than any run of a job reads one snapshot."""
FEW_FILES = 8


def maintain_pipeline(tables: Tables, pipeline: Pipeline) -> dict[str, int]:
    """Compact and vacuum the tables of one pipeline.

    Returns:
        Files compacted by table and former checkpoints removed by step, where there were any.
    """
    specs: dict[str, TableSpec] = {
        "events": tables.events(pipeline.types),
        "quarantine": tables.quarantine(),
        "blocks": tables.blocks(),
        "plans": tables.plans(),
        "audits": tables.audits(),
        "corrections": tables.corrections(),
        "decisions": tables.decisions(),
        "registry": tables.registry(),
    }
    for step in pipeline.specs:
        specs[f"answers/{step.name}"] = tables.answers(step)
        specs[f"late/{step.name}"] = tables.late(step, [])
        specs[f"control/{step.name}"] = tables.control(step)
        specs[f"coverage/{step.name}"] = tables.coverage(step)
    done = {name: _maintain(spec) for name, spec in specs.items()}
    for step in pipeline.specs:
        done[f"checkpoints/{step.name}"] = drop_former_checkpoints(tables, step)
    return {name: files for name, files in done.items() if files}


def _maintain(spec: TableSpec) -> int:
    table = Table(spec)
    if not table.exists():
        return 0
    delta = table.refresh()
    removed = 0
    if len(delta.file_uris()) >= FEW_FILES:
        reached("before compact")
        try:
            done = delta.optimize.compact(writer_properties=writer(spec.schema))
            removed = int(done["numFilesRemoved"])
        except CommitFailedError:  # a writer was faster: the next run compacts
            log.info("not compacted this time table=%s", spec.uri)
    reached("before vacuum")
    delta.vacuum(retention_hours=KEEP_HOURS, dry_run=False)
    reached("before checkpoint")
    delta.create_checkpoint()
    reached("before cleanup")
    delta.cleanup_metadata()
    reached("after cleanup")
    return removed
