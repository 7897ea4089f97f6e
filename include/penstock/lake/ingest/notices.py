"""What is said of files of a source that are not just new, and of what is not there."""

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
EMPTIED = (
    "folders hold nothing any more, and files were taken from there: if something was mounted"
    " there, mount it again"
)
MISSED = "files went before anything of them was taken"
REST = (
    "it was changed since a part of it was taken: put it back as it was, or decide: penstock accept"
    " PIPELINE FILE takes the rest of it as it is now"
)
UNCLEAR = (
    "the source was another folder; of {count:,} files here the names were taken from there, but"
    " with another size or time (first: {first}). If they are new: penstock retake PIPELINE"
    " {folder}. If they are the same, and nothing of them is to be taken again: penstock accept"
    " PIPELINE {folder}"
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
WENT = (
    "it went before anything of it was taken: bring it back, or, if it was removed, start the"
    " stream again"
)
NOWHERE = (
    "this link leads nowhere, and what it stands for may be away: bring back {target}, or remove"
    " the link"
)
