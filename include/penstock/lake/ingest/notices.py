"""What is said of files of a source that are not just new, and of what is not there."""

import logging
from collections.abc import Sequence

log = logging.getLogger(__name__)

ASTRAY = (
    "links lead nowhere, and what they stand for may be away: bring that back, or remove them;"
    " until then the source is neither silent nor at its end"
)
CHANGED = (
    "files were changed after they were taken; what they hold now is not read again: write what is"
    " new to new files"
)
ELSEWHERE = (
    "files were taken already under another name, from another folder or by the pipeline's other"
    " source: not read again"
)
RENAMED = (
    "files lie under names of others that were taken and renamed: they are taken as new; if one is"
    " a copy of what was taken, move it away"
)
COPIES = (
    "files have the size and the end of others that were taken: two equal files may both be meant,"
    " so they are taken; if they may be copies, let an id in the pipeline file tell their records"
)
EMPTIED = (
    "folders hold nothing any more, and files were taken from there: if something was mounted"
    " there, mount it again"
)
PARTLY = (
    "files are gone of which only some intervals were preloaded: bring them back for the others"
)
MISSED = "files went before anything of them was taken"
REST = (
    "it was changed since a part of it was taken: put it back as it was, or decide: penstock accept"
    " PIPELINE FILE takes the rest of it as it is now; or, where nothing of it could be read,"
    " penstock retake PIPELINE FILE takes all of it"
)
UNCLEAR = (
    "the source was another folder; of {count:,} files here the names were taken from there, but"
    " with another size or time (first: {first}). If they are new: penstock retake PIPELINE"
    " {folder}. If they are the same, and nothing of them is to be taken again: penstock accept"
    " PIPELINE {folder}"
)
AGAIN = (
    "it is to be taken again, and is gone: bring it back; or, if it is lost: penstock accept"
    " PIPELINE FILE"
)
AWAY = (
    "every file that was taken from there is gone ({count:,}), and nothing else is there: more may"
    " have been to come. If something was mounted there, mount it again; if they were removed:"
    " penstock accept PIPELINE {folder}"
)
BEGUN = (
    "it is gone, and only a part of it was taken: bring it back as it was; or, if the rest is lost:"
    " penstock accept PIPELINE FILE"
)
BEGUN_WHOLE = (
    "{file}: a preload of all of it was interrupted, and an interval cannot be cut out of what is"
    " left. Finish it first: preload without From and To."
)
BY_ORDER = (
    "{file}: with ambiguous: by order a repeated hour is read by the records before it, so that no"
    " interval can be taken alone. Preload without From and To, or choose another rule."
)
OTHERWISE = (
    "{file}: an interval of it was taken while its event times were read otherwise (event_time,"
    " zone, ambiguous, formats): records at the edges would be lost or come twice. Put these back"
    " as they were, or begin afresh: penstock remove PIPELINE."
)
OTHERS = "{file} was taken already by the pipeline's other source"
OTHERS_FOLDER = "files of its folder were taken already by the pipeline's other source"
WENT = (
    "it went before anything of it was taken: bring it back, or, if it was removed, start the"
    " stream again"
)
NOWHERE = (
    "this link leads nowhere, and what it stands for may be away: bring back {target}, or remove"
    " the link"
)

LINKED = "files are reached by a link, and stay: what is removed lies in the source's folder itself"
UNREAD = (
    "files stay since nothing of them could be read: mend them, and penstock retake PIPELINE FILE"
    " takes them"
)
PUT_BACK = (
    "files have the name, size and time of others that were taken, but are not these: put back or"
    " copied; they stay"
)
NOT_ARCHIVED = "files cannot be moved to the archive now, it is tried again: {why}"
NOT_REMOVED = "files cannot be removed now, it is tried again: {why}"


class Notices:
    """What is odd about files of a source, said when it is new.

    Attributes:
        found: what is odd about which files, by their paths in the folder, at the last look.
    """

    def __init__(self, root: str) -> None:
        self.root = root
        self.found: dict[str, list[str]] = {}
        self._said: dict[str, set[str]] = {}

    def say(self, what: str, paths: Sequence[str], growth: float = 1) -> None:
        """Say it of files of which it was not said yet.

        Args:
            what: is odd.
            paths: of the files.
            growth: how many times more of them there must be; 1: one other.
        """
        self.found[what] = [*paths]
        before = self._said.get(what, set())
        if not {*paths} <= before and len(paths) >= growth * (len(before) if growth > 1 else 0):
            first, said = min({*paths} - before), ascii
            log.warning(
                "%s count=%d in=%s first=%s", what, len(paths),
                *(p if p.isprintable() else said(p)[1:-1] for p in (self.root, first)),
            )  # fmt: skip
            self._said[what] = {*paths}
        elif len(paths) < len(before):
            self._said[what] = {*paths}
