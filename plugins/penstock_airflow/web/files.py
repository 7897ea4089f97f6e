"""Which files the web mount gives out: only known kinds, only from below their folder."""

from pathlib import Path

TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".parquet": "application/vnd.apache.parquet",
}


def served_file(folder: Path, path: str) -> tuple[Path, str] | None:
    """The file that a URL path names below ``folder``, with its content type.

    A path that ends with a slash stands for the folder's ``index.html``; folders are never listed.

    Args:
        folder: nothing outside of it is served, not even through a link.
        path: decoded URL path, relative to ``folder``.

    Returns:
        None when there is no such file, or it is hidden, of another kind, or outside.
    """
    if "\0" in path or any(part.startswith(".") for part in path.split("/")):
        return None
    top = folder.resolve()
    try:
        name = path.strip("/") + "/index.html" if path.endswith("/") else path.lstrip("/")
        file = (top / name).resolve()
        kind = TYPES.get(file.suffix)
        if kind is None or not file.is_relative_to(top) or not file.is_file():
            return None
    except OSError:  # a name too long for the file system, or a loop of links
        return None
    return file, kind
